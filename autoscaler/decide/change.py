"""What a size means for one pod: the keys that change or why they can't, and the way back from what was not granted."""

from __future__ import annotations

from autoscaler.decide.case import Case
from autoscaler.decide.sizes import request_share, resized, unchanged
from autoscaler.decide.standing import Member
from autoscaler.model.plan import Revert
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.workload import Attempt, Container, ResizeRestart, ResizeState, Resources

UNGRANTED = frozenset({ResizeState.DEFERRED, ResizeState.INFEASIBLE, ResizeState.TIMED_OUT})


def to(case: Case, member: Member, size: int, reverting: Revert | None = None) -> Resources | Reason:
    """The CPU keys that change for ``size`` millicores. ``reverting``: the way back that this change makes needless."""
    attempt, controls = member.pod.attempt, case.policy.spec.vertical.cpu.controls
    if member.pod.uid in case.kept and size != member.size:
        return case.kept[member.pod.uid]
    if size != member.size and _outage(case, member):
        return because(Code.HELD, why=f"{member.pod.name} is the only pod, and a resize restarts it: only on a miss")
    if size < member.size and reverting is None and attempt is not None and attempt.open:
        return because(Code.IN_FLIGHT, pods=1, state=str(attempt.state))
    share = request_share(member.container.actual or member.container.desired, controls) if reverting else None
    after = resized(member.pod, member.container.desired, size, controls, share)
    return because(Code.UNSUPPORTED, why=after) if isinstance(after, str) else after


def _outage(case: Case, member: Member) -> bool:
    """Whether a resize would leave nobody to serve, for no need: the container restarts, and there is no other pod."""
    restarts = member.container.cpu_restart is ResizeRestart.RESTART_CONTAINER and member.container.running
    return restarts and case.stand.count < 2 and not (case.demand.breach or case.demand.stalled)


def possible(case: Case, member: Member, size: int) -> Reason | None:
    """Why this size would not be sent: then nobody must be given the room of a shrink, or lose it to a grow."""
    if size == member.size:
        return None
    after = to(case, member, size, back(case, member))
    return after if isinstance(after, Reason) else None


def back(case: Case, member: Member) -> Revert | None:
    """Back to the allocated values when *our* resize was not granted; what others asked for is theirs.

    What is granted stays, but for one case: a memory shrink that the kubelet refuses to apply (Error) goes back,
    for it blocks every other change of the pod, and a restart would come back at the small limit.
    """
    pod, container = member.pod, member.container
    attempt = pod.attempt
    if attempt is None or attempt.reverts is not None or member.queued:
        return None
    stuck = attempt.state is ResizeState.ERROR and (_shrinks_memory(attempt) or _memory_waits(container))
    if not stuck and (attempt.granted or attempt.state not in UNGRANTED):
        return None
    back = container.actual or container.allocated
    if back is None:
        return None
    desired = container.desired
    after = Resources(
        cpu_request=back.cpu_request if back.cpu_request != desired.cpu_request else None,
        cpu_limit=back.cpu_limit if back.cpu_limit != desired.cpu_limit else None,
        memory_request=back.memory_request if back.memory_request != desired.memory_request else None,
        memory_limit=back.memory_limit if back.memory_limit != desired.memory_limit else None,
    )
    if stuck:
        after = Resources(memory_request=after.memory_request, memory_limit=after.memory_limit)
    if unchanged(after):
        return None
    why = pod.resize_pending_message or pod.resize_pending or attempt.message or str(attempt.state)
    reason = because(Code.REVERT, wanted=f"{member.size}m", why=why)
    return Revert(case.ref, pod, container.name, desired, after, reason, attempt)


def _memory_waits(container: Container) -> bool:
    """A smaller limit was asked for that does not run yet, maybe by a resize before the one that is followed now."""
    asked, runs = container.desired.memory_limit, container.actual.memory_limit if container.actual else None
    return asked is not None and runs is not None and asked < runs


def _shrinks_memory(attempt: Attempt) -> bool:
    before, after = attempt.before, attempt.wanted.memory_limit
    return before is not None and before.memory_limit is not None and after is not None and after < before.memory_limit
