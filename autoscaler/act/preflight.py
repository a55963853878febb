"""Look again before you touch: what the server would refuse or silently change, known before anything is sent.

``preflight`` asks one rule after the other, and the first that speaks decides. Each rule is one function of values.
Sources: k8s.io/kubernetes pkg/apis/core/validation (``ValidatePodResize``), plugin/pkg/admission/{limitranger,
podresize}, pkg/kubelet/kuberuntime (memory decreases).
"""

from __future__ import annotations

from typing import Final

from autoscaler.act.capacity import limit_range, node_room, quota
from autoscaler.act.scene import Scene
from autoscaler.act.sizes import asked, is_empty, qos_of, spell, with_size
from autoscaler.decide.sizes import POD_LEVEL
from autoscaler.model import quantity
from autoscaler.model.plan import Revert
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.signal import Measured
from autoscaler.model.workload import Qos, ResizeRestart

USAGE_MAX_AGE_S: Final = 20.0
"""The kubelet samples memory every 10–15 s; an older sample can't speak for a shrink."""
STARTED_AGO_S: Final = 60.0
"""Usage is missing for about 30 s after a container start, and the peak is not yet known."""
MARGIN_SHARE: Final = 0.1
MARGIN_FLOOR: Final = 32 * 2**20
SMALLEST_CPU_LIMIT: Final = 10
SMALLEST_MEMORY: Final = 4 * 2**20
"""A memory limit no container can start under: accepted by the server, then in progress for ever."""


def preflight(scene: Scene) -> Reason | None:
    """Why this resize must not be sent, or None."""
    reverting = isinstance(scene.action, Revert)
    for rule in (known, supported, unchanged_since, sensible, ordered, never_left_out, qos_kept, memory_alone):
        reason = rule(scene)
        if reason is not None:
            return reason
    if reverting:  # going back to what is allocated needs no room, and an unsafe revert is still better than none
        return None
    for rule in (memory_shrink_safe, limit_range, node_room, quota):
        reason = rule(scene)
        if reason is not None:
            return reason
    return None


def known(scene: Scene) -> Reason | None:
    pod, action = scene.pod, scene.action
    if pod.uid != action.pod.uid:
        return because(Code.HELD, why=f"{action.pod.name} is another pod now")
    if not pod.active:
        return because(Code.HELD, why=f"{pod.name} is ending")
    if pod.container(action.container) is None:
        return because(Code.HELD, why=f"{pod.name} has no container {action.container!r}")
    return None


def supported(scene: Scene) -> Reason | None:
    """Static, Windows and BestEffort pods can't be resized on any server; with pod-level resources it is in vain."""
    pod = scene.pod
    if pod.static:
        return because(Code.UNSUPPORTED, why="static pods can't be resized: change their manifest on the node")
    if pod.windows:
        return because(Code.UNSUPPORTED, why="Windows pods can't be resized")
    if pod.whole is not None:
        return because(Code.UNSUPPORTED, why=POD_LEVEL)
    if pod.qos is Qos.BEST_EFFORT:
        return because(Code.UNSUPPORTED, why="BestEffort pods can't be resized: give the template requests")
    return None


def unchanged_since(scene: Scene) -> Reason | None:
    """Decided on one size, found another: someone resized meanwhile, or an earlier patch of ours arrived."""
    for key, _ in asked(scene.change):
        if getattr(scene.container.desired, key) != getattr(scene.action.before, key):
            return because(Code.HELD, why=f"{scene.pod.name} was resized meanwhile: {spell(scene.container.desired)}")
    return None


def sensible(scene: Scene) -> Reason | None:
    """Amounts the server takes and the kubelet then can't or won't apply as written."""
    change = scene.change
    if is_empty(change):
        return None
    wanted = spell(change)
    if change.cpu_limit is not None and change.cpu_limit < SMALLEST_CPU_LIMIT:
        return because(Code.REFUSED, wanted=wanted, why="CPU limits below 10m are enforced as 10m")
    if change.cpu_request == 0 or change.memory_request == 0:
        return because(Code.REFUSED, wanted=wanted, why="a request of 0 counts as removed")
    if change.memory_limit is not None and change.memory_limit < SMALLEST_MEMORY:
        return because(Code.REFUSED, wanted=wanted, why="no container runs in so little memory")
    return None


def ordered(scene: Scene) -> Reason | None:
    """Requests must not exceed limits, against what the pod has live (a leftover limit included)."""
    size = scene.result
    for name, request, limit, spelled in (
        ("cpu", size.cpu_request, size.cpu_limit, quantity.format_cpu),
        ("memory", size.memory_request, size.memory_limit, quantity.format_memory),
    ):
        if request is not None and limit is not None and request > limit:
            return because(
                Code.REFUSED,
                wanted=spell(scene.change),
                why=f"{name} request {spelled(request)} would exceed the limit {spelled(limit)}",
            )
    return None


def never_left_out(scene: Scene) -> Reason | None:
    """A limit without a request: the server would silently set the request to the limit."""
    size = scene.result
    for name, request, limit in (
        ("cpu", size.cpu_request, size.cpu_limit),
        ("memory", size.memory_request, size.memory_limit),
    ):
        if limit is not None and request is None:
            return because(
                Code.REFUSED, wanted=spell(scene.change), why=f"the {name} request would silently become the limit"
            )
    return None


def qos_kept(scene: Scene) -> Reason | None:
    """The QoS class may not change: Guaranteed moves both sides, Burstable never becomes Guaranteed.

    Containers we don't see (finished init containers) can hold a pod in Burstable, so a class is only compared with the
    one that the containers we do see add up to now.
    """
    before, after = qos_of(scene.pod), qos_of(with_size(scene.pod, scene.action.container, scene.result))
    if before is after:
        return None
    return because(Code.REFUSED, wanted=spell(scene.change), why=f"the QoS class would change from {before} to {after}")


def memory_alone(scene: Scene) -> Reason | None:
    """A blocked memory decrease blocks the pod's CPU changes too: never both in one patch."""
    change, desired = scene.change, scene.container.desired
    cpu = change.cpu_request is not None or change.cpu_limit is not None
    if cpu and not isinstance(scene.action, Revert) and _below(change.memory_limit, desired.memory_limit):
        return because(Code.REFUSED, wanted=spell(change), why="a memory shrink travels alone, never with CPU")
    return None


def memory_shrink_safe(scene: Scene) -> Reason | None:
    """The kubelet refuses a limit at or below usage *with page cache*, after taking the allocation: ask before it does.

    The limit must clear the higher of usage and peak by the larger of 10 % and 32 MiB.
    """
    limit = scene.change.memory_limit
    container, signals = scene.container, scene.signals
    if limit is None or not _below(limit, container.desired.memory_limit):
        return None
    if scene.minor == 33 and container.memory_restart is ResizeRestart.NOT_REQUIRED:
        return because(
            Code.UNSUPPORTED, why="Kubernetes 1.33 refuses every decrease of a memory limit without a restart"
        )

    def unsafe(usage: float | None, age: float | None, margin: float, why: str) -> Reason:
        return because(Code.MEMORY_UNSAFE, wanted=limit, usage=usage, age=age, margin=margin, why=why)

    usage = signals.memory_usage if signals is not None else None
    if not isinstance(usage, Measured):
        return unsafe(None, None, MARGIN_FLOOR, "usage is not known")
    age = usage.age_s + max(0.0, scene.now - scene.signals_at)
    peak = signals.peak_memory if signals is not None else None
    highest = usage.value
    if isinstance(peak, Measured):
        highest = max(highest, peak.value)
    margin = max(MARGIN_FLOOR, MARGIN_SHARE * highest)
    if age >= USAGE_MAX_AGE_S:
        return unsafe(usage.value, age, margin, f"the sample is {age:.0f}s old")
    if not container.running:
        return unsafe(usage.value, age, margin, "the container is not running")
    if container.started_at is not None and scene.now - container.started_at < STARTED_AGO_S:
        return unsafe(usage.value, age, margin, "the container has just started")
    if limit < highest + margin:
        return unsafe(usage.value, age, margin, "too close to usage")
    return None


def _below(wanted: int | None, current: int | None) -> bool:
    return wanted is not None and current is not None and wanted < current
