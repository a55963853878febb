"""How many cores a Poisson load needs so that all but a small share of its requests meet their target.

A pod with ``c`` cores works off its backlog at rate ``c``. The backlog an arrival finds exceeds v CPU-seconds with
probability u·exp(−v·2(1−u) / (W(1+k²))): exact for M/M/1, the heavy-traffic limit for M/G/1 (Kingman 1962), with
utilisation u = ρ/c, W CPU-seconds per request and k their coefficient of variation. A request meets its target when
backlog / c plus its own time alone stays below it.
"""

from __future__ import annotations

from math import log

VARIATION = 1.3
"""1 + k²: between fixed (1) and exponential (2) service."""
LARGE = 1.6
"""A large request, in mean requests: what the target must still hold for."""


def need(rho: float, work: float, target: float, share: float, parallelism: float = 1.0) -> float:
    """Cores for a load of ``rho`` cores on **one** queue.

    ``work``: CPU-seconds per request; ``target``: seconds; ``share``: requests that may miss; ``parallelism``: cores
    one request can use at once. Never less than ``rho``, nor than ``alone``.
    """
    low = max(rho, alone(work, target))
    own = LARGE * work
    spread = work * VARIATION / 2.0

    def late(cores: float) -> float:
        utilisation = rho / cores
        tail = log(utilisation / share) if utilisation > share else 0.0
        return tail * spread / (1.0 - utilisation) / cores + own / min(cores, parallelism) - target

    low = low * 1.0001 + 1e-6
    if late(low) <= 0.0:
        return low
    high = low + max(1.0, 0.1 * low)
    limit = low * 8.0 + 8.0
    while late(high) > 0.0:
        low = high
        high *= 1.5
        if high > limit:
            return rho + 3.0 * spread * log(1.0 / share) / target + alone(work, target)
    for _ in range(7):
        middle = 0.5 * (low + high)
        if late(middle) > 0.0:
            low = middle
        else:
            high = middle
    return high


def alone(work: float, target: float) -> float:
    """Cores with which a large request that is alone meets its target."""
    return min(LARGE * work / target, 1.0)
