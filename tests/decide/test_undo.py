"""A shrink that a breach follows within a minute is taken back at once, and none is tried for a quarter of an hour."""

from __future__ import annotations

from autoscaler.model.plan import Resize
from autoscaler.model.reason import Code
from tests.decide.world import START, Clock, pod, policy, signals


def shrunk() -> Clock:
    """Four cores for a load of 0.9: after a minute or two they are fewer."""
    clock = Clock(policy(), pod(cpu=4000))
    for _ in range(80):
        plan = clock.tick(signals(5.0, used=0.9))
        if any(isinstance(action, Resize) for action in plan.actions):
            break
    assert clock.pods[0].containers[0].desired.cpu_limit is not None
    assert clock.pods[0].containers[0].desired.cpu_limit < 4000
    return clock


def test_a_breach_at_the_same_load_undoes_it_and_bars_the_next() -> None:
    clock = shrunk()
    plan = clock.tick(signals(5.0, used=0.9, misses=0.3, throttled=0.4))
    assert plan.reason is not None and plan.reason.code is Code.UNDO_SHRINK
    assert clock.pods[0].containers[0].desired.cpu_limit == 4000
    undone = clock.now
    while clock.now < undone + 880.0:
        assert not any(isinstance(action, Resize) for action in clock.tick(signals(5.0, used=0.9)).actions)
    assert any(hold.code is Code.BARRED for hold in clock.plan.holds)
    for _ in range(80):
        clock.tick(signals(5.0, used=0.9))
    assert (clock.pods[0].containers[0].desired.cpu_limit or 0) < 4000, "it is tried again later"
    assert clock.now > START


def test_a_breach_that_more_load_brings_is_no_regret() -> None:
    clock = shrunk()
    plan = clock.tick(signals(40.0, used=2.0, misses=0.3, throttled=0.4))
    assert plan.reason is None or plan.reason.code is not Code.UNDO_SHRINK


def test_a_breach_without_cpu_evidence_is_no_regret() -> None:
    clock = shrunk()
    plan = clock.tick(signals(5.0, used=0.3, misses=0.3))
    assert plan.reason is None or plan.reason.code is not Code.UNDO_SHRINK
