"""CPU per request that depends on the idle gap: spinning pools are found out, others are not taken for them."""

from __future__ import annotations

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.decide import spin
from autoscaler.decide.history import Pace

WORK = 0.018


def spinning(rate: float) -> float:
    """CPU per request of a pool that spins for up to 64 ms after a request, at Poisson arrivals."""
    return WORK + (1.0 - exp(-0.064 * rate)) / rate


def after(rates: list[float], cost: object, latency: float | None) -> Pace:
    pace = Pace()
    for rate in rates:
        pace = spin.learn(pace, rate, cost(rate) if callable(cost) else float(str(cost)), latency)
    return pace


DAY = [12.0 + 8.0 * (place % 20 - 10) / 10 for place in range(80)]


def test_a_spinning_pool_costs_less_than_it_burns() -> None:
    pace = after(DAY, spinning, 0.0185)
    more, own = spin.cost(pace, spinning(12.0))
    assert spin.spins(pace)
    assert own == pytest.approx(0.0185, rel=0.02)
    assert WORK <= more < 0.8 * spinning(12.0)


def test_several_threads_a_request_are_no_spinning() -> None:
    """Much CPU in a short time, but as much at any rate."""
    pace = after(DAY, 0.08, 0.020)
    assert spin.cost(pace, 0.08) == (0.08, 0.08)


def test_one_thread_can_not_burn_more_than_it_lasts() -> None:
    """Costs that fall with the rate for another reason (caches, batches): the latency says that nothing spins."""
    pace = after(DAY, lambda rate: 0.05 + 0.4 / rate, 0.12)
    assert not spin.spins(pace)


@pytest.mark.parametrize("latency", [None, 0.0])
def test_without_latency_nothing_is_concluded(latency: float | None) -> None:
    assert not spin.spins(after(DAY, spinning, latency))


def test_a_steady_rate_shows_no_difference() -> None:
    assert not spin.spins(after([12.0] * 100, spinning, 0.018))


def test_a_window_of_short_requests_does_not_speak_for_all() -> None:
    """Requests differ in length: one mean latency far below the others is no proof of spinning."""
    pace = Pace()
    for place, rate in enumerate(DAY):
        pace = spin.learn(pace, rate, 0.5 + 1.0 / rate, 0.1 if place % 30 == 7 else 0.7)
    assert not spin.spins(pace)


@given(
    st.lists(st.tuples(st.floats(0.1, 1e4), st.floats(1e-4, 10.0)), min_size=1, max_size=60),
    st.floats(1e-4, 10.0), st.floats(1e-4, 10.0),
)  # fmt: skip
def test_what_is_worked_with_is_never_above_what_was_burnt(
    samples: list[tuple[float, float]], latency: float, work: float
) -> None:
    pace = Pace()
    for rate, cost in samples:
        pace = spin.learn(pace, rate, cost, latency)
    more, own = spin.cost(pace, work)
    assert 0.0 < own <= more <= work
