"""The CustomResourceDefinitions, generated from the policy's classes: fields and defaults are written only there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from autoscaler.model.policy import (
    GROUP,
    VERSION,
    BudgetSpec,
    CpuBounds,
    Horizontal,
    LatencyObjective,
    MemoryBounds,
    Objective,
    PolicySpec,
    Spec,
)
from autoscaler.model.status import BudgetStatus, PolicyStatus
from autoscaler.render.schema import Schema, object_schema, rule

_ORDERED: Final = rule(
    "!has(self.min) || !has(self.max) || !isQuantity(string(self.min)) || !isQuantity(string(self.max)) || "
    "quantity(string(self.min)).compareTo(quantity(string(self.max))) <= 0",
    "min is above max",
)

RULES: Final[Mapping[type[Spec], list[Schema]]] = {
    Objective: [
        rule(
            "has(self.latency) || has(self.cpu) || (has(self.metrics) && size(self.metrics) > 0)",
            "needs at least one of latency, cpu, metrics",
        )
    ],
    LatencyObjective: [
        rule(
            "!(has(self.within) && has(self.percentile))", "within and percentile say the same thing: set one of them"
        ),
    ],
    CpuBounds: [_ORDERED],
    MemoryBounds: [_ORDERED],
    Horizontal: [
        rule(
            "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
            "minReplicas is above maxReplicas",
        )
    ],
}

POLICY_COLUMNS: Final = (
    ("Target", "string", ".spec.scaleTargetRef.name", "The object whose pods are sized.", 0),
    ("Mode", "string", ".spec.mode", "Auto, DryRun or Off.", 0),
    ("Objective", "string", ".status.objective.text", "What must hold.", 0),
    ("Misses", "string", ".status.objective.measured", "Share of missed requests, as last measured.", 0),
    ("Replicas", "integer", ".status.replicas.current", "Pods that there are.", 0),
    ("CPU", "string", ".status.cpu", "CPU of a pod's sized container.", 0),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether it can do its work.", 0),
    ("Reason", "string", ".status.lastDecision.reason", "Why the last decision was taken.", 1),
    ("Age", "date", ".metadata.creationTimestamp", "", 0),
)
BUDGET_COLUMNS: Final = (
    ("CPU", "string", ".spec.cpu", "CPU that all members may have together.", 0),
    ("Memory", "string", ".spec.memory", "Memory that all members may have together.", 0),
    ("Used CPU", "string", ".status.used.cpu", "CPU that all members have together.", 0),
    ("Wanted CPU", "string", ".status.wantedCpu", "CPU that all members would like together.", 0),
    ("Used Memory", "string", ".status.used.memory", "Memory that all members have together.", 0),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether it is obeyed.", 0),
    ("Short", "string", '.status.conditions[?(@.type=="Short")].status', "Whether a member wants more of it.", 0),
    ("Message", "string", '.status.conditions[?(@.type=="Short")].message', "Who wants more, and how much.", 1),
    ("Age", "date", ".metadata.creationTimestamp", "", 0),
)


def definitions() -> Mapping[str, Schema]:
    """Both definitions, by the name of the file that holds them."""
    return {
        "inferenceautoscalers.yaml": _definition(
            "InferenceAutoscaler",
            "inferenceautoscalers",
            ["ia"],
            "Keeps the objective of one inference workload: sizes its pods in place, then its replicas.",
            policy_spec(),
            policy_status(),
            POLICY_COLUMNS,
        ),
        "capacitybudgets.yaml": _definition(
            "CapacityBudget",
            "capacitybudgets",
            [],
            "CPU and memory that all workloads which name it may have together.",
            object_schema(BudgetSpec, RULES),
            budget_status(),
            BUDGET_COLUMNS,
        ),
    }


def policy_spec() -> Schema:
    schema = object_schema(PolicySpec, RULES)
    objective = schema["properties"]["objective"]["properties"]
    latency = objective["latency"]["properties"]
    latency["within"]["description"] += " Default 99%."
    latency["percentile"] = {
        "description": "Another spelling of within: 0.95 is read as 95%.",
        "type": "number",
        "minimum": 0,
        "exclusiveMinimum": True,
        "maximum": 1,
        "exclusiveMaximum": True,
    }
    objective["metrics"] |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    return schema


def policy_status() -> Schema:
    schema = object_schema(PolicyStatus, RULES)
    schema["properties"]["learned"]["maxLength"] = 32768
    for items, key in (("conditions", "type"), ("containers", "name")):
        schema["properties"][items] |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return schema


def budget_status() -> Schema:
    schema = object_schema(BudgetStatus, RULES)
    for items, key in (("conditions", "type"), ("members", "name")):
        schema["properties"][items] |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return schema


def _definition(
    kind: str,
    plural: str,
    short: list[str],
    description: str,
    spec: Schema,
    status: Schema | None,
    columns: tuple[tuple[str, str, str, str, int], ...],
) -> Schema:
    properties: Schema = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": spec,
    }
    if status is not None:
        properties["status"] = status
    names: Schema = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    if short:
        names["shortNames"] = short
    version: Schema = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {
                "description": description,
                "type": "object",
                "required": ["spec"],
                "properties": properties,
            }
        },
        "additionalPrinterColumns": [_column(*each) for each in columns],
    }
    if status is not None:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def _column(name: str, kind: str, path: str, description: str, priority: int) -> Schema:
    column: Schema = {"name": name, "type": kind, "jsonPath": path}
    if description:
        column["description"] = description
    if priority:
        column["priority"] = priority
    return column


class _Plain(yaml.SafeDumper):
    """Lists inside maps are indented, and no anchors are written."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def text(definition: Schema) -> str:
    """The file as it lies in ``manifests/crds``."""
    body = yaml.dump(definition, Dumper=_Plain, sort_keys=False, width=118, allow_unicode=True)
    return f"# Generated from autoscaler/model by `make crds`; don't edit.\n{body}"


def write(folder: Path) -> None:
    """One file for each definition into a folder that exists. Raises OSError."""
    for name, definition in definitions().items():
        (folder / name).write_text(text(definition), encoding="utf-8")
