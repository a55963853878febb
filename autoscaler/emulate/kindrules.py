"""What the API server adds to a written object of each kind, and what it refuses in it."""

from typing import Any

from autoscaler.emulate import amounts, events, leases
from autoscaler.emulate.admission import limit_range_defaults
from autoscaler.emulate.kinds import Kind
from autoscaler.emulate.podspec import set_defaults
from autoscaler.emulate.status import bad_value, invalid

Json = dict[str, Any]


def complete(kind: Kind, body: Json) -> None:
    """Defaults of the kinds that have any, in place. Raises NotAQuantity."""
    spec = body.get("spec")
    if kind.group == "apps" and isinstance(spec, dict):
        spec.setdefault("replicas", 1)
        set_defaults(spec.setdefault("template", {}).setdefault("spec", {}))
        if kind.kind == "Deployment":
            rolling = {"maxUnavailable": "25%", "maxSurge": "25%"}
            strategy = spec.setdefault("strategy", {})
            if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
                strategy["rollingUpdate"] = rolling | (strategy.get("rollingUpdate") or {})
            spec.setdefault("revisionHistoryLimit", 10)
            spec.setdefault("progressDeadlineSeconds", 600)
        if kind.kind == "StatefulSet":
            spec.setdefault("podManagementPolicy", "OrderedReady")
    elif kind.kind == "LimitRange":
        limit_range_defaults(body)
    elif kind.kind == "ResourceQuota" and isinstance(spec, dict):
        hard = spec.get("hard") or {}
        spec["hard"] = {name: amounts.write(amounts.parse(hard[name])) for name in sorted(hard)}
    elif kind.kind == "Namespace":
        body.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
        body.setdefault("status", {}).setdefault("phase", "Active")
    elif kind.kind == "Event":
        for field in ("firstTimestamp", "lastTimestamp", "eventTime"):
            body.setdefault(field, None)
        body.setdefault("source", {})
        body.setdefault("reportingComponent", "")
        body.setdefault("reportingInstance", "")


def validate(kind: Kind, before: Json | None, after: Json) -> None:
    """Raises Refused. `before` is None for a new object."""
    name = after["metadata"]["name"]
    if kind.kind == "Lease":
        leases.validate(after)
    elif kind.kind == "Event" and before is None:
        if kind.group:
            events.validate_new(after, name)
        else:
            events.validate_core(after, name, after["metadata"]["namespace"])
    elif kind.group == "events.k8s.io" and before is not None:
        events.validate_change(before, after)
    elif kind.kind in ("Deployment", "ReplicaSet", "StatefulSet"):
        replicas = after["spec"].get("replicas", 0)
        if not isinstance(replicas, int) or replicas < 0:
            cause = bad_value("spec.replicas", replicas, "must be greater than or equal to 0")
            raise invalid(kind.kind, name, [cause], group=kind.group)
