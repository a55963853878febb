"""The same sight on the emulated cluster: resizes, rollouts, an API server that goes away, watches that fall silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from autoscaler.emulate.cluster import EmulatedCluster
from autoscaler.emulate.spec import ClusterSpec, NodeSpec, WorkloadSpec
from autoscaler.kube.client import MERGE, STRATEGIC_MERGE, KubeClient
from autoscaler.kube.connect import find_access
from autoscaler.kube.discovery import Discovery, server_version
from autoscaler.kube.events import EventWriter, Occurrence, Regarding
from autoscaler.kube.lease import Leadership
from autoscaler.model.policy import Policy, PolicySpec
from autoscaler.model.workload import WorkloadRef, WorkloadView
from autoscaler.observe.cluster import ClusterObserver
from autoscaler.observe.watches import RECALL_S

SPEC = ClusterSpec(
    kubernetes="1.36",
    nodes=[NodeSpec("n1", cpu="8"), NodeSpec("n2", cpu="8", zone="zone-b")],
    workloads=[WorkloadSpec("web", namespace="serving", replicas=3, cpu="1", memory="1Gi")],
)
RESIZE = {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
WEB = Policy(
    ref=WorkloadRef("serving", "web"),
    spec=PolicySpec.model_validate({"scaleTargetRef": {"name": "web"}, "objective": {"cpu": {}}}),
)


@asynccontextmanager
async def watching() -> AsyncIterator[tuple[EmulatedCluster, KubeClient, ClusterObserver]]:
    async with EmulatedCluster(SPEC) as cluster:
        await cluster.settled()
        async with KubeClient(find_access(server=cluster.url), jitter_s=0.01) as client:
            observer = ClusterObserver(client)
            task = asyncio.create_task(observer.run())
            try:
                assert await observer.wait_synced(30), observer.problems()
                yield cluster, client, observer
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


def web(observer: ClusterObserver) -> WorkloadView:
    return observer.view([WEB], {}).subjects[0].view


async def until(condition: Callable[[], bool], within: float = 120.0) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@pytest.mark.looptime
async def test_a_resize_is_seen_from_the_patch_to_the_container() -> None:
    async with watching() as (_, client, observer):
        pod = web(observer).pods[0]
        path = f"/api/v1/namespaces/serving/pods/{pod.name}/resize"
        body = {"spec": {"containers": [{"name": web(observer).container, "resources": RESIZE}]}}
        (await client.request("PATCH", path, None, body, STRATEGIC_MERGE)).expect("resize")
        committed = sum(observer.view([], {}).ledger.committed_cpu.values())

        def resized() -> bool:
            seen = next(p for p in web(observer).pods if p.uid == pod.uid).containers[0]
            return seen.actual is not None and seen.actual.cpu_limit == 2000

        await until(resized)
        assert sum(observer.view([], {}).ledger.committed_cpu.values()) == committed + 1000
        assert web(observer).zones == 2
        assert web(observer).template is not None


@pytest.mark.looptime
async def test_an_api_server_that_goes_away_and_comes_back() -> None:
    async with watching() as (cluster, client, observer):
        assert web(observer).seen_age_s < 10
        await cluster.server_down()
        await asyncio.sleep(45)
        assert web(observer).seen_age_s > 30
        assert len(web(observer).pods) == 3
        assert observer.problems()
        await cluster.server_up()
        await until(lambda: web(observer).seen_age_s < 5)
        path = "/apis/apps/v1/namespaces/serving/deployments/web/scale"
        (await client.request("PATCH", path, None, {"spec": {"replicas": 5}}, MERGE)).expect("scale")
        await until(lambda: len([p for p in web(observer).pods if p.ready]) == 5)
        assert not observer.problems()


@pytest.mark.looptime
async def test_the_age_is_of_the_last_sign_of_life_and_all_return_with_the_server() -> None:
    """Quiet for 50 s, then away for 100 s: the age goes on from where it stood, and no watch waits out its pause."""
    async with watching() as (cluster, _, observer):
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(50)
        before = observer.age()
        assert before < 12
        await cluster.server_down()
        gone = clock()
        for _ in range(100):
            await asyncio.sleep(1)
            assert abs(observer.age() - before - (clock() - gone)) < 0.1
        await cluster.server_up()
        await until(lambda: observer.age() < 3, within=4 * RECALL_S)


@pytest.mark.looptime
async def test_silent_and_cut_watches_are_done_without_a_new_list() -> None:
    async with watching() as (cluster, client, observer):
        lists = sum(r.lists for r in observer.watches.needed)
        cluster.faults.silent_watches = True
        await asyncio.sleep(100)
        cluster.faults.silent_watches = False
        cluster.cut_watches()
        path = "/apis/apps/v1/namespaces/serving/deployments/web/scale"
        (await client.request("PATCH", path, None, {"spec": {"replicas": 4}}, MERGE)).expect("scale")
        await until(lambda: len(web(observer).pods) == 4)
        assert sum(r.lists for r in observer.watches.needed) == lists


@pytest.mark.looptime
async def test_in_the_steady_state_nothing_is_listed_or_got() -> None:
    async with watching() as (cluster, _, observer):
        web(observer)
        await asyncio.sleep(30)
        seen = len(cluster.audit)
        await asyncio.sleep(300)
        asked = [e for e in list(cluster.audit)[seen:] if e.verb in ("get", "list") and e.resource]
        barred = {"verticalpodautoscalers", "scaledobjects"}  # kinds this server hasn't: asked for rarely
        assert [e for e in asked if e.resource not in barred] == []
        assert len(asked) < 20


@pytest.mark.looptime
async def test_discovery_leadership_and_events_on_it() -> None:
    async with watching() as (cluster, client, observer):
        assert (await server_version(client)).minor == 36
        discovery = Discovery(client)
        assert await discovery.has("v1", "pods/resize")
        found = await discovery.kind("apps/v1", "Deployment")
        assert found is not None
        assert (found.plural, found.scalable) == ("deployments", True)
        assert await discovery.kind("nothing.dev/v1", "Thing") is None
        lead = Leadership(client, "kube-system", "ia", "one")
        await lead.acquire()
        assert lead.valid()
        await asyncio.sleep(2)
        assert await lead._renew()
        await lead.release()
        assert not lead.valid()
        target = observer.target("serving", WEB.target)
        assert target is not None
        events = EventWriter(client, "one")
        about = Regarding("apps/v1", "Deployment", "serving", "web", target.uid)
        for _ in range(3):
            await events.write(Occurrence(about, "ObjectiveMissed", "Resize", "cpu 1 → 2"))
        assert events.dropped == 0
        listed = (await client.request("GET", "/apis/events.k8s.io/v1/namespaces/serving/events")).json()["items"]
        ours = [event for event in listed if event["reason"] == "ObjectiveMissed"]
        assert [event["series"]["count"] for event in ours] == [2]
        assert cluster.audit.writes()
