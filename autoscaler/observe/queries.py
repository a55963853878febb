"""The shared queries: one for the servers' pages and one for the kubelet's figures, whatever the number of workloads.

A query is a union of terms, each marked with the role of its rows, so that all numbers of one answer come from the same
scrapes: Prometheus evaluates one query over one snapshot of its head. Counters are fetched as they are and not through
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
"""Label that says what a row is."""

FEW_PODS = 200
"""Up to so many pods are named in every selector: Prometheus looks such a list up without running a regular expression
(newer ones do so for 256 and more)."""
FEW_BOUNDS = 2
"""Up to so many objectives' bounds are fetched for every pod; with more, each pod's own."""

STEM = r"^(.*?)(-[a-z0-9]{1,10})?-([a-z0-9]{5}|[0-9]+)$"
"""A pod's name without what its ReplicaSet and ordinal add: groups histograms for show, where a mix-up harms nobody."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Which series to read. ``pods`` empty: all of the namespaces; ``replicas``: labels of copies to fold."""

    namespaces: tuple[str, ...]
    pods: tuple[str, ...] = ()
    pod: str = "pod"
    namespace: str = "namespace"
    replicas: tuple[str, ...] = ()

    @property
    def by(self) -> str:
        return f"{self.namespace},{self.pod},instance,job,uid"

    def series(self, metric: str, matchers: Iterable[Matcher] = (), *more: str) -> str:
        """A selector confined to this scope."""
        written = [f"{self.namespace}=~{alternatives(self.namespaces)}", *map(str, matchers), *more]
        if self.pods and not any(one.startswith(f"{self.pod}=") for one in more):
            written.append(f"{self.pod}=~{alternatives(self.pods)}")
        elif not self.pods:
            written.append(f'{self.pod}!=""')
        plain = f"{metric}{{{','.join(written)}}}"
        return f"max without ({','.join(self.replicas)}) ({plain})" if self.replicas else plain


@dataclass(frozen=True, slots=True)
class BoundWanted:
    """One objective's bucket: how its bound is written (``1``, ``1.0``), and which pods it is for."""

    written: tuple[str, ...]
    pods: tuple[str, ...]


def alternatives(values: Sequence[str]) -> str:
    """A PromQL string whose regular expression matches exactly these values."""
    return quoted("|".join(re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", value) for value in values))


def page_query(names: SignalNames, scope: Scope, bounds: Sequence[BoundWanted] = (), *, process: bool = True) -> str:
    """Everything the servers tell, one row per pod and role; with the timestamp of the sample as a role of its own.

    ``process``: whether CPU and memory of the servers' own processes are needed.
    """
    terms = [_marked("time", _timestamps(names, scope))]
    for kind, selectors in (
        ("requests", names.requests),
        ("failures", names.failures),
        ("in flight", names.in_flight),
        ("busy", names.busy_s),
        ("process cpu", names.process_cpu if process else ()),
        ("process memory", names.process_memory if process else ()),
    ):
        terms += [_marked(f"{kind} {place}", _sum(selector, scope)) for place, selector in enumerate(selectors)]
    shape = names.histogram or names.summary
    if shape is not None:
        for kind, suffix in (("finished", "_count"), ("latency sum", "_sum")):
            terms.append(_marked(kind, _sum(Selector(shape.metric + suffix, shape.labels), scope)))
    if names.histogram is not None and bounds:
        terms += [_marked("bucket", term) for term in _buckets(names, scope, bounds)]
    if names.summary is not None:
        quantiles = scope.series(names.summary.metric, names.summary.labels, 'quantile!=""')
        terms.append(_marked("quantile", f"max by ({scope.by},quantile) ({quantiles})"))
    return "\nor ".join(terms)


def kubelet_query(scope: Scope, containers: Sequence[str]) -> str:
    """The kubelet's figures of the containers, one row per container incarnation (its cgroup ``id``) and role."""
    of = (
        f"container=~{alternatives(containers)}" if containers and all(containers) else 'container!="",container!="POD"'
    )
    by = f"{scope.namespace},{scope.pod},container,id"
    terms = [_marked("time", f"max by ({by}) (timestamp({scope.series('container_cpu_usage_seconds_total', (), of)}))")]
    for role, metric in KUBELET_METRICS.items():
        more = (of, 'cpu=~"|total"') if role == "cpu" else (of,)
        terms.append(_marked(role, f"max by ({by}) ({scope.series(metric, (), *more)})"))
    return "\nor ".join(terms)


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
    """Whole histograms by workload, for the percentile that is shown: never pod × bucket."""
    assert names.histogram is not None
    buckets = scope.series(names.histogram.metric + "_bucket", names.histogram.labels)
    window = f"{max(1, round(window_s))}s"
    buckets = f"{buckets}[{window}]" if not scope.replicas else f"{buckets}[{window}:]"
    stems = f'label_replace(rate({buckets}), "stem", "$1", "{scope.pod}", {quoted(STEM)})'
    return f"sum by ({scope.namespace},stem,le) ({stems})"


def stem(pod: str) -> str:
    """The ``stem`` label ``show_query`` gives to this pod's series; empty where the name has no such form."""
    found = re.match(STEM, pod)
    return found[1] if found else ""


def _timestamps(names: SignalNames, scope: Scope) -> str:
    """Of the metrics that are always there: a page is scraped as a whole, so any of them tells the page's time."""
    shown = [selector.metric for selector in (*names.requests[:1], *names.in_flight[:1])]
    if names.histogram is not None:
        shown.append(names.histogram.metric + "_count")
    shown += [selector.metric for selector in names.process_cpu[:1]]
    union = " or ".join(f"timestamp({scope.series(metric)})" for metric in dict.fromkeys(shown))
    return f"max by ({scope.by}) ({union})"


def _sum(selector: Selector, scope: Scope) -> str:
    """The sum of the series that match; zero where the family is there and no series of it matches."""
    summed = f"sum by ({scope.by}) ({scope.series(selector.metric, selector.labels)})"
    if not selector.labels:
        return summed
    return f"({summed} or 0 * sum by ({scope.by}) ({scope.series(selector.metric)}))"


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
