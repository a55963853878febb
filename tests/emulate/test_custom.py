"""Custom resources are pruned, defaulted, checked and ruled on as a 1.36.4 API server did, asked the same.

With AUTOSCALER_REAL_SERVER set to a kubeconfig these tests ask that server instead. They leave our two definitions and
the namespace `serving` there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from autoscaler.emulate import rules
from autoscaler.emulate.cluster import ClusterSpec, EmulatedCluster
from autoscaler.kube.answer import Response
from autoscaler.kube.client import JSON, MERGE, STRATEGIC_MERGE, KubeClient
from autoscaler.kube.connect import find_access
from autoscaler.model.policy import API_VERSION
from autoscaler.render import crd

Json = dict[str, Any]
REAL = os.environ.get("AUTOSCALER_REAL_SERVER")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATH = f"/apis/{API_VERSION}/namespaces/serving/inferenceautoscalers"
UNCHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
    "existing errors to complete validation"
)
INT32 = "Checked value must be of type integer with format int32 in spec.priority"
READY = {"type": "Ready", "status": "True", "reason": "Deciding", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def policy(name: str = "x", **spec: Any) -> Json:
    whole = {"scaleTargetRef": {"name": "resnet"}, "objective": {"latency": {"target": "500ms"}}, **spec}
    return {"apiVersion": API_VERSION, "kind": "InferenceAutoscaler", "metadata": {"name": name}, "spec": whole}


class Asked:
    def __init__(self, client: KubeClient) -> None:
        self.client = client

    async def create(self, body: Json, query: str = "") -> Response:
        return await self.client.request("POST", f"{PATH}{query}", body=body)

    async def patch(self, path: str, body: Json, content_type: str = MERGE) -> Response:
        return await self.client.request("PATCH", f"{PATH}/{path}", body=body, content_type=content_type)


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    if REAL:
        async with KubeClient(find_access(REAL)) as client:
            await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "serving"}})
            for definition in crd.definitions().values():
                await define(client, definition)
            await client.request("DELETE", f"{PATH}/x")
            yield Asked(client)
            await client.request("DELETE", f"{PATH}/x")
        return
    async with EmulatedCluster(ClusterSpec()) as cluster, KubeClient(find_access(server=cluster.url)) as client:
        cluster.plane.add_namespace("serving")
        yield Asked(client)


async def define(client: KubeClient, definition: Json) -> None:
    """Make the definition what is given, and wait until it is served so."""
    path = f"{CRDS}/{definition['metadata']['name']}"
    found = await client.request("GET", path)
    if found.status == 404:
        (await client.request("POST", CRDS, body=definition)).expect("define")
    elif REAL is None or found.json()["spec"]["versions"] != definition["spec"]["versions"]:
        whole = {**found.json(), "spec": {**found.json()["spec"], **definition["spec"]}}
        (await client.request("PUT", path, body=whole)).expect("define")
    else:
        return
    spec = definition["spec"]
    served = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    while REAL and (await client.request("GET", served)).status != 200:  # noqa: ASYNC110
        await asyncio.sleep(0.2)
    if REAL:
        await asyncio.sleep(2.0)  # nothing tells when a changed schema is in use


def warning(answer: Response) -> str:
    return ", ".join(answer.headers.getall("Warning", []))  # type: ignore[attr-defined]


def causes(answer: Response) -> list[str]:
    assert answer.status == 422, answer.body
    return [f"{each['field']}: {each['message']}" for each in answer.json()["details"]["causes"]]


def either(place: str, kind: str, *more: str) -> list[str]:
    return [
        f'{place}: Invalid value: "{kind}": {place} in body must be of type integer,string: "{kind}"',
        f'<nil>: Invalid value: "": "{place}" must validate at least one schema (anyOf)',
        f'{place}: Invalid value: "{kind}": {place} in body must be of type integer: "{kind}"',
        *(f'<nil>: Invalid value: "": {each} in {place}' for each in more),
        UNCHECKED,
    ]


REFUSED: list[tuple[Json, list[str]]] = [
    ({"vertical": {"cpu": {"min": 8, "max": 2}}}, ["spec.vertical.cpu: Invalid value: min is above max"]),
    (
        {"mode": "auto"},
        ['spec.mode: Unsupported value: "auto": supported values: "Auto", "DryRun", "Off"', UNCHECKED],
    ),
    (
        {"mode": False},
        [
            'spec.mode: Invalid value: "boolean": spec.mode in body must be of type string: "boolean"',
            'spec.mode: Unsupported value: false: supported values: "Auto", "DryRun", "Off"',
            UNCHECKED,
        ],
    ),
    (
        {"priority": "high"},
        ['spec.priority: Invalid value: "string": spec.priority in body must be of type integer: "string"', UNCHECKED],
    ),
    (
        {"priority": 1.5},
        [
            'spec.priority: Invalid value: "float64": spec.priority in body must be of type int32: "float64"',
            f'<nil>: Invalid value: "": {INT32}',
            UNCHECKED,
        ],
    ),
    (
        {"resize": {"timeoutSeconds": 0}},
        [
            "spec.resize.timeoutSeconds: Invalid value: 0: spec.resize.timeoutSeconds in body should be greater than "
            "or equal to 1"
        ],
    ),
    (
        {"resize": {"timeoutSeconds": 4000}},
        [
            "spec.resize.timeoutSeconds: Invalid value: 4000: spec.resize.timeoutSeconds in body should be less than "
            "or equal to 3600"
        ],
    ),
    (
        {"vertical": {"cpu": {"min": 1.5}}},
        either("spec.vertical.cpu.min", "number", "Checked value must be of type integer (default format)"),
    ),
    ({"vertical": {"cpu": {"min": True}}}, either("spec.vertical.cpu.min", "boolean")),
    (
        {"vertical": {"cpu": {"min": "many"}}},
        ['spec.vertical.cpu.min: Invalid value: "many": write an amount such as 500m, 2, "1.5" or 1Gi'],
    ),
    (
        {"vertical": {"cpu": {"min": "5m", "max": "1m"}}},
        [
            "spec.vertical.cpu: Invalid value: min is above max",
            'spec.vertical.cpu.min: Invalid value: "5m": must be at least 10m',
        ],
    ),
    (
        {"objective": {"latency": {"target": "soon"}}},
        ['spec.objective.latency.target: Invalid value: "soon": write a duration such as 500ms, 30s or 1m30s'],
    ),
    (
        {"objective": {"latency": {"target": 250}}},
        ["spec.objective.latency.target: Invalid value: 250: write a duration such as 500ms, 30s or 1m30s"],
    ),
    (
        {"objective": {"latency": {"target": "1s", "within": "99%", "percentile": 0.95}}},
        ["spec.objective.latency: Invalid value: within and percentile say the same thing: set one of them"],
    ),
    (
        {"objective": {"latency": {"target": "1s", "percentile": 1}}},
        [
            "spec.objective.latency.percentile: Invalid value: 1: spec.objective.latency.percentile in body should be "
            "less than 1"
        ],
    ),
    ({"objective": {}}, ["spec.objective: Invalid value: needs at least one of latency, cpu, metrics"]),
    ({"objective": None}, ["spec.objective: Required value", UNCHECKED]),
    ({"scaleTargetRef": {}}, ["spec.scaleTargetRef.name: Required value", UNCHECKED]),
    (
        {"scaleTargetRef": {"name": ""}},
        [
            'spec.scaleTargetRef.name: Invalid value: "": spec.scaleTargetRef.name in body should be at least 1 chars '
            "long"
        ],
    ),
    (
        {"scaleTargetRef": {"name": "x" * 300}},
        ["spec.scaleTargetRef.name: Too long: may not be more than 253 bytes", UNCHECKED],
    ),
    (
        {"vertical": {"cpu": {"min": "1" * 40}}},
        ["spec.vertical.cpu.min: Too long: may not be more than 32 bytes", UNCHECKED],
    ),
    (
        {"objective": {"metrics": [{"name": "q", "query": "sum(q)", "target": {"type": "Value", "value": "1"}}] * 2}},
        ['spec.objective.metrics[1]: Duplicate value: {"name":"q"}'],
    ),
    (
        {"signals": {"sources": ["prometheus"] * 17}},
        ["spec.signals.sources: Too many: 17: must have at most 16 items", UNCHECKED],
    ),
    (
        {"signals": {"sources": {}}},
        [
            'spec.signals.sources: Invalid value: "object": spec.signals.sources in body must be of type array: '
            '"object"',
            UNCHECKED,
        ],
    ),
    (
        {"vertical": "none"},
        ['spec.vertical: Invalid value: "string": spec.vertical in body must be of type object: "string"', UNCHECKED],
    ),
]


@pytest.mark.parametrize(("spec", "expected"), REFUSED, ids=[str(spec)[:60] for spec, _ in REFUSED])
async def test_refused_in_the_servers_words(asked: Asked, spec: Json, expected: list[str]) -> None:
    answer = await asked.create(policy(**spec))
    # An API server looks through fields in no order of its own.
    assert sorted(causes(answer)) == sorted(expected)
    assert answer.json()["message"].startswith('InferenceAutoscaler.inference-autoscaler.dev "x" is invalid: ')
    assert (await asked.client.request("GET", f"{PATH}/x")).status == 404


async def test_what_is_left_out_comes_from_the_schema(asked: Asked) -> None:
    made = (await asked.create(policy(mode=None, vertical={"cpu": {"max": "4"}}))).expect("create").json()["spec"]
    assert made["mode"] == "Auto"
    assert made["vertical"]["cpu"] == {"max": "4", "min": "100m", "step": "100m", "controls": "RequestsAndLimits"}
    assert made["signals"]["sources"] == ["prometheus", "scrape", "kubelet", "metrics.k8s.io"]
    assert made["objective"]["latency"] == {"target": "500ms"}, "its default depends on another field"


async def test_unknown_fields_are_taken_out_with_a_warning_or_refused(asked: Asked) -> None:
    wrong = policy(verticall={"a": 1}, vertical={"cpu": {"mim": 1}})
    answer = await asked.create(wrong, "?dryRun=All")
    assert warning(answer) == (
        '299 - "unknown field \\"spec.vertical.cpu.mim\\"", 299 - "unknown field \\"spec.verticall\\""'
    )
    spec = answer.json()["spec"]
    assert "verticall" not in spec and "mim" not in spec["vertical"]["cpu"]
    refused = await asked.create(wrong, "?fieldValidation=Strict")
    assert (refused.status, refused.json()["message"]) == (
        400,
        'InferenceAutoscaler in version "v1alpha1" cannot be handled as a InferenceAutoscaler: strict decoding error: '
        'unknown field "spec.vertical.cpu.mim", unknown field "spec.verticall"',
    )
    assert not warning(await asked.create(wrong, "?fieldValidation=Ignore&dryRun=All"))


async def test_changes_are_checked_too_and_what_was_stored_may_stay(asked: Asked) -> None:
    (await asked.create(policy())).expect("create")
    answer = await asked.patch("x", {"spec": {"vertical": {"cpu": {"min": 8, "max": 2}}}})
    assert causes(answer) == ["spec.vertical.cpu: Invalid value: min is above max"]
    assert (await asked.patch("x", {"spec": {"mode": None}})).expect("patch").json()["spec"]["mode"] == "Auto"
    assert (await asked.patch("x", {"spec": {}}, STRATEGIC_MERGE)).status == 415

    version: Json = {"name": "v1", "served": True, "storage": True}
    spec: Json = {"type": "object", "properties": {"size": {"type": "integer"}, "note": {"type": "string"}}}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    definition: Json = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boxes.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Box", "plural": "boxes"},
            "versions": [version],
        },
    }  # fmt: skip
    await define(asked.client, definition)
    boxes = "/apis/example.com/v1/namespaces/serving/boxes"
    box = {"apiVersion": "example.com/v1", "kind": "Box", "metadata": {"name": "b"}, "spec": {"size": 9}}
    (await asked.client.request("POST", boxes, body=box)).expect("create")
    spec["properties"]["size"]["maximum"] = 5
    spec["properties"]["size"]["x-kubernetes-validations"] = [
        {"rule": "self >= oldSelf", "message": "a box doesn't shrink"}
    ]
    await define(asked.client, definition)

    async def change(size: int) -> Response:
        body = {"spec": {"size": size, "note": "seen"}}
        return await asked.client.request("PATCH", f"{boxes}/b", body=body, content_type=MERGE)

    assert (await change(9)).expect("leave it").json()["metadata"]["generation"] == 2
    assert causes(await change(10)) == [
        "spec.size: Invalid value: 10: spec.size in body should be less than or equal to 5"
    ]
    assert causes(await change(4)) == ["spec.size: Invalid value: 4: a box doesn't shrink"]
    await asked.client.request("DELETE", f"{CRDS}/boxes.example.com")


async def test_a_status_is_checked_as_well(asked: Asked) -> None:
    (await asked.create(policy())).expect("create")
    answer = await asked.patch("x/status", {"status": {"conditions": [{"type": "Ready", "status": "maybe"}]}})
    assert causes(answer) == [
        'status.conditions[0].status: Unsupported value: "maybe": supported values: "True", "False", "Unknown"',
        "status.conditions[0].reason: Required value",
        "status.conditions[0].lastTransitionTime: Required value",
        UNCHECKED,
    ]
    answer = await asked.patch("x/status", {"status": {"conditions": [READY, READY]}})
    assert causes(answer) == ['status.conditions[1]: Duplicate value: {"type":"Ready"}']
    answer = await asked.patch("x/status", {"status": {"conditions": [{**READY, "lastTransitionTime": "yesterday"}]}})
    assert causes(answer)[0] == (
        'status.conditions[0].lastTransitionTime: Invalid value: "yesterday": conditions[0].lastTransitionTime in body '
        'must be of type date-time: "yesterday"'
    )
    answer = await asked.patch("x/status", {"status": {"foo": 1, "conditions": [READY]}})
    assert warning(answer) == '299 - "unknown field \\"status.foo\\""'
    assert answer.json()["status"] == {"conditions": [{**READY, "message": ""}]}


@pytest.mark.skipif(REAL is not None, reason="a real server has CEL")
async def test_without_cel_a_write_says_what_was_not_checked(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "AVAILABLE", False)
    answer = await asked.create(policy(vertical={"cpu": {"min": 8, "max": 2}}))
    assert answer.status == 201
    assert "did not evaluate the CEL rules" in answer.headers["Warning"]
    assert JSON in answer.headers["Content-Type"]
