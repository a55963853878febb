"""How much faster a request gets on more cores, and the share of its work that only one core can do.

Amdahl (1967): work W on c cores takes W·(s + (1 − s)/c), and W/c below one core. A request on one thread has s = 1; one
that a server spreads over its threads has less. The time that requests take undisturbed on pods of a known size tells
s, and s tells the time on another size: without it a pod that answers in a tenth of a second on four cores is taken
for one that would on one core, too.

A server with fewer threads than its pod has cores gains nothing from the rest. So what was seen is kept per size, each
twice the one before, and Amdahl's line, which is straight in 1/c, is drawn through the neighbours of the size in
question. Only samples of more than one core, unthrottled and mostly idle, count: what waits in a queue looks serial.
"""

from __future__ import annotations

from itertools import pairwise
from math import log2

Point = tuple[float, float, float]
"""(cores, seconds for one CPU-second of work, weight)."""
Curve = tuple[tuple[float, float], ...]
"""(cores, seconds for one CPU-second), more cores and fewer seconds from one to the next. Empty: all is serial."""

MORE = 1.25
"""Cores of a pod from which a sample tells."""
IDLE = 0.6
"""Use of the size up to which a sample tells, the less the more is used."""
KEEPS = 0.95
"""Of what was known, at each sample."""
ENOUGH = 2.0
"""Weight from which a size counts."""
ALL = 0.9
"""More than this is all: noise."""
NEAR = 1.1
"""Sizes are not sought beyond the one on which a request takes this times the least it can."""


def learn(past: tuple[Point, ...], work: float, latency: float, cores: float, use: float) -> tuple[Point, ...]:
    """One sample: CPU-seconds and seconds per request, cores of a pod, use as a share of the size."""
    if cores < MORE or use >= IDLE or work <= 0.0 or latency <= 0.0:
        return past
    weight = (1.0 - use / IDLE) ** 2
    seen = min(1.0, max(1.0 / cores, latency / work))
    place = int(log2(cores))
    known = {int(log2(point[0])): point for point in past if point[0] >= MORE}
    same = known.pop(place, (cores, seen, 0.0))
    total = KEEPS * same[2] + weight
    part = weight / total
    mixed = (same[0] + part * (cores - same[0]), same[1] + part * (seen - same[1]), total)
    return tuple(sorted((*known.values(), mixed)))


def curve(known: tuple[Point, ...]) -> Curve:
    """What is known well enough, starting with one second on one core; empty where all is serial or nothing known."""
    found = [(1.0, 1.0)]
    for cores, slow, weight in known:
        if weight >= ENOUGH and cores > found[-1][0] and slow > 0.0:
            found.append((cores, min(found[-1][1], slow)))
    return tuple(found) if found[-1][1] <= ALL else ()


def slowness(cores: float, known: Curve) -> float:
    """Seconds that one CPU-second of work takes on ``cores``."""
    if cores <= 1.0:
        return 1.0 / cores
    if not known:
        return 1.0
    (fewer, slow), (more, fast) = next((pair for pair in pairwise(known) if cores <= pair[1][0]), known[-2:])
    gain = (slow - fast) / (1.0 / fewer - 1.0 / more)
    return max(fast - gain * (1.0 / more - 1.0 / cores), fast * min(1.0, more / cores))


def least(known: Curve) -> float:
    """The serial share: seconds that one CPU-second of work takes on any number of cores; 1 where nothing is known."""
    return slowness(1e9, known)


def cores_for(slow: float, known: Curve) -> float:
    """The fewest cores on which a CPU-second takes ``slow`` seconds at most; where none do, nearly the fastest."""
    if slow >= 1.0:
        return 1.0 / slow
    goal = max(slow, NEAR * least(known))
    if goal >= 1.0:
        return 1.0
    (fewer, before), (more, after) = next((pair for pair in pairwise(known) if pair[1][1] <= goal), known[-2:])
    gain = (before - after) / (1.0 / fewer - 1.0 / more)
    return 1.0 / (1.0 / more + (goal - after) / gain) if gain > 0.0 else more
