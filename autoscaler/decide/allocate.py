"""Sharing, once per tick for all workloads: no core is granted twice.

What shrinks gives its room first (a resize is sent after the shrinks that make its room); then grows are granted within
node room, quota, LimitRange, budget and the fleet's limit, higher priority first. As much as fits beats all or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.decide.case import Case
from autoscaler.decide.rooms import Rooms
from autoscaler.model.plan import Grant, Ledger
from autoscaler.model.reason import Reason
from autoscaler.model.workload import WorkloadRef


def allocate(cases: Sequence[Case], ledger: Ledger) -> dict[WorkloadRef, Grant]:
    """What each workload may have: for every pod named in its want, the size it may be asked for."""
    rooms = Rooms(ledger, cases)
    granted: dict[WorkloadRef, dict[str, int]] = {}
    growing: list[Case] = []
    for case in cases:
        assert case.want is not None
        sizes = granted[case.ref] = {}
        wants = case.want.pods
        for member in case.stand.serving:
            wanted = wants.get(member.pod.uid, member.size)
            sizes[member.pod.uid] = min(wanted, member.size)
            if wanted < member.size:
                rooms.give(case, member, member.size - wanted)
            elif wanted > member.size and (not growing or growing[-1] is not case):
                growing.append(case)
    growing.sort(key=lambda case: (-case.policy.spec.priority, -case.want.urgent if case.want else 0.0))
    reasons: dict[WorkloadRef, list[Reason]] = {}
    for case in growing:
        assert case.want is not None
        sizes, why = granted[case.ref], reasons.setdefault(case.ref, [])
        step = case.policy.spec.vertical.cpu.step
        for member in sorted(case.stand.serving, key=lambda member: member.size):
            wanted = case.want.pods.get(member.pod.uid, member.size)
            if wanted <= member.size:
                continue
            extra, reason = rooms.take(case, member, wanted - member.size, step)
            sizes[member.pod.uid] = member.size + extra
            if reason is not None:
                why.append(reason)
    grants: dict[WorkloadRef, Grant] = {}
    for case in cases:
        assert case.want is not None
        sizes = granted[case.ref]
        short = max(0.0, case.want.cpu - sum(sizes.values())) if case.want.cpu > case.stand.have else 0.0
        grants[case.ref] = Grant(
            ref=case.ref, cpu=sizes, memory=case.want.memory, short=short,
            why=tuple(reasons.get(case.ref, ())), room=rooms.left,
        )  # fmt: skip
    return grants
