"""The program's own metrics, in a registry of their own. A workload's series go when the workload goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from autoscaler import __version__
from autoscaler.model.plan import Evict, Plan, Resize, Revert, Scale
from autoscaler.model.seen import Subject
from autoscaler.model.signal import Measured
from autoscaler.model.workload import WorkloadRef

_TICK_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_BY_WORKLOAD = ("namespace", "workload")


class OwnMetrics:
    """All that /metrics shows. Units are in the names: seconds, cores, shares as ratios in [0, 1]."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        made: Any = {"registry": self.registry, "namespace": "autoscaler"}
        self.build = Gauge("build_info", "Version of the program.", ["version"], **made)
        self.build.labels(__version__).set(1)
        self.ticks = Counter("ticks", "Ticks made.", **made)
        self.skipped = Counter("ticks_skipped", "Ticks left out because the one before took too long.", **made)
        self.failed = Counter("ticks_failed", "Ticks that ended with an error of the program itself.", **made)
        self.tick_seconds = Histogram("tick_seconds", "Duration of a tick.", buckets=_TICK_BUCKETS, **made)
        self.decide_seconds = Histogram("decide_seconds", "Time spent deciding.", buckets=_TICK_BUCKETS, **made)
        self.workloads = Gauge("workloads", "Workloads with a policy.", **made)
        self.blind = Gauge("blind", "1 while the cluster can't be seen and everything is held.", **made)
        self.leading = Gauge("leading", "1 while this process may act.", **made)
        self.rival = Gauge("rival", "1 while another process resizes in this program's name.", **made)
        self.paused = Gauge("paused", "1 while a person has paused everything.", **made)
        self.reloads = Counter("reloads", "Changed policy or settings files, by result.", ["what", "result"], **made)
        self.reload_ok = Gauge("reload_ok", "0 while the last change of the files was invalid.", ["what"], **made)
        self.requests = Counter("sent", "Mutating requests by kind and result.", ["kind", "result"], **made)
        self.holds = Gauge("held", "Workloads now held, by reason.", ["reason"], **made)
        self.misses = Gauge("misses_ratio", "Share of requests that miss the objective.", _BY_WORKLOAD, **made)
        self.demand = Gauge("demand_cores", "Estimated demand.", _BY_WORKLOAD, **made)
        self.wanted = Gauge("wanted_cores", "Wanted CPU, before sharing.", _BY_WORKLOAD, **made)
        self.desired = Gauge("desired_cores", "CPU the pods' specs ask for.", _BY_WORKLOAD, **made)
        self.replicas = Gauge("replicas", "Pods that are active.", _BY_WORKLOAD, **made)
        self.signal_age = Gauge("signal_age_seconds", "Age of the miss ratio.", _BY_WORKLOAD, **made)
        self.source_up = Gauge("source_up", "0 while a source that is asked gives nothing.", ["source"], **made)
        self._known: set[WorkloadRef] = set()

    def count_api(self, requests: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        """Show the API requests that the client counts, by method and status (``none``: no answer came)."""

        class Api(Collector):
            def collect(self) -> Iterable[Metric]:
                text = "Requests to the API server."
                family = CounterMetricFamily("autoscaler_api_requests", text, labels=["method", "status"])
                for (method, status), count in requests().items():
                    family.add_metric([method, status], count)
                yield family

        self.registry.register(Api())

    def saw(self, subjects: Iterable[Subject], plans: Mapping[WorkloadRef, Plan]) -> None:
        """Publish one tick's picture and decision for every workload."""
        now: set[WorkloadRef] = set()
        held: dict[str, int] = {}
        for subject in subjects:
            view, ref = subject.view, subject.view.ref
            now.add(ref)
            labels = (ref.namespace, ref.name)
            active = [pod for pod in view.pods if pod.active]
            self.replicas.labels(*labels).set(len(active))
            sizes = [pod.container(view.container) for pod in active]
            self.desired.labels(*labels).set(sum((c.desired.cpu or 0) for c in sizes if c is not None) / 1000)
            if isinstance(view.signals.misses, Measured):
                self.misses.labels(*labels).set(view.signals.misses.value)
                self.signal_age.labels(*labels).set(view.signals.misses.age_s)
            else:
                self._drop(self.misses, labels)
                self._drop(self.signal_age, labels)
            plan = plans.get(ref)
            if plan is not None:
                if plan.want is not None:
                    self.demand.labels(*labels).set(plan.want.demand / 1000)
                    self.wanted.labels(*labels).set(plan.want.cpu / 1000)
                for code in {hold.code for hold in plan.holds}:
                    held[code.value] = held.get(code.value, 0) + 1
        for gone in self._known - now:
            for gauge in (self.misses, self.demand, self.wanted, self.desired, self.replicas, self.signal_age):
                self._drop(gauge, (gone.namespace, gone.name))
        self._known = now
        self.workloads.set(len(now))
        self.holds.clear()
        for name, count in held.items():
            self.holds.labels(name).set(count)

    def heard(self, down: Mapping[str, str]) -> None:
        """Publish which sources answered: by name, why not, or empty."""
        self.source_up.clear()
        for name, why in down.items():
            self.source_up.labels(name).set(not why)

    def sent(self, action: object, result: str) -> None:
        self.requests.labels(kind_of(action), result).inc()

    @staticmethod
    def _drop(gauge: Gauge, labels: tuple[str, str]) -> None:
        try:
            gauge.remove(*labels)
        except KeyError:
            return


def kind_of(action: object) -> str:
    """The word for an action, as metrics and logs use it."""
    match action:
        case Resize():
            return "resize"
        case Revert():
            return "revert"
        case Scale():
            return "scale"
        case Evict():
            return "evict"
    return "annotate"
