"""What a namespace's ResourceQuotas and LimitRanges, and the largest node, leave of one policy's bounds. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autoscaler.check.findings import Finding, fine, warn, wrong
from autoscaler.decide.sizes import request_share
from autoscaler.model.plan import Ledger, LimitRangeView, QuotaView
from autoscaler.model.policy import Controls, Policy
from autoscaler.model.quantity import format_cpu, format_memory
from autoscaler.model.workload import Container, Pod, Resources, WorkloadView

Sized = Sequence[tuple[Pod, Container]]


def of_limits(about: str, view: WorkloadView, policy: Policy, sized: Sized, ledger: Ledger) -> Iterator[Finding]:
    """LimitRange against the bounds, each quota against the most that the bounds may ask for, the minimum against the
    nodes."""
    limits = ledger.limit_ranges.get(policy.ref.namespace)
    if limits is not None:
        yield from _limit_range(about, policy, limits)
    for quota in ledger.quotas:
        if quota.namespace == policy.ref.namespace:
            yield from _quota(about, view, policy, sized, quota)
    yield from _least(about, policy, sized, ledger)


def _limit_range(about: str, policy: Policy, limits: LimitRangeView) -> Iterator[Finding]:
    cpu, memory = policy.spec.vertical.cpu, policy.spec.vertical.memory
    for word, most in (("container", limits.cpu_max), ("pod", limits.pod_cpu_max)):
        if most is None:
            continue
        if cpu.min > most:
            yield wrong(
                about, "bounds", f"vertical.cpu.min is {format_cpu(cpu.min)}, a LimitRange allows at most "
                f"{format_cpu(most)} CPU a {word}", f"set vertical.cpu.min: {format_cpu(most)} or less",
            )  # fmt: skip
        elif cpu.max is None or cpu.max > most:
            yield warn(
                about, "bounds", f"a LimitRange allows at most {format_cpu(most)} CPU a {word}",
                f"no pod grows beyond it; set vertical.cpu.max: {format_cpu(most)} or less",
            )  # fmt: skip
    if limits.cpu_min is not None and cpu.min < limits.cpu_min:
        yield warn(
            about, "bounds", f"a LimitRange asks for at least {format_cpu(limits.cpu_min)} CPU a container",
            f"no pod shrinks below it; set vertical.cpu.min: {format_cpu(limits.cpu_min)} or more",
        )  # fmt: skip
    for word, most in (("container", limits.memory_max), ("pod", limits.pod_memory_max)):
        if most is not None and memory.max is not None and memory.max > most:
            yield warn(
                about, "bounds", f"a LimitRange allows at most {format_memory(most)} memory a {word}",
                f"set vertical.memory.max: {format_memory(most)} or less",
            )  # fmt: skip


def _quota(about: str, view: WorkloadView, policy: Policy, sized: Sized, quota: QuotaView) -> Iterator[Finding]:
    for key, hard in sorted(quota.hard.items()):
        spelled = format_cpu if key.endswith("cpu") else format_memory if key.endswith("memory") else str
        used = quota.used.get(key, 0)
        left = max(0, hard - used)
        have = f"quota {quota.name} has {spelled(left)} of {key} left ({spelled(hard)} hard, {spelled(used)} used)"
        if key.endswith("cpu") and left < policy.spec.vertical.cpu.step and _grows(key, policy):
            yield warn(about, "room", f"{have}: no pod can grow", f"raise its {key}, or free some")
            continue
        each = _of_a_new_pod(view, sized, key)
        highest = policy.spec.horizontal.max_replicas if policy.spec.horizontal.enabled else None
        births = max(0, (highest or 0) - len(sized))
        if births and each > left:
            yield warn(
                about, "room", f"{have}, a new pod takes {spelled(each)}: no replica can be added",
                f"raise its {key}, or set horizontal.maxReplicas: {len(sized)}",
            )  # fmt: skip
            continue
        most = sum(_more(policy, one, key) for _, one in sized)
        if births:
            grown = max((_more(policy, one, key) for _, one in sized), default=0)
            most += births * (each + grown)
        if most > left:
            fields = [] if key == "pods" else [f"vertical.{'cpu' if key.endswith('cpu') else 'memory'}.max"]
            fields += ["horizontal.maxReplicas"] if births else []
            yield warn(
                about, "room", f"{have}, the policy's bounds allow {spelled(most)} more",
                f"it stops where the quota does; raise its {key}, or lower {' and '.join(fields)}",
            )  # fmt: skip
        else:
            yield fine(about, "room", have)


def _grows(key: str, policy: Policy) -> bool:
    """Whether growth of CPU counts there at all."""
    controls = policy.spec.vertical.cpu.controls
    return controls is not (Controls.REQUESTS if key == "limits.cpu" else Controls.LIMITS)


def _more(policy: Policy, one: Container, key: str) -> int:
    """What growth from its size now to the policy's maximum adds there; 0 where no maximum is named."""
    vertical, now = policy.spec.vertical, one.desired
    if key == "pods":
        return 0
    if key.endswith("memory"):
        return max(0, (vertical.memory.max or 0) - (now.memory or 0))
    more = max(0, (vertical.cpu.max or 0) - (now.cpu or 0))
    if not _grows(key, policy) or (key == "limits.cpu" and now.cpu_limit is None):
        return 0
    return more if key == "limits.cpu" else round(more * request_share(now, vertical.cpu.controls))


def _of_a_new_pod(view: WorkloadView, sized: Sized, key: str) -> int:
    """What one more pod takes: the template's container, the others as they are."""
    if key == "pods":
        return 1
    if not sized:
        return _side(view.template, key) if view.template is not None else 0
    pod, main = sized[0]
    born = view.template if view.template is not None else main.desired
    return sum(_side(born if one.name == main.name else one.desired, key) for one in pod.containers)


def _side(size: Resources, key: str) -> int:
    cpu, limit = key.endswith("cpu"), key.startswith("limits.")
    if cpu:
        return (size.cpu_limit if limit else size.cpu_request) or 0
    return (size.memory_limit if limit else size.memory_request) or 0


def _least(about: str, policy: Policy, sized: Sized, ledger: Ledger) -> Iterator[Finding]:
    cpu = policy.spec.vertical.cpu
    if not (ledger.nodes_known and ledger.nodes and sized):
        return
    largest = max(node.cpu for node in ledger.nodes.values())
    if all(cpu.min * request_share(one.desired, cpu.controls) > largest for _, one in sized):
        yield wrong(
            about, "room", f"vertical.cpu.min {format_cpu(cpu.min)} is more than any node can give (the largest has "
            f"{format_cpu(largest)} CPU)", f"set vertical.cpu.min: {format_cpu(largest)} or less, or add larger nodes",
        )  # fmt: skip
