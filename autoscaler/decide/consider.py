"""The first step for one workload: who serves, what the new signals teach, what the load needs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from autoscaler.decide import cost, elasticity, guards, misses, refusals, replicas, traffic
from autoscaler.decide.case import Case
from autoscaler.decide.demand import Demand, demand
from autoscaler.decide.history import UNKNOWN, History, Replicas
from autoscaler.decide.queued import Queue
from autoscaler.decide.sizes import ANY
from autoscaler.decide.standing import Standing, stand
from autoscaler.model.plan import Want
from autoscaler.model.policy import Controls
from autoscaler.model.reason import Reason
from autoscaler.model.seen import Seen, Subject
from autoscaler.model.signal import Measured, Signals

NO_ZONES: Mapping[str, str] = {}
AT_REST = 20.0
"""Seconds after a change before misses speak of the new size."""
START_GRACE = 60.0
"""Seconds after a pod's start in which its CPU per request is not believed."""


def consider(
    subject: Subject,
    past: History | None,
    seen: Seen,
    largest: int,
    zones: Mapping[str, str] = NO_ZONES,
    queue: Queue | None = None,
) -> Case:
    """Learn, estimate and bound one workload. A case that may not be decided on comes back frozen with its reason."""
    view, policy, now = subject.view, subject.policy, seen.at
    known = past if past is not None else History()
    standing = stand(view, policy, known.replicas.victim, queue)
    hold = guards.cannot_decide(view, policy, seen.paused)
    known = learn(known, subject, standing, now)
    case = Case(view.ref, view, policy, known, standing, Demand())
    if hold is not None:
        case.frozen = True
        case.want = _frozen(case, hold)
        return case
    controls = policy.spec.vertical.cpu.controls
    sizes = refusals.learn(known.sizes, (*standing.serving, *standing.starting), seen.ledger, controls, now)
    if sizes is not known.sizes:
        case.past = known = msgspec.structs.replace(known, sizes=sizes)
    case.zones = zones
    case.kept = guards.kept(standing, policy, now)
    case.demand = demand(view.signals, policy, known, standing, now)
    case.low, case.high = bounds(case, seen, largest)
    case.top = case.high
    case.high = max(case.low, min(case.high, _within_limits(case)))
    template = view.scale.template_hash if view.scale is not None else ""
    elastic = elasticity.learn(known, case.demand, view.signals, standing, template, now)
    if elastic is not known.elastic:
        case.past = known = msgspec.structs.replace(known, elastic=elastic)
    case.ceiling = elasticity.most(elastic, policy.spec.vertical.cpu.step)
    if case.ceiling is not None:
        case.high = max(case.low, min(case.high, case.ceiling))
    if past is not None and _undisturbed(case, past, now):
        dt = known.traffic.sampled_at - past.traffic.sampled_at
        out = case.demand
        judged = misses.judge(known.headroom, view.signals, allowed=out.allowed, dt=dt, evidence=out.evidence)
        case.past = msgspec.structs.replace(known, headroom=judged)
    return case


def _undisturbed(case: Case, past: History, now: float) -> bool:
    """Whether the newest interval shows what the head-room is worth: a new sample, sizes at rest, and as wanted."""
    known, stand = case.past, case.stand
    if past.traffic.sampled_at < 0.0 or known.traffic.sampled_at == past.traffic.sampled_at:
        return False
    if now - known.sizes.changed_at < AT_REST or stand.starting or case.demand.need is None:
        return False
    if any(member.pod.attempt is not None and member.pod.attempt.open for member in stand.serving):
        return False
    lately = next((wish for at, wish in past.sizes.wishes if at >= now - AT_REST), 0.0)  # the largest of them
    short = stand.have < 0.95 * max(1000.0 * case.demand.need, lately)
    return not short and case.demand.fastest <= 0.0


def learn(past: History, subject: Subject, standing: Standing, now: float) -> History:
    """What the newest signals teach about traffic and cost."""
    view = subject.view
    signals = view.signals
    elapsed = now - past.at if past.at >= 0.0 else 0.0
    seen = traffic.learn(past.traffic, signals, now)
    judged = past.headroom
    if seen.sampled_at != past.traffic.sampled_at:
        judged = misses.learn(judged, signals, seen.sampled_at - past.traffic.sampled_at)
    settled = all(now - member.pod.created_at > START_GRACE for member in standing.serving)
    template = view.scale.template_hash if view.scale is not None else ""
    size = _size(past, signals, standing, now)
    done = cost.completed(signals, elapsed)
    spent = cost.learn(past.cost, signals, done, now, template, settled, standing.count, size)
    counted = past.replicas
    if counted.adopted == 0 and view.scale is not None and view.scale.desired > 0:
        counted = msgspec.structs.replace(counted, adopted=view.scale.desired)
    elif counted.adopted == 0 and view.scale is None and standing.count:
        counted = Replicas(adopted=standing.count)
    counted = replicas.learn(counted, view, standing, past.at, now)
    since = past.since if past.since != UNKNOWN else now
    return msgspec.structs.replace(
        past, at=now, since=since, traffic=seen, cost=spent, replicas=counted, headroom=judged
    )


def _size(past: History, signals: Signals, standing: Standing, now: float) -> float:
    """Cores of one pod all through the newest CPU sample; 0 where that is not one figure."""
    cpu = signals.cpu
    if not isinstance(cpu, Measured) or not standing.count or standing.draining:
        return 0.0
    if now - cpu.age_s - max(cpu.window_s, 15.0) < past.sizes.changed_at:
        return 0.0
    return standing.live / 1000.0 / standing.count


def largest_node(seen: Seen) -> int:
    """Millicores of the largest node: more than that no pod can have. ``ANY`` where nodes can't be seen."""
    known = seen.ledger.nodes.values() if seen.ledger.nodes_known else ()
    return max((node.cpu for node in known), default=ANY)


def bounds(case: Case, seen: Seen, largest: int) -> tuple[int, int]:
    """The smallest and largest size of one pod in millicores: policy, LimitRange, and the largest node."""
    if not case.policy.spec.vertical.enabled and case.stand.serving:
        # Sizes are left alone: what doesn't fit into them is for the replicas.
        sizes = [member.size for member in case.stand.serving]
        return min(sizes), max(sizes)
    cpu = case.policy.spec.vertical.cpu
    low, high = cpu.min, cpu.max if cpu.max is not None else ANY
    limits = seen.ledger.limit_ranges.get(case.ref.namespace)
    if limits is not None:
        low = max(low, limits.cpu_min or 0)
        high = min(high, limits.cpu_max or ANY)
    high = min(high, largest)
    return min(low, high), high


def _within_limits(case: Case) -> int:
    """The largest size that every serving pod can have: where requests alone move, limits stay as they are."""
    if case.policy.spec.vertical.cpu.controls is not Controls.REQUESTS:
        return case.high
    kept = (member.container.desired.cpu_limit for member in case.stand.serving)
    return min((limit for limit in kept if limit is not None), default=case.high)


def _frozen(case: Case, reason: Reason) -> Want:
    stand = case.stand
    return Want(
        ref=case.ref, cpu=float(stand.have), floor=float(stand.have),
        pods={member.pod.uid: member.size for member in stand.serving}, replicas=None, reason=reason, holds=(reason,),
    )  # fmt: skip
