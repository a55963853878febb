"""An emulated cluster with one workload, `serving/resnet`, and what acts on it over real HTTP. Time is the loop's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from autoscaler.act.api import ApiSink
from autoscaler.act.apply import Applier, Sending
from autoscaler.act.brakes import FleetLimits
from autoscaler.emulate.cluster import ClusterSpec, EmulatedCluster, NodeSpec, WorkloadSpec
from autoscaler.kube.client import KubeClient
from autoscaler.kube.connect import find_access
from autoscaler.kube.decode import pod_from
from autoscaler.model.plan import Ledger, Scale
from autoscaler.model.seen import Seen
from autoscaler.model.signal import Signals
from autoscaler.model.workload import Attempt, Node, Pod, ResizeState, Resources, TargetRef
from tests.act.made import GI, MI, REF, WHY, plan, policy, resize, view

TARGET = TargetRef("apps/v1", "Deployment", "resnet")
LEFT_TO_THE_SERVER = Ledger(nodes_known=False)
"""A ledger that knows nothing: the cluster's own answer is what a test is about."""


@dataclass
class Stage:
    cluster: EmulatedCluster
    client: KubeClient
    applier: Applier
    ledger: Ledger = LEFT_TO_THE_SERVER
    signals: Signals = field(default_factory=Signals)
    spec: dict[str, Any] = field(default_factory=dict)
    leading: bool = True

    @property
    def now(self) -> float:
        return self.cluster.plane.timeline.wall()

    async def pods(self) -> tuple[Pod, ...]:
        """All pods of the namespace as the API server tells them, oldest first."""
        listed = (await self.client.request("GET", "/api/v1/namespaces/serving/pods")).expect("list").json()
        found = [pod_from(item).pod for item in listed["items"]]
        return tuple(sorted(found, key=lambda one: (one.created_at, one.name)))

    async def see(self) -> Seen:
        """One tick's sight: looked at, followed, told."""
        one = view(*(await self.pods()), signals=self.signals)
        return self.applier.watch(Seen(self.now, tuple(_subjects(one, self.spec)), ledger=self.ledger))

    async def told(self) -> tuple[Pod, ...]:
        return (await self.see()).subjects[0].view.pods

    async def attempt(self, name: str | None = None) -> Attempt:
        pods = await self.told()
        found = next(one for one in pods if name in (None, one.name))
        assert found.attempt is not None, f"{found.name} has no attempt"
        return found.attempt

    async def ask(self, after: Resources, *, which: int = 0, **more: Any) -> Sending:
        """Resize one pod, decided on what is seen now."""
        seen = await self.see()
        one = seen.subjects[0].view.pods[which]
        return await self.applier.send([plan(resize(one, after, **more))], seen)

    async def scale(self, before: int, after: int, version: str = "", target: TargetRef = TARGET) -> Sending:
        action = Scale(REF, target, "serving", before, after, WHY, version)
        return await self.applier.send([plan(action)], await self.see())

    async def until(
        self, *states: ResizeState, within: float = 60.0, name: str | None = None, each: float = 0.1
    ) -> Attempt:
        """Tick until the attempt is in one of the states."""
        async with asyncio.timeout(within):
            while (attempt := await self.attempt(name)).state not in states:  # noqa: ASYNC110 — ticks are the point
                await asyncio.sleep(each)
        return attempt

    def restarts(self) -> int:
        return sum(
            status.get("restartCount", 0)
            for body in self.cluster.pods("serving")
            for status in body["status"].get("containerStatuses", ())
        )


def _subjects(one: Any, spec: dict[str, Any]) -> list[Any]:
    from autoscaler.model.seen import Subject

    return [Subject(one, policy(**spec))]


@asynccontextmanager
async def stage(
    *,
    kubernetes: str = "1.36",
    nodes: tuple[NodeSpec, ...] = (NodeSpec("node-1", cpu="4", memory="16Gi"),),
    limits: FleetLimits | None = None,
    spec: dict[str, Any] | None = None,
    **workload: Any,
) -> AsyncIterator[Stage]:
    """`workload`: fields of its WorkloadSpec; 500m/1 CPU and 1Gi/2Gi unless said."""
    known = {
        "namespace": "serving", "cpu": "500m", "cpu_limit": "1", "memory": "1Gi", "memory_limit": "2Gi", "grace": 1,
    } | workload  # fmt: skip
    cluster_spec = ClusterSpec(kubernetes=kubernetes, nodes=list(nodes), workloads=[WorkloadSpec("resnet", **known)])
    async with EmulatedCluster(cluster_spec) as cluster:
        await cluster.settled()
        async with KubeClient(find_access(server=cluster.url), jitter_s=0.01) as client:
            played: list[Stage] = []
            sink = ApiSink(client, valid=lambda: played[0].leading)
            applier = Applier(sink, clock=cluster.plane.timeline.wall, limits=limits)
            one = Stage(cluster, client, applier, spec=spec or {})
            played.append(one)
            yield one


def nodes_of(*nodes: Node, **more: Any) -> Ledger:
    return Ledger(nodes={one.name: one for one in nodes}, **more)


__all__ = ["GI", "MI", "TARGET", "NodeSpec", "Stage", "nodes_of", "stage"]
