"""Thread pools that spin after their work: CPU per request that depends on the idle gap between requests.

Measured on a real server: 18 ms of CPU back to back, 82 ms with 60 ms between requests. Such a figure from quiet times,
multiplied by a busy rate, overstates demand several times. So CPU per request is kept apart for quiet and for busy
samples; where it falls as the rate rises, and is more than a request lasts, what one more request costs is the slope
between the two, and what it needs for itself is no more than the time it takes. A request on several threads costs the
same at any rate, and one thread can't burn more than it lasts: neither is taken for spinning.
"""

from __future__ import annotations

import msgspec

from autoscaler.decide.history import UNKNOWN, Pace

WEIGHT = 0.15
"""Of a new sample in its bin."""
APART = 0.1
"""Samples this much (of the usual rate) below or above it are quiet or busy."""
WIDE = 1.3
"""Busy must be at this many times the quiet rate to compare."""
FALLS = 1.15
"""Quiet requests cost this many times what busy ones do."""
BEYOND = 1.4
"""CPU per request over the time it takes."""
SAMPLES = 4
SLOWLY = 0.05
"""Of a new mean latency: requests differ in length, and a few short ones must not speak for all."""


def learn(past: Pace, rate: float, cost: float, latency: float | None) -> Pace:
    """Take in one CPU sample: requests a second, CPU-seconds per request, mean latency where known (unthrottled)."""
    usual = rate if past.usual < 0.0 else past.usual + 0.05 * (rate - past.usual)
    swift = past.swift
    if latency is not None and latency > 0.0:
        swift = latency if swift < 0.0 else swift + SLOWLY * (latency - swift)
    quiet, busy = past.quiet, past.busy
    if rate < (1.0 - APART) * usual:
        quiet = _add(quiet, rate, cost)
    elif rate > (1.0 + APART) * usual:
        busy = _add(busy, rate, cost)
    return msgspec.structs.replace(past, usual=usual, swift=swift, quiet=quiet, busy=busy)


def _add(known: tuple[float, float, int], rate: float, cost: float) -> tuple[float, float, int]:
    """(rate, CPU-seconds per second, samples), the first two fading."""
    at, burned, samples = known
    weight = max(WEIGHT, 1.0 / (samples + 1))
    return (at + weight * (rate - at), burned + weight * (rate * cost - burned), samples + 1)


def spins(past: Pace) -> bool:
    (low, quiet, some), (high, busy, more) = past.quiet, past.busy
    if min(some, more) < SAMPLES or low <= 0.0 or high < WIDE * low or past.swift == UNKNOWN:
        return False
    return quiet / low > FALLS * busy / high and busy / high > BEYOND * past.swift


def cost(past: Pace, work: float) -> tuple[float, float]:
    """(CPU-seconds one more request costs, CPU-seconds it needs for itself); both ``work`` where nothing spins."""
    if not spins(past):
        return work, work
    (low, quiet, _), (high, busy, _) = past.quiet, past.busy
    own = min(past.swift, work)
    return max(own, min(work, (busy - quiet) / (high - low))), own
