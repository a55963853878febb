"""What pods and scale teach about replicas: how long they take to start, which don't come, who else sets them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from autoscaler.decide import behavior
from autoscaler.decide.history import UNKNOWN, Replicas
from autoscaler.decide.standing import Member, Standing
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.workload import Pod, ResizeRestart, ScaleView, WorkloadView

OURS = "inference-autoscaler"
"""The field manager under which this program writes."""
PATIENCE = 2.0
"""A replica counts as coming for this many learned start-up times."""
UNLEARNED = 300.0
"""Seconds it counts while no pod has been seen to start."""
SHORTEST, LONGEST = 1.0, 1800.0
"""Seconds: what is outside is no start-up."""
RECENT = 0.5
"""Weight of the newest start-up."""
UNUSUAL = 3.0
UNSEEN = 60.0
"""Seconds after which a number of replicas that we asked for and that never showed is no longer expected."""
UNCREATED = 30.0
"""Seconds after which a replica that was asked for has a pod, if it ever gets one."""
STILL = 0.8
SETTLING = 120.0
"""Seconds after the usual start-up in which a shrink is the settling of sizes."""
PUT_BACK = 3
"""Somebody who sets other replicas this often in a row is their owner, and left alone for ``PUT_BACK_TIME``."""
PUT_BACK_TIME = 3600.0


def learn(past: Replicas, view: WorkloadView, stand: Standing, since: float, now: float) -> Replicas:
    """Start-up times from pods that became ready since the last tick (``since``), and whether others set replicas."""
    out = past
    took = _start_ups(stand.serving, since)
    if took:
        value = median(took)
        if out.start_ups:  # a pod that was ready before and is again has not started: one such may not teach much
            value = out.start_up + RECENT * (min(value, UNUSUAL * out.start_up) - out.start_up)
        out = msgspec.structs.replace(out, start_up=value, start_ups=min(1000, out.start_ups + len(took)))
    if view.scale is not None:
        out = _owned(out, view.scale, now)
    return out


def _start_ups(serving: Iterable[Member], since: float) -> list[float]:
    found = []
    for member in serving:
        pod = member.pod
        if pod.ready_at is None or member.container.restart_count or (since != UNKNOWN and pod.ready_at <= since - 1.0):
            continue
        begin = pod.scheduled_at if pod.scheduled_at is not None else pod.created_at
        if SHORTEST <= pod.ready_at - begin <= LONGEST:
            found.append(pod.ready_at - begin)
    return found


def _owned(past: Replicas, scale: ScaleView, now: float) -> Replicas:
    """Notice a number of replicas that is not ours. ``asked`` is the number expected, ``asked_at`` until it is seen."""
    if past.asked == 0 or scale.desired == past.asked:
        if past.asked == scale.desired and past.asked_at == UNKNOWN:
            return past
        return msgspec.structs.replace(past, asked=scale.desired, asked_at=UNKNOWN)
    if past.asked_at != UNKNOWN:
        # Ours was not seen. It may be late, or lost, or somebody has set another at once.
        theirs = scale.scaled_by not in ("", OURS) and (scale.scaled_at or 0.0) >= past.asked_at
        if not theirs and now - past.asked_at <= UNSEEN:
            return past
        if theirs:
            return _put_back(past, scale.desired, now)
        return msgspec.structs.replace(past, asked=scale.desired, asked_at=UNKNOWN)
    return _put_back(past, scale.desired, now)


def _put_back(past: Replicas, desired: int, now: float) -> Replicas:
    return msgspec.structs.replace(past, asked=desired, asked_at=UNKNOWN, put_back=(*past.put_back, now)[-PUT_BACK:])


def asking(past: Replicas, before: int, after: int, now: float) -> Replicas:
    """Another number is asked for. A number that was never seen is asked for again, and counts once."""
    again = past.asked_at != UNKNOWN and bool(past.changes)
    changes = behavior.remembered(past.changes[:-1] if again else past.changes, now, after - before)
    return msgspec.structs.replace(past, asked=after, asked_at=now, changes=changes)


def owner(past: Replicas, scale: ScaleView, kept: float, now: float) -> Reason | None:
    """Who else sets the replicas, if they are to be left alone: a controller, or a person for ``kept`` seconds."""
    if scale.other_owner:
        return because(Code.OTHER_OWNER, owner=scale.other_owner)
    if not past.put_back:
        return None
    last, who = past.put_back[-1], scale.scaled_by or "somebody else"
    stubborn = len(past.put_back) == PUT_BACK and last - past.put_back[0] <= 2.0 * PUT_BACK_TIME
    left = last + (PUT_BACK_TIME if stubborn else kept) - now
    if left <= 0.0:
        return None
    again = ", again and again" if stubborn else ""
    return because(Code.OTHER_OWNER, owner=f"{who}{again}: left alone for {left:.0f}s more")


def expected(past: Replicas) -> float:
    """Seconds from a pod's creation within which it is expected to serve."""
    return PATIENCE * past.start_up if past.start_ups else max(UNLEARNED, PATIENCE * past.start_up)


def missing(past: Replicas, starting: Sequence[Member], now: float) -> list[Member]:
    """Those that have had twice the usual time and don't serve yet."""
    patience = expected(past)
    return [member for member in starting if now - _began(member) > patience]


def _began(member: Member) -> float:
    """When the pod began to start: its creation, or our resize that restarts its container."""
    pod, container = member.pod, member.container
    restarts = ResizeRestart.RESTART_CONTAINER in (container.cpu_restart, container.memory_restart)
    if restarts and pod.resized_by == OURS and pod.resized_at is not None:
        return max(pod.created_at, pod.resized_at)
    return pod.created_at


def bridging(past: Replicas, stand: Standing, now: float) -> Reason | None:
    """Running pods keep their burst while others start; those that don't come bridge nothing."""
    coming = len(stand.starting) - len(missing(past, stand.starting, now))
    return because(Code.STARTING, starting=coming) if coming else None


def came(past: Replicas, need: float, now: float) -> bool:
    """Whether replicas have come lately for a load that is still there (``need`` in millicores): sizes settle."""
    lately = bool(past.changes) and past.changes[-1][1] > 0 and now - past.changes[-1][0] < past.start_up + SETTLING
    return lately and need > STILL * past.short_need


def uncreated(past: Replicas, scale: ScaleView, there: int, now: float) -> Reason | None:
    """Replicas that were asked for, and that nobody has even created a pod for."""
    lacking = scale.desired - there
    if lacking <= 0 or not past.changes or past.changes[-1][1] <= 0 or now - past.changes[-1][0] <= UNCREATED:
        return None
    why = "no pod was created for them: a quota or a webhook may refuse it, see the events of the owner (ReplicaSet)"
    return because(Code.NOT_COMING, pods=lacking, why=why)


def not_coming(members: Sequence[Member]) -> Reason:
    """Told to people with the first reason that the cluster gives."""
    why = next((said for member in members if (said := _why(member.pod))), "not ready in twice the usual time")
    return because(Code.NOT_COMING, pods=len(members), why=why)


def _why(pod: Pod) -> str:
    if pod.unschedulable:
        return f"{pod.name} can't be scheduled"
    for container in pod.containers:
        if container.waiting_reason:
            return f"{pod.name} is in {container.waiting_reason}"
    return ""
