"""Arithmetic on the four keys of a container's size: which change, what comes out, what two pods have in common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from autoscaler.model import quantity
from autoscaler.model.workload import Container, Pod, Qos, ResizeRestart, Resources

KEYS: tuple[str, ...] = tuple(one.name for one in fields(Resources))
CPU_TOLERANCE_MILLI = 10
"""The kubelet reports CPU back from the cgroup: limits under 10m are enforced as 10m, shares are rounded."""
MEMORY_TOLERANCE = 4096
"""The kernel rounds memory limits to whole pages."""


def asked(resources: Resources) -> Iterator[tuple[str, int]]:
    """The keys that are set, with their amounts."""
    for key in KEYS:
        amount = getattr(resources, key)
        if amount is not None:
            yield key, amount


def changes(before: Resources, after: Resources) -> Resources:
    """Only the keys of ``after`` that are set and differ from ``before``."""
    return Resources(**{key: amount for key, amount in asked(after) if getattr(before, key) != amount})


def overlay(base: Resources, change: Resources) -> Resources:
    """``base`` with the keys that ``change`` sets: what the server makes of a strategic merge."""
    return replace(base, **dict(asked(change)))


def is_empty(resources: Resources) -> bool:
    return all(getattr(resources, key) is None for key in KEYS)


def agree(seen: Resources, wanted: Resources, *, tolerant: bool = False) -> bool:
    """Whether ``seen`` holds the amounts of every key that ``wanted`` sets.

    ``tolerant``: within what the kubelet loses by reporting cgroup values.
    """
    for key, amount in asked(wanted):
        have = getattr(seen, key)
        if have is None:
            return False
        slack = 0 if not tolerant else CPU_TOLERANCE_MILLI if key.startswith("cpu") else MEMORY_TOLERANCE - 1
        if abs(have - amount) > slack:
            return False
    return True


def requests_only(resources: Resources) -> Resources:
    """``allocatedResources`` knows requests only."""
    return Resources(cpu_request=resources.cpu_request, memory_request=resources.memory_request)


def restarts(container: Container, change: Resources) -> bool:
    """Whether the kubelet restarts the container for this change (its resizePolicy)."""
    cpu = change.cpu_request is not None or change.cpu_limit is not None
    memory = change.memory_request is not None or change.memory_limit is not None
    return (cpu and container.cpu_restart is ResizeRestart.RESTART_CONTAINER) or (
        memory and container.memory_restart is ResizeRestart.RESTART_CONTAINER
    )


def with_size(pod: Pod, container: str, size: Resources) -> Pod:
    """The pod as it would be with another desired size of one container."""
    return replace(
        pod,
        containers=tuple(replace(one, desired=size) if one.name == container else one for one in pod.containers),
    )


def qos_of(pod: Pod) -> Qos:
    """The QoS class that the containers we see add up to. Zero counts as absent, as on the server.

    Source: ``k8s.io/kubernetes/pkg/apis/core/helper/qos`` (``ComputePodQOS``).
    """
    sizes = [one.desired for one in pod.containers]
    if not any(amount for size in sizes for _, amount in asked(size)):
        return Qos.BEST_EFFORT
    guaranteed = all(
        size.cpu_limit and size.memory_limit and size.cpu_request == size.cpu_limit
        and size.memory_request == size.memory_limit
        for size in sizes
    )  # fmt: skip
    return Qos.GUARANTEED if guaranteed else Qos.BURSTABLE


def wire(resources: Resources) -> dict[str, dict[str, str]]:
    """``resources`` as the API spells it, only the keys that are set."""
    out: dict[str, dict[str, str]] = {}
    for side, cpu, memory in (
        ("requests", resources.cpu_request, resources.memory_request),
        ("limits", resources.cpu_limit, resources.memory_limit),
    ):
        amounts = {}
        if cpu is not None:
            amounts["cpu"] = quantity.format_cpu(cpu)
        if memory is not None:
            amounts["memory"] = quantity.format_memory(memory)
        if amounts:
            out[side] = amounts
    return out


def spell(resources: Resources) -> str:
    """For people: ``cpu 500m/1, memory 1Gi/1Gi`` (request/limit; ``-`` where a side is absent)."""
    parts = []
    for name, request, limit, spelled in (
        ("cpu", resources.cpu_request, resources.cpu_limit, quantity.format_cpu),
        ("memory", resources.memory_request, resources.memory_limit, quantity.format_memory),
    ):
        if request is None and limit is None:
            continue
        sides = ["-" if one is None else spelled(one) for one in (request, limit)]
        parts.append(f"{name} {sides[0] if sides[0] == sides[1] else '/'.join(sides)}")
    return ", ".join(parts) or "nothing"
