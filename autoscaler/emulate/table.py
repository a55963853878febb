"""Server-side tables, as kubectl asks for them (`as=Table`)."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from autoscaler.emulate.columns import printer
from autoscaler.emulate.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from autoscaler.emulate.request import Call
from autoscaler.emulate.selectors import write_selector
from autoscaler.emulate.store import Json, Stored

if TYPE_CHECKING:
    from autoscaler.emulate.controlplane import ControlPlane

Row = Callable[[Mapping[str, Any], float], list[Any]]
_NAME = ("Name", "string", 0)
_AGE = ("Age", "string", 0)


def wants_table(accept: str) -> bool:
    """Only if the first alternative is a table of the version served."""
    first = accept.partition(",")[0]
    return "as=Table" in first and "v=v1;" in first + ";"


def as_table(kind: Kind, items: Sequence[Stored], plane: "ControlPlane", revision: str, call: Call) -> Json:
    """Columns and rows; each row carries the object's metadata (or all of it, or nothing, as asked)."""
    columns, row = _TABLES.get(kind.kind, (_PLAIN, _plain))
    if kind.custom:
        definition = plane.store.get(CUSTOM_RESOURCE_DEFINITION.storage, "", f"{kind.plural}.{kind.group}")
        if definition is not None:
            columns, row = printer(definition.body, kind.version, age)
    now = plane.timeline.wall()
    include = call.query.get("includeObject", "Metadata")
    rows = []
    for stored in items:
        one: Json = {"cells": row(stored.body, now)}
        if include == "Object":
            one["object"] = {"kind": kind.kind, "apiVersion": kind.api_version, **stored.body}
        elif include != "None":
            metadata = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
            one["object"] = metadata | {"metadata": stored.body["metadata"]}
        rows.append(one)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": revision},
        "columnDefinitions": [
            {
                "name": name,
                "type": type_,
                "format": "name" if name == "Name" else "",
                "description": "",
                "priority": priority,
            }
            for name, type_, priority in columns
        ],
        "rows": rows,
    }


def age(body: Mapping[str, Any], now: float) -> str:
    """As kubectl writes it: 5s, 3m12s, 2h, 4d."""
    stamp = body["metadata"].get("creationTimestamp")
    if not stamp:
        return "<unknown>"
    seconds = max(0, int(now - _seconds(stamp)))
    return _duration(seconds)


def _seconds(stamp: str) -> float:
    return datetime.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC).timestamp()


def _duration(seconds: int) -> str:
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    return f"{hours}h" if hours < 48 else f"{days}d"


_PLAIN = (_NAME, ("Created At", "date", 0))


def _plain(body: Mapping[str, Any], now: float) -> list[Any]:
    return [body["metadata"]["name"], body["metadata"].get("creationTimestamp", "")]


_POD = (
    _NAME, ("Ready", "string", 0), ("Status", "string", 0), ("Restarts", "string", 0), _AGE, ("IP", "string", 1),
    ("Node", "string", 1), ("Nominated Node", "string", 1), ("Readiness Gates", "string", 1),
)  # fmt: skip


def _pod(body: Mapping[str, Any], now: float) -> list[Any]:
    status = body.get("status") or {}
    containers = status.get("containerStatuses") or []
    ready = sum(bool(one.get("ready")) for one in containers)
    restarts = sum(int(one.get("restartCount", 0)) for one in containers)
    shown = status.get("phase", "Unknown")
    for one in containers:
        state = one.get("state") or {}
        shown = (state.get("waiting") or state.get("terminated") or {}).get("reason") or shown
    if "deletionTimestamp" in body["metadata"]:
        shown = "Terminating"
    name, total = body["metadata"]["name"], len(body["spec"].get("containers") or [])
    node = body["spec"].get("nodeName") or "<none>"
    return [
        name, f"{ready}/{total}", shown, str(restarts), age(body, now), status.get("podIP") or "<none>", node,
        "<none>", "<none>",
    ]  # fmt: skip


_DEPLOYMENT = (
    _NAME, ("Ready", "string", 0), ("Up-to-date", "integer", 0), ("Available", "integer", 0), _AGE,
    ("Containers", "string", 1), ("Images", "string", 1), ("Selector", "string", 1),
)  # fmt: skip


def _templates(body: Mapping[str, Any]) -> list[Any]:
    containers = body["spec"]["template"]["spec"].get("containers") or []
    names = ",".join(one.get("name", "") for one in containers)
    images = ",".join(one.get("image", "") for one in containers)
    return [names, images, write_selector(body["spec"].get("selector"))]


def _deployment(body: Mapping[str, Any], now: float) -> list[Any]:
    status = body.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{body['spec'].get('replicas', 1)}"
    updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    return [body["metadata"]["name"], ready, updated, available, age(body, now), *_templates(body)]


_REPLICA_SET = (
    _NAME, ("Desired", "integer", 0), ("Current", "integer", 0), ("Ready", "integer", 0), _AGE,
    ("Containers", "string", 1), ("Images", "string", 1), ("Selector", "string", 1),
)  # fmt: skip


def _replica_set(body: Mapping[str, Any], now: float) -> list[Any]:
    status = body.get("status") or {}
    counts = [body["spec"].get("replicas", 1), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [body["metadata"]["name"], *counts, age(body, now), *_templates(body)]


_STATEFUL_SET = (_NAME, ("Ready", "string", 0), _AGE, ("Containers", "string", 1), ("Images", "string", 1))


def _stateful_set(body: Mapping[str, Any], now: float) -> list[Any]:
    ready = f"{(body.get('status') or {}).get('readyReplicas', 0)}/{body['spec'].get('replicas', 1)}"
    return [body["metadata"]["name"], ready, age(body, now), *_templates(body)[:2]]


_NODE = (
    _NAME, ("Status", "string", 0), ("Roles", "string", 0), _AGE, ("Version", "string", 0),
    ("Internal-IP", "string", 1),
)  # fmt: skip


def _node(body: Mapping[str, Any], now: float) -> list[Any]:
    ready = next((one for one in body["status"]["conditions"] if one["type"] == "Ready"), {"status": "Unknown"})
    shown = "Ready" if ready["status"] == "True" else "NotReady"
    if body["spec"].get("unschedulable"):
        shown += ",SchedulingDisabled"
    version = body["status"]["nodeInfo"]["kubeletVersion"]
    return [
        body["metadata"]["name"],
        shown,
        "<none>",
        age(body, now),
        version,
        body["status"]["addresses"][0]["address"],
    ]


_EVENT = (
    ("Last Seen", "string", 0), ("Type", "string", 0), ("Reason", "string", 0), ("Object", "string", 0),
    ("Message", "string", 0), ("Name", "string", 1),
)  # fmt: skip


def _event(body: Mapping[str, Any], now: float) -> list[Any]:
    about = body.get("involvedObject") or {}
    named = f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"
    seen = body.get("lastTimestamp") or body.get("eventTime") or body["metadata"].get("creationTimestamp")
    since = _duration(max(0, int(now - _seconds(seen)))) if seen else "<unknown>"
    return [
        since,
        body.get("type", ""),
        body.get("reason", ""),
        named,
        body.get("message", ""),
        body["metadata"]["name"],
    ]


_LEASE = (_NAME, ("Holder", "string", 0), _AGE)
_BUDGET = (
    _NAME, ("Min Available", "string", 0), ("Max Unavailable", "string", 0), ("Allowed Disruptions", "integer", 0),
    _AGE,
)  # fmt: skip
_NAMESPACE = (_NAME, ("Status", "string", 0), _AGE)
_AUTOSCALER = (
    _NAME, ("Reference", "string", 0), ("MinPods", "string", 0), ("MaxPods", "string", 0), ("Replicas", "integer", 0),
    _AGE,
)  # fmt: skip


def _lease(body: Mapping[str, Any], now: float) -> list[Any]:
    return [body["metadata"]["name"], (body.get("spec") or {}).get("holderIdentity", ""), age(body, now)]


def _budget(body: Mapping[str, Any], now: float) -> list[Any]:
    spec, status = body["spec"], body.get("status") or {}
    least, most = str(spec.get("minAvailable", "N/A")), str(spec.get("maxUnavailable", "N/A"))
    return [body["metadata"]["name"], least, most, status.get("disruptionsAllowed", 0), age(body, now)]


def _namespace(body: Mapping[str, Any], now: float) -> list[Any]:
    return [body["metadata"]["name"], (body.get("status") or {}).get("phase", ""), age(body, now)]


def _autoscaler(body: Mapping[str, Any], now: float) -> list[Any]:
    spec = body["spec"]
    target = f"{spec['scaleTargetRef'].get('kind')}/{spec['scaleTargetRef'].get('name')}"
    bounds = [str(spec.get("minReplicas", 1)), str(spec.get("maxReplicas", ""))]
    replicas = (body.get("status") or {}).get("currentReplicas", 0)
    return [body["metadata"]["name"], target, *bounds, replicas, age(body, now)]


_TABLES: dict[str, tuple[tuple[tuple[str, str, int], ...], Row]] = {
    "Pod": (_POD, _pod),
    "Deployment": (_DEPLOYMENT, _deployment),
    "ReplicaSet": (_REPLICA_SET, _replica_set),
    "StatefulSet": (_STATEFUL_SET, _stateful_set),
    "Node": (_NODE, _node),
    "Event": (_EVENT, _event),
    "Lease": (_LEASE, _lease),
    "PodDisruptionBudget": (_BUDGET, _budget),
    "Namespace": (_NAMESPACE, _namespace),
    "HorizontalPodAutoscaler": (_AUTOSCALER, _autoscaler),
}
