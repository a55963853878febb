"""Sidecars in the pods of one Deployment, on an emulated cluster, with the rights of their own Role and no more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from autoscaler.emulate.authorize import rules_of
from autoscaler.emulate.cluster import ClusterSpec, EmulatedCluster, LoadSpec, NodeSpec, ServiceSpec, WorkloadSpec
from autoscaler.emulate.kinds import CUSTOM_RESOURCE_DEFINITION, LEASE
from autoscaler.kube.client import KubeClient
from autoscaler.kube.connect import find_access
from autoscaler.loop import Clock
from autoscaler.model.policy import Policy, PolicySpec
from autoscaler.model.workload import TargetRef, WorkloadRef
from autoscaler.observe.cluster import ClusterObserver, Scope
from autoscaler.observe.scrape import ScrapeSource
from autoscaler.pause import set_all, set_one
from autoscaler.reload import Reloading
from autoscaler.sidecar.process import Place, Sidecar, Sources
from tests.manifests.test_overlays import of, rules
from tests.manifests.test_rights import NEIGHBOURS

SPEC = {
    "scaleTargetRef": {"name": "resnet"},
    "objective": {"latency": {"target": "250ms", "within": "99%"}},
    "signals": {"preset": "generic", "sources": ["scrape"]},
    "vertical": {"cpu": {"min": "200m", "max": "2"}},
    "horizontal": {
        "minReplicas": 2, "maxReplicas": 4, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
    },
}  # fmt: skip
BESIDE: dict[str, Any] = {  # a native sidecar, as manifests/components/sidecar makes it
    "name": "inference-autoscaler", "image": "example.com/autoscaler:1", "restartPolicy": "Always",
    "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
}  # fmt: skip


@dataclass
class Pods:
    """The cluster, and one sidecar for each of the Deployment's pods, started and ended with it."""

    cluster: EmulatedCluster
    folder: Path
    running: dict[str, tuple[Sidecar, asyncio.Event, asyncio.Task[None]]] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def all(self) -> list[dict[str, Any]]:
        return [p for p in self.cluster.pods("serving", workload="resnet") if "deletionTimestamp" not in p["metadata"]]

    def milli(self) -> list[int]:
        return [_milli(_server(pod)["resources"]["limits"]["cpu"]) for pod in self.all()]

    def replicas(self) -> int:
        return int(self.cluster.object("Deployment", "serving", "resnet")["spec"]["replicas"])

    def sidecars(self) -> Iterator[Sidecar]:
        yield from (sidecar for sidecar, _, _ in self.running.values())

    def leaders(self) -> list[str]:
        return [sidecar.place.pod for sidecar in self.sidecars() if sidecar.leadership.valid()]

    async def follow(self) -> None:
        """What the kubelet does: a sidecar in every pod, gone with it."""
        while True:
            names = {pod["metadata"]["name"] for pod in self.all() if pod["status"].get("podIP")}
            for name in names - self.running.keys() - self.gone:
                self.start(name)
            for name in self.running.keys() - names:
                await self.end(name)
            await asyncio.sleep(0.5)

    def start(self, pod: str) -> None:
        stop = asyncio.Event()
        made: list[Sidecar] = []
        self.running[pod] = (None, stop, asyncio.create_task(self._serve(pod, stop, made)))  # type: ignore[assignment]

    async def _serve(self, pod: str, stop: asyncio.Event, made: list[Sidecar]) -> None:
        config = self.cluster.kubeconfig(self.folder / pod, token="sidecar", namespace="serving")
        now = asyncio.get_running_loop().time
        async with (
            KubeClient(find_access(str(config))) as client,
            ScrapeSource(clock=now) as own,
            ScrapeSource(clock=now) as everyone,
        ):
            observer = ClusterObserver(client, Scope(namespace="serving", nodes=False))
            policy = Policy(ref=WorkloadRef("serving", "resnet"), spec=PolicySpec.model_validate(SPEC))
            clock = Clock(self.cluster.plane.timeline.wall())
            place = Place("serving", pod, f"{pod}_1")
            file: Reloading[Policy] = Reloading([self.folder / "policy.json"], self.read, policy)
            sidecar = Sidecar(client, observer, Sources(own, everyone), clock, place, policy, file=file)
            self.running[pod] = (sidecar, *self.running[pod][1:])
            await sidecar.run(stop)

    def read(self) -> Policy:
        spec = json.loads((self.folder / "policy.json").read_text())
        return Policy(ref=WorkloadRef("serving", "resnet"), spec=PolicySpec.model_validate(spec))

    async def end(self, pod: str) -> None:
        _, stop, task = self.running.pop(pod)
        stop.set()
        await task


def _server(pod: dict[str, Any]) -> dict[str, Any]:
    return next(each for each in pod["spec"]["containers"] if each["name"] == "server")


def _milli(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


@asynccontextmanager
async def serving(
    folder: Path, rate: float, *, follow: bool = True, definitions: tuple[Any, ...] = ()
) -> AsyncIterator[Pods]:
    spec = ClusterSpec(
        nodes=[NodeSpec("node-1", cpu="16", memory="64Gi")],
        workloads=[
            WorkloadSpec(
                "resnet", namespace="serving", replicas=2, cpu="500m", memory="1Gi", pod={"initContainers": [BESIDE]},
                service=ServiceSpec(work=0.02, threads=16, startup=5.0, container="server"),
                load=LoadSpec(steps=[(0.0, rate)]),
            )
        ],
    )  # fmt: skip
    async with EmulatedCluster(spec) as cluster:
        for definition in definitions:
            cluster.plane.create_object(CUSTOM_RESOURCE_DEFINITION, definition)
        (role,) = of("sidecar", "Role")
        cluster.add_user("sidecar", token="sidecar", rules=rules_of(role, namespace="serving"))
        await cluster.settled()
        pods = Pods(cluster, folder)
        following = asyncio.create_task(pods.follow() if follow else asyncio.sleep(0))
        try:
            yield pods
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            for pod in list(pods.running):
                await pods.end(pod)


@pytest.mark.looptime
async def test_each_sizes_its_own_pod_and_only_the_leader_changes_replicas(tmp_path: Path) -> None:
    async with serving(tmp_path, 20.0) as pods:
        await asyncio.sleep(15)
        assert len(pods.leaders()) == 1
        assert pods.replicas() == 2

        pods.cluster.workload("resnet").load = 80.0  # type: ignore[assignment]
        await asyncio.sleep(25)
        assert min(pods.milli()) > 800, "1.6 cores of work for two pods"
        assert pods.replicas() == 2

        pods.cluster.workload("resnet").load = 220.0  # type: ignore[assignment]
        await asyncio.sleep(60)
        assert pods.replicas() >= 3, "4.4 cores are more than two pods may have"
        assert len(pods.leaders()) == 1

        for pod in pods.all():
            (beside,) = pod["spec"]["initContainers"]
            assert beside["resources"] == BESIDE["resources"], "it leaves itself out"
        assert not [e for e in pods.cluster.audit if e.code == 403 and e.user == "sidecar"]


@pytest.mark.looptime
async def test_the_next_leads_when_the_leaders_pod_goes(tmp_path: Path) -> None:
    async with serving(tmp_path, 20.0) as pods:
        await asyncio.sleep(10)  # in the middle of a renewal
        (first,) = pods.leaders()
        pods.gone.add(first)
        await pods.end(first)
        await asyncio.sleep(3)
        (second,) = pods.leaders()
        assert second != first


@pytest.mark.looptime
async def test_the_used_rights_are_those_of_the_role(tmp_path: Path) -> None:
    async with serving(tmp_path, 220.0, definitions=NEIGHBOURS) as pods:
        await asyncio.sleep(60)
        pods.cluster.workload("resnet").load = 10.0  # type: ignore[assignment]
        await asyncio.sleep(120)
        used = {
            (entry.verb, entry.group, f"{entry.resource}/{entry.subresource}".rstrip("/"))
            for entry in pods.cluster.audit if entry.user == "sidecar" and entry.code < 400 and entry.resource
        }  # fmt: skip
        granted = {
            (verb, group, resource)
            for rule in rules("sidecar") for verb in rule["verbs"] for group in rule["apiGroups"]
            for resource in rule["resources"]
        }  # fmt: skip
        assert used == granted


@pytest.mark.looptime
async def test_a_changed_policy_is_obeyed_and_an_invalid_one_is_not(tmp_path: Path) -> None:
    async with serving(tmp_path, 80.0) as pods:
        await asyncio.sleep(20)
        assert min(pods.milli()) > 800
        (tmp_path / "policy.json").write_text(json.dumps({**SPEC, "horizontal": {"minReplicas": 0}}))
        await asyncio.sleep(10)
        assert min(pods.milli()) > 800
        assert pods.replicas() == 2
        small = {"container": "server", "cpu": {"min": "200m", "max": "800m"}}
        (tmp_path / "policy.json").write_text(json.dumps({**SPEC, "vertical": small}))
        await asyncio.sleep(150)
        assert max(pods.milli()) <= 800


@pytest.mark.looptime
async def test_an_api_server_that_goes_away_and_comes_back_finds_them_still_at_work(tmp_path: Path) -> None:
    async with serving(tmp_path, 20.0) as pods:
        await asyncio.sleep(15)
        before = pods.milli()
        await pods.cluster.server_down()
        pods.cluster.workload("resnet").load = 80.0  # type: ignore[assignment]
        await asyncio.sleep(30)
        assert pods.milli() == before
        await pods.cluster.server_up()
        await asyncio.sleep(60)
        assert min(pods.milli()) > 800
        assert len(pods.leaders()) == 1
        assert all(not task.done() for _, _, task in pods.running.values())


def leases(pods: Pods) -> list[str]:
    return [one.body["spec"]["holderIdentity"] for one in pods.cluster.plane.store.all(LEASE.storage, "serving")]


@pytest.mark.looptime
async def test_who_is_not_one_of_the_pods_neither_leads_nor_writes(tmp_path: Path) -> None:
    async with serving(tmp_path, 20.0, follow=False) as pods:
        pods.start("nope")
        await asyncio.sleep(20)
        assert leases(pods) == []
        assert not [e for e in pods.cluster.audit.writes() if e.user == "sidecar"]
        (stray,) = pods.sidecars()
        assert "pod nope is not (yet) one of deployment/resnet's" in stray.health.checks["pod"].detail

        (first, _) = (pod["metadata"]["name"] for pod in pods.all())
        pods.start(first)
        await asyncio.sleep(10)
        assert leases(pods) == [f"{first}_1"]


@pytest.mark.looptime
async def test_a_leader_whose_pod_is_gone_lets_go_at_once(tmp_path: Path) -> None:
    """The process lives on for the grace period, or for as long as a node is cut off."""
    async with serving(tmp_path, 20.0, follow=False) as pods:
        (first, second) = (pod["metadata"]["name"] for pod in pods.all())
        pods.start(first)
        await asyncio.sleep(10)
        assert leases(pods) == [f"{first}_1"]
        pods.start(second)
        pods.cluster.plane.delete_pod("serving", first, 0.0)
        await asyncio.sleep(5)
        assert leases(pods) == [f"{second}_1"]


@pytest.mark.looptime
@pytest.mark.parametrize("all_of_it", [True, False], ids=["all", "the target"])
async def test_a_person_may_pause_them(tmp_path: Path, all_of_it: bool) -> None:
    async with serving(tmp_path, 20.0) as pods, KubeClient(find_access(server=pods.cluster.url)) as admin:

        async def turn(paused: bool) -> None:
            if all_of_it:
                await set_all(admin, "serving", paused)
            else:
                await set_one(admin, "serving", TargetRef("apps/v1", "Deployment", "resnet"), paused)

        await asyncio.sleep(15)
        await turn(True)
        await asyncio.sleep(3)
        before, sent = pods.milli(), len(changes(pods))
        pods.cluster.workload("resnet").load = 220.0  # type: ignore[assignment]
        await asyncio.sleep(60)
        assert (pods.milli(), pods.replicas(), len(changes(pods))) == (before, 2, sent)
        await turn(False)
        await asyncio.sleep(60)
        assert min(pods.milli()) > 800
        assert pods.replicas() > 2


def changes(pods: Pods) -> list[str]:
    """What sidecars wrote, but for Leases."""
    written = [e for e in pods.cluster.audit.writes() if e.user == "sidecar" and e.code < 400]
    return [f"{e.verb} {e.resource}/{e.subresource}" for e in written if e.resource != "leases"]
