"""What one workload would like: total CPU, sizes per pod, and why. One function that states the order of the rules."""

from __future__ import annotations

import msgspec

from autoscaler.decide import accelerated, guards, refusals, replicas
from autoscaler.decide.case import Case
from autoscaler.decide.demand import THROTTLED, USE_TARGET
from autoscaler.decide.history import UNKNOWN
from autoscaler.decide.sizes import in_steps
from autoscaler.model.plan import Want
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.signal import Absent, Cause, Measured

CALM = 200.0
"""Seconds in which a shrink that wins little must not have been needed: what is soon taken back costs two resizes."""
WORTHWHILE = 0.25
"""A shrink by this part of the size needs only the policy's window."""
KEEP = 0.93
"""Growing waits until less than this share of the head-room is left: a resize has a cost."""
TOLD = 0.01
"""A wish nearer to the size than this part of it is the size."""
BREACH_STEP = 1.2
"""A breach with CPU evidence asks at least for this times the present size."""
STALL_STEP = 1.5
REGRET = 60.0
"""Seconds after a shrink in which a breach undoes it, unless the load rose to ``ROSE`` times what it was."""
ROSE = 1.1
BARRED = 900.0
"""Seconds without a shrink to such a size after one was undone."""
SETTLING = 10.0
"""Seconds after a change in which its effect isn't visible yet."""


def want(case: Case, now: float, brakes_open: bool = False) -> Want:
    """The wish of one workload; updates the windows in ``case.past``."""
    stand, demand, spec = case.stand, case.demand, case.policy.spec
    have = float(case.usable)
    count = stand.count
    holds: list[Reason] = []
    if count == 0:
        return _as_is(case, because(Code.STARTING, starting=len(stand.starting)), holds)
    if accelerated.applies(stand):
        return _accelerated(case, holds, now, brakes_open)
    if demand.need is None:
        holds.extend(demand.blocks or (because(Code.NO_SIGNAL, signal="load", why="nothing measured yet"),))
        if (demand.breach and demand.evidence is not False) or (demand.stalled and demand.evidence):
            return _sized(case, have * BREACH_STEP, _breach(case), holds, now)
        return _as_is(case, holds[0], holds)
    case.may_give = _may_give(case, now, brakes_open)
    need = demand.need * 1000.0
    burned = ((demand.rho or 0.0) + demand.drain) * 1000.0
    floor = count * case.low
    low_enough = max(need, float(floor))
    case.past = msgspec.structs.replace(case.past, sizes=_remember(case, need, now))
    top = _top(case, have, now)
    grow_to = case.past.sizes.lows[0][1]
    settled = now - case.past.sizes.changed_at > SETTLING or case.past.sizes.changed_at == UNKNOWN

    undone = _undo(case, now)
    if undone is not None:
        return _sized(case, max(need, undone), because(Code.UNDO_SHRINK, misses=demand.misses), holds, now)
    if demand.drain > 0.0 and need > have:
        waiting, burning = demand.in_flight or 0.0, (demand.rho or 0.0) * 1000.0
        holds.append(because(Code.BACKLOG, waiting=waiting, drain=demand.drain * 1000.0, demand=burning))
    if demand.stalled:
        if demand.evidence or any(member.pod.probes_failing for member in stand.serving):
            return _sized(
                case, max(need, have * STALL_STEP), because(Code.STALL, in_flight=demand.in_flight), holds, now
            )
        holds.append(_not_cpu_bound(case))
    if demand.breach and demand.fastest > 0.0:
        # What the load needs it gets, and what was bought in vain goes; what no size can give is said and not chased.
        holds.append(because(Code.UNREACHABLE, fastest=demand.fastest, target=demand.target))
    elif demand.breach:
        if demand.evidence is False and not demand.outdated and burned <= have and case.ceiling is None:
            holds.append(_not_cpu_bound(case))
            if need > have:
                return _as_is(case, holds[-1], holds)
        elif settled and demand.evidence:
            wanted = max(need, have * BREACH_STEP)
            case.past = msgspec.structs.replace(case.past, sizes=_remember(case, wanted, now))
            return _sized(case, wanted, _breach(case), holds, now)
        elif need > have:
            return _sized(case, need, _breach(case), holds, now)
    if grow_to > have:
        if have - burned < KEEP * (need - burned):
            return _sized(case, grow_to, demand.reason or _rose(case), holds, now)
        if need - have >= TOLD * have:
            holds.append(because(Code.TOLERANCE, wanted=need, have=have))
        return _as_is(case, _steady(case), holds)
    # From here on only a shrink is left.
    bar = guards.least(case.past, now) * count
    low_enough, top = max(low_enough, bar), max(top, bar)
    minimum_change = max(spec.vertical.behavior.shrink.min_change * have, spec.vertical.cpu.step * count)
    if have - low_enough < minimum_change:
        holds.extend([barred] if bar > max(need, floor) and (barred := guards.barred(case.past, now)) else [])
        return _as_is(case, _steady(case), holds)
    block = _first(
        demand.blocks[0] if demand.blocks else None,
        _breach(case) if demand.breach and demand.fastest <= 0.0 else None,
        because(Code.BREAKER, bad=0, total=0) if brakes_open else None,
        guards.learning(case.past, now),
        replicas.bridging(case.past.replicas, stand, now),
    )
    if block is not None:
        holds.append(block)
        return _as_is(case, _steady(case), holds)
    if have - top < minimum_change:
        window = spec.vertical.behavior.shrink.stabilization_window_seconds
        left = max(1.0, case.past.sizes.wishes[0][0] + window - now)
        holds.append(because(Code.STABILIZING, wanted=low_enough, have=have, left=left))
        return _as_is(case, _steady(case), holds, lend=low_enough)
    reason = because(Code.SHRINK, demand=burned, wanted=top, have=have)
    if replicas.came(case.past.replicas, need, now):
        reason = because(Code.SETTLE, wanted=top / count)
    return _sized(case, top, reason, holds, now, shrink=True)


def _undo(case: Case, now: float) -> float | None:
    """The total before a shrink that a breach followed within a minute, though the load did not rise; bars the next."""
    sizes, demand = case.past.sizes, case.demand
    before = float(sizes.shrunk_from * case.stand.count)
    if (
        not demand.breach
        or demand.fastest > 0.0
        or demand.evidence is False
        or sizes.shrunk_at == UNKNOWN
        or now - sizes.shrunk_at > REGRET
    ):
        return None
    if before <= case.usable or (demand.rho or 0.0) > ROSE * sizes.shrunk_demand:
        return None
    case.past = msgspec.structs.replace(
        case.past,
        sizes=msgspec.structs.replace(
            sizes, shrunk_at=UNKNOWN, barred_until=now + BARRED, barred_size=round(case.usable / case.stand.count)
        ),
    )
    return before


def _may_give(case: Case, now: float, brakes_open: bool) -> bool:
    """A shrink that was undone bars thrift, not sharing: what others lack more is divided anew at each tick."""
    return not (case.demand.blocks or brakes_open or guards.learning(case.past, now) is not None)


def _accelerated(case: Case, holds: list[Reason], now: float, brakes_open: bool) -> Want:
    """Pods with a GPU get CPU for measured throttling only; what waits in them is for the replicas."""
    stand, demand = case.stand, case.demand
    case.may_give = _may_give(case, now, brakes_open)
    case.past = msgspec.structs.replace(case.past, replicas=accelerated.learn(case.past.replicas, demand, stand))
    holds.extend(demand.blocks[:1])
    changed = case.past.sizes.changed_at
    if demand.throttled is not None and demand.throttled >= THROTTLED and (changed < 0.0 or now - changed > SETTLING):
        used = (demand.used or 0.0) * 1000.0 / max(1, stand.have)
        reason = because(Code.CPU_TARGET, used=used, target=USE_TARGET)
        return _sized(case, stand.have * BREACH_STEP, reason, holds, now)
    return _as_is(case, _breach(case) if demand.breach else _steady(case), holds)


def _first(*reasons: Reason | None) -> Reason | None:
    return next((reason for reason in reasons if reason is not None), None)


def _top(case: Case, have: float, now: float) -> float:
    """The largest wish that a shrink must respect: of the policy's window, or of ``CALM`` where little is to be won."""
    wishes = case.past.sizes.wishes
    window = float(case.policy.spec.vertical.behavior.shrink.stabilization_window_seconds)
    lately = next(wish for at, wish in wishes if at >= now - window - 1e-6)
    return lately if have - lately >= WORTHWHILE * have else wishes[0][1]


def _remember(case: Case, need: float, now: float) -> object:
    behavior = case.policy.spec.vertical.behavior
    sizes = case.past.sizes
    patience = max(CALM, float(behavior.shrink.stabilization_window_seconds))
    return msgspec.structs.replace(
        sizes,
        wishes=guards.windowed(sizes.wishes, now, need, patience, 1),
        lows=guards.windowed(sizes.lows, now, need, float(behavior.grow.stabilization_window_seconds), -1),
    )


def _sized(case: Case, total: float, reason: Reason, holds: list[Reason], now: float, shrink: bool = False) -> Want:
    """A wish for ``total`` millicores, spread evenly over the serving pods."""
    count = case.stand.count
    size = in_steps(total / count, case.policy.spec.vertical.cpu.step, case.low, case.high)
    if not shrink and total > size * count + 1:
        if case.ceiling is not None and case.ceiling >= case.high:
            used = (case.demand.used or 0.0) * 1000.0
            holds.append(because(Code.INELASTIC, used=used, have=case.stand.have, ceiling=case.ceiling))
        else:
            holds.append(because(Code.AT_MAX, wanted=total, maximum=case.high * count, pods=count))
    pods: dict[str, int] = {}
    most = case.high if case.ceiling is not None else case.top  # that a peer can have no more takes nothing from a pod
    for member in case.stand.serving:
        pods[member.pod.uid] = size if shrink else max(size, min(member.size, most))
        bound = refusals.most(case.past.sizes, member, case.policy.spec.vertical.cpu.step)
        if bound is not None and pods[member.pod.uid] > max(bound, member.size):
            room = refusals.unless(case.past.sizes, member, now)
            if room is not None:
                case.refused[member.pod.uid] = (max(bound, member.size), room)
                continue
            pods[member.pod.uid] = max(bound, member.size)
            said = refusals.why(case.past.sizes, member)
            refusal = because(Code.REFUSED, wanted=f"{size}m for {member.pod.name}", why=said)
            holds.append(refusal)
    return Want(
        ref=case.ref, cpu=total, floor=float(case.low * count), pods=pods, replicas=None, reason=reason,
        demand=(case.demand.rho or 0.0) * 1000.0, urgent=_urgent(case, total), may_shrink=shrink, holds=tuple(holds),
    )  # fmt: skip


def _as_is(case: Case, reason: Reason, holds: list[Reason], lend: float | None = None) -> Want:
    stand = case.stand
    born = _born(case)
    pods = {
        member.pod.uid: max(case.low, min(case.top, member.size), min(case.high, born)) for member in stand.serving
    }  # what was learned takes nothing back here
    total, floor = max(stand.have, sum(pods.values())), lend if lend is not None else stand.have
    return Want(
        ref=case.ref, cpu=float(total), floor=float(floor), pods=pods, replicas=None,
        reason=reason, demand=(case.demand.rho or 0.0) * 1000.0, holds=tuple(holds),
    )  # fmt: skip


def _born(case: Case) -> int:
    """What a pod that was born at the template's size gets at once: the size its peers were decided to have.

    Balancing knows nothing of sizes, so one small pod among large ones misses while the whole looks idle. After a
    rollout there are no such peers, and the new template is learned anew.
    """
    largest = max((member.size for member in case.stand.serving), default=0)
    return min(case.past.sizes.learned, largest)


def _urgent(case: Case, total: float) -> float:
    """Requests per second that the wish saves: those beyond what the present size serves, or those missed now."""
    demand = case.demand
    have = case.stand.have / 1000.0
    beyond = max(0.0, (demand.rho or 0.0) + demand.drain - have) / demand.work if demand.work > 0.0 else 0.0
    return max(beyond, (demand.misses or 0.0) * demand.arrivals)


def _breach(case: Case) -> Reason:
    demand = case.demand
    return because(Code.BREACH, misses=demand.misses or 0.0, target=demand.target, allowed=demand.allowed)


def _rose(case: Case) -> Reason:
    demand = case.demand
    if case.stand.draining:
        count = max(1, case.stand.count)
        return because(
            Code.CONSOLIDATE,
            pods=count,
            size=(demand.need or 0.0) * 1000.0 / count,
            demand=(demand.rho or 0.0) * 1000.0,
        )
    return because(
        Code.DEMAND, demand=(demand.rho or 0.0) * 1000.0, wanted=(demand.need or 0.0) * 1000.0, have=case.stand.have
    )


def _steady(case: Case) -> Reason:
    """Nothing to do; what can be said of the objective, and that it can't be said, are different words."""
    demand, have = case.demand, case.stand.have
    burned = demand.rho * 1000.0 if demand.rho is not None else "unknown size"
    if case.policy.spec.objective.latency is None:
        return because(Code.ON_TARGET, have=have, demand=burned)
    if demand.misses is None:
        reading = case.view.signals.misses
        if isinstance(reading, Absent) and reading.cause is Cause.NO_TRAFFIC:
            return because(Code.IDLE, have=have)
        why = reading.told if isinstance(reading, Absent) else str(Cause.STALE)
        return because(Code.UNMEASURED, why=why, have=have, demand=burned)
    known = case.view.signals.misses
    if isinstance(known, Measured) and known.coverage < 0.999 and demand.misses <= demand.allowed:
        why = f"Partial: known for {known.coverage:.0%} of the pods, {demand.misses:.3g} of theirs missed"
        return because(Code.UNMEASURED, why=why, have=have, demand=burned)
    code = Code.STEADY if demand.misses <= demand.allowed else Code.STILL_MISSING
    return because(code, misses=demand.misses, allowed=demand.allowed, have=have, demand=burned)


def _not_cpu_bound(case: Case) -> Reason:
    demand = case.demand
    return because(
        Code.NOT_CPU_BOUND, misses=demand.misses or 0.0, used=(demand.used or 0.0) * 1000.0, have=case.stand.have,
        throttled=demand.throttled or 0.0,
    )  # fmt: skip
