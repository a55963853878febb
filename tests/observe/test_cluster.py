"""What a tick sees of a cluster, over a real HTTP API: owners, pods, holds, the ledger, other owners, blindness."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from autoscaler.kube.client import KubeClient
from autoscaler.kube.connect import find_access
from autoscaler.model.policy import Policy, PolicySpec
from autoscaler.model.workload import Attempt, ResizeState, Resources, WorkloadRef
from autoscaler.observe.cluster import ClusterObserver, Scope
from tests.kube.api_server import ApiServer
from tests.kube.objects import deployment, node, pod, replica_set

PODS = "/api/v1/namespaces/serving/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/serving/deployments"
SETS = "/apis/apps/v1/namespaces/serving/replicasets"
STATEFUL = "/apis/apps/v1/namespaces/serving/statefulsets"
NODES = "/api/v1/nodes"
HPAS = "/apis/autoscaling/v2/namespaces/serving/horizontalpodautoscalers"
PDBS = "/apis/policy/v1/namespaces/serving/poddisruptionbudgets"


def policy(name: str, target: str = "", kind: str = "Deployment", api: str = "apps/v1", **vertical: Any) -> Policy:
    spec = PolicySpec.model_validate(
        {
            "scaleTargetRef": {"apiVersion": api, "kind": kind, "name": target or name},
            "objective": {"cpu": {"targetUtilization": "70%"}},
            "vertical": vertical,
        }
    )
    return Policy(ref=WorkloadRef("serving", name), spec=spec)


async def until(condition: Callable[[], bool], within: float = 30.0) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as running:
        yield running


@asynccontextmanager
async def observing(server: ApiServer, scope: Scope | None = None, **more: Any) -> AsyncIterator[ClusterObserver]:
    async with KubeClient(find_access(server=server.url), jitter_s=0.01) as client:
        observer = ClusterObserver(client, scope, **more)
        task = asyncio.create_task(observer.run())
        try:
            assert await observer.wait_synced(10), observer.problems()
            yield observer
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def populate(server: ApiServer, name: str = "web", pods: int = 2) -> None:
    await server.put(NODES, node("n1"))
    await server.put(DEPLOYMENTS, deployment(name, replicas=pods))
    await server.put(SETS, replica_set(f"{name}-aaa", name, replicas=pods))
    for number in range(pods):
        await server.put(PODS, pod(f"{name}-{number}", owner=("ReplicaSet", f"{name}-aaa", f"uid-{name}-aaa")))


async def test_pods_belong_by_owner_not_by_label(server: ApiServer) -> None:
    await populate(server)
    await server.put(PODS, pod("stranger", labels={"app": "web"}))
    await server.put(PODS, pod("of-a-job", owner=("Job", "web", "uid-of-the-job")))
    async with observing(server) as observer:
        (subject,), ledger = observer.view([policy("web")], {})
        view = subject.view
        assert [p.name for p in view.pods] == ["web-0", "web-1"]
        assert view.hold == ""
        assert view.container == "server"
        assert view.scale is not None
        assert (view.scale.desired, view.scale.rollout, view.scale.template_hash) == (2, False, "aaa")
        assert view.template == Resources(cpu_request=1000, memory_request=2**30)
        assert ledger.committed_cpu == {"n1": 4000}  # the strangers' too
        assert ledger.free_cpu("n1") == 4000


async def test_the_view_follows_the_cluster(server: ApiServer) -> None:
    await populate(server)
    async with observing(server) as observer:
        wanted = [policy("web")]

        def view() -> Any:
            return observer.view(wanted, {}).subjects[0].view

        assert len(view().pods) == 2
        await server.put(PODS, pod("web-2", owner=("ReplicaSet", "web-aaa", "uid-web-aaa")))
        await until(lambda: len(view().pods) == 3)
        await server.put(PODS, pod("web-2", phase="Failed", owner=("ReplicaSet", "web-aaa", "uid-web-aaa")))
        await until(lambda: observer.view(wanted, {}).ledger.committed_cpu == {"n1": 2000})
        await server.delete(PODS, "web-2")
        await until(lambda: len(view().pods) == 2)
        await server.put(SETS, replica_set("web-bbb", "web", replicas=1, revision=2))
        await until(lambda: view().scale.rollout)
        assert view().scale.template_hash == "bbb"
        await server.put(SETS, replica_set("web-aaa", "web", replicas=0))
        await until(lambda: not view().scale.rollout)
        await server.delete(DEPLOYMENTS, "web")
        await until(lambda: "doesn't exist" in view().hold)


async def test_a_target_made_anew_under_its_name_is_another_target(server: ApiServer) -> None:
    await populate(server)
    async with observing(server) as observer:
        wanted = [policy("web")]
        assert len(observer.view(wanted, {}).subjects[0].view.pods) == 2
        await server.delete(DEPLOYMENTS, "web")
        fresh = deployment("web", meta={"uid": "another"})
        await server.put(DEPLOYMENTS, fresh)
        await until(lambda: "no pods" in observer.view(wanted, {}).subjects[0].view.hold)


async def test_each_bad_target_is_held_with_its_reason_and_the_others_go_on(server: ApiServer) -> None:
    await populate(server)
    await populate(server, "twice", 1)
    await populate(server, "two", 1)
    two = pod("two-0", owner=("ReplicaSet", "two-aaa", "uid-two-aaa"))
    two["spec"]["containers"].append({"name": "other", "resources": {}})
    await server.put(PODS, two)
    await server.put(DEPLOYMENTS, deployment("empty"))
    await server.put(DEPLOYMENTS, deployment("off", replicas=0))
    policies = [
        policy("web"), policy("gone"), policy("twice"), policy("again", "twice"), policy("two"),
        policy("named", "two", container="nope"), policy("empty"), policy("off"),
    ]  # fmt: skip
    async with observing(server) as observer:
        holds = {s.policy.ref.name: s.view.hold for s in observer.view(policies[:5], {}).subjects}
        assert holds["web"] == ""
        assert (
            holds["gone"] == "deployment/gone doesn't exist in namespace serving: create it or correct scaleTargetRef"
        )
        assert "wanted twice, also by serving/again" in holds["twice"]
        assert "wanted twice, also by serving/twice" in holds["again"]
        assert holds["two"].endswith("to one of: server, other")
        holds = {s.policy.ref.name: s.view.hold for s in observer.view(policies[5:], {}).subjects}
        assert "no container 'nope' in the pods (there: server, other)" in holds["named"]
        assert holds["empty"].startswith("no pods: 2 replicas wanted")
        assert holds["off"] == ""


async def test_the_presets_container_is_taken_where_a_pod_has_several(server: ApiServer) -> None:
    await populate(server, pods=1)
    both = pod("web-0", owner=("ReplicaSet", "web-aaa", "uid-web-aaa"))
    both["spec"]["containers"].append({"name": "other", "resources": {}})
    await server.put(PODS, both)
    async with observing(server, preset_container=lambda _: "other") as observer:
        assert observer.view([policy("web")], {}).subjects[0].view.container == "other"


async def test_injected_proxies_are_not_the_container_to_size(server: ApiServer) -> None:
    await populate(server, pods=1)
    meshed = pod("web-0", owner=("ReplicaSet", "web-aaa", "uid-web-aaa"))
    meshed["spec"]["containers"].insert(0, {"name": "istio-proxy", "resources": {}})
    await server.put(PODS, meshed)
    async with observing(server) as observer:
        assert observer.view([policy("web")], {}).subjects[0].view.container == "server"


async def test_what_was_sent_counts_until_it_is_seen(server: ApiServer) -> None:
    await populate(server)
    grown = Attempt(ResizeState.SENT, Resources(cpu_request=3000, cpu_limit=3000), since=0.0)
    async with observing(server) as observer:
        wanted = [policy("web")]
        subjects, ledger = observer.view(wanted, {"uid-web-0": grown})
        assert ledger.committed_cpu == {"n1": 4000}
        assert [p.attempt for p in subjects[0].view.pods] == [grown, None]
        done = Attempt(ResizeState.COMPLETE, Resources(cpu_request=3000), since=0.0)
        subjects, ledger = observer.view(wanted, {"uid-web-0": done})
        assert ledger.committed_cpu == {"n1": 2000}
        assert subjects[0].view.pods[0].attempt == done
        assert observer.view(wanted, {}).subjects[0].view.pods[0].attempt is None


async def test_the_largest_of_three_sizes_is_committed_and_infeasible_wishes_are_not(server: ApiServer) -> None:
    await server.put(NODES, node("n1"))
    small, large = {"cpu": "1", "memory": "1Gi"}, {"cpu": "4", "memory": "2Gi"}
    shrinking = pod("shrinking", requests=small, allocated=small, actual={"requests": large})
    growing = pod("growing", requests=large, allocated=small, actual={"requests": small})
    infeasible = pod(
        "infeasible", requests=large, allocated=small, actual={"requests": small},
        conditions=[{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
    )  # fmt: skip
    for one in (shrinking, growing, infeasible):
        await server.put(PODS, one)
    async with observing(server) as observer:
        ledger = observer.view([], {}).ledger
        assert ledger.committed_cpu == {"n1": 4000 + 4000 + 1000}
        assert ledger.committed_memory == {"n1": (2 + 2 + 1) * 2**30}


async def test_other_owners_and_disruption_budgets_are_seen(server: ApiServer) -> None:
    await populate(server)
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    hpa = {"metadata": {"name": "h", "namespace": "serving"}, "spec": {"scaleTargetRef": ref}}
    pdb = {
        "metadata": {"name": "b", "namespace": "serving"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "maxUnavailable": "50%"},
        "status": {"desiredHealthy": 1},
    }
    async with observing(server) as observer:
        wanted = [policy("web")]

        def view() -> Any:
            return observer.view(wanted, {}).subjects[0].view

        assert view().scale.other_owner == ""
        assert view().pdb_min_available is None
        await server.put(HPAS, hpa)
        await server.put(PDBS, pdb)
        await until(lambda: view().scale.other_owner == "hpa/h" and view().pdb_min_available == 1)
        assert view().pdb_floor is None  # it follows the replicas
        whole = {"metadata": {"name": "c", "namespace": "serving"}, "spec": {**pdb["spec"], "maxUnavailable": None}}
        whole["spec"]["minAvailable"] = 2
        await server.put(PDBS, whole)
        await until(lambda: view().pdb_min_available == view().pdb_floor == 2)
        await server.delete(HPAS, "h")
        await server.delete(PDBS, "b")
        await server.delete(PDBS, "c")
        await until(lambda: view().scale.other_owner == "" and view().pdb_min_available is None)


async def test_kinds_that_may_not_be_read_or_do_not_exist_are_done_without(server: ApiServer) -> None:
    await populate(server)
    server.forbidden |= {"/nodes", "/limitranges", "/statefulsets"}
    server.missing |= {"/scaledobjects", "/verticalpodautoscalers"}
    async with observing(server) as observer:
        (web, stateful), ledger = observer.view([policy("web"), policy("db", kind="StatefulSet")], {})
        assert web.view.hold == ""
        assert "statefulsets can't be read" in stateful.view.hold
        assert not ledger.nodes_known
        assert ledger.committed_cpu == {}
        assert ledger.free_cpu("n1") is None
        told = "\n".join(observer.problems())
        assert "limitranges" in told
        assert "nodes" in told


async def test_in_one_namespace_nothing_is_asked_beyond_it(server: ApiServer) -> None:
    await populate(server)
    async with observing(server, Scope(namespace="serving", nodes=False)) as observer:
        far = Policy(ref=WorkloadRef("far", "web"), spec=policy("web").spec)
        near, away = observer.view([policy("web"), far], {}).subjects
        assert near.view.hold == ""
        assert "namespace far is not watched" in away.view.hold
    asked = [path for _, path, _, _ in server.requests if path != "/livez"]
    assert asked
    assert all("/namespaces/serving/" in path for path in asked)


async def test_room_is_unknown_where_the_pods_of_others_are_not_seen(server: ApiServer) -> None:
    await populate(server)
    async with observing(server, Scope(namespace="serving")) as observer:
        (subject,), ledger = observer.view([policy("web")], {})
        assert subject.view.zones == 1
        assert not ledger.nodes_known
        assert ledger.free_cpu("n1") is None


async def test_a_stateful_set_and_a_bare_replica_set(server: ApiServer) -> None:
    await populate(server, "rs", 1)
    lone = replica_set("lone", "x", replicas=1)
    del lone["metadata"]["ownerReferences"]
    await server.put(SETS, lone)
    await server.put(PODS, pod("lone-0", owner=("ReplicaSet", "lone", "uid-lone")))
    stateful = deployment(
        "db", replicas=1, status={"currentRevision": "a", "updateRevision": "b", "updatedReplicas": 0}
    )
    await server.put(STATEFUL, {**stateful, "kind": "StatefulSet"})
    await server.put(PODS, pod("db-0", owner=("StatefulSet", "db", "uid-db")))
    policies = [
        policy("db", kind="StatefulSet"),
        policy("lone", kind="ReplicaSet"),
        policy("rs-aaa", kind="ReplicaSet"),
    ]
    async with observing(server) as observer:
        db, bare, owned = (subject.view for subject in observer.view(policies, {}).subjects)
        assert [p.name for p in db.pods] == ["db-0"]
        assert db.scale.rollout
        assert [p.name for p in bare.pods] == ["lone-0"]
        assert bare.scale.other_owner == ""
        assert owned.scale.other_owner == "deployment/rs"


async def test_another_kind_is_sized_through_its_scale_subresource(server: ApiServer) -> None:
    await server.put(NODES, node("n1"))
    server.objects["/apis/example.dev/v1"] = {}
    listed = {"resources": [
        {"name": "fleets", "kind": "Fleet", "namespaced": True},
        {"name": "fleets/scale", "kind": "Scale", "namespaced": True},
    ]}  # fmt: skip
    scale = {"kind": "Scale", "metadata": {"name": "f", "namespace": "serving", "uid": "uid-f", "resourceVersion": "7"},
             "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "a=b"}}  # fmt: skip
    from aiohttp import web

    def answer(request: web.Request) -> web.Response | None:
        match request.path:
            case "/apis/example.dev/v1":
                return web.json_response(listed)
            case "/apis/example.dev/v1/namespaces/serving/fleets/f/scale":
                return web.json_response(scale)
            case "/apis/nothing.dev/v1":
                return web.json_response({"kind": "Status", "code": 404}, status=404)
        return None

    server.faults.append(answer)
    await server.put(PODS, pod("f-0", owner=("Fleet", "f", "uid-f")))
    async with observing(server) as observer:
        policies = [policy("f", kind="Fleet", api="example.dev/v1"), policy("g", kind="Gone", api="nothing.dev/v1")]
        observer.view(policies, {})
        await until(lambda: observer.view(policies, {}).subjects[0].view.hold == "")
        fleet, gone = (subject.view for subject in observer.view(policies, {}).subjects)
        assert (fleet.scale.desired, fleet.scale.current, fleet.scale.resource_version) == (3, 2, "7")
        assert [p.name for p in fleet.pods] == ["f-0"]
        await until(lambda: "has no Gone in nothing.dev/v1" in observer.view(policies, {}).subjects[1].view.hold)
        assert gone.scale is None


async def test_an_answer_to_a_patch_is_known_before_the_watch_tells(server: ApiServer) -> None:
    await populate(server)
    async with observing(server) as observer:
        newer = pod("web-0", requests={"cpu": "3", "memory": "1Gi"}, owner=("ReplicaSet", "web-aaa", "uid-web-aaa"))
        newer["metadata"]["resourceVersion"] = "100000"
        observer.learn(newer)
        first = observer.view([policy("web")], {}).subjects[0].view.pods[0]
        assert first.containers[0].desired.cpu_request == 3000
        older = pod("web-0", owner=("ReplicaSet", "web-aaa", "uid-web-aaa"))
        older["metadata"]["resourceVersion"] = "50"
        observer.learn(older)
        assert observer.view([policy("web")], {}).subjects[0].view.pods[0].containers[0].desired.cpu_request == 3000
        scale = {"kind": "Scale", "metadata": {"uid": "uid-web", "resourceVersion": "100001"}, "spec": {"replicas": 5}}
        observer.learn(scale)
        assert observer.view([policy("web")], {}).subjects[0].view.scale.desired == 5


@pytest.mark.looptime
async def test_age_stays_low_while_the_server_lives_and_rises_when_it_is_gone(server: ApiServer) -> None:
    server.bookmark_every = 60.0
    await populate(server)
    async with observing(server) as observer:
        await asyncio.sleep(40)
        assert observer.view([policy("web")], {}).subjects[0].view.seen_age_s < 12
        server.frozen.clear()
        await asyncio.sleep(40)
        assert observer.view([policy("web")], {}).subjects[0].view.seen_age_s > 28
        server.frozen.set()
        await asyncio.sleep(11)
        assert observer.view([policy("web")], {}).subjects[0].view.seen_age_s < 12


async def test_bookkeeping_does_not_grow_with_pods_that_come_and_go(server: ApiServer) -> None:
    await populate(server)
    async with observing(server) as observer:
        for number in range(30):
            name = f"job-{number}"
            await server.put(PODS, pod(name, owner=("Job", name, f"uid-of-{name}")))
            await server.delete(PODS, name)
            await server.put(PODS, pod(f"bare-{number}"))
            await server.delete(PODS, f"bare-{number}")
        await server.put(PODS, pod("last"))
        await until(lambda: "uid-last" in observer.known.pods.items)
        await server.delete(PODS, "last")
        await until(lambda: "uid-last" not in observer.known.pods.items)
        assert len(observer.known._touched) < 8
        assert observer.view([], {}).ledger.committed_cpu == {"n1": 2000}
