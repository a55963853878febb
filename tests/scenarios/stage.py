"""A daemon, the whole real thing, beside an emulated cluster: over real HTTP, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoscaler import settings as tree
from autoscaler.daemon import Daemon
from autoscaler.emulate.authorize import Rule
from autoscaler.emulate.cluster import ClusterSpec, EmulatedCluster, LoadSpec, NodeSpec, ServiceSpec, WorkloadSpec
from autoscaler.emulate.kinds import CUSTOM_RESOURCE_DEFINITION
from autoscaler.loop import Tick
from autoscaler.observe import policy_files
from autoscaler.observe.policy_files import Policies
from autoscaler.parts import opened
from autoscaler.reload import Reloading

NAMESPACE, NAME = "serving", "resnet"
POLICY = """\
apiVersion: inference-autoscaler.dev/v1alpha1
kind: InferenceAutoscaler
metadata: {name: resnet, namespace: serving}
spec:
  scaleTargetRef: {name: resnet}
  objective: {latency: {target: 250ms, within: 99%}}
  signals: {preset: generic, sources: [scrape]}
  vertical: {cpu: {min: 200m, max: "2"}}
  horizontal: {minReplicas: 2, maxReplicas: 6}
"""


def cluster_spec(rate: float, *, kubernetes: str = "1.36", node_cpu: str = "16", **service: Any) -> ClusterSpec:
    return ClusterSpec(
        kubernetes=kubernetes,
        nodes=[NodeSpec("node-1", cpu=node_cpu, memory="64Gi")],
        workloads=[
            WorkloadSpec(
                NAME, namespace=NAMESPACE, replicas=2, cpu="500m", memory="1Gi",
                service=ServiceSpec(**{"work": 0.02, "threads": 16, "startup": 8.0} | service),
                load=LoadSpec(steps=[(0.0, rate)]), annotations={"example.com/secret": "hunter2"},
            )
        ],
    )  # fmt: skip


@dataclass
class Stage:
    """What a test looks at: the cluster afterwards, and the ticks on the way."""

    cluster: EmulatedCluster
    daemon: Daemon
    stop: asyncio.Event
    running: asyncio.Task[None]
    ticks: list[Tick] = field(default_factory=list)

    def pods(self) -> list[dict[str, Any]]:
        return [p for p in self.cluster.pods(NAMESPACE, workload=NAME) if "deletionTimestamp" not in p["metadata"]]

    def cores(self) -> list[float]:
        """CPU limit of each pod as asked for."""
        return [_cores(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"]) for pod in self.pods()]

    def actual_cores(self) -> list[float]:
        statuses = [pod["status"]["containerStatuses"][0] for pod in self.pods()]
        return [_cores(status["resources"]["limits"]["cpu"]) for status in statuses]

    def restarts(self) -> int:
        return sum(one.get("restartCount", 0) for pod in self.pods() for one in pod["status"]["containerStatuses"])

    def replicas(self) -> int:
        return int(self.cluster.object("Deployment", NAMESPACE, NAME)["spec"].get("replicas", 0))

    @property
    def load(self) -> float:
        return self.cluster.workload(NAME).load.rate(0)

    @load.setter
    def load(self, rate: float) -> None:
        self.cluster.workload(NAME).load = rate  # type: ignore[assignment]

    def misses(self) -> float | None:
        """The last measured share of misses, None when unknown."""
        return getattr(self.ticks[-1].seen.subjects[0].view.signals.misses, "value", None)


def _cores(text: str) -> float:
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


@asynccontextmanager
async def staged(
    spec: ClusterSpec, tmp_path: Path, *, policy: str = POLICY, token: str | None = None, rules: Sequence[Rule] = (),
    spaces: Sequence[str] = (), definitions: Sequence[dict[str, Any]] = (), **settings: Any,
) -> AsyncIterator[Stage]:  # fmt: skip
    """The cluster is settled and the daemon ticks every second; both end with the block."""
    file = tmp_path / "policy.yaml"
    file.write_text(policy)
    async with EmulatedCluster(spec) as cluster:
        for name in spaces:
            cluster.plane.add_namespace(name)
        for definition in definitions:
            cluster.plane.create_object(CUSTOM_RESOURCE_DEFINITION, definition)
        if token and rules:
            cluster.add_user(token, token=token, rules=rules)
        await cluster.settled()
        config = cluster.kubeconfig(tmp_path / "config", **({"token": token} if token else {}))
        chosen, _ = tree.load(None, {}, kubeconfig=str(config), policy=(str(file),),  # as flags would
                              **{"interval": 1.0, "http": {"listen": "127.0.0.1:0"}, "reload": 0.5,
                                 "leader": {"elect": False}} | settings)  # fmt: skip
        files: Reloading[Policies] = Reloading([file], lambda: policy_files.load([file]), policy_files.load([file]))
        async with opened(chosen, epoch=cluster.plane.timeline.wall()) as parts:
            ticks: list[Tick] = []
            daemon = Daemon(chosen, parts, files, on_tick=ticks.append)
            stop = asyncio.Event()
            running = asyncio.create_task(daemon.run(stop))
            try:
                yield Stage(cluster, daemon, stop, running, ticks)
            finally:
                stop.set()
                await asyncio.wait({running})
                if not running.cancelled():  # by a test that killed it
                    running.result()
