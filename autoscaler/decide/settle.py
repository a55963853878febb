"""Sizes per pod, steps and order: a grant as actions, and what is remembered of them."""

from __future__ import annotations

import msgspec

from autoscaler.decide import horizontal, memory, newborn
from autoscaler.decide.case import Case
from autoscaler.decide.history import History
from autoscaler.decide.sizes import request_share, resized, unchanged
from autoscaler.decide.standing import Member
from autoscaler.model.plan import Action, Grant, Plan, Resize, Revert
from autoscaler.model.reason import Code, because
from autoscaler.model.workload import Attempt, Container, ResizeState, Resources

HOLDING = frozenset(
    {
        Code.STEADY,
        Code.STILL_MISSING,
        Code.UNMEASURED,
        Code.IDLE,
        Code.ON_TARGET,
        Code.STARTING,
        Code.NO_SIGNAL,
        Code.STALE,
        Code.NOT_CPU_BOUND,
        Code.TOLERANCE,
    }
)
"""Reasons for leaving the whole as it is; a pod that grows nevertheless is one that was born small."""
UNGRANTED = frozenset({ResizeState.DEFERRED, ResizeState.INFEASIBLE, ResizeState.TIMED_OUT})


def settle(case: Case, grant: Grant, now: float) -> tuple[Plan, History]:
    """Turn what was granted into actions, shrinks before grows, and the history that follows from them."""
    want, past = case.want, case.past
    assert want is not None
    if case.frozen:
        return Plan(case.ref, holds=(want.reason,), reason=want.reason, want=want, grant=grant), past
    holds = [*want.holds, *grant.why]
    shrinks: list[Action] = []
    grows: list[Action] = []
    reverts: list[Action] = []
    learned = 0
    controls = case.policy.spec.vertical.cpu.controls
    for member in case.stand.serving:
        size = grant.cpu.get(member.pod.uid, member.size)
        revert = _revert(case, member)
        blocked = revert is not None and revert.attempt is not None and revert.attempt.state is ResizeState.ERROR
        if revert is not None and (size == member.size or blocked):
            reverts.append(revert)
            continue
        learned = max(learned, size)
        if size == member.size or not case.policy.spec.vertical.enabled:
            continue
        if size < member.size and revert is None and member.pod.attempt is not None and member.pod.attempt.open:
            holds.append(because(Code.IN_FLIGHT, pods=1, state=str(member.pod.attempt.state)))
            continue
        share = request_share(member.container.actual or member.container.desired, controls) if revert else None
        after = resized(member.pod, member.container.desired, size, controls, share)
        if isinstance(after, str):
            holds.append(because(Code.UNSUPPORTED, why=after))
        elif not unchanged(after):
            reason = want.reason
            if size > member.size and reason.code in HOLDING:
                reason = because(Code.NEW_POD, have=member.size, wanted=size)
            action = Resize(case.ref, member.pod, member.container.name, member.container.desired, after, reason)
            (shrinks if size < member.size else grows).append(action)
    scaling, said, counted = horizontal.scale(case, grant, now)
    holds += said
    want = horizontal.told(case, want, scaling, counted)
    if counted is not past.replicas:
        past = msgspec.structs.replace(past, replicas=counted)
    for member in case.stand.starting:  # nobody waits for a size that a pod out of service was not granted
        revert = _revert(case, member)
        if revert is not None:
            reverts.append(revert)
    born, unsized = newborn.settle(case, grant)
    holds += unsized
    sized = newborn.joined(memory.settle(case, (*reverts, *shrinks, *grows), now), born)
    past = msgspec.structs.replace(past, peaks=case.past.peaks)
    actions = (*sized, *scaling)
    if shrinks and want.may_shrink:
        before = max(member.size for member in case.stand.serving)
        burned = case.demand.rho or 0.0
        sizes = msgspec.structs.replace(past.sizes, shrunk_at=now, shrunk_from=before, shrunk_demand=burned)
        past = msgspec.structs.replace(past, sizes=sizes)
    if shrinks or grows:
        past = msgspec.structs.replace(
            past,
            sizes=msgspec.structs.replace(
                past.sizes, changed_at=now, changed_from=case.stand.live, learned=learned, wishes=past.sizes.wishes
            ),
        )
    return Plan(case.ref, actions, tuple(holds), want.reason, want, grant), past


def _revert(case: Case, member: Member) -> Revert | None:
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
