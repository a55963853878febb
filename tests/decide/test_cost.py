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
    assert known.work == pytest.approx(WORK, rel=0.025)


def test_a_sample_from_before_the_first_look_is_not_laid_on_the_few_requests_since() -> None:
    assert run([13.0, 12.0]).work == pytest.approx(WORK, rel=0.02)
    assert run([13.0, 6.0, 11.0]).work == pytest.approx(WORK, rel=0.02)


def test_a_heavily_throttled_sample_does_not_move_what_is_known() -> None:
    known = run([5.0, 10.0, 3.0, 1.0, 6.0, 1.0])
    signals = Signals(requests=Measured(10.0, window_s=5.0), cpu=Measured(1.2, age_s=1.0, window_s=12.0),
                      throttled=Measured(0.9, age_s=1.0, window_s=12.0))  # fmt: skip
    assert cost.learn(known, signals, 50.0, 1040.0, "a", True).work == known.work


@pytest.mark.parametrize("throttled", [0.0, 0.95])
def test_a_first_guess_made_in_a_step_of_the_load_is_replaced_by_the_first_whole_sample(throttled: float) -> None:
    """A takeover while the load rises: the newest CPU sample is of before, the rate is of now."""

    def look(known: Cost, now: float, cpu: float, age: float) -> Cost:
        signals = Signals(
            requests=Measured(RATE, window_s=5.0), cpu=Measured(cpu, age_s=age, window_s=12.0),
            throttled=Measured(throttled, age_s=age, window_s=12.0),
        )  # fmt: skip
        return cost.learn(known, signals, cost.completed(signals, 5.0), now, "a", True)

    known = look(Cost(), 1000.0, 0.1 * RATE * WORK, 1.0)
    assert known.work == pytest.approx(0.1 * WORK, rel=0.02), "better than nothing"
    for now in (1005.0, 1010.0, 1015.0):
        known = look(known, now, 0.1 * RATE * WORK, now - 999.0)
    known = look(known, 1020.0, RATE * WORK, 1.0)
    assert known.work == pytest.approx(WORK, rel=0.02)


def test_cpu_of_half_the_pods_is_not_laid_on_all_requests() -> None:
    half = Signals(requests=Measured(RATE, window_s=5.0), cpu=Measured(RATE * WORK / 2, window_s=12.0, coverage=0.5))
    assert cost.learn(Cost(), half, 0.0, 1000.0, "a", True).work < 0.0
    known = run([5.0, 6.0, 7.0])
    assert cost.learn(known, half, 300.0, 1015.0, "a", True).work == known.work


@pytest.mark.parametrize("apart", [False, True], ids=["counted as requests", "counted apart"])
def test_requests_that_are_turned_away_do_not_make_the_others_cheap(apart: bool) -> None:
    """200 a second come, 100 are served with all the CPU there is, the rest gets a 503 at once."""
    asked = Measured(100.0 if apart else 200.0, window_s=5.0)
    shed = Signals(
        requests=asked, failures=Measured(100.0, window_s=5.0), failures_apart=apart,
        cpu=Measured(2.0, age_s=1.0, window_s=12.0),
    )  # fmt: skip
    known = run([5.0, 10.0, 3.0])
    for place in range(20):
        known = cost.learn(known, shed, cost.completed(shed, 5.0), 1020.0 + 5.0 * place, "a", True)
    assert known.work == pytest.approx(WORK, rel=0.02)
    assert cost.learn(Cost(), shed, 0.0, 1000.0, "a", True).work == pytest.approx(WORK, rel=0.02), "nor a first guess"


def test_a_few_failures_are_no_reason_to_stop_learning() -> None:
    known = run([5.0, 10.0, 3.0])
    dearer = Signals(requests=Measured(60.0, window_s=5.0), failures=Measured(1.0, window_s=5.0),
                     cpu=Measured(2.4, age_s=1.0, window_s=12.0))  # fmt: skip
    for place in range(60):
        known = cost.learn(known, dearer, 300.0, 1020.0 + 5.0 * place, "a", True)
    assert known.work > 1.5 * WORK


def test_a_request_needs_no_longer_for_itself_than_it_takes() -> None:
    """CPU on four threads, or of a pool that spins after the work."""
    seen = Signals(requests=Measured(12.0, window_s=5.0), cpu=Measured(1.0, age_s=1.0, window_s=12.0),
                   mean_latency=Measured(0.018))  # fmt: skip
    known = cost.learn(Cost(), seen, 0.0, 1000.0, "a", True)
    assert known.work == pytest.approx(1.0 / 12.0)
    assert known.own == pytest.approx(0.018)
