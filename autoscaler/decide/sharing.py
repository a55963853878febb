"""Dividing what is too little: cores go where they save the most misses.

With head-room z (1: all that was wanted) about e^(−a·z) of a workload's requests miss; below its load nearly all do, and
its backlog grows. The least sum of miss shares has equal slopes (Lagrange): small head-rooms are filled further than
large ones. When even the bare loads don't fit, those that need most cores for the share they would save go short first:
starving everybody a little would make everybody miss everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

STEEPNESS = 4.6
"""e^(−4.6) = 1 %: what is missed with all the head-room that was wanted, relative to none."""
DRAIN_HORIZON = 10.0
BARE = 0.1
"""Head-room below which a load counts as not carried."""


@dataclass(slots=True)
class Claim:
    """What one workload (or one pod of it) asks of a shared room. Cores.

    ``floor`` is never undercut; ``load`` is what it burns and drains; ``want`` with head-room; ``weight`` what a share
    of missed requests counts.
    """

    floor: float
    load: float
    want: float
    weight: float = 1.0


def divide(claims: Sequence[Claim], capacity: float) -> list[float]:
    """Cores for each claim, together at most ``capacity`` (or the floors), none above its want nor below its floor."""
    given = [claim.floor for claim in claims]
    left = capacity - sum(given)
    if left <= 0.0:
        return given
    carried: list[int] = []
    # The bare loads, cheapest first.
    order = sorted(range(len(claims)), key=lambda place: _price(claims[place]))
    for place in order:
        claim = claims[place]
        bare = max(claim.floor, claim.load + BARE * max(0.0, claim.want - claim.load))
        cost = bare - claim.floor
        if cost <= left:
            given[place] = bare
            left -= cost
            carried.append(place)
        else:
            given[place] += left
            left = 0.0
            break
    if left > 0.0 and carried:
        _fill(claims, carried, given, left)
    return given


def _price(claim: Claim) -> float:
    """Cores per weight of requests saved."""
    return (claim.load + BARE * max(0.0, claim.want - claim.load)) / claim.weight


def _fill(claims: Sequence[Claim], carried: list[int], given: list[float], left: float) -> None:
    """Head-room with equal slopes, clamped between what is given and what is wanted."""
    free = [place for place in carried if claims[place].want > given[place] + 1e-9]
    total = left + sum(given[place] - claims[place].load for place in free)
    while free:
        spans = [claims[place].want - claims[place].load for place in free]
        logs = [log(claims[place].weight / span) for place, span in zip(free, spans, strict=True)]
        weighted = sum(span * one for span, one in zip(spans, logs, strict=True))
        price = (weighted - STEEPNESS * total) / sum(spans)
        again: list[int] = []
        changed = False
        for place, span, one in zip(free, spans, logs, strict=True):
            claim = claims[place]
            share = (one - price) / STEEPNESS
            if share >= 1.0:
                given[place] = claim.want
                total -= span
                changed = True
            else:
                again.append(place)
        if changed:
            free = again
            continue
        for place, span, one in zip(free, spans, logs, strict=True):
            share = (one - price) / STEEPNESS
            floor = max(claims[place].floor, claims[place].load + BARE * span)
            if claims[place].load + share * span < floor - 1e-9:
                given[place] = floor
                total -= floor - claims[place].load
                changed = True
                free = [other for other in free if other != place]
                break
            given[place] = claims[place].load + share * span
        if not changed:
            return
