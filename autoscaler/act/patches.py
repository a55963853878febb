"""Actions as requests: the exact wire form of everything this program ever writes to pods and scales.

Resizes are strategic merge patches that name one container and the keys that change: a merge patch would replace the
whole list of containers, and what is not named stays byte for byte as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoscaler.act.ports import Patch, Verb
from autoscaler.act.sizes import changes, wire
from autoscaler.model.plan import Action, AnnotatePod, Evict, Plan, Resize, Revert, Scale
from autoscaler.model.workload import Pod, TargetRef

FIELD_MANAGER = "inference-autoscaler"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON = "application/json"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
VICTIM_COST = -1000
"""Below every default (0): the ReplicaSet controller removes these pods first."""
QUERY: Mapping[str, str] = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}

_PLURALS = {"ingress": "ingresses", "endpoints": "endpoints"}


def plural(kind: str) -> str:
    """The resource name of a kind by the usual rule; discovery knows better and may be passed to `patches`."""
    word = kind.lower()
    if word in _PLURALS:
        return _PLURALS[word]
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def group_path(api_version: str) -> str:
    """``/api/v1`` for the core group, else ``/apis/GROUP/VERSION``."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def scale_path(namespace: str, target: TargetRef, resource: str | None = None) -> str:
    return (
        f"{group_path(target.api_version)}/namespaces/{namespace}/{resource or plural(target.kind)}/{target.name}/scale"
    )


def patches(action: Action, *, resources: Mapping[tuple[str, str], str] | None = None) -> tuple[Patch, ...]:
    """The requests that carry out one action, in order; none where nothing would change.

    ``resources``: names of resources by (apiVersion, kind), as discovered; the usual plural without it.
    """
    match action:
        case Resize() | Revert():
            return _resize(action)
        case Scale():
            marks = tuple(
                _annotate(AnnotatePod(action.workload, pod, {DELETION_COST: str(VICTIM_COST)}, action.reason))
                for pod in action.victims
                if pod.deletion_cost != VICTIM_COST
            )
            return (*marks, *_scale(action, resources or {}))
        case Evict():
            return (_evict(action),)
        case AnnotatePod():
            return (_annotate(action),) if _annotations_change(action) else ()


def of_plan(plan: Plan, *, resources: Mapping[tuple[str, str], str] | None = None) -> tuple[Patch, ...]:
    """All requests of a plan, in the order they are sent."""
    return tuple(patch for action in plan.actions for patch in patches(action, resources=resources))


def pod_path(pod: Pod, subresource: str = "") -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}" + (f"/{subresource}" if subresource else "")


def _resize(action: Resize | Revert) -> tuple[Patch, ...]:
    container = action.pod.container(action.container)
    change = wire(changes(action.before, action.after))
    if not change:
        return ()
    kind = "initContainers" if container is not None and container.sidecar else "containers"
    body: dict[str, Any] = {
        "metadata": {"uid": action.pod.uid},
        "spec": {kind: [{"name": action.container, "resources": change}]},
    }
    return (Patch(Verb.PATCH, pod_path(action.pod, "resize"), STRATEGIC_MERGE, body, action, QUERY),)


def _scale(action: Scale, resources: Mapping[tuple[str, str], str]) -> tuple[Patch, ...]:
    if action.before == action.after:
        return ()
    resource = resources.get((action.target.api_version, action.target.kind))
    body: dict[str, Any] = {"spec": {"replicas": action.after}}
    if action.resource_version:
        body = {"metadata": {"resourceVersion": action.resource_version}, **body}
    return (Patch(Verb.PATCH, scale_path(action.namespace, action.target, resource), MERGE, body, action, QUERY),)


def _evict(action: Evict) -> Patch:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": action.pod.name, "namespace": action.pod.namespace},
        "deleteOptions": {"preconditions": {"uid": action.pod.uid}},
    }
    return Patch(Verb.POST, pod_path(action.pod, "eviction"), JSON, body, action, QUERY)


def _annotations_change(action: AnnotatePod) -> bool:
    return any(action.pod.annotations.get(key) != value for key, value in action.annotations.items())


def _annotate(action: AnnotatePod) -> Patch:
    body = {"metadata": {"uid": action.pod.uid, "annotations": dict(action.annotations)}}
    return Patch(Verb.PATCH, pod_path(action.pod), MERGE, body, action, QUERY)
