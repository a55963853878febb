"""One workload before its first patch: its target, its pods, its bounds against what limits them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autoscaler.check.findings import Finding, fine, warn, wrong
from autoscaler.check.limits import of_limits
from autoscaler.model.plan import Ledger
from autoscaler.model.policy import Controls, Mode, Policy, Shrink
from autoscaler.model.quantity import format_cpu, format_memory
from autoscaler.model.seen import Subject
from autoscaler.model.workload import Container, Pod, Qos, ResizeRestart, WorkloadView


def of_workload(subject: Subject, ledger: Ledger) -> Iterator[Finding]:
    """All findings of one workload but its metrics."""
    view, policy, about = subject.view, subject.policy, str(subject.view.ref)
    if view.hold:
        yield wrong(about, "target", view.hold, "nothing is done until then")
        return
    sized = [(pod, one) for pod in view.pods if pod.active and (one := pod.container(view.container)) is not None]
    yield fine(about, "target", _target(view))
    yield from _mode(about, view, policy)
    yield from _owners(about, view, policy)
    if policy.spec.vertical.enabled:
        yield from _pods(about, policy, sized)
        yield from _bounds(about, policy, sized)
        yield from of_limits(about, view, policy, sized, ledger)
        yield from _room(about, policy, sized, ledger)
    if policy.spec.horizontal.enabled:
        yield from _replicas(about, view, policy)


def _target(view: WorkloadView) -> str:
    replicas = f", {view.scale.desired} replicas" if view.scale is not None else ", no scale subresource"
    sized = f", container {view.container} is sized" if view.container else ""
    return f"{view.target}{replicas}, {len(view.pods)} pods{sized}"


def _mode(about: str, view: WorkloadView, policy: Policy) -> Iterator[Finding]:
    if policy.spec.mode is Mode.OFF:
        yield warn(
            about, "mode", "mode is Off: nothing is decided", "set mode: Auto, or DryRun to see what it would do"
        )
    elif policy.spec.mode is Mode.DRY_RUN:
        yield warn(about, "mode", "mode is DryRun: decisions are shown, nothing is sent", "set mode: Auto to act")
    if view.paused:
        yield warn(about, "mode", "it is paused by a person", f"autoscaler resume {about}")
    if view.scale is not None and view.scale.rollout:
        yield warn(about, "target", "a rollout is under way: sizes and replicas are held until it is done")


def _owners(about: str, view: WorkloadView, policy: Policy) -> Iterator[Finding]:
    if view.size_owner and policy.spec.vertical.enabled:
        yield wrong(
            about, "owner", f"sizes are also set by {view.size_owner}",
            "remove it or set its updateMode to Off, or set vertical.enabled: false",
        )  # fmt: skip
    if view.scale is not None and view.scale.other_owner and policy.spec.horizontal.enabled:
        yield wrong(
            about, "owner", f"replicas are also set by {view.scale.other_owner}",
            "remove it, or set horizontal.enabled: false to leave replicas to it",
        )  # fmt: skip


def _pods(about: str, policy: Policy, sized: Sequence[tuple[Pod, Container]]) -> Iterator[Finding]:
    controls = policy.spec.vertical.cpu.controls
    for text, remedy, those in (
        ("static pods can't be resized", "they belong to a node's manifest", [p for p, _ in sized if p.static]),
        ("the pods have resources of their own (pod-level), which their containers share",
         "give the resources to the container instead", [p for p, _ in sized if p.whole is not None]),
        ("Windows pods can't be resized", "set vertical.enabled: false", [p for p, _ in sized if p.windows]),
        (
            "BestEffort pods can't be resized", "give the container CPU and memory requests in the template",
            [p for p, _ in sized if p.qos is Qos.BEST_EFFORT],
        ),
    ):  # fmt: skip
        if those:
            yield wrong(about, "pods", f"{text} ({len(those)} of {len(sized)})", remedy)
    guaranteed = [pod for pod, _ in sized if pod.qos is Qos.GUARANTEED]
    if guaranteed and controls is not Controls.BOTH:
        yield wrong(
            about, "pods", f"{len(guaranteed)} pods are Guaranteed, whose requests and limits must move together",
            "set vertical.cpu.controls: RequestsAndLimits",
        )  # fmt: skip
    elif guaranteed:
        yield warn(
            about, "pods", "Guaranteed pods can't be resized on nodes with a static CPU or memory manager",
            "where nodes have one, lower a request below its limit in the template",
        )  # fmt: skip
    yield from _sides(about, controls, [one for _, one in sized])
    for side, word in (("cpu_restart", "CPU"), ("memory_restart", "memory")):
        if any(getattr(one, side) is ResizeRestart.RESTART_CONTAINER for _, one in sized):
            yield warn(
                about, "pods", f"every change of {word} restarts the container (resizePolicy RestartContainer)",
                "restarts go one at a time within resize.maxUnavailable; NotRequired avoids them",
            )  # fmt: skip
    if any(one.extended for _, one in sized):
        yield warn(
            about, "pods", "the container has a GPU or another device: load is met by replicas first",
            "set horizontal.maxReplicas",
        )  # fmt: skip


def _sides(about: str, controls: Controls, containers: Sequence[Container]) -> Iterator[Finding]:
    """CPU requests and limits that are missing where the policy wants to set them."""
    if any(one.desired.cpu_request is None and one.desired.cpu_limit is None for one in containers):
        yield wrong(
            about, "pods", "the container has neither a CPU request nor a limit", "give it both in the template"
        )
    elif controls is Controls.LIMITS and any(one.desired.cpu_limit is None for one in containers):
        yield wrong(
            about, "pods", "vertical.cpu.controls is LimitsOnly and the container has no CPU limit",
            "give it one in the template, or control requests",
        )  # fmt: skip
    elif any(one.desired.cpu_limit is None for one in containers):
        yield warn(about, "pods", "without a CPU limit only the request is set: pods may use what the node has free")
    waiting = [
        one for one in containers if one.allocated is not None and one.desired.cpu_request != one.allocated.cpu_request
    ]
    if waiting:
        yield warn(
            about, "pods", f"{len(waiting)} pods have a resize that is not granted",
            "it is followed, and taken back if it is not granted in time",
        )  # fmt: skip


def _bounds(about: str, policy: Policy, sized: Sequence[tuple[Pod, Container]]) -> Iterator[Finding]:
    cpu, memory = policy.spec.vertical.cpu, policy.spec.vertical.memory
    sizes = [one.desired.cpu for _, one in sized if one.desired.cpu is not None]
    if sizes:
        low, high = min(sizes), max(sizes)
        live = format_cpu(low) if low == high else f"{format_cpu(low)} to {format_cpu(high)}"
        if cpu.max is not None and high > cpu.max:
            yield warn(
                about, "bounds", f"pods have {live} CPU, vertical.cpu.max is {format_cpu(cpu.max)}",
                "they are shrunk to it; raise the maximum if that is too little",
            )  # fmt: skip
        elif low < cpu.min:
            yield warn(
                about, "bounds", f"pods have {live} CPU, vertical.cpu.min is {format_cpu(cpu.min)}", "they grow to it"
            )
        else:
            most = f"to {format_cpu(cpu.max)}" if cpu.max is not None else "to what their node offers"
            yield fine(about, "bounds", f"pods have {live} CPU and may have {format_cpu(cpu.min)} {most}")
    if memory.max is None and memory.shrink is Shrink.NEVER:
        held = {one.desired.memory for _, one in sized} - {None}
        if held:
            shown = ", ".join(sorted(format_memory(amount) for amount in held if amount is not None))
            yield fine(about, "bounds", f"memory stays at {shown}: vertical.memory.max is not set")


def _room(about: str, policy: Policy, sized: Sequence[tuple[Pod, Container]], ledger: Ledger) -> Iterator[Finding]:
    cpu = policy.spec.vertical.cpu
    nodes = {pod.node for pod, _ in sized if pod.node}
    if not ledger.nodes_known:
        yield warn(
            about, "room", "nodes can't be seen, so their room is not known",
            "the kubelet's answer is taken; allow list and watch on nodes",
        )  # fmt: skip
        return
    if cpu.max is not None and nodes:
        largest = max((ledger.nodes[name].cpu for name in nodes if name in ledger.nodes), default=None)
        if largest is not None and cpu.max > largest and cpu.controls is not Controls.LIMITS:
            yield warn(
                about, "room", f"vertical.cpu.max {format_cpu(cpu.max)} is more than any of its nodes has "
                f"({format_cpu(largest)})", "pods stop at what their node offers",
            )  # fmt: skip
    full = [name for name in sorted(nodes) if (free := ledger.free_cpu(name)) is not None and free < cpu.step]
    if full:
        yield warn(
            about, "room", f"no room to grow on {len(full)} of its {len(nodes)} nodes ({', '.join(full[:3])})",
            "what doesn't fit becomes replicas; free CPU requests there",
        )  # fmt: skip
    elif nodes:
        least = min((ledger.free_cpu(name) or 0 for name in nodes if name in ledger.nodes), default=0)
        yield fine(about, "room", f"each of its {len(nodes)} nodes has at least {format_cpu(least)} CPU free")


def _replicas(about: str, view: WorkloadView, policy: Policy) -> Iterator[Finding]:
    horizontal = policy.spec.horizontal
    if view.scale is None:
        yield warn(
            about, "replicas", f"{view.target} has no scale subresource: replicas are left alone",
            "set horizontal.enabled: false to say so",
        )  # fmt: skip
        return
    have = view.scale.desired
    if have == 0:
        yield warn(about, "replicas", "replicas is 0, which means off", "scale it up to at least 1")
    if horizontal.max_replicas is None:
        yield warn(
            about, "replicas", f"horizontal.maxReplicas is not set: replicas stay at {have}, only sizes change",
            "set it to let replicas cover what size can't",
        )  # fmt: skip
    elif horizontal.max_replicas < have:
        yield warn(
            about, "replicas", f"{have} replicas, horizontal.maxReplicas is {horizontal.max_replicas}",
            "replicas are taken away; raise the maximum to keep them",
        )  # fmt: skip
    else:
        yield fine(about, "replicas", f"{have} replicas, at most {horizontal.max_replicas}")
    kept = view.pdb_min_available
    if kept is not None and kept >= have > 0:
        yield warn(
            about, "replicas", f"its PodDisruptionBudget keeps {kept} of {have} pods: none may be away",
            "restarts and evictions wait; allow one disruption",
        )  # fmt: skip
