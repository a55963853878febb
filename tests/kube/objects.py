"""Objects as an API server of 1.36 sends them, with what a test varies."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
T0 = "2026-12-01T03:20:50Z"


def pod(
    name: str,
    namespace: str = "serving",
    *,
    owner: tuple[str, str, str] | None = None,
    node: str = "n1",
    requests: Object | None = None,
    limits: Object | None = None,
    allocated: Object | None = None,
    actual: Object | None = None,
    conditions: list[Object] | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    phase: str = "Running",
    ready: bool = True,
    container: str = "server",
    **extra: Any,
) -> Object:
    """``owner``: (kind, name, uid) of the managing owner. ``extra`` is merged into spec or status by key prefix."""
    requests = {"cpu": "1", "memory": "1Gi"} if requests is None else requests
    limits = requests if limits is None else limits
    allocated = requests if allocated is None else allocated
    actual = {"requests": requests, "limits": limits} if actual is None else actual
    meta: Object = {
        "name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 1, "creationTimestamp": T0,
        "labels": labels or {"app": "x"}, "annotations": annotations or {},
    }  # fmt: skip
    if owner is not None:
        kind, owner_name, uid = owner
        meta["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": kind, "name": owner_name, "uid": uid, "controller": True}
        ]
    status: Object = {
        "phase": phase, "qosClass": "Burstable", "podIP": "10.0.0.1", "observedGeneration": 1,
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": T0},
            {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": T0},
            *(conditions or ()),
        ],
        "containerStatuses": [
            {"name": container, "ready": ready, "started": True, "restartCount": 0, "lastState": {},
             "state": {"running": {"startedAt": T0}}, "allocatedResources": allocated, "resources": actual}
        ],
    }  # fmt: skip
    spec: Object = {
        "nodeName": node,
        "containers": [{"name": container, "resources": {"requests": requests, "limits": limits}}],
        "terminationGracePeriodSeconds": 30,
    }
    for key, value in extra.items():
        part, _, field = key.partition("_")
        {"spec": spec, "status": status, "meta": meta}[part][field] = value
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec, "status": status}


def deployment(name: str, namespace: str = "serving", *, replicas: int | None = 2, **extra: Any) -> Object:
    spec: Object = {
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "spec": {"containers": [{"name": "server", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}
        },
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {
        "kind": "Deployment", "apiVersion": "apps/v1",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 1,
                     **extra.get("meta", {})},
        "spec": {**spec, **extra.get("spec", {})},
        "status": {"replicas": replicas, "updatedReplicas": replicas, "observedGeneration": 1,
                   **extra.get("status", {})},
    }  # fmt: skip


def replica_set(name: str, deployment_name: str, *, replicas: int = 2, revision: int = 1) -> Object:
    return {
        "kind": "ReplicaSet", "apiVersion": "apps/v1",
        "metadata": {
            "name": name, "namespace": "serving", "uid": f"uid-{name}", "labels": {"pod-template-hash": name[-3:]},
            "annotations": {"deployment.kubernetes.io/revision": str(revision)},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment_name,
                                 "uid": f"uid-{deployment_name}", "controller": True}],
        },
        "spec": {"replicas": replicas},
        "status": {"replicas": replicas},
    }  # fmt: skip


def node(name: str, cpu: str = "8", memory: str = "32Gi", zone: str = "a") -> Object:
    return {
        "kind": "Node", "apiVersion": "v1",
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "spec": {},
        "status": {"allocatable": {"cpu": cpu, "memory": memory}, "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip
