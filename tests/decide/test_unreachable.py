"""An objective that no size can meet is told, and not chased."""

from __future__ import annotations

import pytest

from autoscaler.model.reason import Code
from autoscaler.model.signal import Measured
from tests.decide.world import Clock, policy, signals


def play(latency: float, work: float, target: str, misses: float = 1.0) -> Clock:
    """Half an hour at two requests a second that take ``latency`` seconds and ``work`` CPU-seconds each."""
    clock = Clock(policy(objective={"latency": {"target": target, "within": "99%"}}, vertical={"cpu": {"max": "16"}}))
    seen = signals(2.0, work=work, in_flight=2.0 * latency, misses=misses, mean_latency=Measured(latency))
    clock.run(1800.0, seen)
    return clock


def test_a_request_that_takes_longer_than_the_target_on_a_core_of_its_own() -> None:
    clock = play(latency=1.0, work=0.95, target="500ms")
    [said] = [hold for hold in clock.plan.holds if hold.code is Code.UNREACHABLE]
    assert said.numbers == {"fastest": pytest.approx(1.0), "target": 0.5}
    assert clock.plan.want is not None
    assert clock.plan.want.cpu < 5000, "what the load needs"
    assert clock.cpu < 5000


@pytest.mark.parametrize(
    ("latency", "work", "target"),
    [(1.0, 0.1, "500ms"), (1.0, 0.95, "2s")],
    ids=["it waits for something else", "the target is wide enough"],
)
def test_no_other_breach_is_called_so(latency: float, work: float, target: str) -> None:
    clock = play(latency, work, target)
    said = {hold.code for _, plan in clock.changes for hold in plan.holds} | {hold.code for hold in clock.plan.holds}
    assert Code.UNREACHABLE not in said
