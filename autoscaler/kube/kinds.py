"""Nodes and targets as servers send them: Deployments, StatefulSets, ReplicaSets, and the Scale of anything else."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from autoscaler.kube.decode import OWN_PREFIX
from autoscaler.kube.seen import NodeSeen, ReplicaSetSeen, TargetSeen
from autoscaler.kube.selectors import render
from autoscaler.kube.wire import (
    Amounts,
    Condition,
    Meta,
    OwnedMeta,
    Raw,
    Selector,
    Sizes,
    Wire,
    bytes_of,
    controller,
    milli,
    resources,
    shared,
    when,
)
from autoscaler.model.workload import Node


class _NodeSpec(Wire):
    unschedulable: bool | None = None


class _NodeStatus(Wire):
    allocatable: Amounts | None = None
    conditions: list[Condition] | None = None


class _Node(Wire):
    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


class _TemplateContainer(Wire):
    name: str = ""
    resources: Sizes | None = None
    restart_policy: str | None = None


class _TemplateSpec(Wire):
    containers: list[_TemplateContainer] | None = None
    init_containers: list[_TemplateContainer] | None = None


class _Template(Wire):
    spec: _TemplateSpec = msgspec.field(default_factory=_TemplateSpec)


class _RollingUpdate(Wire):
    partition: int | None = None


class _Strategy(Wire):
    type: str | None = None
    rolling_update: _RollingUpdate | None = None


class _TargetSpec(Wire):
    replicas: int | None = None
    paused: bool | None = None
    selector: Selector | None = None
    template: _Template | None = None
    update_strategy: _Strategy | None = None


class _TargetStatus(Wire):
    replicas: int | None = None
    updated_replicas: int | None = None
    observed_generation: int | None = None
    current_revision: str | None = None
    update_revision: str | None = None
    selector: str | None = None


class _Target(Wire):
    metadata: OwnedMeta = msgspec.field(default_factory=OwnedMeta)
    spec: _TargetSpec = msgspec.field(default_factory=_TargetSpec)
    status: _TargetStatus = msgspec.field(default_factory=_TargetStatus)


class _ScaleStatus(Wire):
    replicas: int | None = None
    selector: str | None = None


class _Scale(Wire):
    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: _TargetSpec = msgspec.field(default_factory=_TargetSpec)
    status: _ScaleStatus = msgspec.field(default_factory=_ScaleStatus)


_NODE: Final = msgspec.json.Decoder(_Node)
_TARGET: Final = msgspec.json.Decoder(_Target)
_SCALE: Final = msgspec.json.Decoder(_Scale)


def decode_node(raw: Raw) -> NodeSeen:
    wire = _NODE.decode(raw)
    labels = wire.metadata.labels or {}
    allocatable = wire.status.allocatable or {}
    node = Node(
        name=wire.metadata.name,
        cpu=milli(allocatable.get("cpu", 0)),
        memory=bytes_of(allocatable.get("memory", 0)),
        ready=any(c.type == "Ready" and c.status == "True" for c in wire.status.conditions or ()),
        unschedulable=bool(wire.spec.unschedulable),
        zone=labels.get("topology.kubernetes.io/zone") or labels.get("failure-domain.beta.kubernetes.io/zone") or "",
    )
    return NodeSeen(node, wire.metadata.resource_version)


def decode_deployment(raw: Raw) -> TargetSeen:
    wire = _TARGET.decode(raw)
    meta, status = wire.metadata, wire.status
    unobserved = status.observed_generation is not None and status.observed_generation < (meta.generation or 0)
    return TargetSeen(kind="Deployment", rolling=unobserved, paused=bool(wire.spec.paused), **_target(wire))


def decode_stateful_set(raw: Raw) -> TargetSeen:
    """A rollout is under way until every pod above the partition has the update revision; OnDelete waits for people."""
    wire = _TARGET.decode(raw)
    spec, status = wire.spec, wire.status
    strategy = spec.update_strategy or _Strategy()
    partition = (strategy.rolling_update.partition if strategy.rolling_update else None) or 0
    goal = max(0, (1 if spec.replicas is None else spec.replicas) - partition)
    differs = bool(status.update_revision) and status.current_revision != status.update_revision
    rolling = strategy.type != "OnDelete" and differs and (status.updated_replicas or 0) < goal
    return TargetSeen(
        kind="StatefulSet", rolling=rolling, template_hash=status.update_revision or "", **_target(wire)
    )  # fmt: skip


def decode_replica_set(raw: Raw) -> ReplicaSetSeen:
    wire = _TARGET.decode(raw)
    revision = (wire.metadata.annotations or {}).get("deployment.kubernetes.io/revision", "0")
    return ReplicaSetSeen(
        kind="ReplicaSet",
        template_hash=(wire.metadata.labels or {}).get("pod-template-hash", ""),
        revision=int(revision) if revision.isdecimal() else 0,
        **_target(wire),
    )


def decode_scale(raw: Raw, api_version: str, kind: str) -> TargetSeen:
    """``autoscaling/v1`` Scale of any kind. ``spec.replicas`` is absent at zero. The uid is the scaled object's own."""
    wire = _SCALE.decode(raw)
    meta = wire.metadata
    return TargetSeen(
        namespace=meta.namespace, name=meta.name, uid=meta.uid, resource_version=meta.resource_version,
        api_version=api_version, kind=kind, replicas=wire.spec.replicas or 0, current=wire.status.replicas or 0,
        selector=wire.status.selector or "",
    )  # fmt: skip


def decode_unscalable(raw: Raw, api_version: str, kind: str) -> TargetSeen:
    """An object without a scale subresource, such as a DaemonSet or a Pod: its pods can be sized, not counted."""
    meta = _TARGET.decode(raw).metadata
    return TargetSeen(
        meta.namespace, meta.name, meta.uid, meta.resource_version, api_version=api_version, kind=kind, scalable=False
    )


def _target(wire: _Target) -> dict[str, Any]:
    meta, spec, status = wire.metadata, wire.spec, wire.status
    scaled_by, scaled_at = _scaled_by(meta)
    template = spec.template.spec if spec.template is not None else _TemplateSpec()
    sized = [*(template.containers or ()), *(c for c in template.init_containers or () if c.restart_policy == "Always")]
    return {
        "namespace": meta.namespace, "name": meta.name, "uid": meta.uid, "resource_version": meta.resource_version,
        "replicas": 1 if spec.replicas is None else spec.replicas, "current": status.replicas or 0,
        "template": {c.name: resources(c.resources) for c in sized},
        "selector": render(spec.selector), "owner": controller(meta),
        "annotations": shared({k: v for k, v in (meta.annotations or {}).items() if k.startswith(OWN_PREFIX)}),
        "scaled_by": scaled_by, "scaled_at": scaled_at,
    }  # fmt: skip


def _scaled_by(meta: OwnedMeta) -> tuple[str, float | None]:
    """The manager that owns ``spec.replicas`` and when it last wrote."""
    found: tuple[str, float | None] = ("", None)
    for entry in meta.managed_fields or ():
        owns = b'"f:replicas"' in bytes(entry.fields_v1)
        if owns and entry.subresource in ("", "scale"):
            at = when(entry.time)
            if not found[0] or (at or 0.0) >= (found[1] or 0.0):
                found = (entry.manager, at)
    return found
