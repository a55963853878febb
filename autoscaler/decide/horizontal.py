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


def wish(case: Case, grant: Grant) -> int | None:
    """Replicas for the wanted total, given the sizes that were granted. None: nothing to say."""
    scale, want = case.view.scale, case.want
    if scale is None or want is None or not case.policy.spec.horizontal.enabled or case.stand.count == 0:
        return None
    least, most = bounds(case)
    count = case.stand.count
    coming = len(case.stand.starting)
    wished = scale.desired
    # What drains the backlog is not asked of replicas: it will be gone before they have started.
    short = grant.short - case.demand.drain * 1000.0
    if short > 0.0 and want.cpu > case.stand.have:
        each = max(1, max(grant.cpu.values(), default=case.high))
        born = case.view.template.cpu if case.view.template is not None and case.view.template.cpu else each
        more = ceil((short - 1e-6) / max(1, min(max(each, born), case.high)))
        wished = max(scale.desired, count + max(coming, more))
    return max(least, min(most, wished)) if scale.desired else None
