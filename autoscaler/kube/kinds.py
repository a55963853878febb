"""Everything but pods: nodes, targets, ReplicaSets, other owners, disruption budgets, limits, quotas → slim values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from autoscaler.kube.decode import OWN_PREFIX
from autoscaler.kube.selectors import render
from autoscaler.kube.wire import (
    Amounts,
    Condition,
    Meta,
    OwnedMeta,
    Owner,
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
from autoscaler.model.workload import Node, Resources


@dataclass(frozen=True, slots=True)
class Named:
    """What every object has. ``key`` identifies it in a store."""

    namespace: str
    name: str
    uid: str
    resource_version: str

    @property
    def key(self) -> str:
        return self.uid


@dataclass(frozen=True, slots=True)
class NodeSeen:
    node: Node
    resource_version: str

    @property
    def key(self) -> str:
        return self.node.name


@dataclass(frozen=True, slots=True)
class TargetSeen(Named):
    """A Deployment, StatefulSet or ReplicaSet, or the scale subresource of anything else.

    ``rolling`` as far as the object's own status tells; a Deployment's ReplicaSets tell more. ``template_hash`` is
    known from the object itself for StatefulSets only. ``template`` maps container names to their sizes in
    the pod template.
    """

    api_version: str = "apps/v1"
    kind: str = "Deployment"
    replicas: int = 1
    current: int = 0
    rolling: bool = False
    paused: bool = False
    template: Mapping[str, Resources] = field(default_factory=dict)
    template_hash: str = ""
    selector: str = ""
    owner: Owner | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    scaled_by: str = ""
    scaled_at: float | None = None
    scalable: bool = True


@dataclass(frozen=True, slots=True)
class ReplicaSetSeen(TargetSeen):
    revision: int = 0


@dataclass(frozen=True, slots=True)
class ScalerSeen(Named):
    """Another owner of replicas or sizes: an HPA, a ScaledObject, a VPA. ``by`` is how it is named to a person."""

    kind: str = ""
    target_kind: str = ""
    target_name: str = ""
    by: str = ""
    acts: bool = True
    """False when it only watches: a VPA in mode Off, a paused ScaledObject."""


@dataclass(frozen=True, slots=True)
class BudgetSeen(Named):
    """A PodDisruptionBudget. ``healthy`` is how many pods must stay, once the controller has said so."""

    selector: Selector = field(default_factory=Selector)
    healthy: int | None = None
    min_available: str | int | None = None
    max_unavailable: str | int | None = None


@dataclass(frozen=True, slots=True)
class LimitsSeen(Named):
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class Limit:
    """One entry of a LimitRange: ``type`` is Container or Pod; millicores and bytes by ``cpu``/``memory``."""

    type: str
    low: Mapping[str, int]
    high: Mapping[str, int]
    cpu_ratio: float | None


@dataclass(frozen=True, slots=True)
class QuotaSeen(Named):
    """A ResourceQuota on running pods; ``hard`` and ``used`` by full key (``requests.cpu``), millicores or bytes."""

    hard: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    applies: bool = True
    """False when its scopes may leave inference pods out: then the server's refusal is the truth."""


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


class _TargetRef(Wire):
    kind: str | None = None
    name: str | None = None


class _UpdatePolicy(Wire):
    update_mode: str | None = None


class _ScalerSpec(Wire):
    scale_target_ref: _TargetRef | None = None
    target_ref: _TargetRef | None = None
    update_policy: _UpdatePolicy | None = None


class _Scaler(Wire):
    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: _ScalerSpec = msgspec.field(default_factory=_ScalerSpec)


class _BudgetSpec(Wire):
    selector: Selector | None = None
    min_available: str | int | None = None
    max_unavailable: str | int | None = None


class _BudgetStatus(Wire):
    desired_healthy: int | None = None


class _Budget(Wire):
    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: _BudgetSpec = msgspec.field(default_factory=_BudgetSpec)
    status: _BudgetStatus | None = None


class _LimitItem(Wire):
    type: str = ""
    max: Amounts | None = None
    min: Amounts | None = None
    max_limit_request_ratio: Amounts | None = None


class _LimitSpec(Wire):
    limits: list[_LimitItem] | None = None


class _Limits(Wire):
    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: _LimitSpec = msgspec.field(default_factory=_LimitSpec)


class _ScopeSelector(Wire):
    match_expressions: list[msgspec.Raw] | None = None


class _QuotaSpec(Wire):
    scopes: list[str] | None = None
    scope_selector: _ScopeSelector | None = None


class _QuotaStatus(Wire):
    hard: Amounts | None = None
    used: Amounts | None = None


class _Quota(Wire):
    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: _QuotaSpec = msgspec.field(default_factory=_QuotaSpec)
    status: _QuotaStatus = msgspec.field(default_factory=_QuotaStatus)


_NODE: Final = msgspec.json.Decoder(_Node)
_TARGET: Final = msgspec.json.Decoder(_Target)
_SCALE: Final = msgspec.json.Decoder(_Scale)
_SCALER: Final = msgspec.json.Decoder(_Scaler)
_PDB: Final = msgspec.json.Decoder(_Budget)
_LIMITS: Final = msgspec.json.Decoder(_Limits)
_QUOTA: Final = msgspec.json.Decoder(_Quota)

Raw = bytes | msgspec.Raw


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


def decode_hpa(raw: Raw) -> ScalerSeen:
    wire = _SCALER.decode(raw)
    owner = controller(wire.metadata)
    by = f"{owner.kind.lower()}/{owner.name}" if owner is not None else f"hpa/{wire.metadata.name}"
    return _scaler(wire, "HorizontalPodAutoscaler", by)


def decode_scaled_object(raw: Raw) -> ScalerSeen:
    """KEDA's; paused ones leave the replicas alone."""
    wire = _SCALER.decode(raw)
    notes = wire.metadata.annotations or {}
    paused = notes.get("autoscaling.keda.sh/paused") == "true" or "autoscaling.keda.sh/paused-replicas" in notes
    return _scaler(wire, "ScaledObject", f"scaledobject/{wire.metadata.name}", acts=not paused)


def decode_vpa(raw: Raw) -> ScalerSeen:
    wire = _SCALER.decode(raw)
    mode = (wire.spec.update_policy.update_mode if wire.spec.update_policy else None) or "Auto"
    return _scaler(wire, "VerticalPodAutoscaler", f"vpa/{wire.metadata.name}", acts=mode != "Off")


def _scaler(wire: _Scaler, kind: str, by: str, acts: bool = True) -> ScalerSeen:
    meta, ref = wire.metadata, wire.spec.scale_target_ref or wire.spec.target_ref or _TargetRef()
    return ScalerSeen(
        meta.namespace, meta.name, meta.uid, meta.resource_version,
        kind, ref.kind or "Deployment", ref.name or "", by, acts,
    )  # fmt: skip


def decode_disruption_budget(raw: Raw) -> BudgetSeen:
    wire = _PDB.decode(raw)
    meta, spec = wire.metadata, wire.spec
    return BudgetSeen(
        meta.namespace, meta.name, meta.uid, meta.resource_version, spec.selector or Selector(),
        wire.status.desired_healthy if wire.status else None, spec.min_available, spec.max_unavailable,
    )  # fmt: skip


def decode_limit_range(raw: Raw) -> LimitsSeen:
    wire = _LIMITS.decode(raw)
    meta = wire.metadata
    limits = tuple(
        Limit(item.type, _amounts(item.min), _amounts(item.max), _ratio(item.max_limit_request_ratio))
        for item in wire.spec.limits or ()
    )
    return LimitsSeen(meta.namespace, meta.name, meta.uid, meta.resource_version, limits)


def _amounts(amounts: Amounts | None) -> dict[str, int]:
    seen = amounts or {}
    found = {"cpu": milli(seen["cpu"])} if "cpu" in seen else {}
    return found | ({"memory": bytes_of(seen["memory"])} if "memory" in seen else {})


def _ratio(amounts: Amounts | None) -> float | None:
    return milli(amounts["cpu"]) / 1000 if amounts and "cpu" in amounts else None


_QUOTA_KEYS: Final = {
    "cpu": "requests.cpu", "requests.cpu": "requests.cpu", "limits.cpu": "limits.cpu",
    "memory": "requests.memory", "requests.memory": "requests.memory", "limits.memory": "limits.memory",
    "pods": "pods", "count/pods": "pods",
}  # fmt: skip


def decode_quota(raw: Raw) -> QuotaSeen:
    wire = _QUOTA.decode(raw)
    meta, spec = wire.metadata, wire.spec
    everyone = set(spec.scopes or ()) <= {"NotTerminating", "NotBestEffort"} and spec.scope_selector is None
    return QuotaSeen(
        meta.namespace, meta.name, meta.uid, meta.resource_version,
        _quota_amounts(wire.status.hard), _quota_amounts(wire.status.used), everyone,
    )  # fmt: skip


def _quota_amounts(amounts: Amounts | None) -> dict[str, int]:
    found: dict[str, int] = {}
    for key, amount in (amounts or {}).items():
        name = _QUOTA_KEYS.get(key)
        if name is None:
            continue
        value = milli(amount) if name.endswith("cpu") else bytes_of(amount)
        found[name] = min(value, found.get(name, value))
    return found
