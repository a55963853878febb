"""Every row of "Refusals": the server's answer, its word, and that it is known before anything is sent."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoscaler.act.api import ApiSink
from autoscaler.act.patches import patches
from autoscaler.act.ports import Outcome, Result
from autoscaler.emulate.authorize import Rule
from autoscaler.emulate.faults import Trouble
from autoscaler.kube.client import KubeClient
from autoscaler.kube.connect import find_access
from autoscaler.model.plan import LimitRangeView, QuotaView
from autoscaler.model.workload import Node, ResizeState, Resources
from tests.act.made import GI, plan, resize
from tests.act.stage import NodeSpec, Stage, nodes_of, stage

pytestmark = pytest.mark.looptime


async def bypassing(play: Stage, after: Resources, which: int = 0, of: str = "server") -> Outcome:
    """The server's own answer, without looking first."""
    one = (await play.pods())[which]
    (patch,) = patches(resize(one, after, of=of))
    return await play.applier.sink.send(patch)


async def both(play: Stage, after: Resources, result: Result, *words: str) -> None:
    """The server refuses it with this word, and nothing of the kind is ever sent to it."""
    answer = await bypassing(play, after)
    assert answer.result is result, answer.message
    for word in words:
        assert word in answer.message
    before = len(play.cluster.audit.of("patch", "pods", "resize"))
    sending = await play.ask(after)
    assert sending.sent[0].reason is not None, "it was sent"
    assert sending.sent[0].outcome.result in (result, Result.INVALID)
    assert len(play.cluster.audit.of("patch", "pods", "resize")) == before


async def test_422_the_qos_class_would_change() -> None:
    async with stage(cpu="1", cpu_limit="1", memory="1Gi", memory_limit="1Gi") as play:
        await both(play, Resources(cpu_limit=2000), Result.INVALID, "QOS")
    async with stage(cpu="500m", cpu_limit="1", memory="1Gi", memory_limit="1Gi") as play:
        await both(play, Resources(cpu_request=1000), Result.INVALID, "QOS")


async def test_422_guaranteed_moves_requests_and_limits_together() -> None:
    async with stage(cpu="1", cpu_limit="1", memory="1Gi", memory_limit="1Gi") as play:
        sending = await play.ask(Resources(cpu_request=2000, cpu_limit=2000))
        assert sending.sent[0].outcome.result is Result.ACCEPTED


async def test_422_best_effort_cannot_be_resized() -> None:
    async with stage() as play:
        body = {
            "metadata": {"name": "be", "namespace": "serving"},
            "spec": {"containers": [{"name": "server", "image": "x"}]},
        }
        play.cluster.add_pod(body)
        await play.cluster.settled()
        one = next(pod for pod in await play.pods() if pod.name == "be")
        (patch,) = patches(resize(one, Resources(cpu_request=100)))
        assert (await play.applier.sink.send(patch)).result is Result.INVALID
        seen = await play.see()
        sending = await play.applier.send([plan(resize(one, Resources(cpu_request=100)))], seen)
        assert sending.sent[0].outcome.result is Result.UNSUPPORTED


async def test_422_a_request_above_its_limit() -> None:
    async with stage() as play:
        await both(play, Resources(cpu_request=1500), Result.INVALID, "must be less than or equal to cpu limit")


async def test_422_an_unknown_container() -> None:
    async with stage() as play:
        answer = await bypassing(play, Resources(cpu_limit=1500), of="nobody")
        assert answer.result is Result.INVALID
        assert (await play.ask(Resources(cpu_limit=1500), of="nobody")).sent[0].reason is not None


async def test_422_a_request_or_limit_removed_and_other_resources_cannot_be_said() -> None:
    """An action holds the four keys it sets; there is no way to write a removal or a GPU into a patch."""
    async with stage() as play:
        one = (await play.pods())[0]
        (patch,) = patches(resize(one, Resources(cpu_limit=1500)))
        assert patch.body["spec"] == {"containers": [{"name": "server", "resources": {"limits": {"cpu": "1500m"}}}]}


async def test_422_a_static_pod() -> None:
    async with stage() as play:
        one = (await play.pods())[0]
        sending = await play.applier.send(
            [plan(resize(replace(one, static=True), Resources(cpu_limit=1500)))], await play.see()
        )
        assert sending.sent[0].outcome.result is Result.UNSUPPORTED
        static = {
            "metadata": {"name": "st", "namespace": "serving", "annotations": {"kubernetes.io/config.mirror": "x"}},
            "spec": {"containers": [{"name": "server", "image": "x", "resources": {"requests": {"cpu": "100m"}}}]},
        }
        play.cluster.add_pod(static)
        mirror = next(pod for pod in await play.pods() if pod.name == "st")
        assert mirror.static
        (patch,) = patches(resize(mirror, Resources(cpu_request=200)))
        assert (await play.applier.sink.send(patch)).result is Result.UNSUPPORTED


async def test_422_a_windows_pod() -> None:
    async with stage(pod={"os": {"name": "windows"}}) as play:
        assert (await play.pods())[0].windows
        assert (await bypassing(play, Resources(cpu_limit=1500))).result is Result.UNSUPPORTED
        assert (await play.ask(Resources(cpu_limit=1500))).sent[0].outcome.result is Result.UNSUPPORTED


async def test_422_a_node_without_support() -> None:
    async with stage() as play:
        play.cluster.faults.nodes_without_resize.add("node-1")
        sending = await play.ask(Resources(cpu_limit=1500))
        assert sending.sent[0].outcome.result is Result.UNSUPPORTED
        assert (await play.attempt()).refusal == "Unsupported"


async def test_422_a_memory_limit_decrease_on_1_33() -> None:
    async with stage(kubernetes="1.33") as play:
        assert (await bypassing(play, Resources(memory_limit=1500 * 2**20))).result is Result.INVALID
        play.applier.minor = 33
        sending = await play.ask(Resources(memory_limit=1500 * 2**20))
        assert sending.sent[0].outcome.result is Result.UNSUPPORTED


async def test_403_more_than_the_node_has() -> None:
    async with stage() as play:
        play.ledger = nodes_of(Node("node-1", 4000, 16 * GI), committed_cpu={"node-1": 500})
        await both(play, Resources(cpu_request=8000, cpu_limit=8000), Result.NODE_CAPACITY, "allocatable")


async def test_403_a_resource_quota() -> None:
    async with stage() as play:
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "700m"}}}
        (await play.client.request("POST", "/api/v1/namespaces/serving/resourcequotas", None, quota)).expect("create")
        await asyncio.sleep(2)  # the quota controller counts
        view = QuotaView("serving", "q", {"requests.cpu": 700}, {"requests.cpu": 500})
        play.ledger = nodes_of(nodes_known=False, quotas=(view,))
        await both(play, Resources(cpu_request=800), Result.QUOTA, "exceeded quota: q")


async def test_403_a_limit_range() -> None:
    async with stage() as play:
        limits = {"metadata": {"name": "lr"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "1500m"}}]}}
        (await play.client.request("POST", "/api/v1/namespaces/serving/limitranges", None, limits)).expect("create")
        play.ledger = nodes_of(nodes_known=False, limit_ranges={"serving": LimitRangeView(cpu_max=1500)})
        await both(play, Resources(cpu_limit=2000), Result.LIMIT_RANGE, "maximum cpu usage per Container")


async def test_403_no_right_to_resize(tmp_path: Path) -> None:
    """No built-in role grants pods/resize."""
    async with stage() as play:
        rules = [Rule(("",), ("pods",), ("get", "list", "watch", "patch"))]
        play.cluster.add_user("poor", token="poor", rules=rules)
        config = play.cluster.kubeconfig(tmp_path / "config", token="poor")
        async with KubeClient(find_access(str(config))) as client:
            play.applier.sink = ApiSink(client)
            sending = await play.ask(Resources(cpu_limit=1500))
        assert sending.sent[0].outcome.result is Result.FORBIDDEN
        assert sending.refused == frozenset()
        assert (await play.attempt()).refusal == "Forbidden"


@pytest.mark.parametrize(
    ("message", "causes", "result"),
    [
        ('admission webhook "x.example.com" denied the request: no', [], Result.WEBHOOK),
        ("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no", [], Result.WEBHOOK),
        ("pods is forbidden", [{"reason": "UnsupportedPlatform"}], Result.UNSUPPORTED),
        ("pod requires features not declared by the node: declared features mismatch", [], Result.UNSUPPORTED),
    ],
)
async def test_403_others_by_their_words(message: str, causes: list[Any], result: Result) -> None:
    async with stage() as play:
        body = {
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden",
            "message": message, "details": {"name": "p", "kind": "pods", "causes": causes},
        }  # fmt: skip
        play.cluster.faults.troubles.append(
            Trouble("PATCH .*/resize", code=403, body=json.dumps(body).encode(), content_type="application/json")
        )
        sending = await play.ask(Resources(cpu_limit=1500))
        assert sending.sent[0].outcome.result is result
        assert (await play.attempt()).refusal == result.value


async def test_infeasible_a_guaranteed_pod_under_the_static_cpu_manager() -> None:
    nodes = (NodeSpec("node-1", cpu="4", memory="16Gi", static_cpu=True),)
    async with stage(nodes=nodes, cpu="1", cpu_limit="1", memory="1Gi", memory_limit="1Gi") as play:
        await play.ask(Resources(cpu_request=2000, cpu_limit=2000))
        attempt = await play.until(ResizeState.INFEASIBLE, within=5)
        assert "static" in attempt.message


async def test_200_that_never_does_anything_is_known_before() -> None:
    """Memory limits of one byte, ended pods: the server takes them and nothing ever happens."""
    async with stage() as play:
        assert (await play.ask(Resources(memory_request=1, memory_limit=1))).sent[0].reason is not None


async def test_200_that_silently_sets_the_request_to_the_limit_is_known_before() -> None:
    async with stage() as play:
        spec = {"containers": [{"name": "server", "image": "x", "resources": {"requests": {"memory": "64Mi"}}}]}
        play.cluster.add_pod({"metadata": {"name": "bare", "namespace": "serving"}, "spec": spec})
        await play.cluster.settled()
        which = [pod.name for pod in await play.pods()].index("bare")
        assert (await play.ask(Resources(cpu_limit=1500), which=which)).sent[0].reason is not None
        assert (await bypassing(play, Resources(cpu_limit=1500), which)).result is Result.ACCEPTED
        silently = (await play.pods())[which].containers[0].desired
        assert silently.cpu_request == 1500
