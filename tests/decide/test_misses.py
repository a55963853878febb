"""Misses weighed over a minute, and what they teach about head-room: slowly, and only from what was not disturbed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.decide import misses
from autoscaler.decide.history import Headroom
from autoscaler.model.signal import Absent, Cause, Measured, Signals

ALLOWED = 0.005


def minute(shares: list[float], weight: float = 360.0) -> Headroom:
    known = Headroom()
    for share in shares:
        known = misses.learn(known, Signals(misses=Measured(share, weight=weight)), 5.0)
    return known


def test_a_few_stragglers_of_one_interval_are_no_breach() -> None:
    known = minute([0.0] * 12 + [3 / 360])
    assert not misses.breach(known, Measured(3 / 360, weight=360.0), ALLOWED)


def test_the_same_share_interval_after_interval_is_one() -> None:
    known = minute([3 / 360] * 12)
    assert misses.breach(known, Measured(3 / 360, weight=360.0), ALLOWED)
    assert not misses.breach(known, Measured(0.0, weight=360.0), ALLOWED), "it is over"


def test_a_severe_interval_is_one_at_once() -> None:
    assert misses.breach(minute([0.1]), Measured(0.1, weight=360.0), ALLOWED)
    assert not misses.breach(minute([1.0], weight=1.0), Measured(1.0, weight=1.0), ALLOWED), "one request"


def test_a_single_second_is_judged_with_the_four_before_it() -> None:
    def seconds(*shares: float) -> Headroom:
        known = Headroom()
        for share in shares:
            known = misses.learn(known, Signals(misses=Measured(share, weight=72.0)), 1.0)
        return known

    late = Measured(2 / 72, weight=72.0)
    assert not misses.breach(seconds(*[0.0] * 60, 2 / 72), late, ALLOWED), "two of 360"
    assert misses.breach(seconds(*[0.0] * 60, *[2 / 72] * 12), late, ALLOWED), "two of each 72"


def judged(share: float, hours: float, *, evidence: bool | None = True, weight: float = 360.0) -> float:
    known = Headroom()
    for _ in range(round(hours * 720)):
        seen = Signals(misses=Measured(share, weight=weight))
        known = misses.judge(known, seen, allowed=ALLOWED, dt=5.0, evidence=evidence)
    return known.beta


def test_head_room_grows_a_step_a_window_and_never_without_cpu_evidence() -> None:
    assert judged(0.004, 5 / 60) == misses.MORE
    assert judged(0.004, 100) == misses.MOST
    assert judged(0.004, 100, evidence=False) == 1.0


def test_it_is_given_back_slowly_and_never_below_the_least() -> None:
    assert misses.LEAST < judged(0.0, 1.0) < 1.0
    assert judged(0.0, 300.0) == misses.LEAST
    assert judged(0.0, 1.0, weight=1.0) == 1.0, "too few requests to tell"


@given(st.lists(st.floats(0.0, 1.0), max_size=60), st.floats(1.0, 1e5))
def test_the_factor_stays_inside_its_bounds(shares: list[float], weight: float) -> None:
    known = Headroom()
    for share in shares:
        seen = Signals(misses=Measured(share, weight=weight))
        known = misses.judge(known, seen, allowed=ALLOWED, dt=60.0, evidence=True)
        assert misses.LEAST <= known.beta <= misses.MOST


def test_what_is_not_measured_teaches_nothing() -> None:
    absent = Signals(misses=Absent(Cause.STALE))
    assert misses.learn(Headroom(), absent, 5.0) == Headroom()
    assert misses.judge(Headroom(), absent, allowed=ALLOWED, dt=5.0, evidence=True) == Headroom()
