"""CPU-seconds per request: from sums that match in time, whatever the ages of the samples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.decide import cost
from autoscaler.decide.history import Cost
from autoscaler.model.signal import Measured, Signals

RATE, WORK = 60.0, 0.02


def run(ages: list[float], *, rate: float = RATE, tick: float = 5.0, throttled: float = 0.0) -> Cost:
    """Steady load; at each tick a CPU sample of that age."""
    known = Cost()
    for place, age in enumerate(ages):
        now = 1000.0 + tick * place
        signals = Signals(
            requests=Measured(rate, window_s=tick), cpu=Measured(rate * WORK, age_s=age, window_s=12.0),
            throttled=Measured(throttled, age_s=age, window_s=12.0),
        )  # fmt: skip
        known = cost.learn(known, signals, cost.completed(signals, tick if place else 0.0), now, "a", True)
    return known


@given(st.lists(st.floats(0.0, 25.0), min_size=2, max_size=40))
def test_a_steady_load_costs_the_same_from_the_first_look_on(ages: list[float]) -> None:
    known = run(ages)
    assert known.work == pytest.approx(WORK, rel=0.02)


def test_a_sample_from_before_the_first_look_is_not_laid_on_the_few_requests_since() -> None:
    assert run([13.0, 12.0]).work == pytest.approx(WORK, rel=0.02)
    assert run([13.0, 6.0, 11.0]).work == pytest.approx(WORK, rel=0.02)


def test_a_heavily_throttled_sample_does_not_move_what_is_known() -> None:
    known = run([5.0, 10.0, 3.0])
    signals = Signals(requests=Measured(10.0, window_s=5.0), cpu=Measured(1.2, age_s=1.0, window_s=12.0),
                      throttled=Measured(0.9, age_s=1.0, window_s=12.0))  # fmt: skip
    assert cost.learn(known, signals, 50.0, 1030.0, "a", True).work == known.work


def test_cpu_of_half_the_pods_is_not_laid_on_all_requests() -> None:
    half = Signals(requests=Measured(RATE, window_s=5.0), cpu=Measured(RATE * WORK / 2, window_s=12.0, coverage=0.5))
    assert cost.learn(Cost(), half, 0.0, 1000.0, "a", True).work < 0.0
    known = run([5.0, 6.0, 7.0])
    assert cost.learn(known, half, 300.0, 1015.0, "a", True).work == known.work
