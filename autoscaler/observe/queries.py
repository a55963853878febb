"""The shared queries: one for the servers' pages and one for the kubelet's figures, whatever the number of workloads.

A query is a union of terms, so that all numbers of one answer come from the same scrapes: Prometheus evaluates one
query over one snapshot of its head. Most of it is one sum over several metrics by name, which costs a third of as many
sums; what selects by labels, and the timestamps, are terms of their own, marked with their role (``or`` compares labels
without the name). Counters are fetched as they are and not through
``rate()``: growth is computed per pod and incarnation between the samples' own timestamps (``counters.py``), which
needs no guess about the scrape interval and tells a restart from a reset. Buckets are fetched only at the objectives'
bounds, one row a pod; whole histograms only for show, summed by workload.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from autoscaler.observe.names import Matcher, Selector, SignalNames
from autoscaler.observe.promql import quoted

MARK = "role"
"""Label that says what a row is, where its metric's name doesn't."""

TARGET = ("instance", "job", "uid")

FEW_PODS = 200
"""Up to so many pods are named in every selector: Prometheus looks such a list up without running a regular expression
(newer ones do so for 256 and more)."""
FEW_BOUNDS = 2
"""Up to so many objectives' bounds are fetched for every pod; with more, each pod's own."""

STEM = r"^(.*?)(-[a-z0-9]{1,10})?-([a-z0-9]{5}|[0-9]+)$"
"""A pod's name without what its ReplicaSet and ordinal add: groups histograms for show, where a mix-up harms nobody."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Which series to read. ``pods`` empty: all of the namespaces; ``replicas``: labels that tell copies apart."""

    namespaces: tuple[str, ...]
    pods: tuple[str, ...] = ()
    pod: str = "pod"
    namespace: str = "namespace"
    replicas: tuple[str, ...] = ()

    @property
    def by(self) -> str:
        """What tells one scraped target from another."""
        return ",".join((self.namespace, self.pod, *TARGET, *self.replicas))

    def series(self, metrics: str | Sequence[str], matchers: Iterable[Matcher] = (), *more: str) -> str:
        """A selector of one metric or several, confined to this scope."""
        written = [f"{self.namespace}=~{alternatives(self.namespaces)}", *map(str, matchers), *more]
        if self.pods and not any(one.startswith(f"{self.pod}=") for one in more):
            written.append(f"{self.pod}=~{alternatives(self.pods)}")
        elif not self.pods:
            written.append(f'{self.pod}!=""')
        if isinstance(metrics, str):
            return f"{metrics}{{{','.join(written)}}}"
        return f"{{__name__=~{alternatives(metrics)},{','.join(written)}}}"


@dataclass(frozen=True, slots=True)
class BoundWanted:
    """One objective's bucket: how its bound is written (``1``, ``1.0``), and which pods it is for."""

    written: tuple[str, ...]
    pods: tuple[str, ...]


def alternatives(values: Sequence[str]) -> str:
    """A PromQL string whose regular expression matches exactly these values."""
    return quoted("|".join(re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", value) for value in values))


def page_query(names: SignalNames, scope: Scope, bounds: Sequence[BoundWanted] = (), *, process: bool = True) -> str:
    """Everything the servers tell. Rows by what they are (``series.TargetRows`` reads them):

    * with ``__name__``: the sum of that metric's series in a target;
    * with ``role``: the sum of the series that a signal's labels select;
    * with ``le`` or ``quantile``: a bucket, a summary's quantile;
    * with the role ``time``: the timestamp of the target's sample.

    ``process``: whether CPU and memory of the servers' own processes are needed.
    """
    selected, plain = _selectors(names, process), []
    terms = [_timestamps(names, scope)]
    for role, selector in selected:
        plain.append(selector.metric)
        if selector.labels:
            terms.append(_marked(role, f"sum by ({scope.by}) ({scope.series(selector.metric, selector.labels)})"))
    terms.append(f"sum by (__name__,{scope.by}) ({scope.series(tuple(dict.fromkeys(plain)))})")
    if names.histogram is not None and bounds:
        terms += _buckets(names, scope, bounds)
    if names.summary is not None:
        quantiles = scope.series(names.summary.metric, names.summary.labels, 'quantile!=""')
        terms.append(f"max by ({scope.by},quantile) ({quantiles})")
    return "\nor ".join(terms)


def kubelet_query(scope: Scope, containers: Sequence[str]) -> str:
    """The kubelet's figures: one row per container incarnation (its cgroup ``id``) and metric, one for its time."""
    of = (
        f"container=~{alternatives(containers)}" if containers and all(containers) else 'container!="",container!="POD"'
    )
    by = f"{scope.namespace},{scope.pod},container,id"
    stamps = scope.series(KUBELET_METRICS["cpu"], (), of)
    figures = scope.series(tuple(KUBELET_METRICS.values()), (), of, 'cpu=~"|total"')
    return _marked("time", f"max by ({by}) (timestamp({stamps}))") + f"\nor max by (__name__,{by}) ({figures})"


KUBELET_METRICS: Mapping[str, str] = {
    "cpu": "container_cpu_usage_seconds_total",
    "CFS periods": "container_cpu_cfs_periods_total",
    "throttled periods": "container_cpu_cfs_throttled_periods_total",
    "cpu pressure": "container_pressure_cpu_waiting_seconds_total",
    "working set": "container_memory_working_set_bytes",
    "memory usage": "container_memory_usage_bytes",
    "peak memory": "container_memory_max_usage_bytes",
}
"""By the role's name in ``counters.Role``."""


def bounds_query(names: SignalNames, scope: Scope) -> str:
    """How the histogram's bounds are written: one row a bound."""
    assert names.histogram is not None
    return f"count by (le) ({scope.series(names.histogram.metric + '_bucket', names.histogram.labels)})"


def show_query(names: SignalNames, scope: Scope, window_s: float) -> str:
    """Whole histograms by workload, and without ``le`` the sum of the latencies, to be shown: never pod × bucket."""
    assert names.histogram is not None
    metrics = (names.histogram.metric + "_bucket", names.histogram.metric + "_sum")
    rates = f"rate({scope.series(metrics, names.histogram.labels)}[{max(1, round(window_s))}s])"
    stems = f'label_replace({rates}, "stem", "$1", "{scope.pod}", {quoted(STEM)})'
    return f"sum by ({scope.namespace},stem,le) ({stems})"


def stem(pod: str) -> str:
    """The ``stem`` label ``show_query`` gives to this pod's series; empty where the name has no such form."""
    found = re.match(STEM, pod)
    return found[1] if found else ""


def _selectors(names: SignalNames, process: bool) -> list[tuple[str, Selector]]:
    """Each selector with the role its rows get where it selects by labels."""
    found: list[tuple[str, Selector]] = []
    for kind, selectors in (
        ("requests", names.requests),
        ("failures", names.failures),
        ("in flight", names.in_flight),
        ("busy", names.busy_s),
        ("process cpu", names.process_cpu if process else ()),
        ("process memory", names.process_memory if process else ()),
    ):
        found += [(f"{kind} {place}", selector) for place, selector in enumerate(selectors)]
    shape = names.histogram or names.summary
    if shape is not None:
        found.append(("finished", Selector(shape.metric + "_count", shape.labels)))
    if names.summary is not None:
        found.append(("latency sum", Selector(names.summary.metric + "_sum", names.summary.labels)))
    return found


def _timestamps(names: SignalNames, scope: Scope) -> str:
    """Of a metric that is always there: a page is scraped as a whole, so any of them tells the page's time."""
    shown = [selector.metric for selector in (*names.requests[:1], *names.in_flight[:1])]
    if names.histogram is not None and not shown:
        shown.append(names.histogram.metric + "_count")
    union = " or ".join(f"timestamp({scope.series(metric)})" for metric in dict.fromkeys(shown))
    return _marked("time", f"max by ({scope.by}) ({union})")


def _buckets(names: SignalNames, scope: Scope, bounds: Sequence[BoundWanted]) -> list[str]:
    assert names.histogram is not None
    metric, labels = names.histogram.metric + "_bucket", names.histogram.labels
    if len(bounds) <= FEW_BOUNDS or scope.pods:
        written = sorted({text for bound in bounds for text in bound.written})
        series = scope.series(metric, labels, f"le=~{alternatives(written)}")
        return [f"sum by ({scope.by},le) ({series})"]
    terms = []
    for bound in bounds:
        for start in range(0, len(bound.pods), FEW_PODS):
            pods = f"{scope.pod}=~{alternatives(bound.pods[start : start + FEW_PODS])}"
            series = scope.series(metric, labels, f"le=~{alternatives(bound.written)}", pods)
            terms.append(f"sum by ({scope.by},le) ({series})")
    return terms


def _marked(role: str, term: str) -> str:
    return f'label_replace({term}, "{MARK}", "{role}", "", "")'
