"""Fewer, well-used pods: one is chosen, the others grow and have it granted, it drains, it goes; one at a time.

Nothing is lost by waiting, so each step is looked at anew right before it is taken: a chosen pod serves on, and when
the load returns, signals are gone or others took the room, it is simply no longer chosen. Where the others can't grow,
the pod stays, and all of them shrink instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

import msgspec

from autoscaler.decide import accelerated, behavior, refusals, replicas, victims
from autoscaler.decide.case import Case
from autoscaler.decide.demand import chance
from autoscaler.decide.history import UNKNOWN, Replicas
from autoscaler.decide.sizes import in_steps, request_share
from autoscaler.decide.standing import Member
from autoscaler.model.plan import Action, AnnotatePod, Grant, Scale
from autoscaler.model.reason import Code, Reason, because

LEAST_USED: Final = 0.5
"""Share of their cores that pods shall use at least, where no more are needed for the objective."""
KEPT: Final = 0.6
"""Share of the head-room that the others must have before one goes: what growing aims at (``want.KEEP``)."""
WAIT: Final = 60.0
"""Seconds that the others get to grow before the pod is kept after all."""
REST: Final = 300.0
"""Seconds until it is tried again then."""
GOING: Final = 30.0
"""Seconds until a pod that was taken away must be on its way out; else the change was lost: look anew."""
FORGOTTEN: Final = 6 * 3600.0
"""Seconds for which it is remembered what load a number of pods could not carry."""


@dataclass(slots=True)
class Step:
    """What is done about fewer pods in one tick."""

    actions: list[Action]
    holds: list[Reason]
    replicas: Replicas


def needed(case: Case, count: int) -> float:
    """Millicores that ``count`` serving pods need together for the load of now."""
    demand, serving = case.demand, max(1, case.stand.count)
    need, rho = demand.need or 0.0, demand.rho or 0.0
    lone = demand.lone * count / serving
    most = max(enough(case), lone * 1000.0)
    if demand.own <= 0.0 or demand.reason is not None or count == serving:
        return min(need * 1000.0, most)
    # Each pod is a queue of its own: head-room for chance, and for one request alone, is less on fewer of them.
    head = case.past.headroom.beta * max(chance(demand, count), demand.habit)
    return min(max(rho + demand.back + demand.drain + head, lone) * 1000.0, most)


def enough(case: Case) -> float:
    """Millicores beyond which no pods are kept or asked for while the objective is held.

    Head-room that is reckoned for pods which are served at random can exceed any number of small ones; what was
    measured is that this suffices.
    """
    demand, past = case.demand, case.past.headroom
    if demand.target <= 0.0 or demand.reason is not None or demand.misses is None or demand.breach:
        return inf
    if past.missed > demand.allowed * past.requests:
        return inf
    return ((demand.rho or 0.0) + demand.drain) * 1000.0 / LEAST_USED


def fewest(case: Case, least: int, now: float) -> int:
    """Pods that carry the load of now with a margin, as far as their size may go and as they were seen to carry it.

    Not fewer than ``least``.
    """
    past = case.past.replicas
    margin = 1.0 + behavior.tolerance(case.policy.spec.horizontal.behavior.scale_down)
    desired = case.view.scale.desired if case.view.scale is not None else case.stand.count
    if accelerated.applies(case.stand):
        return accelerated.fewest(case, desired, least, margin)
    each = float(case.high)
    if past.short_count and now - past.short_at < FORGOTTEN:
        each = min(each, past.short_need / past.short_count)
    count = desired
    while count > max(1, least) and needed(case, count - 1) * margin <= (count - 1) * each:
        count -= 1
    return count


def step(case: Case, grant: Grant, goal: int, allowed: int, now: float) -> Step:
    """One step from ``scale.desired`` towards ``goal`` (equal: no wish). ``allowed``: the least allowed."""
    scale, past = case.view.scale, case.past.replicas
    assert scale is not None
    out = Step(victims.stray(case, past.victim), [], past)
    if past.victim:
        victim = _find(case, past.victim)
        if victim is not None:
            if not _going(past, now):
                _go_on(case, out, victim, goal, allowed, now)
            return out
        out.replicas = _nobody(past)
    if goal >= scale.desired or now < past.rest_until:
        return out
    if allowed >= scale.desired:
        out.holds.append(because(Code.RATE_LIMITED, wanted=goal, allowed=allowed))
        return out
    _choose(case, grant, out, now)
    return out


def give_up(case: Case, why: Reason | None = None) -> Step:
    """The chosen pod, if there is one, stays."""
    past = case.past.replicas
    holds = [why] if why is not None else []
    if past.victim and past.taken_at != UNKNOWN:
        return Step([], holds, past if _find(case, past.victim) is not None else _nobody(past))
    return Step(victims.stray(case, ""), holds, _nobody(past) if past.victim else past)


def _going(past: Replicas, now: float) -> bool:
    """Whether the chosen pod was taken away a moment ago, and is only still seen."""
    return past.taken_at != UNKNOWN and now - past.taken_at <= GOING


def _go_on(case: Case, out: Step, victim: Member, goal: int, allowed: int, now: float) -> None:
    """A pod is chosen: drop it, wait for the others and for its requests, or take it."""
    scale, past = case.view.scale, out.replicas
    assert scale is not None
    waited = now - past.victim_at
    drain = victims.drain_time(case)
    if goal >= scale.desired:
        _keep(case, out, now)
        return
    others = [member for member in case.stand.serving if member.pod.uid != victim.pod.uid]
    lacking = _lacking(case, others)
    unready = any(not member.pod.ready for member in others)  # that one would be taken instead
    if lacking > 0.0 or unready or not case.may_give:
        if waited > drain + max(WAIT, float(case.policy.spec.resize.timeout_seconds)):
            count = max(1, len(others))
            free = sum(member.live for member in others)
            out.holds.append(_no_room(count, needed(case, count) / count, free / count))
            _keep(case, out, now, rest=REST)
            return
        out.holds.append(because(Code.DRAINING, pod=victim.pod.name, left=max(drain - waited, 0.0)))
        return
    if waited < drain:
        out.holds.append(because(Code.DRAINING, pod=victim.pod.name, left=drain - waited))
        return
    if allowed >= scale.desired:
        out.holds.append(because(Code.RATE_LIMITED, wanted=goal, allowed=allowed))
        return
    _take(case, out, victim, now)


def _choose(case: Case, grant: Grant, out: Step, now: float) -> None:
    scale = case.view.scale
    assert scale is not None
    refusal: Reason | None = None
    for victim in victims.candidates(case):
        others = [member for member in case.stand.serving if member is not victim]
        if not others:
            continue
        refusal = _room(case, grant, others)
        if refusal is not None:
            continue
        out.replicas = msgspec.structs.replace(out.replicas, victim=victim.pod.uid, victim_at=now)
        if victim in case.stand.starting:
            _take(case, out, victim, now)  # it never served: nothing to drain
            return
        count = len(others)
        reason = because(
            Code.CONSOLIDATE, pods=count, size=_each(case, count), demand=(case.demand.rho or 0.0) * 1000.0
        )
        out.actions.append(AnnotatePod(case.ref, victim.pod, victims.marks(case), reason))
        out.holds.append(because(Code.DRAINING, pod=victim.pod.name, left=victims.drain_time(case)))
        short = victims.grace(case, victim.pod)
        if short is not None:
            out.holds.append(short)
        return
    if refusal is not None:
        out.holds.append(refusal)


def _take(case: Case, out: Step, victim: Member, now: float) -> None:
    scale, past = case.view.scale, out.replicas
    assert scale is not None
    after = scale.desired - 1
    size = max((member.size for member in case.stand.serving if member is not victim), default=0)
    reason = because(Code.SCALE_IN, demand=(case.demand.rho or 0.0) * 1000.0, pods=after, size=size)
    chosen = () if victims.by_ordinal(case) else (victim.pod,)
    out.actions.append(
        Scale(case.ref, case.view.target, case.view.ref.namespace, scale.desired, after, reason,
              scale.resource_version, chosen)
    )  # fmt: skip
    out.replicas = msgspec.structs.replace(replicas.asking(past, scale.desired, after, now), taken_at=now)


def _keep(case: Case, out: Step, now: float, rest: float = 0.0) -> None:
    """Not this pod, not now: its marks go with the next look (``victims.stray``), or at once."""
    out.actions += victims.unmark(case, lambda pod: pod.uid == out.replicas.victim)
    out.replicas = msgspec.structs.replace(
        _nobody(out.replicas), rest_until=now + rest if rest else out.replicas.rest_until
    )


def _nobody(past: Replicas) -> Replicas:
    return msgspec.structs.replace(past, victim="", victim_at=UNKNOWN, taken_at=UNKNOWN)


def _each(case: Case, count: int) -> int:
    return in_steps(needed(case, count) / count, case.policy.spec.vertical.cpu.step, case.low, case.high)


def _by_number(case: Case) -> bool:
    """Whether only the number of pods counts, not their size."""
    return not case.policy.spec.vertical.enabled or accelerated.applies(case.stand)


def _lacking(case: Case, others: Sequence[Member]) -> float:
    """Millicores that the others, who all get the same share of the requests, lack of the size they need."""
    if not others:
        return 1.0
    if _by_number(case):
        return 0.0
    burned = ((case.demand.rho or 0.0) + case.demand.drain) * 1000.0
    need = needed(case, len(others))
    enough = burned + KEPT * max(0.0, need - burned)
    return max(0.0, enough - len(others) * min(min(member.live, member.size) for member in others))


def _room(case: Case, grant: Grant, others: Sequence[Member]) -> Reason | None:
    """Whether the others may grow to carry all: None, or what is in the way."""
    count = len(others)
    each = _each(case, count)
    if _by_number(case):
        return None
    controls, step_size = case.policy.spec.vertical.cpu.controls, case.policy.spec.vertical.cpu.step
    left = dict(grant.room)
    for member in others:
        more = each - member.size
        if more <= 0:
            continue
        bound = refusals.most(case.past.sizes, member, step_size)
        if bound is not None and max(bound, member.size) < each:
            return _no_room(count, each, max(0, bound - member.size))
        node = member.pod.node
        if node in left:
            cost = round(more * request_share(member.container.desired, controls))
            if cost > left[node]:
                return _no_room(count, each, max(0, left[node]))
            left[node] -= cost
    return None


def _no_room(count: int, each: float, free: float) -> Reason:
    return because(Code.NO_ROOM_TO_CONSOLIDATE, pods=count, size=each, free=free)


def _find(case: Case, uid: str) -> Member | None:
    stand = case.stand
    members = (*stand.draining, *stand.starting, *stand.serving)
    return next((member for member in members if member.pod.uid == uid), None)
