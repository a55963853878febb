"""What stands around a workload: other owners of replicas or sizes, disruption budgets, limits and quotas."""

from __future__ import annotations

from typing import Final

import msgspec

from autoscaler.kube.seen import BudgetSeen, Limit, LimitsSeen, QuotaSeen, ScalerSeen
from autoscaler.kube.wire import Amounts, Meta, Raw, Selector, Wire, bytes_of, controller, milli


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


_SCALER: Final = msgspec.json.Decoder(_Scaler)
_PDB: Final = msgspec.json.Decoder(_Budget)
_LIMITS: Final = msgspec.json.Decoder(_Limits)
_QUOTA: Final = msgspec.json.Decoder(_Quota)


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
