"""Who serves: the pods of one workload sorted by what they can do now, and the size they have.

A size is the CPU a container may use, in millicores, on the side the policy controls: the limit, or the request.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.decide.queued import Queue
from autoscaler.model.policy import Controls, Policy
from autoscaler.model.workload import Attempt, Container, Pod, ResizeState, Resources, WorkloadView


@dataclass(slots=True)
class Member:
    """One serving or starting pod with its sized container."""

    pod: Pod
    container: Container
    size: int
    """Desired millicores; what it has where a resize was not granted: that one is not there to be used."""
    live: int
    """Millicores it runs with now."""
    asked: int = 0
    """Millicores in its spec: more than ``size`` while a resize is not granted."""
    queued: bool = False
    """Its resize is deferred, and the room it waits for is on its way."""


@dataclass(slots=True)
class Standing:
    """The pods by what they can do. ``have`` is the desired total of the serving pods in millicores."""

    serving: list[Member]
    starting: list[Member]
    draining: list[Member]
    have: int = 0
    live: int = 0

    @property
    def count(self) -> int:
        return len(self.serving)


def ungranted(attempt: Attempt | None) -> bool:
    """Whether our resize stands in the pod's spec and the kubelet has not allocated it, nor will soon."""
    return (
        attempt is not None
        and not attempt.granted
        and attempt.reverts is None
        and attempt.state in (ResizeState.DEFERRED, ResizeState.INFEASIBLE, ResizeState.TIMED_OUT)
    )


def size_of(resources: Resources, controls: Controls) -> int | None:
    """Millicores of a container on the controlled side, None when that side is not set."""
    if controls is Controls.REQUESTS:
        return resources.cpu_request
    return resources.cpu_limit if resources.cpu_limit is not None else resources.cpu_request


def _oldest(pod: Pod) -> tuple[float, str]:
    """The order in which equals are served."""
    return pod.created_at, pod.name


def stand(view: WorkloadView, policy: Policy, victim: str = "", queue: Queue | None = None) -> Standing:
    """Sort the pods. A pod serves when its container runs and it is ready, or it was ready and is overloaded now."""
    controls = policy.spec.vertical.cpu.controls
    serving: list[Member] = []
    starting: list[Member] = []
    draining: list[Member] = []
    have = live = 0
    for pod in sorted(view.pods, key=_oldest):
        if pod.deleting or pod.phase in ("Succeeded", "Failed"):
            continue
        container = pod.container(view.container) if view.container else (pod.containers[0] if pod.containers else None)
        if container is None:
            continue
        size = size_of(container.desired, controls) or 0
        now = size if container.actual is None else (size_of(container.actual, controls) or size)
        queued = queue is not None and queue.waits(pod, container)
        member = Member(pod, container, now if ungranted(pod.attempt) and not queued else size, now, size, queued)
        size = member.size
        if not (container.running and (pod.ready or (pod.ready_at is not None and container.restart_count == 0))):
            starting.append(member)
        elif pod.uid == victim:
            draining.append(member)
        else:
            serving.append(member)
            have += size
            live += now
    return Standing(serving, starting, draining, have, live)
