"""Pods are taken away in order: marked, drained, and only then gone; a person's number is left alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import msgspec
import pytest

from autoscaler.emulate.authorize import ADMIN_TOKEN, Rule
from autoscaler.model.plan import Scale
from autoscaler.model.reason import Code
from tests.scenarios.stage import NAME, NAMESPACE, POLICY, Stage, cluster_spec, staged

ADMIN = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
QUICK = POLICY.replace(
    "{minReplicas: 2, maxReplicas: 6}",
    "{minReplicas: 1, maxReplicas: 6, behavior: {scaleDown: {stabilizationWindowSeconds: 20}}}",
)
COST, MARK = "controller.kubernetes.io/pod-deletion-cost", "inference-autoscaler.dev/draining"


def said(stage: Stage) -> set[Code]:
    return {hold.code for tick in stage.ticks for plan in tick.plans.values() for hold in plan.holds}


@pytest.mark.looptime
async def test_the_marked_pod_goes_after_its_requests_and_the_others_grew_before(tmp_path: Path) -> None:
    spec = cluster_spec(10.0)
    spec.workloads[0] = msgspec.structs.replace(spec.workloads[0], replicas=3, grace=0)
    async with staged(spec, tmp_path, policy=QUICK) as stage:
        await asyncio.sleep(200)
        assert stage.replicas() == len(stage.pods()) == 1
        audit = stage.cluster.audit
        marks, scales = audit.of("patch", "pods", ""), audit.of("patch", "deployments", "scale")
        assert [entry.code for entry in (*marks, *scales)] == [200] * 4
        for mark, scale in zip(marks, scales, strict=True):
            assert scale.at - mark.at >= 3.0
        assert marks[1].at > scales[0].at  # one at a time
        chosen = [entry.name for entry in marks]
        left = {pod["metadata"]["name"] for pod in stage.pods()}
        assert not left & set(chosen)
        notes = stage.pods()[0]["metadata"].get("annotations", {})
        assert COST not in notes
        assert MARK not in notes
        assert stage.restarts() == 0
        assert stage.misses() == 0.0
        assert Code.GRACE_SHORT in said(stage)


@pytest.mark.looptime
async def test_a_statefulset_gives_its_highest_ordinals(tmp_path: Path) -> None:
    spec = cluster_spec(10.0)
    spec.workloads[0] = msgspec.structs.replace(spec.workloads[0], replicas=3, kind="StatefulSet")
    policy = QUICK.replace("scaleTargetRef: {name: resnet}", "scaleTargetRef: {kind: StatefulSet, name: resnet}")
    async with staged(spec, tmp_path, policy=policy) as stage:
        await asyncio.sleep(200)
        assert [pod["metadata"]["name"] for pod in stage.pods()] == ["resnet-0"]
        assert [entry.name for entry in stage.cluster.audit.of("patch", "pods", "")] == ["resnet-2", "resnet-1"]
        assert stage.misses() == 0.0


@pytest.mark.looptime
async def test_who_may_not_mark_pods_still_takes_them_away(tmp_path: Path) -> None:
    rules = [
        Rule(("*",), ("*",), ("get", "list", "watch")),
        Rule(("",), ("pods/resize",), ("patch",)),
        Rule(("apps",), ("deployments/scale",), ("patch",)),
    ]
    async with staged(cluster_spec(10.0), tmp_path, policy=QUICK, token="scaler", rules=rules) as stage:
        await asyncio.sleep(200)
        assert stage.replicas() == 1
        assert {entry.code for entry in stage.cluster.audit.of("patch", "pods", "")} == {403}


@pytest.mark.looptime
async def test_pods_stay_where_the_others_have_no_room_to_grow(tmp_path: Path) -> None:
    policy = QUICK.replace('cpu: {min: 200m, max: "2"}', 'cpu: {min: 500m, max: "2"}')
    async with staged(cluster_spec(20.0, node_cpu="1"), tmp_path, policy=policy) as stage:
        await asyncio.sleep(120)
        assert stage.replicas() == 2
        assert Code.NO_ROOM_TO_CONSOLIDATE in said(stage)
        assert not stage.cluster.audit.of("patch", "pods", "")


@pytest.mark.looptime
async def test_what_a_person_scales_is_left_alone(tmp_path: Path) -> None:
    async with staged(cluster_spec(10.0), tmp_path, policy=QUICK.replace("minReplicas: 1", "minReplicas: 2")) as stage:
        await asyncio.sleep(30)
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{NAME}/scale"
        headers = {**ADMIN, "Content-Type": "application/merge-patch+json"}
        async with aiohttp.ClientSession() as client:
            body = b'{"spec": {"replicas": 5}}'
            await client.patch(f"{stage.cluster.url}{path}?fieldManager=kubectl", data=body, headers=headers)
        await asyncio.sleep(300)
        assert stage.replicas() == len(stage.pods()) == 5
        assert Code.OTHER_OWNER in said(stage)
        await asyncio.sleep(500)
        assert stage.replicas() == 2
        scales = [one.action for tick in stage.ticks for one in tick.sent if isinstance(one.action, Scale)]
        assert [(scale.before, scale.after) for scale in scales] == [(5, 4), (4, 3), (3, 2)]
