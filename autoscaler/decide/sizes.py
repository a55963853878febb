"""A size in millicores or bytes as legal resources of one container, holding only the keys that change.

Rules of the API server (QoS never changes, requests never exceed limits, no side is ever removed): a Guaranteed pod's
two sides move together; a Burstable pod keeps its share of request in limit and never becomes Guaranteed by it.
"""

from __future__ import annotations

from autoscaler.model.policy import Controls
from autoscaler.model.workload import Pod, Qos, Resources

ANY = 1 << 40
POD_LEVEL = "the pod has resources of its own (pod-level), which its containers share: give them to the container"
"""Before 1.36 no such pod can be resized; since then a container's size alone moves neither its bound nor its room."""


def in_steps(size: float, step: int, low: int, high: int) -> int:
    """Rounded up to a multiple of ``step``, then inside the bounds (which need not be multiples)."""
    rounded = -int(-(size - 1e-6) // step) * step
    return max(low, min(high, rounded))


def request_share(resources: Resources, controls: Controls) -> float:
    """How much request one millicore of size costs on the node."""
    if controls is Controls.REQUESTS:
        return 1.0
    if controls is Controls.LIMITS:
        return 0.0
    if resources.cpu_limit and resources.cpu_request is not None:
        return min(1.0, resources.cpu_request / resources.cpu_limit)
    return 1.0


def resized(pod: Pod, now: Resources, size: int, controls: Controls, share: float | None = None) -> Resources | str:
    """The CPU keys that change for this size, or why it can't be asked for.

    ``now`` is the container's desired resources; ``share`` the request per limit to keep (default: as it is now).
    """
    request, limit = now.cpu_request, now.cpu_limit
    if pod.static:
        return "a static pod can't be resized"
    if pod.windows:
        return "Windows pods can't be resized"
    if pod.whole is not None:
        return POD_LEVEL
    if pod.qos is Qos.BEST_EFFORT:
        return "a BestEffort pod can't be resized"
    if request is None and limit is None:
        return "the container has neither a CPU request nor a limit"
    if pod.qos is Qos.GUARANTEED and controls is not Controls.BOTH:
        return f"a Guaranteed pod's requests and limits move together: controls {controls} can't"
    wanted_request: int | None
    wanted_limit: int | None
    if controls is Controls.REQUESTS:
        wanted_request, wanted_limit = size, limit
        if limit is not None and size > limit:
            return f"the request can't exceed the limit of {limit}m"
    elif controls is Controls.LIMITS:
        if limit is None:
            return "the container has no CPU limit"
        wanted_request, wanted_limit = request, max(size, request or 0)
    elif limit is None:
        wanted_request, wanted_limit = size, None
    else:
        ratio = share if share is not None else request_share(now, controls)
        wanted_limit = size
        wanted_request = size if ratio >= 1.0 else max(1, min(size - 1, round(size * ratio)))
    if pod.qos is Qos.BURSTABLE and _would_be_guaranteed(pod, now, wanted_request, wanted_limit):
        if wanted_limit is None or wanted_request is None or wanted_limit < 2:
            return "the pod's QoS class would change"
        wanted_request = wanted_limit - 1
    return Resources(
        cpu_request=wanted_request if wanted_request != request else None,
        cpu_limit=wanted_limit if wanted_limit != limit else None,
    )


def _would_be_guaranteed(pod: Pod, now: Resources, request: int | None, limit: int | None) -> bool:
    if request is None or request != limit:
        return False
    for container in pod.containers:
        sizes = container.desired
        if sizes is not now and (sizes.cpu_request is None or sizes.cpu_request != sizes.cpu_limit):
            return False
        if sizes.memory_request is None or sizes.memory_request != sizes.memory_limit:
            return False
    return True


def unchanged(resources: Resources) -> bool:
    """True when no key would be set."""
    return (
        resources.cpu_request is None
        and resources.cpu_limit is None
        and resources.memory_request is None
        and resources.memory_limit is None
    )
