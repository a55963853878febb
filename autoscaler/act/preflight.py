"""Look again before you touch: what the server would refuse or silently change, known before anything is sent.

``preflight`` asks one rule after the other, and the first that speaks decides. Each rule is one function of values.
Sources: k8s.io/kubernetes pkg/apis/core/validation (``ValidatePodResize``), plugin/pkg/admission/{limitranger,
podresize}, pkg/kubelet/kuberuntime (memory decreases).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from autoscaler.act.sizes import asked, changes, is_empty, overlay, qos_of, spell, with_size
from autoscaler.model import quantity
from autoscaler.model.plan import Ledger, LimitRangeView, Resize, Revert
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.signal import Measured, PodSignals
from autoscaler.model.workload import Container, Pod, Qos, ResizeRestart, Resources

USAGE_MAX_AGE_S: Final = 20.0
"""The kubelet samples memory every 10–15 s; an older sample can't speak for a shrink."""
STARTED_AGO_S: Final = 60.0
"""Usage is missing for about 30 s after a container start, and the peak is not yet known."""
MARGIN_SHARE: Final = 0.1
MARGIN_FLOOR: Final = 32 * 2**20
SMALLEST_CPU_LIMIT: Final = 10
SMALLEST_MEMORY: Final = 4 * 2**20
"""A memory limit no container can start under: accepted by the server, then in progress for ever."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What the rules look at: the action, the pod as last seen, and what limits it. ``now`` on the tick's clock.

    ``signals`` were taken at ``signals_at``; ``ledger`` counts what is committed on each node, this pod included.
    ``sent_*``: what was sent since the ledger was drawn, as requests on this node and by quota key in this namespace.
    ``minor``: the server's minor version, where known.
    """

    action: Resize | Revert
    pod: Pod
    ledger: Ledger
    now: float
    signals: PodSignals | None = None
    signals_at: float = 0.0
    sent_cpu: int = 0
    sent_memory: int = 0
    sent_quota: Mapping[str, int] = field(default_factory=dict)
    minor: int | None = None

    @property
    def container(self) -> Container:
        found = self.pod.container(self.action.container)
        assert found is not None  # `known` has run before any rule that asks
        return found

    @property
    def change(self) -> Resources:
        """The keys that would go over the wire."""
        return changes(self.action.before, self.action.after)

    @property
    def result(self) -> Resources:
        """The desired size that would come out, on what the pod has live."""
        return overlay(self.container.desired, self.change)


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
    """Static, Windows and BestEffort pods can't be resized on any server."""
    pod = scene.pod
    if pod.static:
        return because(Code.UNSUPPORTED, why="static pods can't be resized: change their manifest on the node")
    if pod.windows:
        return because(Code.UNSUPPORTED, why="Windows pods can't be resized")
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


def _below(wanted: int | None, current: int | None) -> bool:
    return wanted is not None and current is not None and wanted < current
