"""A deterministic load on a workload of a simple cluster: fluid requests, nothing by chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autoscaler.model.plan import Plan
from autoscaler.model.policy import Policy, PolicySpec
from autoscaler.model.signal import Counts, Measured, PodSignals, Signals
from autoscaler.model.workload import Container, Node, Pod, Resources, WorkloadRef
from tests.properties.cluster import GI, START, Cluster, Held, capacity, qos_of
from tests.properties.rules import sized

LATENCY: dict[str, Any] = {"objective": {"latency": {"target": "720ms", "within": "99%"}}}
USE: dict[str, Any] = {"objective": {"cpu": {"targetUtilization": "60%"}}}
METRIC: dict[str, Any] = {
    "objective": {"metrics": [{"name": "queue", "query": "q", "target": {"type": "Value", "value": 4}}]}
}
GROWN: dict[str, Any] = {**LATENCY, "vertical": {"cpu": {"max": "4"}, "memory": {
    "min": "512Mi", "max": "8Gi", "shrink": "WhenSafe"}}}  # fmt: skip


@dataclass
class Load:
    """``rate`` requests a second of ``work`` CPU-seconds each; what the pods can't do in time waits in ``queue``."""

    rate: float
    work: float = 0.18
    memory: float = 0.5 * GI
    """Working set of each pod, bytes."""
    late: float = 0.0
    """Share of requests that miss even so."""
    queue: float = 0.0
    done: float = 0.0
    missed: float = 0.0
    used: float = 0.0

    def pass_on(self, cluster: Cluster) -> None:
        """The fluid of one tick: pods do what they can, evenly spread."""
        pods = [pod for pod in cluster.held[0].pods if pod.ready]
        sizes = [(pod.containers[0].actual or pod.containers[0].desired).cpu or 0 for pod in pods]
        # Spread evenly, so that each pod does at most its own part.
        able = len(sizes) * min(sizes, default=0) / 1000.0 / self.work
        coming = self.rate + self.queue / cluster.every
        self.done = min(coming, able)
        self.queue = max(0.0, (coming - self.done) * cluster.every)
        self.used = self.done * self.work
        self.missed = 1.0 if self.queue > 0.5 * able else self.late

    def measured(self, cluster: Cluster) -> Signals:
        self.pass_on(cluster)
        pods = [pod for pod in cluster.held[0].pods if pod.ready]
        live = sum((pod.containers[0].actual or pod.containers[0].desired).cpu or 0 for pod in pods) / 1000.0
        full = live > 0.0 and self.used > 0.97 * live
        own = PodSignals(
            cpu=Measured(self.used / max(1, len(pods)), 1.0, 15.0), working_set=Measured(self.memory, 1.0),
            memory_usage=Measured(1.1 * self.memory, 1.0), peak_memory=Measured(1.1 * self.memory, 1.0),
        )  # fmt: skip
        return Signals(
            requests=Measured(self.done, window_s=5.0), counts=Counts.COMPLETIONS,
            misses=Measured(self.missed, window_s=5.0, weight=5.0 * self.done),
            in_flight=Measured(self.rate * self.work + self.queue), cpu=Measured(self.used, 1.0, 15.0),
            throttled=Measured(0.6 if full else 0.0, 1.0, 15.0), working_set=Measured(self.memory, 1.0),
            custom={"queue": Measured(4.0 * self.rate * self.work / max(0.1, 0.6 * live))},
            pods={pod.uid: own for pod in pods},
        )  # fmt: skip

    def tick(self, cluster: Cluster) -> Plan:
        cluster.held[0].signals = self.measured(cluster)
        _, plans = cluster.tick()
        return plans[cluster.held[0].ref]

    @staticmethod
    def capacity(cluster: Cluster) -> int:
        return capacity(cluster.held[0])


def served(
    spec: dict[str, Any], *, pods: int = 2, size: int = 1000, rate: float = 10.0, work: float = 0.18,
    memory: int = 2 * GI, node: int = 64_000,
) -> tuple[Cluster, Load]:  # fmt: skip
    """One workload on one large node, and its load."""
    written = {"scaleTargetRef": {"name": "w"}, "vertical": {"cpu": {"max": "8"}},
               "horizontal": {"minReplicas": 1, "maxReplicas": 6}, **spec}  # fmt: skip
    policy = Policy(ref=WorkloadRef("serving", "w"), spec=PolicySpec.model_validate(written))
    sizes = Resources(size, size, memory // 2, memory)
    there = []
    for place in range(pods):
        server = Container("server", sizes, sizes, sizes, started_at=START - 600)
        there.append(
            Pod("serving", f"w-{place}", f"uid-w-{place}", (server,), node="n0", qos=qos_of((server,)),
                created_at=START - 600, ready_at=START - 570, template_hash="t1")
        )  # fmt: skip
    held = Held(policy, there, sizes, pods)
    return Cluster([held], {"n0": Node("n0", node, 256 * GI)}), Load(rate, work)


def changes(plan: Plan) -> list[int]:
    """+1 for each pod that grows, −1 for each that shrinks (CPU)."""
    return [1 if (a.after.cpu_limit or 0) > (a.before.cpu_limit or 0) else -1 for a in sized(plan) if a.after.cpu_limit]
