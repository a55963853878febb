"""A measured value with its age and coverage, or the reason there is none.

Absent, stale, NaN and zero are four things. ``Reading`` is a sum type: code that needs a number has to say what it does
without one.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec


class Cause(enum.StrEnum):
    """Why a signal has no value."""

    NOT_CONFIGURED = "NotConfigured"
    NO_SUCH_METRIC = "NoSuchMetric"
    NO_TRAFFIC = "NoTraffic"
    STALE = "Stale"
    PARTIAL = "Partial"
    NAN = "NaN"
    INFINITE = "Infinite"
    NEGATIVE = "Negative"
    COUNTER_RESET = "CounterReset"
    REFUSED = "QueryRefused"
    SOURCE_DOWN = "SourceDown"
    TOO_SHORT = "WindowTooShort"
    NO_BUCKET = "NoBucketAtObjective"
    NO_PODS = "NoPods"
    CONTRADICTORY = "Contradictory"


class Measured(msgspec.Struct, frozen=True, gc=False):
    """A value that can be used. A struct, as hundreds of thousands are made at a tick; it holds nothing that could
    hold it, so the collector need not know of it.

    ``age_s``: seconds between the newest sample in it and the tick. ``window_s``: the span of a rate or ratio (0 for
    a gauge). ``coverage``: pods that answered / pods expected, in (0, 1]; sums are *not* extrapolated.
    ``weight``: events behind a ratio (requests in the window), 0 when unknown. ``source``: who answered.
    ``note``: what a reader must know about the value (another bucket than the objective's, a lower bound), or empty.
    ``lasts_s``: how old it may be, where its source is scraped too rarely for signals.maxAge to mean anything; 0: that.
    """

    value: float
    age_s: float = 0.0
    window_s: float = 0.0
    coverage: float = 1.0
    weight: float = 0.0
    source: str = ""
    note: str = ""
    lasts_s: float = 0.0

    def fresh(self, max_age: float) -> bool:
        """Whether it is young enough to be used; ``max_age`` in seconds, the policy's."""
        return self.age_s <= max(max_age, self.lasts_s)


@dataclass(frozen=True, slots=True)
class Absent:
    """No value, and why; ``detail`` names the place (metric, pod, query) in a few words."""

    cause: Cause
    detail: str = ""
    source: str = ""

    @property
    def told(self) -> str:
        """The cause's word first, so that two causes at one place are told apart: ``NaN: requests_total``."""
        return f"{self.cause}: {self.detail}" if self.detail else str(self.cause)


Reading = Measured | Absent
NOT_CONFIGURED = Absent(Cause.NOT_CONFIGURED)


class Counts(enum.StrEnum):
    """What the request counter counts. Completions can't exceed capacity: in-flight growth is added to them."""

    ARRIVALS = "arrivals"
    COMPLETIONS = "completions"


class PodSignals(msgspec.Struct, frozen=True, gc=False):
    """What is known about one pod. Rates per second, CPU in cores, memory in bytes."""

    requests: Reading = NOT_CONFIGURED
    in_flight: Reading = NOT_CONFIGURED
    cpu: Reading = NOT_CONFIGURED
    throttled: Reading = NOT_CONFIGURED
    working_set: Reading = NOT_CONFIGURED
    memory_usage: Reading = NOT_CONFIGURED
    """Usage *with* page cache: what the kubelet compares a memory shrink with."""
    peak_memory: Reading = NOT_CONFIGURED


@dataclass(frozen=True, slots=True)
class Signals:
    """Everything measured for one workload at one tick. Sums over the pods that answered.

    Fast readings (``requests``, ``misses``, ``failures``, ``in_flight``) cover about one scrape interval; CPU,
    throttling, pressure and memory come from the kubelet every 10–15 s and carry that age and window.
    """

    requests: Reading = NOT_CONFIGURED
    """Requests per second, fast window; ``counts`` says which end of the request it counts."""
    counts: Counts = Counts.COMPLETIONS
    misses: Reading = NOT_CONFIGURED
    """Share of requests over the target or failed, [0, 1], fast window; ``weight`` is the number of requests."""
    latency: Reading = NOT_CONFIGURED
    """Seconds at the objective's percentile, interpolated from buckets: for show, never controlled."""
    mean_latency: Reading = NOT_CONFIGURED
    failures: Reading = NOT_CONFIGURED
    """Failed and shed requests per second; already counted in ``misses``."""
    failures_apart: bool = False
    """Whether ``requests`` leaves the failures out: then what arrives is the sum."""
    in_flight: Reading = NOT_CONFIGURED
    """Requests inside the servers now, waiting or served."""
    cpu: Reading = NOT_CONFIGURED
    """Cores used."""
    throttled: Reading = NOT_CONFIGURED
    """Share of CFS periods that were throttled, [0, 1]."""
    pressure: Reading = NOT_CONFIGURED
    """PSI ``some`` CPU share, [0, 1], where exported."""
    working_set: Reading = NOT_CONFIGURED
    """Bytes, of the pod that uses most."""
    custom: Mapping[str, Reading] = field(default_factory=dict)
    """Objective metrics by name (already reduced to the Value or AverageValue the policy names)."""
    pods: Mapping[str, PodSignals] = field(default_factory=dict)
    """By pod uid; absent where the source can't tell pods apart."""


def value_or(reading: Reading, default: float | None = None) -> float | None:
    """The value of a measured reading, else ``default`` — which callers must mean, since unknown is not zero."""
    return reading.value if isinstance(reading, Measured) else default
