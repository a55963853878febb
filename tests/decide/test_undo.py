"""A shrink that a breach follows within a minute is undone at once; none goes near that size for fifteen minutes."""

from __future__ import annotations

from autoscaler.decide import guards
from autoscaler.decide.history import History, Sizes
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
    assert limit(clock) < 4000
    return clock


def limit(clock: Clock) -> int:
    return clock.pods[0].containers[0].desired.cpu_limit or 0


def test_a_breach_at_the_same_load_undoes_it_and_bars_the_next() -> None:
    clock = shrunk()
    failed = limit(clock)
    plan = clock.tick(signals(5.0, used=0.9, misses=0.3, throttled=0.4))
    assert plan.reason is not None and plan.reason.code is Code.UNDO_SHRINK
    assert limit(clock) == 4000
    undone = clock.now
    while clock.now < undone + 880.0:
        clock.tick(signals(5.0, used=0.9))
        assert limit(clock) >= 1.1 * failed, "nothing goes near what was too small"
    assert limit(clock) < 2 * failed, "what was far too much is given back"
    assert any(hold.code is Code.BARRED for hold in clock.plan.holds)
    for _ in range(80):
        clock.tick(signals(5.0, used=0.9))
    assert limit(clock) < 1.1 * failed, "it is tried again later"


def test_a_bar_that_knows_no_size_bars_every_shrink() -> None:
    """As of a memory that was written before sizes were barred."""
    history = History(sizes=Sizes(barred_until=START + 900.0))
    assert guards.least(history, START) == float("inf")
    assert guards.least(history, START + 901.0) == 0.0


def test_a_breach_that_more_load_brings_is_no_regret() -> None:
    clock = shrunk()
    plan = clock.tick(signals(40.0, used=2.0, misses=0.3, throttled=0.4))
    assert plan.reason is None or plan.reason.code is not Code.UNDO_SHRINK


def test_a_breach_without_cpu_evidence_is_no_regret() -> None:
    clock = shrunk()
    plan = clock.tick(signals(5.0, used=0.3, misses=0.3))
    assert plan.reason is None or plan.reason.code is not Code.UNDO_SHRINK
