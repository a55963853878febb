"""Preflight against what limits a namespace and a node: LimitRange, room, ResourceQuota. One function a rule."""

from __future__ import annotations

from collections.abc import Iterator

from autoscaler.act.scene import Scene
from autoscaler.act.sizes import with_size
from autoscaler.model import quantity
from autoscaler.model.plan import LimitRangeView
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.workload import Pod


def limit_range(scene: Scene) -> Reason | None:
    """Container and Pod limits of the namespace's LimitRanges: checked again on every resize, decreases too."""
    view = scene.ledger.limit_ranges.get(scene.pod.namespace)
    if view is None:
        return None
    resized = with_size(scene.pod, scene.action.container, scene.result)
    for wanted, allowed in _limit_range(resized, view):
        return because(Code.LIMIT_RANGE, wanted=wanted, allowed=allowed)
    return None


def _limit_range(pod: Pod, view: LimitRangeView) -> Iterator[tuple[str, str]]:
    cpu, memory = quantity.format_cpu, quantity.format_memory
    for one in pod.containers:
        size = one.desired
        if view.cpu_max is not None and (size.cpu_limit or 0) > view.cpu_max:
            yield f"{one.name}: cpu limit {cpu(size.cpu_limit or 0)}", f"at most {cpu(view.cpu_max)}"
        if view.memory_max is not None and (size.memory_limit or 0) > view.memory_max:
            yield f"{one.name}: memory limit {memory(size.memory_limit or 0)}", f"at most {memory(view.memory_max)}"
        if view.cpu_min is not None and size.cpu_request is not None and size.cpu_request < view.cpu_min:
            yield f"{one.name}: cpu request {cpu(size.cpu_request)}", f"at least {cpu(view.cpu_min)}"
        if view.memory_min is not None and size.memory_request is not None and size.memory_request < view.memory_min:
            yield f"{one.name}: memory request {memory(size.memory_request)}", f"at least {memory(view.memory_min)}"
        if view.cpu_ratio is not None and size.cpu_request and size.cpu_limit:
            ratio = size.cpu_limit / size.cpu_request
            if ratio > view.cpu_ratio:
                yield f"{one.name}: cpu limit/request {ratio:.3g}", f"at most {view.cpu_ratio:.3g}"
    for name, highest, total, spelled in (
        ("cpu", view.pod_cpu_max, sum(one.desired.cpu_limit or 0 for one in pod.containers), cpu),
        ("memory", view.pod_memory_max, sum(one.desired.memory_limit or 0 for one in pod.containers), memory),
    ):
        if highest is not None and total > highest:
            yield f"pod: {name} limits {spelled(total)}", f"at most {spelled(highest)}"


def node_room(scene: Scene) -> Reason | None:
    """Requests against the node: above its allocatable the server refuses, above what is free the kubelet defers."""
    pod, ledger = scene.pod, scene.ledger
    node = ledger.nodes.get(pod.node)
    if not ledger.nodes_known or node is None:
        return None
    now, then = scene.container.desired, scene.result
    for grows, free, sent, spelled in (
        (_growth(now.cpu_request, then.cpu_request), ledger.free_cpu(pod.node), scene.sent_cpu, quantity.format_cpu),
        (
            _growth(now.memory_request, then.memory_request),
            ledger.free_memory(pod.node),
            scene.sent_memory,
            quantity.format_memory,
        ),
    ):
        if grows > 0 and free is not None and grows > free - sent:
            left = max(0, free - sent)
            return because(Code.NODE_FULL, wanted=spelled(grows), free=spelled(left), node=pod.node)
    return None


def quota(scene: Scene) -> Reason | None:
    """ResourceQuotas of the namespace: what would be added against what is left (freed late after a shrink)."""
    now, then = scene.container.desired, scene.result
    added = {
        "requests.cpu": _growth(now.cpu_request, then.cpu_request),
        "limits.cpu": _growth(now.cpu_limit, then.cpu_limit),
        "requests.memory": _growth(now.memory_request, then.memory_request),
        "limits.memory": _growth(now.memory_limit, then.memory_limit),
    }
    for view in scene.ledger.quotas:
        if view.namespace != scene.pod.namespace:
            continue
        for key, hard in view.hard.items():
            full = key if "." in key else f"requests.{key}"
            more = added.get(full, 0)
            left = hard - view.used.get(key, 0) - scene.sent_quota.get(full, 0)
            if more > 0 and more > left:
                spelled = quantity.format_cpu if key.endswith("cpu") else quantity.format_memory
                return because(Code.QUOTA, wanted=f"{key} {spelled(more)}", free=spelled(max(0, left)), quota=view.name)
    return None


def _growth(now: int | None, then: int | None) -> int:
    return (then or 0) - (now or 0)
