"""Words that the memory rules share: what a pod has, what it uses, and a limit as the keys that change. Bytes."""

from __future__ import annotations

from autoscaler.decide.case import Case
from autoscaler.decide.standing import Member
from autoscaler.model.signal import Measured, PodSignals
from autoscaler.model.workload import Qos, Resources

MI = 2**20
PROOF = 60.0
"""Seconds that a pod has to show that more memory helped, and one that has less that it does without."""
BLANK = PodSignals()


def members(case: Case) -> tuple[Member, ...]:
    """Pods whose memory is decided: those that serve and those that start (a crashing one is among them)."""
    return (*case.stand.serving, *case.stand.starting)


def limit_of(member: Member) -> int:
    """The limit asked for; 0 where there is none, and memory is left alone."""
    return member.container.desired.memory_limit or 0


def resized(member: Member, size: int) -> Resources:
    """The memory keys for this limit: Guaranteed moves both, Burstable keeps its share, nothing is added or removed."""
    now = member.container.desired
    limit, request = now.memory_limit, now.memory_request
    if limit is None or request is None:
        return Resources(memory_limit=size)
    if member.pod.qos is Qos.GUARANTEED or request == limit:
        return Resources(memory_request=size, memory_limit=size)
    return Resources(memory_request=max(1, min(size - 1, round(size * request / limit))), memory_limit=size)


def whole(size: float) -> int:
    """Rounded up to MiB."""
    return -int(-size // MI) * MI


def busy(member: Member) -> bool:
    """Whether a resize is under way, or none is possible."""
    pod = member.pod
    return (
        (pod.attempt is not None and pod.attempt.open) or pod.qos is Qos.BEST_EFFORT or pod.static or pod.windows
    )  # fmt: skip


def signals_of(case: Case, member: Member) -> PodSignals:
    return case.view.signals.pods.get(member.pod.uid, BLANK)


def working_set(case: Case, member: Member) -> float | None:
    """None when it is absent or older than the policy allows."""
    reading = signals_of(case, member).working_set
    if not isinstance(reading, Measured) or not reading.fresh(case.policy.spec.signals.max_age):
        return None
    return reading.value
