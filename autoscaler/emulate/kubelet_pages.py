"""What the kubelet measures: cAdvisor's page, /metrics/resource and metrics.k8s.io.

Each container is sampled every 10-15 s with its own time, however often anybody asks: the age of these figures is the
point of having them.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from autoscaler.emulate.kinds import NODE, POD
from autoscaler.emulate.serving import Fleet, Process, Serving
from autoscaler.emulate.store import Store
from autoscaler.emulate.timeline import Timeline

Json = dict[str, Any]
EVERY = (10.0, 15.0)  # seconds between two samples of a container
PERIOD = 100_000  # microseconds of a quota period


@dataclass(frozen=True, slots=True)
class Sample:
    """One container at one moment; `wall` is unix time."""

    namespace: str
    pod: str
    uid: str
    container: str
    node: str
    wall: float
    cpu: float
    periods: int
    throttled: int
    throttled_seconds: float
    working_set: int
    usage: int
    quota: float | None  # cores
    started: float
    cpu_rate: float | None  # cores since the sample before; None: there was none


class Measurements:
    """Samples of all serving containers."""

    def __init__(self, timeline: Timeline, store: Store, serving: Serving, *, seed: int = 1) -> None:
        self._timeline = timeline
        self._store = store
        self._serving = serving
        self._dice = random.Random(seed)
        self._due: dict[str, float] = {}
        self.samples: dict[tuple[str, str], Sample] = {}  # (namespace, pod)
        timeline.after(1.0, self._tick)

    def _tick(self) -> None:
        now = self._timeline.now()
        alive = set()
        for fleet, process in list(self._serving.processes()):
            alive.add((process.namespace, process.name))
            due = self._due.get(process.key)
            if due is None:
                self._due[process.key] = now + self._dice.uniform(0.0, EVERY[0])
            elif now >= due:
                self._due[process.key] = now + self._dice.uniform(*EVERY)
                self._look(fleet, process, now)
        for key in [key for key in self.samples if key not in alive]:
            del self.samples[key]
        self._timeline.after(1.0, self._tick)

    def _look(self, fleet: Fleet, process: Process, now: float) -> None:
        stored = self._store.get(POD.storage, process.namespace, process.name)
        if stored is None:
            return
        fleet.advance(now)
        counters = fleet.counters(process)
        key = process.namespace, process.name
        working_set, page_cache = self._serving.memory_of(stored.body, process.container)
        cpu = process.startup_cpu * min(1.0, now - process.started_at) + counters.cpu_seconds
        cpu += fleet.service.idle_cores * (now - process.started_at)
        wall = self._timeline.wall()
        before = self.samples.get(key)
        fresh = before is None or before.uid != process.uid or cpu < before.cpu
        rate = None if fresh or before is None else (cpu - before.cpu) / max(0.001, wall - before.wall)
        self.samples[key] = Sample(
            process.namespace, process.name, process.uid, process.container, stored.body["spec"].get("nodeName", ""),
            wall, cpu, counters.periods, counters.throttled_periods, counters.throttled_seconds, working_set,
            working_set + page_cache, process.cores, wall - (now - process.started_at), rate,
        )  # fmt: skip

    def look_now(self) -> None:
        """Sample everything at once; for tests that don't want to wait."""
        now = self._timeline.now()
        for fleet, process in list(self._serving.processes()):
            self._look(fleet, process, now)

    def _on(self, node: str) -> list[Sample]:
        found = [sample for sample in self.samples.values() if sample.node == node]
        return sorted(found, key=lambda one: (one.namespace, one.pod))

    # -- pages

    def cadvisor(self, node: str) -> str:
        """`/metrics/cadvisor`, each value with the time it was taken at (milliseconds)."""
        families: list[tuple[str, str, Iterable[tuple[Sample, float]]]] = []
        samples = self._on(node)
        limited = [one for one in samples if one.quota is not None]
        families.append(("container_cpu_usage_seconds_total", "counter", [(one, one.cpu) for one in samples]))
        families.append(("container_cpu_cfs_periods_total", "counter", [(one, one.periods) for one in limited]))
        throttled = [(one, one.throttled) for one in limited]
        families.append(("container_cpu_cfs_throttled_periods_total", "counter", throttled))
        seconds = [(one, one.throttled_seconds) for one in limited]
        families.append(("container_cpu_cfs_throttled_seconds_total", "counter", seconds))
        families.append(("container_memory_working_set_bytes", "gauge", [(one, one.working_set) for one in samples]))
        families.append(("container_memory_usage_bytes", "gauge", [(one, one.usage) for one in samples]))
        cache = [(one, one.usage - one.working_set) for one in samples]
        families.append(("container_memory_cache", "gauge", cache))
        families.append(("container_spec_cpu_period", "gauge", [(one, PERIOD) for one in limited]))
        quotas = [(one, int((one.quota or 0.0) * PERIOD)) for one in limited]
        families.append(("container_spec_cpu_quota", "gauge", quotas))
        families.append(("container_start_time_seconds", "gauge", [(one, one.started) for one in samples]))
        lines = []
        for name, kind, values in families:
            lines += [f"# HELP {name} As the kubelet's cAdvisor names it.", f"# TYPE {name} {kind}"]
            for sample, value in values:
                labels = f'container="{sample.container}",id="/kubepods/pod{sample.uid}/{sample.container}"'
                labels += f',image="",name="{sample.container}",namespace="{sample.namespace}",pod="{sample.pod}"'
                lines.append(f"{name}{{{labels}}} {value:.12g} {int(sample.wall * 1000)}")
        return "\n".join(lines) + "\n"

    def resource(self, node: str) -> str:
        """`/metrics/resource`."""
        samples = self._on(node)
        lines = []
        for name, kind, values in (
            ("container_cpu_usage_seconds_total", "counter", [(one, one.cpu) for one in samples]),
            ("container_memory_working_set_bytes", "gauge", [(one, float(one.working_set)) for one in samples]),
            ("container_start_time_seconds", "gauge", [(one, one.started) for one in samples]),
        ):
            lines += [f"# HELP {name} As the kubelet names it.", f"# TYPE {name} {kind}"]
            for sample, value in values:
                labels = f'container="{sample.container}",namespace="{sample.namespace}",pod="{sample.pod}"'
                lines.append(f"{name}{{{labels}}} {value:.12g} {int(sample.wall * 1000)}")
        lines += ["# TYPE scrape_error gauge", "scrape_error 0"]
        return "\n".join(lines) + "\n"

    # -- metrics.k8s.io

    def pod_metrics(self, namespace: str | None) -> list[Json]:
        found = []
        for sample in self.samples.values():
            if (namespace is not None and sample.namespace != namespace) or sample.cpu_rate is None:
                continue  # metrics-server leaves out a pod until it has seen it twice
            stored = self._store.get(POD.storage, sample.namespace, sample.pod)
            labels = (stored.body["metadata"].get("labels") or {}) if stored is not None else {}
            stamp = datetime.fromtimestamp(sample.wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            metadata = {"name": sample.pod, "namespace": sample.namespace, "creationTimestamp": stamp}
            usage = {"cpu": f"{int(sample.cpu_rate * 1e9)}n", "memory": f"{sample.working_set // 1024}Ki"}
            one: Json = {"metadata": metadata | ({"labels": labels} if labels else {}), "timestamp": stamp}
            found.append(one | {"window": "12s", "containers": [{"name": sample.container, "usage": usage}]})
        return sorted(found, key=lambda one: (one["metadata"]["namespace"], one["metadata"]["name"]))

    def node_metrics(self, namespace: str | None) -> list[Json]:
        found = []
        for stored in self._store.all(NODE.storage):
            samples = self._on(stored.name)
            stamp = self._timeline.stamp()
            cpu = int(sum(one.cpu_rate or 0.0 for one in samples) * 1e9)
            memory = sum(one.working_set for one in samples) // 1024
            one: Json = {"metadata": {"name": stored.name, "creationTimestamp": stamp}, "timestamp": stamp}
            found.append(one | {"window": "12s", "usage": {"cpu": f"{cpu}n", "memory": f"{memory}Ki"}})
        return found
