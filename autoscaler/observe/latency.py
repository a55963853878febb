"""What a histogram or a summary says about an objective.

The objective is a share of requests within a target, so a histogram is read at one bound, without interpolation. The
percentile is for show: it interpolates inside a bucket, saturates at the top one, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from autoscaler.model.signal import Absent, Cause

NEAR = 0.1
"""A bound this close to the target is the target's own (by share of it)."""
FARTHEST = 0.5
"""A bound below this share of the target says too little about it."""


def objective_bound(bounds: Iterable[float], target: float) -> float | Absent:
    """The bound at which misses are counted, in seconds.

    The nearest within 10 % of the target; else the next one below it, which counts too many misses and never too few;
    NO_BUCKET where that is below half of the target.
    """
    finite = sorted(bound for bound in bounds if math.isfinite(bound))
    if not finite:
        return Absent(Cause.NO_BUCKET, "no finite bucket (a native histogram needs classic buckets beside it)")
    nearest = min(finite, key=lambda bound: abs(bound - target))
    if abs(nearest - target) <= NEAR * target:
        return nearest
    below = [bound for bound in finite if bound < target]
    if below and below[-1] >= FARTHEST * target:
        return below[-1]
    shown = ", ".join(f"{bound:g}" for bound in finite[:12])
    return Absent(Cause.NO_BUCKET, f"no bucket near {target:g}s; there are {shown}")


def percentile(grown: Sequence[Mapping[float, float]], share: float) -> tuple[float | Absent, str]:
    """Seconds that ``share`` of the requests took at most, and a note where it is only a lower bound.

    ``grown``: for each pod the growth of its cumulative buckets. Linear inside a bucket, as histogram_quantile() is.
    """
    bounds = set.intersection(*(set(buckets) for buckets in grown)) if grown else set()
    ordered = sorted(bounds)
    if not ordered or not any(math.isfinite(bound) for bound in ordered):
        return Absent(Cause.NO_BUCKET, "no bucket all pods share"), ""
    counts, highest = [], 0.0
    for bound in ordered:
        highest = max(highest, sum(buckets[bound] for buckets in grown))
        counts.append(highest)
    if highest <= 0:
        return Absent(Cause.NO_TRAFFIC, "no request finished"), ""
    rank = share * highest
    place = next(index for index, count in enumerate(counts) if count >= rank)
    if math.isinf(ordered[place]):
        return ordered[place - 1], "at least: the top bucket is full"
    below = counts[place - 1] if place else 0.0
    lower = ordered[place - 1] if place else min(0.0, ordered[0])
    inside = counts[place] - below
    return lower + (ordered[place] - lower) * ((rank - below) / inside if inside else 1.0), ""


def share_within(quantiles: Mapping[float, float], target: float) -> float | Absent:
    """The share of requests within ``target`` seconds, from a summary's quantiles: linear between the two around it.

    Past the highest quantile all that is known is that at least that share was within: the middle between it and 1 is
    returned. Below the lowest one 0 is. NaN quantiles (an empty window) are no data.
    """
    known = sorted((value, q) for q, value in quantiles.items() if math.isfinite(value))
    if not known:
        return Absent(Cause.NO_TRAFFIC if quantiles else Cause.NO_SUCH_METRIC, "the summary has no quantile")
    below = [(value, q) for value, q in known if value <= target]
    above = [(value, q) for value, q in known if value > target]
    if not below:
        return 0.0
    if not above:
        return (1.0 + max(q for _, q in below)) / 2
    (low, share), (high, more) = max(below, key=lambda pair: pair[1]), above[0]
    return share + max(0.0, more - share) * (target - low) / (high - low)
