"""How many replicas: what size can't cover becomes pods; fewer, well-used pods when the load is gone."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import msgspec

from autoscaler.decide import accelerated, behavior, consolidate, guards, replicas
from autoscaler.decide.case import Case
from autoscaler.decide.consolidate import Step
from autoscaler.decide.history import UNKNOWN, Replicas
from autoscaler.model.plan import Action, Grant, Scale, Want
from autoscaler.model.reason import Code, Reason, because

AT_ONCE = 0.8
"""Seconds in which the same number is not asked for twice: a tick may decide again after a refusal."""


def bounds(case: Case) -> tuple[int, int]:
    """Least and most replicas: as the policy says, else as found when the workload was adopted."""
    spec = case.policy.spec.horizontal
    adopted = max(1, case.past.replicas.adopted)
    most = spec.max_replicas if spec.max_replicas is not None else max(adopted, spec.min_replicas or 1)
    least = spec.min_replicas
    if least is None:
        least = min(most, max(2, adopted, (case.view.pdb_floor or 0) + 1))
    return least, most


def scale(case: Case, grant: Grant, now: float) -> tuple[list[Action], list[Reason], Replicas]:
    """Actions and holds about the number of pods, and what is remembered. The order of the rules stands here."""
    view, past, spec = case.view, case.past.replicas, case.policy.spec.horizontal
    seen, want = view.scale, case.want
    if seen is None or want is None or not spec.enabled or seen.desired == 0:
        return [], [], past
    least, most = bounds(case)
    least = max(least, min(most, want.replicas or 0))  # what more memory could not help
    if least == most == seen.desired and not past.victim:
        return [], _missing(case, now), past
    owner = replicas.owner(past, seen, float(spec.keep_manual_seconds), now)
    if owner is not None:
        return _parts(consolidate.give_up(case, owner))
    holds = _missing(case, now)
    if case.stand.count == 0:
        return [], holds, past
    wished, why = _more(case, grant, least, most, now)
    if why is not None:
        holds.append(why)
    if wished > seen.desired:
        given = consolidate.give_up(case)
        actions, said, past = _out(case, grant, wished, given.replicas, now)
        return [*given.actions, *actions], [*holds, *said], past
    case.past = msgspec.structs.replace(case.past, replicas=_remember(case, grant, least, most, wished, now))
    goal = max(least, case.view.pdb_floor or 0, int(case.past.replicas.wishes[0][1]))
    if goal < seen.desired and seen.desired <= most and _pressed(case, grant):
        goal = seen.desired
    elif goal >= seen.desired and int(case.past.replicas.wishes[-1][1]) < seen.desired:
        holds.append(_stabilizing(case, now))
    allowed = behavior.least(spec.behavior.scale_down, now, seen.desired, past.changes)
    actions, said, past = _parts(consolidate.step(case, grant, goal, allowed, now))
    return actions, [*holds, *said], past


def told(case: Case, want: Want, scaling: list[Action], counted: Replicas) -> Want:
    """The wish with the number of pods in it, for people and for those who follow bounds."""
    seen = case.view.scale
    if seen is None or not case.policy.spec.horizontal.enabled:
        return want
    for action in scaling:
        if isinstance(action, Scale):
            return replace(want, replicas=action.after, replicas_reason=action.reason)
    return replace(want, replicas=seen.desired - (1 if counted.victim and counted.taken_at < 0.0 else 0))


def _parts(step: Step) -> tuple[list[Action], list[Reason], Replicas]:
    return step.actions, step.holds, step.replicas


def _passing(case: Case) -> float:
    """Millicores of the need that replicas are not asked for, because it will be gone before they have started: what
    drains the backlog, and an excursion of the load that may be chance, with its share of the head-room."""
    demand, level = case.demand, case.past.traffic.level
    beyond = max(0.0, demand.arrivals - level) * demand.work if level >= 0.0 else 0.0
    if beyond <= 0.0:
        return demand.drain * 1000.0
    share = (demand.need - demand.drain) / demand.rho if demand.need and demand.rho else 1.0
    return (demand.drain + beyond * max(1.0, share)) * 1000.0


def _short(case: Case, grant: Grant) -> float:
    """Millicores that size can't cover and replicas are worth asking for."""
    if case.want is None or grant.short <= 0.0:
        return 0.0
    return grant.short - _passing(case) - max(0.0, case.want.cpu - consolidate.enough(case))


def _more(case: Case, grant: Grant, least: int, most: int, now: float) -> tuple[int, Reason | None]:
    """Replicas for what size can't cover, counted with those that are starting; never fewer than there are."""
    seen, want, stand = case.view.scale, case.want, case.stand
    assert seen is not None and want is not None
    wished = max(least, seen.desired)
    if accelerated.applies(stand):
        asked, why = accelerated.more(case)
        return max(seen.desired, min(most, max(wished, asked))), why if asked <= seen.desired else None
    short = _short(case, grant)
    if short <= 0.0 or want.cpu <= case.usable:
        return wished, None
    covered = sum(grant.cpu.values())
    if short <= behavior.tolerance(case.policy.spec.horizontal.behavior.scale_up) * covered and not case.demand.breach:
        return wished, because(Code.TOLERANCE, wanted=want.cpu, have=covered)
    each = max(1, max(grant.cpu.values(), default=case.high))
    born = case.view.template.cpu if case.view.template is not None and case.view.template.cpu else each
    more = ceil((short - 1e-6) / max(1, min(max(each, born), case.high)))
    stuck = replicas.missing(case.past.replicas, stand.starting, now)
    coming = len(stand.starting) - len(stuck)
    # In place of those that don't come there may be others; where nothing can be scheduled, more would only wait too.
    replaced = sum(1 for member in stuck if not member.pod.unschedulable)
    if len(stuck) > replaced:
        more = 0
    total = stand.count + len(stand.draining) + max(coming, more) + replaced
    if case.past.replicas.victim and stand.draining:
        total -= 1  # the chosen pod is kept: it is the first of those that are asked for
    why = None
    there = stand.count + len(stand.draining) + len(stand.starting)
    if grant.births is not None and total > max(seen.desired, there + grant.births):
        total, why = there + grant.births, grant.births_why
    wished = max(wished, total)
    return max(seen.desired, min(most, wished)), why


def _out(
    case: Case, grant: Grant, wished: int, past: Replicas, now: float
) -> tuple[list[Action], list[Reason], Replicas]:
    """More replicas, as fast as behavior allows."""
    seen, want, rules = case.view.scale, case.want, case.policy.spec.horizontal.behavior.scale_up
    assert seen is not None and want is not None
    holds: list[Reason] = []
    span = behavior.window(rules, behavior.UP_WINDOW)
    if span > 0.0:
        lows = past.lows or ((now, float(seen.desired)),)
        past = msgspec.structs.replace(past, lows=guards.windowed(lows, now, wished, span, -1))
        steady = int(past.lows[0][1])
        if steady < wished:
            holds.append(because(Code.REPLICAS_STABILIZING, wanted=wished, have=seen.desired,
                                 left=max(0.0, past.lows[0][0] + span - now)))  # fmt: skip
        wished = max(seen.desired, steady)
    if past.asked >= wished and past.asked_at != UNKNOWN and now - past.asked_at < AT_ONCE:
        return [], holds, past  # asked for a moment ago, in this very tick
    allowed = behavior.most(rules, now, seen.desired, past.changes)
    if allowed < wished:
        holds.append(because(Code.RATE_LIMITED, wanted=wished, allowed=allowed))
        wished = allowed
    # A later, smaller wish must not undo this one at once.
    past = msgspec.structs.replace(past, wishes=((now, float(max(wished, seen.desired))),))
    if wished <= seen.desired:
        return [], holds, past
    covered = sum(grant.cpu.values())
    because_of = want.replicas_reason if wished <= (want.replicas or 0) else None
    reason = because_of or because(Code.SCALE_OUT, wanted=want.cpu, covered=covered)
    if accelerated.applies(case.stand):
        reason = accelerated.more(case)[1] or reason
    if seen.desired < bounds(case)[0] >= wished:
        reason = because(Code.MIN_REPLICAS, have=seen.desired, least=bounds(case)[0])
    action = Scale(case.ref, case.view.target, case.view.ref.namespace, seen.desired, wished, reason,
                   seen.resource_version)  # fmt: skip
    if grant.short > 0.0:
        need = ((case.demand.need or 0.0) - case.demand.drain) * 1000.0
        past = msgspec.structs.replace(past, short_count=case.stand.count, short_need=need, short_at=now)
    past = replicas.asking(past, seen.desired, wished, now)
    return [action], holds, past


def _remember(case: Case, grant: Grant, least: int, most: int, wished: int, now: float) -> Replicas:
    """The number that would do now, into the window; after a start the present number counts as wished."""
    past, rules = case.past.replicas, case.policy.spec.horizontal.behavior
    desired = case.view.scale.desired if case.view.scale is not None else 0
    fewer = min(desired, most)
    known = case.demand.need is not None or accelerated.applies(case.stand)
    if known and case.may_give and not _pressed(case, grant):
        fewer = max(least, min(fewer, consolidate.fewest(case, least, now)))
    span = behavior.window(rules.scale_down, behavior.DOWN_WINDOW)
    wishes = past.wishes or ((now, float(desired)),)
    wishes = guards.windowed(wishes, now, float(fewer), span, 1)
    lows = past.lows
    rising = behavior.window(rules.scale_up, behavior.UP_WINDOW)
    if rising > 0.0:
        lows = guards.windowed(lows or ((now, float(desired)),), now, float(wished), rising, -1)
    return msgspec.structs.replace(past, wishes=wishes, lows=lows)


def _pressed(case: Case, grant: Grant) -> bool:
    """Whether this is no moment to go on with fewer pods: the objective is missed, or size falls short."""
    demand = case.demand
    return demand.breach or demand.stalled or (not case.stand.draining and _short(case, grant) > 0.0)


def _stabilizing(case: Case, now: float) -> Reason:
    seen, wishes = case.view.scale, case.past.replicas.wishes
    assert seen is not None
    span = behavior.window(case.policy.spec.horizontal.behavior.scale_down, behavior.DOWN_WINDOW)
    return because(
        Code.REPLICAS_STABILIZING, wanted=int(wishes[-1][1]), have=seen.desired,
        left=max(0.0, wishes[0][0] + span - now),
    )  # fmt: skip


def _missing(case: Case, now: float) -> list[Reason]:
    past, stand, seen = case.past.replicas, case.stand, case.view.scale
    there = stand.count + len(stand.starting) + len(stand.draining)
    lacking = replicas.uncreated(past, seen, there, now) if seen is not None else None
    stuck = replicas.missing(past, stand.starting, now)
    return [*([replicas.not_coming(stuck)] if stuck else []), *([lacking] if lacking is not None else [])]
