"""How many cores a Poisson load needs so that all but a small share of its requests meet their target.

A pod with ``c`` cores works off its backlog at rate ``c``. The backlog an arrival finds exceeds v CPU-seconds with
probability u·exp(−v·2(1−u) / (W(1+k²))): exact for M/M/1, the heavy-traffic limit for M/G/1 (Kingman 1962), with
utilisation u = ρ/c, W CPU-seconds per request and k their coefficient of variation. Where a request uses one core at a
time, chance is that it finds all cores taken (Erlang 1917), which on a few cores is much rarer than u. A request meets
its target when backlog / c plus its own time alone stays below it.
"""

from __future__ import annotations

from math import log

from autoscaler.decide.serial import Curve, cores_for, least, slowness

VARIATION = 1.3
"""1 + k²: between fixed (1) and exponential (2) service."""
LARGE = 1.6
"""A large request, in mean requests: what the target must still hold for."""
FITS = 0.8
"""Of the target, at most, is what a large request takes at best: the rest is for waiting."""
TOGETHER = (1.1, 0.8)
"""The same two where requests spread over threads: large ones, and 1 + k². They share the pod instead of waiting for
each other, so that chance costs less; by simulated pods of 2 and 4 threads a request, over loads of 0.2 to 2 cores.
"""


def need(rho: float, work: float, target: float, share: float, speeds: Curve = ()) -> float:
    """Cores for a load of ``rho`` cores on **one** queue.

    ``work``: CPU-seconds per request; ``target``: seconds; ``share``: requests that may miss; ``speeds``: how
    much faster a request is on more cores. Never less than ``rho``, nor than ``alone``.
    """
    low = max(rho, alone(work, target, speeds))
    own = _large(work, target, speeds) * work
    spread = work * (TOGETHER[1] if speeds else VARIATION) / 2.0

    def late(cores: float) -> float:
        utilisation = rho / cores
        waits = utilisation if speeds else delayed(cores, rho)
        tail = log(waits / share) if waits > share else 0.0
        return tail * spread / (1.0 - utilisation) / cores + own * slowness(cores, speeds) - target

    low = low * 1.0001 + 1e-6
    if late(low) <= 0.0:
        return low
    high = low + max(1.0, 0.1 * low)
    limit = low * 8.0 + 8.0
    while late(high) > 0.0:
        low = high
        high *= 1.5
        if high > limit:
            return rho + 3.0 * spread * log(1.0 / share) / target + alone(work, target, speeds)
    for _ in range(7):
        middle = 0.5 * (low + high)
        if late(middle) > 0.0:
            low = middle
        else:
            high = middle
    return high


def _large(work: float, target: float, speeds: Curve) -> float:
    """A large request, in mean ones; not so large that no size could do: the target was set with these requests."""
    quickest = work * least(speeds)
    usual = TOGETHER[0] if speeds else LARGE
    return max(1.0, min(usual, FITS * target / quickest)) if quickest > 0.0 else usual


def delayed(cores: float, rho: float) -> float:
    """Probability that a request finds all cores taken by requests of one core each: Erlang's C, between whole cores
    along a straight line of its logarithm. Below one core it is the utilisation.
    """
    if cores <= 1.0:
        return rho / cores
    free = 1.0  # Erlang's B
    for servers in range(1, int(cores) + 1):
        free = rho * free / (servers + rho * free)
    servers = int(cores)
    here = _queues(free, rho, servers)
    above = _queues(rho * free / (servers + 1 + rho * free), rho, servers + 1)
    return float(here ** (1.0 - cores + servers) * above ** (cores - servers))


def _queues(blocked: float, rho: float, servers: int) -> float:
    return 1.0 if rho >= servers else blocked / (1.0 - rho / servers * (1.0 - blocked))


def alone(work: float, target: float, speeds: Curve = ()) -> float:
    """Cores with which a large request that is alone meets its target, or nearly its best time where none do."""
    return cores_for(target / (LARGE * work), speeds) if work > 0.0 else 0.0
