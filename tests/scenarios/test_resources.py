"""A policy as a custom resource: obeyed, its status answers a person's questions, Events tell what was done."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
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
        assert ready["reason"] == "Conflict"
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


@pytest.mark.looptime
async def test_of_two_resources_for_one_target_the_older_is_obeyed(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, policy=NONE, resources=True) as stage:
        api = Api(stage)
        for name in ("zebra", "again"):  # the older has the later name
            await api.call(
                "POST", PATH, yaml.safe_load(POLICY.replace("{name: resnet, namespace", f"{{name: {name}, namespace"))
            )
            await asyncio.sleep(3)
        await asyncio.sleep(20)
        ready = {}
        for name in ("zebra", "again"):
            status = (await api.call("GET", f"{PATH}/{name}"))["status"]
            ready[name] = {c["type"]: c for c in status["conditions"]}["Ready"]
        assert ready["zebra"]["status"] == "True"
        assert (ready["again"]["status"], ready["again"]["reason"]) == ("False", "Conflict")
        assert "zebra" in ready["again"]["message"]
        await api.call("DELETE", f"{PATH}/zebra")
        await asyncio.sleep(20)
        status = (await api.call("GET", f"{PATH}/again"))["status"]
        assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True", "its turn has come"


@pytest.mark.looptime
async def test_a_budget_tells_who_has_how_much_of_it_and_who_wants_more(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, policy=NONE, resources=True) as stage:
        api = Api(stage)
        policy = yaml.safe_load(POLICY)
        policy["spec"]["budget"] = "vision"
        await api.call("POST", PATH, policy)
        await asyncio.sleep(15)
        ready = {c["type"]: c for c in (await api.call("GET", f"{PATH}/resnet"))["status"]["conditions"]}["Ready"]
        assert (ready["status"], ready["reason"]) == ("False", "BudgetNotFound")
        budgets = PATH.replace("inferenceautoscalers", "capacitybudgets")
        budget = {"apiVersion": policy["apiVersion"], "kind": "CapacityBudget", "metadata": {"name": "vision"}}
        await api.call("POST", budgets, budget | {"spec": {"cpu": "1500m"}})
        await asyncio.sleep(30)
        calm = (await api.call("GET", f"{budgets}/vision"))["status"]
        assert calm["observedGeneration"] == 1
        assert {c["type"]: c["status"] for c in calm["conditions"]} == {"Ready": "True", "Short": "False"}
        stage.load = 110.0
        await asyncio.sleep(60)
        status = (await api.call("GET", f"{budgets}/vision"))["status"]
        assert status["used"]["cpu"] == "1500m" == f"{round(sum(stage.cores()) * 1000)}m"
        assert [one["name"] for one in status["members"]] == ["resnet"]
        assert status["members"][0]["cpu"] == "1500m"
        short = {c["type"]: c for c in status["conditions"]}["Short"]
        assert short["status"] == "True"
        assert short["message"].startswith("resnet: ")
        writes = [e.at for e in stage.cluster.audit.writes() if e.resource == "capacitybudgets" and e.subresource]
        assert 2 <= len(writes) <= 9
        assert all(later - earlier >= 9.9 for earlier, later in pairwise(writes))
