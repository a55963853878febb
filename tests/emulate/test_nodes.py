"""Nodes that fall silent, pods that are held back, and the command that serves it all."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from autoscaler.emulate.cluster import EmulatedCluster, NodeSpec
from autoscaler.emulate.podspec import is_ready
from autoscaler.emulate.spec import BadSpec, load
from tests.emulate.conftest import MERGE, STRATEGIC, Ask, Json, conditions, small

SCALE = "/apis/apps/v1/namespaces/serving/deployments/web/scale"


@pytest.mark.looptime
async def test_the_pods_of_a_silent_node_are_not_ready_and_are_replaced_after_five_minutes() -> None:
    nodes = [NodeSpec("node-1", cpu="4", memory="8Gi"), NodeSpec("node-2", cpu="4", memory="8Gi")]
    async with EmulatedCluster(small(nodes=nodes)) as cluster:
        await cluster.settled()

        def on(node: str) -> list[Json]:
            return [pod for pod in cluster.pods("serving") if pod["spec"]["nodeName"] == node]

        assert (len(on("node-1")), len(on("node-2"))) == (1, 1)
        cluster.plane.freeze_kubelet("node-1")
        await asyncio.sleep(60.0)
        assert [is_ready(pod) for pod in (*on("node-1"), *on("node-2"))] == [False, True]
        assert cluster.object("Deployment", "serving", "web")["status"]["readyReplicas"] == 1
        await asyncio.sleep(300.0)
        assert ["deletionTimestamp" in pod["metadata"] for pod in on("node-1")] == [True]
        assert [is_ready(pod) for pod in on("node-2")] == [True, True]
        cluster.plane.thaw_kubelet("node-1")
        await cluster.settled()
        assert (len(on("node-1")), len(on("node-2"))) == (0, 2)


@pytest.mark.looptime
async def test_a_short_silence_leaves_the_pods_where_they_are(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        before = {pod["metadata"]["uid"] for pod in cluster.pods("serving")}
        cluster.plane.freeze_kubelet("node-1")
        await asyncio.sleep(100.0)
        cluster.plane.thaw_kubelet("node-1")
        await cluster.settled()
        assert {pod["metadata"]["uid"] for pod in cluster.pods("serving")} == before


@pytest.mark.looptime
async def test_pods_can_be_held_from_their_image_and_from_a_node(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        cluster.faults.hold_image_pull("web-")
        await asked(cluster)("PATCH", SCALE, {"spec": {"replicas": 3}}, content_type=MERGE)
        await asyncio.sleep(5.0)
        (held,) = [pod for pod in cluster.pods("serving") if not is_ready(pod)]
        waiting = held["status"]["containerStatuses"][0]["state"]["waiting"]
        assert (held["status"]["phase"], waiting["reason"]) == ("Pending", "ImagePullBackOff")
        answer = await asked(cluster).resize(held, requests={"cpu": "600m"})
        assert answer["metadata"]["generation"] == 2
        cluster.faults.held_pods.clear()
        found = cluster.plane.run_of("serving", held["metadata"]["name"])
        assert found is not None
        found[0].release_held(found[1])
        await cluster.settled()
        cluster.faults.unschedulable_pods["web-"] = "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
        await asked(cluster)("PATCH", SCALE, {"spec": {"replicas": 4}}, content_type=MERGE)
        await asyncio.sleep(5.0)
        (lost,) = [pod for pod in cluster.pods("serving") if not pod["spec"].get("nodeName")]
        assert conditions(lost)["PodScheduled"]["reason"] == "Unschedulable"


@pytest.mark.looptime
async def test_without_the_admission_plugin_what_is_beyond_the_node_is_deferred(asked: Ask) -> None:
    async with EmulatedCluster(small(resize_validator=False)) as cluster:
        await cluster.settled()
        ask, pod = asked(cluster), cluster.pods("serving")[0]
        await ask.resize(pod, requests={"cpu": "64"}, limits={"cpu": "64"})
        assert ask.status == 200
        await asyncio.sleep(1.0)
        pod = cluster.pods("serving")[0]
        assert conditions(pod)["PodResizePending"]["reason"] == "Deferred"


@pytest.mark.looptime
async def test_an_object_of_the_wrong_shape_is_a_400_and_no_accident(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask, pod = asked(cluster), cluster.pods("serving")[0]["metadata"]["name"]
        path = f"/api/v1/namespaces/serving/pods/{pod}/resize"
        for body in ({"spec": []}, {"spec": {"containers": {"a": 1}}}, {"metadata": 7}, {"spec": None}):
            await ask("PATCH", path, body, content_type=STRATEGIC)
            assert ask.status in (400, 422)
        for body in (b"", b"[]", b"{", b'{"metadata": "x"}', b'{"metadata": {"name": "x"}, "spec": []}'):
            await ask("POST", "/apis/apps/v1/namespaces/serving/deployments", body)
            assert ask.status in (400, 422)
        await cluster.settled()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("nodes: [{name: a, cpus: 4}]", "cpus"),
        ("workloads: [{name: web, cpu: lots}]", "workloads[0].cpu"),
        ("workloads: [{name: Web}]", "workloads[0].name"),
        ("workloads: [{name: web, service: {balance: fair}}]", "workloads[0].service.balance"),
        ('kubernetes: "1.30"', "1.30"),
        ("a: [", "no YAML"),
    ],
)
def test_a_wrong_spec_names_its_place(text: str, place: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    with pytest.raises(BadSpec, match=str(path)) as wrong:
        load(path)
    assert place in str(wrong.value)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_command_serves_until_it_is_told_to_end(number: signal.Signals, tmp_path: Path) -> None:
    kubeconfig, audit = tmp_path / "config", tmp_path / "audit.jsonl"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "autoscaler", "emulate", "--kubeconfig", str(kubeconfig), "--audit", str(audit),
        "--kubernetes", "1.35", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    first = (await process.stdout.readline()).decode()
    assert first.startswith("Emulated Kubernetes v1.35")
    url = first.split(" at ")[1].split(",")[0]
    async with aiohttp.ClientSession() as session, session.get(f"{url}/version") as response:
        assert (await response.json())["minor"] == "35"
    process.send_signal(number)
    _, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")
    assert json.loads(audit.read_text().splitlines()[0])["path"] == "/version"
    assert url in kubeconfig.read_text()
