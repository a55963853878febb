"""The level follows what is news and leaves chance alone, whatever the time between samples."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from autoscaler.decide import traffic
from autoscaler.decide.history import Traffic
from autoscaler.model.signal import Absent, Cause, Counts, Measured, Signals

Rate = Callable[[float], float]


def poisson(dice: random.Random, mean: float) -> int:
    """The number of exponential gaps that fit; fine for the means used here."""
    number, left = 0, mean
    while (left := left - dice.expovariate(1.0)) > 0.0:
        number += 1
    return number


def follow(rate: Rate, seconds: float, window: float = 5.0, seed: int = 1) -> list[Traffic]:
    dice = random.Random(seed)
    known, seen = Traffic(), []
    for number in range(1, round(seconds / window) + 1):
        now = number * window
        counted = poisson(dice, rate(now) * window) / window
        signals = Signals(requests=Measured(counted, window_s=window), counts=Counts.ARRIVALS)
        known = traffic.learn(known, signals, now)
        seen.append(known)
    return seen


@pytest.mark.parametrize("window", [1.0, 5.0, 15.0])
def test_a_steady_load_has_a_steady_level_and_little_to_learn(window: float) -> None:
    seen = follow(lambda now: 60.0, 3600.0, window)
    late = seen[len(seen) // 2 :]
    assert all(abs(one.level - 60.0) < 12.0 for one in late)
    assert late[-1].gain < 0.2
    assert 0.5 < late[-1].spread < 1.5, "Poisson's own scatter"


@pytest.mark.parametrize("window", [1.0, 5.0])
def test_a_step_is_seen_within_two_intervals_of_five_seconds(window: float) -> None:
    seen = follow(lambda now: 60.0 if now <= 1800.0 else 120.0, 1815.0, window)
    assert seen[round(1800 / window) - 1].level < 75.0
    assert seen[round(1810 / window) - 1].level > 100.0


def test_a_wandering_load_is_followed_more_closely_than_a_steady_one() -> None:
    dice = random.Random(7)
    walk = [100.0]
    for _ in range(720):
        walk.append(min(250.0, max(40.0, walk[-1] + dice.gauss(0.0, 8.0))))
    wandering = follow(lambda now: walk[round(now / 5.0)], 3600.0)[-1]
    steady = follow(lambda now: 100.0, 3600.0)[-1]
    assert wandering.gain > 2.0 * steady.gain


def test_what_scatters_more_than_chance_jumps_at_more() -> None:
    dice = random.Random(3)

    def rough(now: float) -> float:
        return 100.0 * dice.choice([0.5, 1.5])

    seen = follow(rough, 3600.0)
    jumps = sum(1 for one in seen[len(seen) // 2 :] if one.samples <= 2)
    assert seen[-1].spread > 5.0
    assert jumps < 40, "of 360"


def test_what_is_shed_came_too() -> None:
    signals = Signals(requests=Measured(10.0, window_s=5.0), failures=Measured(30.0, window_s=5.0))
    assert traffic.learn(Traffic(), signals, 5.0).level == 10.0, "failures are among the requests"
    apart = Signals(requests=signals.requests, failures=signals.failures, failures_apart=True)
    assert traffic.learn(Traffic(), apart, 5.0).level == 40.0
    unseen = Signals(requests=signals.requests, failures=Absent(Cause.STALE), failures_apart=True)
    assert traffic.learn(Traffic(), unseen, 5.0).level == 10.0


def test_the_mean_is_of_the_last_half_hour() -> None:
    seen = follow(lambda now: 50.0 if now <= 3600.0 else 100.0, 7200.0)
    assert seen[719].mean == pytest.approx(50.0, rel=0.1)
    assert 75.0 < seen[-1].mean < 100.0
