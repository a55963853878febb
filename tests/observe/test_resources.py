"""Policies as custom resources, watched over HTTP: read, refused with a sentence, mixed with those of files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from autoscaler.emulate.cluster import EmulatedCluster
from autoscaler.emulate.spec import ClusterSpec
from autoscaler.kube.client import MERGE, KubeClient
from autoscaler.kube.connect import find_access
from autoscaler.model.policy import API_VERSION, Policy, PolicySpec
from autoscaler.model.workload import WorkloadRef
from autoscaler.observe.policy_files import Policies
from autoscaler.observe.resource_news import ResourceNews
from autoscaler.observe.resources import CustomResources

MEASURED = {"signals": {"latency": {"histogram": "request_duration_seconds"}}}
FOLDER = f"/apis/{API_VERSION}/namespaces/serving"


def resource(name: str, target: str = "", kind: str = "InferenceAutoscaler", **spec: Any) -> dict[str, Any]:
    if kind == "InferenceAutoscaler":
        spec = (
            {"scaleTargetRef": {"name": target or name}, "objective": {"latency": {"target": "500ms"}}}
            | MEASURED
            | spec
        )
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name, "namespace": "serving"}, "spec": spec}


def of_file(name: str, target: str = "") -> Policies:
    spec = PolicySpec.model_validate(resource(name, target)["spec"])
    return Policies((Policy(ref=WorkloadRef("serving", name), spec=spec, origin="policies.yaml[doc 1]"),))


@asynccontextmanager
async def watching(namespace: str | None = "serving") -> AsyncIterator[tuple[KubeClient, CustomResources]]:
    async with (
        EmulatedCluster(ClusterSpec()) as cluster,
        KubeClient(find_access(server=cluster.url), jitter_s=0.01) as client,
    ):
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "serving"}}
        (await client.request("POST", "/api/v1/namespaces", body=space)).expect("create")
        resources = CustomResources(client, namespace)
        task = asyncio.create_task(resources.run())
        try:
            async with asyncio.timeout(10):
                await resources.wait_settled()
            yield client, resources
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def create(client: KubeClient, made: dict[str, Any]) -> None:
    plural = {"InferenceAutoscaler": "inferenceautoscalers", "CapacityBudget": "capacitybudgets"}[made["kind"]]
    (await client.request("POST", f"{FOLDER}/{plural}", body=made)).expect("create")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_resource_becomes_a_policy_and_shows_where_it_is_from() -> None:
    async with watching() as (client, resources):
        await create(client, resource("resnet", priority=3))
        await until(lambda: bool(resources.mixed().policies))
        (policy,) = resources.mixed().policies
        assert (policy.ref, policy.spec.priority) == (WorkloadRef("serving", "resnet"), 3)
        assert policy.origin == "InferenceAutoscaler serving/resnet"
        assert policy.generation == 1
        assert resources.mixed().resources[policy.ref].uid


async def test_a_change_arrives_and_a_deletion_too() -> None:
    async with watching() as (client, resources):
        await create(client, resource("resnet"))
        path = f"{FOLDER}/inferenceautoscalers/resnet"
        (await client.request("PATCH", path, body={"spec": {"mode": "DryRun"}}, content_type=MERGE)).expect("patch")
        await until(lambda: [p.spec.mode for p in resources.mixed().policies] == ["DryRun"])
        assert resources.mixed().policies[0].generation == 2
        (await client.request("DELETE", path)).expect("delete")
        await until(lambda: not resources.mixed().policies)


async def test_what_the_schema_let_through_is_refused_with_the_field_and_the_others_go_on() -> None:
    async with watching() as (client, resources):
        await create(client, resource("bad", signals={"latency": {"labels": {"model": "a"}}}))
        await create(client, resource("good"))
        await until(lambda: len(resources.mixed().policies) == 1 and bool(resources.mixed().refused))
        (told,) = resources.mixed().refused.values()
        assert told.startswith("spec.signals.latency: names no metric")


async def test_two_resources_for_one_target_leave_the_older_in_force() -> None:
    async with watching() as (client, resources):
        await create(client, resource("a-first", target="resnet"))
        await create(client, resource("b-second", target="resnet"))
        await until(lambda: bool(resources.mixed().refused))
        assert [policy.ref.name for policy in resources.mixed().policies] == ["a-first"]
        (told,) = resources.mixed().refused.values()
        assert "has a policy already, a-first in InferenceAutoscaler serving/a-first" in told


async def test_a_file_wins_over_a_resource() -> None:
    async with watching() as (client, resources):
        await create(client, resource("resnet", priority=9))
        await until(lambda: bool(resources.mixed().policies))
        mixed = resources.mixed(of_file("resnet"))
        assert [(policy.origin, policy.spec.priority) for policy in mixed.policies] == [("policies.yaml[doc 1]", 0)]
        (told,) = mixed.refused.values()
        assert "is defined already in policies.yaml[doc 1]" in told
        other = resources.mixed(of_file("other", target="elsewhere"))
        assert {policy.ref.name for policy in other.policies} == {"resnet", "other"}


async def test_a_budget_named_before_it_exists_is_waited_for() -> None:
    async with watching() as (client, resources):
        await create(client, resource("resnet", budget="vision"))
        await until(lambda: bool(resources.mixed().refused))
        assert "no CapacityBudget 'vision'" in next(iter(resources.mixed().refused.values()))
        await create(client, resource("vision", kind="CapacityBudget", cpu="32"))
        await until(lambda: bool(resources.mixed().policies))
        assert resources.mixed().budgets[0].spec.cpu == 32_000
        assert not resources.mixed().refused


async def test_what_becomes_of_resources_is_told_once_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "autoscaler.observe.resource_news")
    news = ResourceNews()
    async with watching() as (client, resources):

        async def told(condition: Callable[[], bool]) -> list[str]:
            await until(condition)
            caplog.clear()
            for _ in range(3):
                news.tell(resources, Policies())
            said = []
            for record in caplog.records:
                fields = record.fields  # type: ignore[attr-defined]
                said.append(f"{record.getMessage()} {fields.get('resource', '')} {fields.get('why', '')}".strip())
            return said

        await create(client, resource("one", "web"))
        assert await told(lambda: len(resources.seen()) == 1) == ["custom resources are read"]
        await create(client, resource("two", "web"))
        (line,) = await told(lambda: len(resources.seen()) == 2)
        assert line.startswith("a custom resource is not obeyed InferenceAutoscaler serving/two") and "one" in line
        (await client.request("DELETE", f"{FOLDER}/inferenceautoscalers/one")).expect("delete")
        assert await told(lambda: len(resources.seen()) == 1) == [
            "a custom resource is obeyed again InferenceAutoscaler serving/two",
            "a custom resource is gone InferenceAutoscaler serving/one",
        ]
