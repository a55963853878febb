"""The reports of people who run in-place resizes that only show with the whole daemon, over minutes."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from autoscaler import settings as tree
from autoscaler.act.ports import Result
from autoscaler.daemon import Daemon
from autoscaler.emulate.authorize import ADMIN_TOKEN, Rule
from autoscaler.emulate.cluster import ClusterSpec, EmulatedCluster
from autoscaler.loop import Tick
from autoscaler.model.plan import Resize, Revert, Scale
from autoscaler.model.reason import Code
from autoscaler.model.workload import ResizeState, Resources
from autoscaler.observe import policy_files
from autoscaler.observe.policy_files import Policies
from autoscaler.parts import opened
from autoscaler.reload import Reloading
from tests.act.stage import NodeSpec
from tests.scenarios.stage import POLICY, cluster_spec, staged

pytestmark = pytest.mark.looptime

State = ResizeState
GROW = Resources(cpu_request=1000, cpu_limit=2000)


def patches_of(play: Any) -> int:
    return len(play.cluster.audit.of("patch", "pods", "resize"))


async def test_sizes_are_decided_from_the_pod_and_not_from_the_template(tmp_path: Path) -> None:
    """attune#677, attune#701"""
    async with staged(cluster_spec(80.0), tmp_path) as play:
        await asyncio.sleep(60)
        resizes = [one.action for tick in play.ticks for one in tick.sent if isinstance(one.action, Resize)]
        assert resizes
        for earlier, later in itertools.pairwise(resizes):
            if later.pod.uid == earlier.pod.uid:
                assert later.before.cpu_limit == earlier.after.cpu_limit
        born = play.cluster.object("Deployment", "serving", "resnet")["spec"]["template"]["spec"]["containers"][0]
        assert born["resources"]["limits"]["cpu"] == "500m"
        assert min(play.cores()) > 0.5


async def test_a_size_without_room_is_not_asked_for_again_and_again(tmp_path: Path) -> None:
    """karpenter#829, karpenter#3037: what doesn't fit must not circle between asking and taking back"""
    async with staged(cluster_spec(160.0, node_cpu="1500m"), tmp_path) as play:
        await asyncio.sleep(60)
        settled = patches_of(play)
        await asyncio.sleep(60)
        assert patches_of(play) - settled <= 12
        placed = [cores for cores, pod in zip(play.cores(), play.pods(), strict=True) if pod["spec"].get("nodeName")]
        assert sum(placed) <= 1.5
        reverts = [one for tick in play.ticks for one in tick.sent if isinstance(one.action, Revert)]
        assert len(reverts) <= 2
        refused: dict[tuple[str, Resources], int] = {}
        for tick in play.ticks:
            for one in tick.sent:
                if isinstance(one.action, Resize) and one.outcome.result is Result.NODE_CAPACITY:
                    what = (one.action.pod.uid, one.action.after)
                    refused[what] = refused.get(what, 0) + 1
        assert max(refused.values(), default=0) <= 1


async def test_under_the_static_cpu_manager_guaranteed_pods_are_left_alone_after_one_try(tmp_path: Path) -> None:
    """kubernetes#140480"""
    base = cluster_spec(80.0)
    nodes = [NodeSpec("node-1", cpu="16", memory="64Gi", static_cpu=True)]
    spec = ClusterSpec(nodes=nodes, workloads=base.workloads)
    async with staged(spec, tmp_path) as play:
        await asyncio.sleep(30)
        tried = patches_of(play)
        await asyncio.sleep(60)
        assert play.cores()[:2] == [0.5, 0.5]
        assert patches_of(play) - tried <= 4
        assert play.replicas() > 2


async def test_someone_elses_deferred_resize_is_left_to_them(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0, node_cpu="2"), tmp_path) as play:
        await asyncio.sleep(20)
        name = play.pods()[0]["metadata"]["name"]
        async with aiohttp.ClientSession() as client:
            size = {"cpu": "1600m"}
            body = {"spec": {"containers": [{"name": "server", "resources": {"requests": size, "limits": size}}]}}
            answer = await client.patch(
                f"{play.cluster.url}/api/v1/namespaces/serving/pods/{name}/resize?fieldManager=kubectl-patch",
                json=body,
                headers={
                    "Authorization": f"Bearer {ADMIN_TOKEN}",
                    "Content-Type": "application/strategic-merge-patch+json",
                },
            )
            assert answer.status == 200
        await asyncio.sleep(30)
        reverts = [one for tick in play.ticks for one in tick.sent if isinstance(one.action, Revert)]
        assert reverts == []


async def test_deferred_is_answered_at_its_first_sight_with_what_fits_and_with_replicas(tmp_path: Path) -> None:
    """Where nodes can't be seen, the kubelet's answer is the first that is known of their room."""
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    rights = [
        Rule(("",), ("pods", "limitranges", "resourcequotas"), ("list", "watch", "patch")),
        Rule(("",), ("pods/resize",), ("patch",)),
        Rule(("apps",), ("deployments", "replicasets", "statefulsets"), ("list", "watch")),
        Rule(("apps",), ("deployments/scale",), ("patch",)),
    ]
    async with EmulatedCluster(cluster_spec(160.0, node_cpu="3")) as cluster:
        cluster.add_user("blind", token="blind", rules=rights)
        await cluster.settled()
        config = str(cluster.kubeconfig(tmp_path / "config", token="blind"))
        settings, _ = tree.load(None, {}, kubeconfig=config, policy=(str(file),), interval=1.0, http={"listen": "off"},
                                leader={"elect": False})  # fmt: skip
        files: Reloading[Policies] = Reloading([file], lambda: policy_files.load([file]), policy_files.load([file]))
        async with opened(settings, epoch=cluster.plane.timeline.wall()) as parts:
            ticks: list[Tick] = []
            daemon, stop = Daemon(settings, parts, files, on_tick=ticks.append), asyncio.Event()
            running = asyncio.create_task(daemon.run(stop))
            await asyncio.sleep(50)
            stop.set()
            await running
    assert not ticks[-1].seen.ledger.nodes_known
    deferred = [tick for tick in ticks if ResizeState.DEFERRED in states_of(tick)]
    first = deferred[0]
    waiting = {
        pod.uid
        for pod in first.seen.subjects[0].view.pods
        if pod.attempt is not None and pod.attempt.state is ResizeState.DEFERRED
    }
    smaller = [one.action for one in first.sent if isinstance(one.action, Resize) and one.action.pod.uid in waiting]
    assert smaller
    assert all((action.after.cpu_limit or 0) < (action.before.cpu_limit or 0) for action in smaller)
    until_then = [one.action for tick in ticks[: ticks.index(first) + 1] for one in tick.sent]
    assert any(isinstance(action, Scale) and action.after > action.before for action in until_then)
    # How many sizes between the two are tried depends on whose answer comes first; that none is tried twice doesn't.
    asked = [(one.action.pod.uid, one.action.after) for tick in deferred for one in tick.sent
             if isinstance(one.action, Resize)]  # fmt: skip
    assert len(asked) == len(set(asked))
    assert ResizeState.DEFERRED not in states_of(ticks[-1])


def states_of(tick: Tick) -> set[ResizeState]:
    pods = tick.seen.subjects[0].view.pods if tick.seen.subjects else ()
    return {pod.attempt.state for pod in pods if pod.attempt is not None}


async def test_a_new_pod_has_the_learned_size_before_it_serves(tmp_path: Path) -> None:
    """attune#677 again: scale-out and eviction bring pods at the template's size"""
    async with staged(cluster_spec(80.0, startup=20.0), tmp_path) as play:
        await asyncio.sleep(60)
        known = {pod["metadata"]["uid"] for pod in play.pods()}
        learned = min(play.cores())
        assert learned > 0.5
        victim = play.pods()[0]["metadata"]["name"]
        async with aiohttp.ClientSession() as client:
            path = f"{play.cluster.url}/api/v1/namespaces/serving/pods/{victim}"
            answer = await client.delete(path, headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})
            assert answer.status == 200
        await asyncio.sleep(12)
        (born,) = [pod for pod in play.pods() if pod["metadata"]["uid"] not in known][:1]
        ready = {one["type"]: one["status"] for one in born["status"]["conditions"]}["Ready"]
        assert ready == "False"
        assert play.cores()[play.pods().index(born)] >= learned


THREE = POLICY.replace("minReplicas: 2", "minReplicas: 3")


async def test_an_unschedulable_new_pod_is_sized_down_and_placed(tmp_path: Path) -> None:
    """Recorded: an unschedulable pod sized down gets scheduled."""
    async with staged(cluster_spec(20.0, node_cpu="1450m"), tmp_path, policy=THREE) as play:
        await asyncio.sleep(60)
        assert play.replicas() == 3
        assert all(pod["spec"].get("nodeName") for pod in play.pods())
        said = [one.action.reason.code for tick in play.ticks for one in tick.sent if isinstance(one.action, Resize)]
        assert Code.FITS in said


async def test_an_unschedulable_new_pod_that_no_size_places_is_told(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0, node_cpu="1300m"), tmp_path, policy=THREE) as play:
        await asyncio.sleep(30)
        (plan,) = play.ticks[-1].plans.values()
        assert any(one.code is Code.UNPLACED and "its smallest size takes 200m" in one.text for one in plan.holds)


async def test_thread_pools_sized_at_start_are_found_out_and_answered_with_replicas(tmp_path: Path) -> None:
    """onnxruntime#29510, vllm#34462: cores beyond what the pool was made for change nothing"""
    base = cluster_spec(120.0, threads=1)
    spec = ClusterSpec(nodes=base.nodes, workloads=[msgspec.structs.replace(base.workloads[0], cpu="1")])
    async with staged(spec, tmp_path) as play:
        await asyncio.sleep(240)
        assert play.replicas() >= 3
        assert max(play.cores()) <= 1.5, "what the pool can't use is not kept"
        assert (play.misses() or 0.0) <= 0.05
