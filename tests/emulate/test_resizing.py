"""The kubelet's side of a resize, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from autoscaler.emulate.cluster import EmulatedCluster, NodeSpec, WorkloadSpec
from tests.emulate.conftest import Ask, Json, conditions, small

pytestmark = pytest.mark.looptime


def now(cluster: EmulatedCluster, pod: Json) -> Json:
    found = cluster.plane.pod(pod["metadata"]["namespace"], pod["metadata"]["name"])
    assert found is not None
    return found


def actual(pod: Json) -> Json:
    resources: Json = pod["status"]["containerStatuses"][0]["resources"]
    return resources


async def test_a_resize_is_seen_then_in_progress_then_done(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask, pod = asked(cluster), cluster.pods("serving")[0]
        states: list[tuple[Any, ...]] = []

        def note(change: Any) -> None:
            body = change.stored.body
            if body["metadata"]["uid"] == pod["metadata"]["uid"]:
                status = body["status"]
                states.append(
                    (body["metadata"]["generation"], status["observedGeneration"],
                     "PodResizeInProgress" in conditions(body), actual(body)["requests"]["cpu"])
                )  # fmt: skip

        cluster.plane.store.subscribe(("", "pods"), note)
        answer = await ask.resize(pod, requests={"cpu": "700m"})
        assert (ask.status, answer["metadata"]["generation"]) == (200, 2)
        await asyncio.sleep(0.5)
        assert states == [(2, 1, False, "500m"), (2, 2, True, "500m"), (2, 2, False, "700m")]


async def test_before_1_36_it_takes_about_two_seconds(asked: Ask) -> None:
    async with EmulatedCluster(small(kubernetes="1.35")) as cluster:
        await cluster.settled()
        pod = cluster.pods("serving")[0]
        await asked(cluster).resize(pod, requests={"cpu": "700m"})
        await asyncio.sleep(1.0)
        assert actual(now(cluster, pod))["requests"]["cpu"] == "500m"
        await asyncio.sleep(1.5)
        assert actual(now(cluster, pod))["requests"]["cpu"] == "700m"


async def test_what_does_not_fit_is_deferred_until_a_neighbour_shrinks(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask = asked(cluster)
        one, other = cluster.pods("serving")
        await ask.resize(other, requests={"cpu": "1"}, limits={"cpu": "4"})
        await ask.resize(one, requests={"cpu": "3500m"}, limits={"cpu": "4"})
        await asyncio.sleep(1.0)
        pending = conditions(now(cluster, one))["PodResizePending"]
        assert pending["reason"] == "Deferred"
        assert (
            pending["message"] == "Node didn't have enough resource: cpu, requested: 3500, used: 1000, capacity: 4000"
        )
        assert now(cluster, one)["status"]["containerStatuses"][0]["allocatedResources"]["cpu"] == "500m"
        await ask.resize(other, requests={"cpu": "500m"})
        await asyncio.sleep(1.0)
        assert "PodResizePending" not in conditions(now(cluster, one))
        assert actual(now(cluster, one))["requests"]["cpu"] == "3500m"


async def test_deferred_pods_are_granted_by_priority(asked: Ask) -> None:
    low = WorkloadSpec("low", namespace="serving", cpu="500m", cpu_limit="4", pod={"priority": 1}, grace=1)
    high = WorkloadSpec("high", namespace="serving", cpu="500m", cpu_limit="4", pod={"priority": 9}, grace=1)
    big = WorkloadSpec("big", namespace="serving", cpu="2500m", cpu_limit="4", grace=1)
    async with EmulatedCluster(small(workloads=[low, high, big])) as cluster:
        await cluster.settled()
        ask = asked(cluster)
        pods = {name: cluster.pods(workload=name)[0] for name in ("low", "high", "big")}
        await ask.resize(pods["low"], requests={"cpu": "2"})
        await asyncio.sleep(1.0)
        await ask.resize(pods["high"], requests={"cpu": "2"})
        await asyncio.sleep(1.0)
        await ask.resize(pods["big"], requests={"cpu": "1500m"})
        await asyncio.sleep(1.0)
        assert actual(now(cluster, pods["high"]))["requests"]["cpu"] == "2"
        assert conditions(now(cluster, pods["low"]))["PodResizePending"]["reason"] == "Deferred"


@pytest.mark.parametrize(
    ("version", "status", "reason"), [("1.36", 403, ""), ("1.35", 200, "Infeasible"), ("1.34", 200, "Infeasible")]
)
async def test_beyond_the_node(version: str, status: int, reason: str, asked: Ask) -> None:
    async with EmulatedCluster(small(kubernetes=version)) as cluster:
        await cluster.settled()
        ask, pod = asked(cluster), cluster.pods("serving")[0]
        answer = await ask.resize(pod, requests={"cpu": "64"}, limits={"cpu": "64"})
        assert ask.status == status
        if status == 403:
            assert answer["details"]["causes"] == [{"reason": "NodeCapacity"}]
        else:
            await asyncio.sleep(3.0)
            assert conditions(now(cluster, pod))["PodResizePending"]["reason"] == reason


async def test_1_33_refuses_every_decrease_of_a_memory_limit(asked: Ask) -> None:
    for version, status in (("1.33", 422), ("1.34", 200)):
        async with EmulatedCluster(small(kubernetes=version)) as cluster:
            await cluster.settled()
            ask = asked(cluster)
            await ask.resize(cluster.pods("serving")[0], limits={"memory": "300Mi"})
            assert ask.status == status
            assert ("observedGeneration" in cluster.pods("serving")[0]["status"]) is (version != "1.33")


async def test_memory_below_usage_is_an_error_that_also_holds_cpu_back(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask, pod = asked(cluster), cluster.pods("serving")[0]
        cluster.set_memory(pod["metadata"]["name"], 100 * 2**20, page_cache=300 * 2**20, seen=True)
        await ask.resize(pod, limits={"memory": "300Mi"})
        await asyncio.sleep(5.0)
        assert "reason" not in conditions(now(cluster, pod))["PodResizeInProgress"]
        await ask.resize(pod, requests={"cpu": "600m"})
        await asyncio.sleep(30.0)
        stuck = conditions(now(cluster, pod))["PodResizeInProgress"]
        assert stuck["reason"] == "Error"
        assert "below current usage (419430400)" in stuck["message"]
        assert actual(now(cluster, pod))["requests"]["cpu"] == "500m"
        await ask.resize(pod, limits={"memory": "512Mi"})
        await asyncio.sleep(0.5)
        assert "PodResizeInProgress" not in conditions(now(cluster, pod))
        assert actual(now(cluster, pod))["requests"]["cpu"] == "600m"


async def test_page_cache_that_goes_lets_the_shrink_through(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask, pod = asked(cluster), cluster.pods("serving")[0]
        name = pod["metadata"]["name"]
        cluster.set_memory(name, 100 * 2**20, page_cache=300 * 2**20, seen=True)
        await ask.resize(pod, limits={"memory": "300Mi"})
        await asyncio.sleep(15.0)
        cluster.set_memory(name, 100 * 2**20)
        await asyncio.sleep(30.0)
        assert actual(now(cluster, pod))["limits"]["memory"] == "300Mi"


async def test_restart_container_restarts_and_soon_backs_off(asked: Ask) -> None:
    web = WorkloadSpec(
        "web", namespace="serving", cpu="500m", cpu_limit="1", resize_policy={"cpu": "RestartContainer"}, grace=1
    )
    async with EmulatedCluster(small(workloads=[web], startup=0.0)) as cluster:
        await cluster.settled()
        ask, pod = asked(cluster), cluster.pods("serving")[0]
        await asyncio.sleep(20.0)
        took = []
        for step in range(1, 7):
            await ask.resize(pod, requests={"cpu": f"{500 + step}m"})
            begin = asyncio.get_running_loop().time()
            await cluster.until(
                lambda step=step: actual(now(cluster, pod))["requests"]["cpu"] == f"{500 + step}m", within=120.0
            )
            took.append(asyncio.get_running_loop().time() - begin)
            await asyncio.sleep(2.0)
        assert now(cluster, pod)["status"]["containerStatuses"][0]["restartCount"] == 6
        assert [seconds > 5 for seconds in took] == [False, False, False, True, False, True]


async def test_an_oom_kill_restarts_at_the_same_limit_and_backs_off() -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        pod = cluster.pods("serving")[0]
        name = pod["metadata"]["name"]
        cluster.oom_kill("serving", name)
        killed = now(cluster, pod)["status"]["containerStatuses"][0]
        assert killed["state"]["terminated"]["reason"] == "OOMKilled"
        await asyncio.sleep(2.0)
        again = now(cluster, pod)["status"]["containerStatuses"][0]
        assert again["restartCount"] == 1
        assert again["lastState"]["terminated"]["reason"] == "OOMKilled"
        assert again["resources"] == killed["resources"]
        cluster.oom_kill("serving", name)
        await asyncio.sleep(5.0)
        waiting = now(cluster, pod)["status"]["containerStatuses"][0]
        assert waiting["state"]["waiting"]["reason"] == "CrashLoopBackOff"


async def test_a_frozen_kubelet_applies_after_it_is_back(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask, pod = asked(cluster), cluster.pods("serving")[0]
        cluster.plane.freeze_kubelet("node-1")
        await asyncio.sleep(60.0)
        node = await ask("GET", "/api/v1/nodes/node-1")
        assert [one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready"] == ["Unknown"]
        await ask.resize(pod, requests={"cpu": "600m"})
        assert ask.status == 200
        await asyncio.sleep(60.0)
        assert now(cluster, pod)["status"]["observedGeneration"] == 1
        cluster.plane.thaw_kubelet("node-1")
        await asyncio.sleep(4.0)
        assert actual(now(cluster, pod))["requests"]["cpu"] == "600m"


async def test_after_a_kubelet_restart_a_resize_is_observed_long_before_it_is_applied(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask, pod = asked(cluster), cluster.pods("serving")[0]
        cluster.plane.freeze_kubelet("node-1")
        await ask.resize(pod, requests={"cpu": "600m"})
        cluster.plane.restart_kubelet("node-1")
        await asyncio.sleep(10.0)
        blind = now(cluster, pod)
        assert blind["status"]["observedGeneration"] == 2
        assert "PodResizeInProgress" not in conditions(blind)
        assert actual(blind)["requests"]["cpu"] == "500m"
        await asyncio.sleep(30.0)
        assert actual(now(cluster, pod))["requests"]["cpu"] == "600m"


async def test_a_guaranteed_pod_under_the_static_cpu_manager_is_infeasible(asked: Ask) -> None:
    node = NodeSpec("node-1", cpu="4", memory="8Gi", static_cpu=True)
    web = WorkloadSpec("web", namespace="serving", cpu="1", memory="256Mi")
    async with EmulatedCluster(small(nodes=[node], workloads=[web])) as cluster:
        await cluster.settled()
        ask, pod = asked(cluster), cluster.pods("serving")[0]
        await ask.resize(pod, requests={"cpu": "2"}, limits={"cpu": "2"})
        await asyncio.sleep(1.0)
        assert conditions(now(cluster, pod))["PodResizePending"]["reason"] == "Infeasible"


async def test_a_new_pod_beside_a_deferred_one_is_kept_out_and_a_smaller_size_gets_it_in(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask = asked(cluster)
        one, _ = cluster.pods("serving")
        await ask.resize(one, requests={"cpu": "3800m"}, limits={"cpu": "4"})
        scale = "/apis/apps/v1/namespaces/serving/deployments/web/scale"
        await ask("PATCH", scale, {"spec": {"replicas": 3}}, content_type="application/merge-patch+json")
        await asyncio.sleep(2.0)
        new = next(pod for pod in cluster.pods("serving") if not pod["spec"].get("nodeName"))
        scheduled = conditions(new)["PodScheduled"]
        assert (scheduled["status"], scheduled["reason"]) == ("False", "Unschedulable")
        assert scheduled["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
        await ask.resize(one, requests={"cpu": "500m"})
        await cluster.settled()


async def test_a_pod_that_is_over_is_never_observed_again(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask, pod = asked(cluster), cluster.pods("serving")[0]
        found = cluster.plane.run_of("serving", pod["metadata"]["name"])
        assert found is not None
        found[0].end(found[1], "Failed")
        await ask.resize(pod, requests={"cpu": "600m"})
        assert ask.status == 200
        await asyncio.sleep(30.0)
        assert now(cluster, pod)["status"]["observedGeneration"] == 1


async def test_a_condition_can_go_unseen_while_the_resize_is_applied_all_the_same(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask, pod = asked(cluster), cluster.pods("serving")[0]
        cluster.plane.kubelets["node-1"].drop_conditions = 1
        seen: set[str] = set()
        cluster.plane.store.subscribe(("", "pods"), lambda change: seen.update(conditions(change.stored.body)))
        await ask.resize(pod, requests={"cpu": "600m"})
        await asyncio.sleep(0.5)
        assert "PodResizeInProgress" not in seen
        assert actual(now(cluster, pod))["requests"]["cpu"] == "600m"
        await ask.resize(pod, requests={"cpu": "700m"})
        await asyncio.sleep(0.5)
        assert "PodResizeInProgress" in seen
