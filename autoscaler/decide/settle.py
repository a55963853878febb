"""Sizes per pod, steps and order: a grant as actions, and what is remembered of them."""

from __future__ import annotations

import msgspec

from autoscaler.decide import change, horizontal, memory, newborn
from autoscaler.decide.case import Case
from autoscaler.decide.history import History
from autoscaler.decide.sizes import unchanged
from autoscaler.decide.standing import Member
from autoscaler.model.plan import Action, Grant, Plan, Resize
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.workload import ResizeState

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
    least = case.policy.spec.vertical.cpu.min
    if least > case.low and case.stand.serving and case.policy.spec.vertical.enabled:
        holds.append(because(Code.MIN_BEYOND, minimum=least, most=case.low))
    for member in case.stand.serving:
        size = grant.cpu.get(member.pod.uid, member.size)
        revert = change.back(case, member)
        blocked = revert is not None and revert.attempt is not None and revert.attempt.state is ResizeState.ERROR
        if revert is not None and (size == member.size or blocked):
            reverts.append(revert)
            continue
        learned = max(learned, size)
        if size == member.size or not case.policy.spec.vertical.enabled:
            continue
        after = change.to(case, member, size, revert)
        if isinstance(after, Reason):
            holds.append(after)
        elif not unchanged(after):
            reason = _why(case, member, size)
            action = Resize(case.ref, member.pod, member.container.name, member.container.desired, after, reason)
            (shrinks if size < member.size else grows).append(action)
    scaling, said, counted = horizontal.scale(case, grant, now)
    holds += said
    want = horizontal.told(case, want, scaling, counted)
    if counted is not past.replicas:
        past = msgspec.structs.replace(past, replicas=counted)
    for member in case.stand.starting:  # nobody waits for a size that a pod out of service was not granted
        revert = change.back(case, member)
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


def _why(case: Case, member: Member, size: int) -> Reason:
    """The reason of the whole, but where this pod goes another way than the whole does."""
    assert case.want is not None
    reason, demand = case.want.reason, case.demand
    if size > member.size and reason.code in HOLDING:
        if size <= case.low:
            return because(Code.UNDER_MIN, have=member.size, minimum=case.low)
        return because(Code.NEW_POD, have=member.size, wanted=size)
    if size > member.size or case.want.may_shrink:
        return reason
    if member.size > case.top:
        return because(Code.OVER_MAX, have=member.size, maximum=case.top)
    if member.size > case.high and case.ceiling is not None:
        return because(Code.INELASTIC, used=(demand.used or 0.0) * 1000.0, have=case.stand.have, ceiling=case.ceiling)
    need = (demand.need or 0.0) * 1000.0 / max(1, case.stand.count)
    return because(Code.LENDS, have=member.size, part=size, wanted=need)
