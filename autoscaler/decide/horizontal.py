"""How many replicas: what size can't cover becomes pods; fewer, well-used pods when the load is gone."""

from __future__ import annotations

from math import ceil

from autoscaler.decide.case import Case
from autoscaler.model.plan import Grant


def bounds(case: Case) -> tuple[int, int]:
    """Least and most replicas: as the policy says, else as found when the workload was adopted."""
    spec = case.policy.spec.horizontal
    adopted = max(1, case.past.replicas.adopted)
    most = spec.max_replicas if spec.max_replicas is not None else max(adopted, spec.min_replicas or 1)
    least = spec.min_replicas
    if least is None:
        least = min(most, max(2, adopted, (case.view.pdb_min_available or 0) + 1))
    return least, most


def _passing(case: Case) -> float:
    """Millicores of the need that replicas are not asked for, because it will be gone before they have started: what
    drains the backlog, and an excursion of the load that may be chance, with its share of the head-room."""
    demand, level = case.demand, case.past.traffic.level
    beyond = max(0.0, demand.arrivals - level) * demand.work if level >= 0.0 else 0.0
    share = (demand.need - demand.drain) / demand.rho if demand.need and demand.rho else 1.0
    return (demand.drain + beyond * max(1.0, share)) * 1000.0


def wish(case: Case, grant: Grant) -> int | None:
    """Replicas for the wanted total, given the sizes that were granted. None: nothing to say."""
    scale, want = case.view.scale, case.want
    if scale is None or want is None or not case.policy.spec.horizontal.enabled or case.stand.count == 0:
        return None
    least, most = bounds(case)
    count = case.stand.count
    coming = len(case.stand.starting)
    wished = scale.desired
    short = grant.short - _passing(case)
    if short > 0.0 and want.cpu > case.stand.have:
        each = max(1, max(grant.cpu.values(), default=case.high))
        born = case.view.template.cpu if case.view.template is not None and case.view.template.cpu else each
        more = ceil((short - 1e-6) / max(1, min(max(each, born), case.high)))
        wished = max(scale.desired, count + max(coming, more))
    return max(least, min(most, wished)) if scale.desired else None
