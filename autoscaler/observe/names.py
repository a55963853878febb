"""What to look for on a server's page: metric names with label matchers, resolved from the preset and the policy.

The user's intent (``signals:``) is translated here, once, into names that every source understands: the scraper picks
them from a page, the Prometheus source writes them into PromQL. A label value in a policy may start with an operator:
``code: "=~5..|429"``, ``method: "!=GET"``; without one it must be equal. Regular expressions match the whole value.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from autoscaler.model.policy import Policy, SignalsSpec
from autoscaler.model.signal import Counts

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


class UnknownPreset(ValueError):
    """The policy names a preset that does not exist; the message says where and which ones do."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """One label matcher; an absent label is the empty string, as in Prometheus."""

    label: str
    op: str
    value: str

    def matches(self, labels: Mapping[str, str]) -> bool:
        have = labels.get(self.label, "")
        match self.op:
            case "=":
                return have == self.value
            case "!=":
                return have != self.value
            case "=~":
                return _regex(self.value).fullmatch(have) is not None
            case _:
                return _regex(self.value).fullmatch(have) is None

    def __str__(self) -> str:
        value = self.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'{self.label}{self.op}"{value}"'


@functools.lru_cache(maxsize=4096)
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def matcher(label: str, written: str) -> Matcher:
    """A matcher from its spelling in a policy or preset. Raises ValueError for an unreadable regular expression."""
    for op in ("=~", "!~", "!=", "="):
        if written.startswith(op):
            value = written[len(op) :]
            break
    else:
        op, value = "=", written
    if op.endswith("~"):
        try:
            _regex(value)
        except re.error as wrong:
            raise ValueError(f"{label}: {value!r} is not a regular expression: {wrong}") from None
    return Matcher(label, op, value)


def matchers(labels: Mapping[str, str]) -> tuple[Matcher, ...]:
    return tuple(matcher(label, written) for label, written in sorted(labels.items()))


def where(**labels: str) -> tuple[Matcher, ...]:
    """Matchers in presets: ``where(code="=~5..|429")``."""
    return matchers(labels)


@dataclass(frozen=True, slots=True)
class Selector:
    """The sum of one metric's series that match, times ``scale`` (to seconds, requests or bytes).

    ``optional``: a server in its default setting doesn't expose it; never seen, it counts as not configured.
    """

    metric: str
    labels: tuple[Matcher, ...] = ()
    scale: float = 1.0
    optional: bool = False

    def __str__(self) -> str:
        return self.metric + ("{" + ",".join(map(str, self.labels)) + "}" if self.labels else "")


class Covers(enum.StrEnum):
    """Which requests a latency histogram or summary has seen, after its matchers."""

    SUCCESSES = "successes"
    ALL = "all"
    EITHER = "either"
    """Not known: told from the request counter, and where that can't tell, failures count as fast ones."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """A classic histogram: ``metric`` without ``_bucket``; ``unit`` seconds per unit of its bounds."""

    metric: str
    labels: tuple[Matcher, ...] = ()
    unit: float = 1.0
    covers: Covers = Covers.EITHER


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary with quantiles computed by the server (over its own sliding window, which lags)."""

    metric: str
    labels: tuple[Matcher, ...] = ()
    unit: float = 1.0
    covers: Covers = Covers.EITHER


@dataclass(frozen=True, slots=True)
class Queries:
    """PromQL the user wrote for a signal; each replaces the names of that signal and needs Prometheus."""

    misses: str = ""
    requests: str = ""
    failures: str = ""
    in_flight: str = ""


@dataclass(frozen=True, slots=True)
class SignalNames:
    """Everything a source looks for, for one workload. Empty tuples and None mean: not configured.

    ``busy_s``: a counter of seconds spent in requests, where the server has no histogram (its growth divided by that of
    the requests is the mean latency). ``requests_include_failures``: whether ``requests`` has counted failed ones too.
    ``port``, ``path``, ``scheme``: where the policy says the page is, before the pod's ``prometheus.io/*`` annotations;
    ``usual_port``, ``usual_path``: where this server's page is when nobody says, after them.
    """

    histogram: Histogram | None = None
    summary: Summary | None = None
    busy_s: tuple[Selector, ...] = ()
    requests: tuple[Selector, ...] = ()
    counts: Counts = Counts.COMPLETIONS
    requests_include_failures: bool = True
    failures: tuple[Selector, ...] = ()
    in_flight: tuple[Selector, ...] = ()
    process_cpu: tuple[Selector, ...] = (Selector("process_cpu_seconds_total", optional=True),)
    process_memory: tuple[Selector, ...] = (Selector("process_resident_memory_bytes", optional=True),)
    queries: Queries = field(default_factory=Queries)
    port: int | None = None
    path: str | None = None
    scheme: str | None = None
    usual_port: int | None = None
    usual_path: str | None = None


@dataclass(frozen=True, slots=True)
class Preset:
    """One server's metric names. ``marks``: names that only this server exposes; ``propose`` counts them.

    ``container``: the usual name of the container that serves, used where a pod has several and the policy names none.
    ``general``: a framework's or a proxy's names, which a page may show beside those of the server proper.
    ``written_from``: what was read, so that a doubt can be checked. ``remarks``: what a user must switch on or know.
    """

    name: str
    title: str
    written_from: str
    names: SignalNames
    marks: tuple[str, ...]
    container: str = ""
    remarks: str = ""
    general: bool = False


def resolve(policy: Policy) -> SignalNames:
    """The names for one policy: its preset's, overridden by what the policy sets by hand.

    Raises UnknownPreset, and ValueError for a matcher that can't be read.
    """
    signals = policy.spec.signals
    kept = _RESOLVED.get(id(signals))
    if kept is not None and kept[0] is signals:
        return kept[1]
    names = _build(signals)
    if len(_RESOLVED) > 8192:
        _RESOLVED.clear()
    _RESOLVED[id(signals)] = (signals, names)
    return names


_RESOLVED: dict[int, tuple[SignalsSpec, SignalNames]] = {}
"""By identity, with the spec kept alive: policies are frozen, and each tick asks again for each of them."""


def _build(signals: SignalsSpec) -> SignalNames:
    from autoscaler.observe import presets

    names = SignalNames()
    if signals.preset is not None:
        names = presets.get(signals.preset).names
    latency, requests, failures, in_flight = signals.latency, signals.requests, signals.failures, signals.in_flight
    queries = Queries()
    if latency is not None:
        unit, selected = UNITS[latency.unit], matchers(latency.labels)
        if latency.query:
            queries = replace(queries, misses=latency.query)
            names = replace(names, histogram=None, summary=None)
        elif latency.histogram:
            base = latency.histogram.removesuffix("_bucket")
            names = replace(names, histogram=Histogram(base, selected, unit), summary=None, busy_s=())
        elif latency.summary:
            names = replace(names, histogram=None, summary=Summary(latency.summary, selected, unit), busy_s=())
    if requests is not None:
        names = replace(names, counts=Counts(requests.counts))
        if requests.query:
            queries = replace(queries, requests=requests.query)
            names = replace(names, requests=())
        elif requests.counter:
            names = replace(names, requests=(Selector(requests.counter, matchers(requests.labels)),))
    if failures is not None:
        if failures.query:
            queries = replace(queries, failures=failures.query)
            names = replace(names, failures=())
        elif failures.counter:
            names = replace(names, failures=(Selector(failures.counter, matchers(failures.labels)),))
    if in_flight is not None:
        if in_flight.query:
            queries = replace(queries, in_flight=in_flight.query)
            names = replace(names, in_flight=())
        elif in_flight.gauge:
            names = replace(names, in_flight=(Selector(in_flight.gauge, matchers(in_flight.labels)),))
    if not names.requests and not queries.requests and names.histogram is not None:
        count = Selector(names.histogram.metric + "_count", names.histogram.labels)
        included = names.histogram.covers is not Covers.SUCCESSES
        names = replace(names, requests=(count,), requests_include_failures=included)
    scrape = signals.scrape
    return replace(
        names,
        queries=queries,
        port=scrape.port,
        path=scrape.path,
        scheme=scrape.scheme,
    )
