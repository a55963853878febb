"""What grew between two samples of one pod: counters per incarnation, resets told apart from restarts.

Every source ends here, so a step looks the same through Prometheus and through a direct scrape. Nothing is assumed
about the scrape interval: the window is the time between the two samples' own timestamps, and a tick without a new
sample repeats the last growth with its age rising. (``rate()`` over too short a window would be silently empty; over a
long one it shows a step late.)
"""

from __future__ import annotations

import enum
import math
from collections.abc import Hashable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from autoscaler.model.signal import Absent, Cause

BASELINE_LASTS_S = 90.0
"""A gap longer than this, and four times the last window, starts anew: its mean would be told as the present."""


class Role(enum.StrEnum):
    """What a number on a page means to us. Counters up to PRESSURE, gauges after it."""

    FINISHED = "finished"
    LATENCY_SUM = "latency sum"
    REQUESTS = "requests"
    FAILURES = "failures"
    CPU = "cpu"
    PROCESS_CPU = "process cpu"
    PERIODS = "CFS periods"
    THROTTLED = "throttled periods"
    PRESSURE = "cpu pressure"
    IN_FLIGHT = "in flight"
    WORKING_SET = "working set"
    MEMORY_USAGE = "memory usage"
    PEAK_MEMORY = "peak memory"
    PROCESS_MEMORY = "process memory"


Value = float | Absent


@dataclass(slots=True)
class PodSample:
    """One pod at one time, by the source's clock.

    ``incarnation``: what changes when the counters begin again at zero (uid and container start). ``counters`` and
    ``gauges`` hold finite, non-negative numbers or the cause of their absence; a role that is no key wasn't asked for.
    ``buckets``: cumulative counts of successful requests by upper bound in seconds, ``inf`` included.
    ``quantiles``: of a summary, seconds by quantile. ``stamp``: the newest time the page itself gives, by the server's
    clock (only whether it moves is of use); None where it gives none.
    """

    incarnation: Hashable
    at: float
    counters: dict[Role, Value] = field(default_factory=dict)
    gauges: dict[Role, Value] = field(default_factory=dict)
    buckets: dict[float, float] = field(default_factory=dict)
    quantiles: dict[float, float] = field(default_factory=dict)
    stamp: float | None = None


@dataclass(slots=True)
class Growth:
    """What one pod's counters grew by in ``window_s`` seconds, up to ``at`` (the source's clock).

    ``every_s``: how often there is a new sample, as far as it is known: the shorter of the last two gaps, else 0.
    """

    at: float
    window_s: float
    counters: dict[Role, Value]
    buckets: dict[float, float]
    every_s: float = 0.0


@dataclass(slots=True)
class _Kept:
    """``gap_s``: since the sample before, 0 where there was none."""

    sample: PodSample
    growth: Growth | Absent
    gap_s: float = 0.0


class CounterMemory:
    """The last sample and the last growth of each pod. Keys are pod uids (with the container, where that matters)."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}

    def fold(self, key: Hashable, sample: PodSample) -> Growth | Absent:
        """The growth up to this sample, or why there is none: TOO_SHORT at the first one, COUNTER_RESET at a reset."""
        kept, gap = self._kept.get(key), 0.0
        if kept is None:
            growth: Growth | Absent = Absent(Cause.TOO_SHORT, "one sample so far")
        elif kept.sample.incarnation != sample.incarnation:
            growth = Absent(Cause.COUNTER_RESET, "the container was restarted")
        elif sample.at <= kept.sample.at:
            return kept.growth
        else:
            growth, gap = _growth(kept, sample), sample.at - kept.sample.at
            if isinstance(growth, Growth) and kept.gap_s:
                growth.every_s = min(gap, kept.gap_s)
        self._kept[key] = _Kept(sample, growth, gap)
        return growth

    def last(self, key: Hashable) -> PodSample | None:
        """The sample before."""
        kept = self._kept.get(key)
        return kept.sample if kept is not None else None

    def growth(self, key: Hashable) -> Growth | Absent | None:
        """The last growth; None for a pod never seen."""
        kept = self._kept.get(key)
        return kept.growth if kept is not None else None

    def prune(self, live: AbstractSet[Hashable]) -> None:
        """Forget pods that are gone."""
        if self._kept.keys() - live:
            self._kept = {key: kept for key, kept in self._kept.items() if key in live}


def _growth(kept: _Kept, sample: PodSample) -> Growth | Absent:
    window = sample.at - kept.sample.at
    usual = kept.growth.window_s if isinstance(kept.growth, Growth) else 0.0
    if window > max(BASELINE_LASTS_S, 4 * usual):
        return Absent(Cause.TOO_SHORT, f"no sample for {window:.0f}s, starting anew")
    counters: dict[Role, Value] = {}
    earlier_counters, earlier_buckets = kept.sample.counters, kept.sample.buckets
    for role, value in sample.counters.items():
        before = earlier_counters.get(role)
        if isinstance(value, Absent):
            counters[role] = value
        elif before is None or isinstance(before, Absent):
            counters[role] = Absent(Cause.TOO_SHORT, f"{role}: one sample so far")
        elif value < before:
            return Absent(Cause.COUNTER_RESET, f"{role} fell from {before:.6g} to {value:.6g}")
        else:
            counters[role] = value - before
    buckets: dict[float, float] = {}
    # a labelled histogram has no buckets before its first event
    unborn = 0.0 if not earlier_buckets and earlier_counters.get(Role.FINISHED) == 0.0 else None
    for bound, count in sample.buckets.items():
        earlier = earlier_buckets.get(bound, unborn)
        if earlier is None:
            continue
        if count < earlier:
            return Absent(Cause.COUNTER_RESET, f"bucket {bound:g}s fell from {earlier:.6g} to {count:.6g}")
        buckets[bound] = count - earlier
    return Growth(sample.at, window, counters, buckets)


def summed(values: Iterable[float]) -> float:
    """Their sum, exact where it can be; infinite or NaN (never an exception) where a page's numbers make it so."""
    several = list(values)
    try:
        return math.fsum(several)
    except (OverflowError, ValueError):
        return sum(several)


def checked(value: float, what: str) -> Value:
    """A number that can be used, or the cause why it can't."""
    if math.isnan(value):
        return Absent(Cause.NAN, what)
    if math.isinf(value):
        return Absent(Cause.INFINITE, what)
    if value < 0:
        return Absent(Cause.NEGATIVE, f"{what} is {value:g}")
    return value
