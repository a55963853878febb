"""Pods with a GPU or another extended resource: their number follows what waits inside them, not their CPU.

How many requests one such pod carries is not reckoned but learned: the most in flight per pod with which the objective
was held. Size gives them CPU only where throttling was measured.
"""

from __future__ import annotations

from math import ceil

import msgspec

from autoscaler.decide.case import Case
from autoscaler.decide.demand import Demand
from autoscaler.decide.history import Replicas
from autoscaler.decide.standing import Standing
from autoscaler.model.reason import Code, Reason, because

STEP = 1.5
"""Without a learned number, a breach asks for this times the pods."""
LESS = 0.9
"""Of the requests per pod with which the objective was missed, so many are tried."""
FOLLOW = 0.1
"""Part of the way towards a larger number that was carried: one quiet sample teaches little."""


def applies(stand: Standing) -> bool:
    """Whether these pods have an extended resource, in any container."""
    return any(one.extended for member in stand.serving[:1] for one in member.pod.containers)


def learn(past: Replicas, demand: Demand, stand: Standing) -> Replicas:
    """The requests in flight per pod with which the objective is held."""
    if demand.in_flight is None or demand.misses is None or not stand.count:
        return past
    each = demand.in_flight / stand.count
    carried = past.carried
    if demand.breach:
        if each > 1.0 and (carried <= 0.0 or each * LESS < carried):
            carried = max(1.0, each * LESS)
    elif each > carried:
        carried = each if carried <= 0.0 else carried + FOLLOW * (each - carried)
    return past if carried == past.carried else msgspec.structs.replace(past, carried=carried)


def more(case: Case) -> tuple[int, Reason | None]:
    """Pods for what is in flight, when the objective is missed and requests wait: at most twice as many."""
    demand, count, carried = case.demand, case.stand.count, case.past.replicas.carried
    if not (demand.breach or demand.stalled) or demand.in_flight is None:
        return 0, None
    each = demand.in_flight / count
    if each <= 1.0:
        return 0, because(Code.HELD, why="requests are late though none waits: more pods would not help")
    wanted = demand.in_flight / carried if 0.0 < carried < each else count * STEP
    target = carried if 0.0 < carried < each else each / STEP
    reason = because(Code.METRIC_TARGET, name="requests in flight per pod", value=each, target=target)
    return max(count + 1, min(2 * count, ceil(wanted - 1e-9))), reason


def fewest(case: Case, desired: int, least: int, margin: float) -> int:
    """Pods with which no more would be in flight in each than was carried. ``margin``: 1.1 leaves a tenth."""
    demand, carried = case.demand, case.past.replicas.carried
    if demand.in_flight is None or carried <= 0.0:
        return desired
    return max(least, min(desired, ceil(demand.in_flight * margin / carried - 1e-9)))
