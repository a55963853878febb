"""A policy as a custom resource: obeyed, its status answers a person's questions, Events tell what was done."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from autoscaler.emulate.authorize import ADMIN_TOKEN as TOKEN
from tests.scenarios.stage import NAMESPACE, POLICY, Stage, cluster_spec, staged

PATH = f"/apis/inference-autoscaler.dev/v1alpha1/namespaces/{NAMESPACE}/inferenceautoscalers"


class Api:
    """The emulated API as any client sees it."""

    def __init__(self, stage: Stage) -> None:
        self._url = stage.cluster.url

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with (
            aiohttp.ClientSession() as client,
            client.request(method, self._url + path, json=body, headers=headers) as answer,
        ):
            told = await answer.json()
            assert answer.status < 300, told
            return told


NONE = POLICY.replace("name: resnet", "name: other").replace("{name: other, namespace", "{name: other, namespace")


@pytest.mark.looptime
async def test_a_resource_is_obeyed_and_told_what_became_of_it(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, policy=NONE, resources=True) as stage:
        api = Api(stage)
        await asyncio.sleep(5)
        await api.call("POST", PATH, yaml.safe_load(POLICY))
        await asyncio.sleep(20)
        stage.load = 80.0
        await asyncio.sleep(40)
        assert max(stage.cores()) > 0.8
        status = (await api.call("GET", f"{PATH}/resnet"))["status"]
        assert status["target"] == "deployment/resnet"
        assert status["objective"]["text"] == "99% within 250ms"
        assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"
        assert json.loads(status["learned"])["cost.work"] == pytest.approx(0.02, rel=0.3)
        events = (await api.call("GET", f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"))["items"]
        ours = [e for e in events if e["reportingController"].startswith("inference-autoscaler.dev")]
        about = {(e["regarding"]["kind"], e["action"]) for e in ours}
        assert ("Deployment", "Resize") in about
        assert ("InferenceAutoscaler", "Resize") in about
        await api.call("DELETE", f"{PATH}/resnet")
        await asyncio.sleep(5)
        assert "resnet" not in {ref.name for ref in stage.ticks[-1].plans}


@pytest.mark.looptime
async def test_a_file_wins_over_a_resource_for_the_same_target_and_that_is_told(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, resources=True) as stage:
        api = Api(stage)
        await api.call(
            "POST", PATH, yaml.safe_load(POLICY.replace("{name: resnet, namespace", "{name: again, namespace"))
        )
        await asyncio.sleep(20)
        status = (await api.call("GET", f"{PATH}/again"))["status"]
        ready = {c["type"]: c for c in status["conditions"]}["Ready"]
        assert ready["status"] == "False"
        assert "has a policy already" in ready["message"]
        assert len(stage.ticks[-1].plans) == 1


def no_signal(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in events if each["reason"] == "NoSignal"]


@pytest.mark.looptime
async def test_blindness_is_told_when_it_lasts_and_not_at_every_start(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, policy=NONE, resources=True) as stage:
        api = Api(stage)
        events = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
        await api.call("POST", PATH, yaml.safe_load(POLICY))
        await asyncio.sleep(60)
        assert any("NoSignal" in str(tick.plans) or "NO_SIGNAL" in str(tick.plans) for tick in stage.ticks), (
            "it began so"
        )
        assert no_signal((await api.call("GET", events))["items"]) == []
        stage.cluster.faults.pages["resnet-*"] = "refused"
        await asyncio.sleep(10)
        stage.cluster.faults.pages.clear()
        await asyncio.sleep(30)
        assert no_signal((await api.call("GET", events))["items"]) == [], "nor when a page fails for a moment"
        stage.cluster.faults.pages["resnet-*"] = "refused"
        await asyncio.sleep(120)
        told = no_signal((await api.call("GET", events))["items"])
        assert sorted(each["regarding"]["kind"] for each in told) == ["Deployment", "InferenceAutoscaler"]
        status = (await api.call("GET", f"{PATH}/resnet"))["status"]
        assert {c["type"]: c["status"] for c in status["conditions"]}["ScalingActive"] == "False"
