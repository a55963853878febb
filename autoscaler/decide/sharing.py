"""Dividing what is too little: cores go where they save the most misses.

With x cores above its load a workload misses all that comes while its backlog V drains (V/x seconds) and, in the
time to come, the share e^(−x/scale) of the moments in which the load exceeds them. The least sum has equal slopes
(Lagrange): each gets the x at which one core more would save as much as anywhere else. When even the bare loads
don't fit, those that need most cores for the share they would save go short: starving everybody a little would make
everybody miss everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

HORIZON = 2.5
"""Seconds to come that count against draining now."""
STEPS = 0.1
"""Part of the moments in which the load itself moves; what it then needs is spread ``WIDER`` than chance, around the
level that it comes back to."""
WIDER = 2.0
LEAST = 0.05
"""Cores above its load that a workload needs to carry it at all."""
ROUNDS = 14


@dataclass(slots=True)
class Claim:
    """What one workload (or one pod of it) asks of a shared room. Cores and CPU-seconds.

    ``floor`` is never undercut; ``load`` is what arrivals burn; ``want`` with drain and head-room is never exceeded;
    ``weight``: what a share of missed requests counts; ``drift``: by how much the load is likely to move to its mean.
    """

    floor: float
    load: float
    want: float
    backlog: float = 0.0
    scale: float = 0.1
    weight: float = 1.0
    drift: float = 0.0

    def above(self, price: float) -> float:
        """Cores above the load at which one more saves only ``price``."""
        steep = HORIZON * self.weight / self.scale
        room = self.scale * log(steep / price) if steep > price else 0.0
        wide = WIDER * self.scale
        steep = STEPS * HORIZON * self.weight / wide
        if steep > price:
            room = max(room, self.drift + wide * log(steep / price))
        if self.backlog > 0.0:
            room = max(room, sqrt(self.weight * self.backlog / price))
        return room


def divide(claims: Sequence[Claim], capacity: float) -> list[float]:
    """Cores for each claim, together at most ``capacity`` (or the floors), none above its want nor below its floor."""
    bare = [max(claim.floor, min(claim.want, claim.load + LEAST)) for claim in claims]
    if sum(bare) > capacity:
        return _carry_some(claims, bare, capacity)
    low, high = -12.0, 12.0
    given = bare
    for _ in range(ROUNDS):
        middle = 0.5 * (low + high)
        price = exp(middle)
        tried = [
            max(least, min(claim.want, claim.load + claim.above(price)))
            for claim, least in zip(claims, bare, strict=True)
        ]
        if sum(tried) > capacity:
            low = middle
        else:
            high = middle
            given = tried
    return given


def _carry_some(claims: Sequence[Claim], bare: Sequence[float], capacity: float) -> list[float]:
    """The bare loads, cheapest share first; who comes last gets what is left."""
    given = [claim.floor for claim in claims]
    left = capacity - sum(given)
    for place in sorted(range(len(claims)), key=lambda place: _cost(claims[place], bare[place])):
        if left <= 0.0:
            break
        part = min(left, bare[place] - given[place])
        given[place] += part
        left -= part
    return given


def _cost(claim: Claim, bare: float) -> float:
    """Cores per weight of requests saved, a backlog counted as cores over the horizon."""
    return (bare + claim.backlog / HORIZON) / claim.weight
