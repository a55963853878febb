"""Sharing, once per tick for all workloads: no core is granted twice.

What shrinks gives its room first (a resize is sent after the shrinks that make its room); then grows are granted within
node room, quota, LimitRange, budget and the fleet's limit, higher priority first. Where a node or a budget is too small
for all, it is divided anew (``sharing.py``) and those that hold more than their part give as much as is missing.
As much as fits beats all or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.decide import change, newborn, refusals
from autoscaler.decide.case import Case
from autoscaler.decide.rooms import Rooms
from autoscaler.decide.sharing import Claim, divide
from autoscaler.decide.sizes import in_steps
from autoscaler.decide.standing import Member
from autoscaler.model.plan import Grant, Ledger
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.workload import WorkloadRef

WORTH = 0.05
"""Part of its size that a donor must have to spare before it is resized for others."""
WORTH_TAKING = 0.08
"""Part of its size that a pod must win by a new division: less is not worth a resize of its own and of a donor's."""

Part = tuple[Case, Member]


def allocate(cases: Sequence[Case], ledger: Ledger) -> dict[WorkloadRef, Grant]:
    """What each workload may have: for every pod named in its want, the size it may be asked for."""
    rooms = Rooms(ledger, cases)
    granted: dict[WorkloadRef, dict[str, int]] = {}
    reasons: dict[WorkloadRef, list[Reason]] = {}
    growing: list[Case] = []
    for case in cases:
        assert case.want is not None
        sizes = granted[case.ref] = {}
        wants = case.want.pods
        grows = False
        for member in case.stand.serving:
            wanted = wants.get(member.pod.uid, member.size)
            blocked = change.possible(case, member, wanted)
            if blocked is not None:
                reasons.setdefault(case.ref, []).append(blocked)
                case.share[member.pod.uid] = wanted = member.size
            sizes[member.pod.uid] = min(wanted, member.size)
            if wanted < member.size:
                rooms.give(case, member, member.size - wanted)
            elif wanted > member.size:
                grows = True
        if grows:
            growing.append(case)
    if growing:
        for parts, lack in rooms.crowded(cases, growing):
            _squeeze(parts, lack, granted, rooms)
        growing.sort(key=_urgency)
        for case in growing:
            _grow(case, granted[case.ref], rooms, reasons.setdefault(case.ref, []))
    born: dict[WorkloadRef, dict[str, int]] = {}
    for case in sorted((one for one in cases if one.stand.starting), key=_urgency):
        born[case.ref], said = newborn.allot(case, rooms, ledger)
        reasons.setdefault(case.ref, []).extend(said)
    grants: dict[WorkloadRef, Grant] = {}
    for case in cases:
        assert case.want is not None
        sizes = granted[case.ref]
        short = max(0.0, case.want.cpu - sum(sizes.values())) if case.want.cpu > case.usable else 0.0
        births, too_few = rooms.births(case) if short > 0.0 else (None, None)
        grants[case.ref] = Grant(
            ref=case.ref, cpu=sizes, memory=case.want.memory, short=short, why=tuple(reasons.get(case.ref, ())),
            room=rooms.left, births=births, births_why=too_few, starting=born.get(case.ref, {}),
        )  # fmt: skip
    return grants


def _urgency(case: Case) -> tuple[float, float]:
    assert case.want is not None
    return (-case.policy.spec.priority, -case.want.urgent)


def _grow(case: Case, sizes: dict[str, int], rooms: Rooms, why: list[Reason]) -> None:
    """Take what fits for each pod that wants more, the smallest first."""
    assert case.want is not None
    step = case.policy.spec.vertical.cpu.step
    limit = case.share
    for member in sorted(case.stand.serving, key=lambda member: member.size):
        wanted = min(case.want.pods.get(member.pod.uid, member.size), limit.get(member.pod.uid, 1 << 50))
        if wanted <= member.size or sizes[member.pod.uid] < member.size:
            continue  # it wants nothing, or gives
        bound, room = case.refused.get(member.pod.uid, (wanted, 0))
        if bound < wanted and rooms.around(case, member) <= room:
            wanted = bound
            why.append(because(Code.REFUSED, wanted=member.pod.name, why=refusals.why(case.past.sizes, member)))
            if wanted <= member.size:
                continue
        extra, reason = rooms.take(case, member, wanted - member.size, step)
        sizes[member.pod.uid] = member.size + extra
        if reason is not None:
            why.append(reason)


def _squeeze(
    parts: Sequence[Part], short: Sequence[float], granted: dict[WorkloadRef, dict[str, int]], rooms: Rooms
) -> None:
    """Divide one crowded room anew, higher priority first; donors give what growers lack, the fullest hands first."""
    capacity = short[0]
    ideal: dict[str, int] = {}
    for priority in sorted({case.policy.spec.priority for case, _ in parts}, reverse=True):
        mine = [part for part in parts if part[0].policy.spec.priority == priority]
        below = sum(_claim(case, member).floor for case, member in parts if case.policy.spec.priority < priority)
        claims = [_claim(case, member) for case, member in mine]
        given = divide(claims, capacity - below)
        capacity -= sum(given)
        for (case, member), cores in zip(mine, given, strict=True):
            ideal[member.pod.uid] = in_steps(
                cores * 1000.0 - 49.0, case.policy.spec.vertical.cpu.step, case.low, case.high
            )
    missing = -short[1]
    for case, member in parts:
        assert case.want is not None
        wanted = case.want.pods.get(member.pod.uid, member.size)
        if wanted > member.size:
            part = min(wanted, max(member.size, ideal[member.pod.uid]))
            if part - member.size < WORTH_TAKING * member.size:
                part = member.size
            part = case.share[member.pod.uid] = min(part, case.share.get(member.pod.uid, part))
            missing += part - member.size
    donors = []
    for case, member in parts:
        uid = member.pod.uid
        spare = granted[case.ref].get(uid, member.size) - ideal[uid]
        worth = spare > max(WORTH * member.size, case.policy.spec.vertical.cpu.step)
        if worth and case.may_give and change.possible(case, member, ideal[uid]) is None:
            donors.append((spare, case, member))
    donors.sort(key=lambda donor: -donor[0])
    for spare, case, member in donors:
        if missing <= 0:
            break
        uid = member.pod.uid
        granted[case.ref][uid] = ideal[uid]
        rooms.give(case, member, spare)
        missing -= spare


def _claim(case: Case, member: Member) -> Claim:
    """A pod's part of its workload's claim, in cores of size."""
    demand, count = case.demand, max(1, case.stand.count)
    assert case.want is not None
    have = member.size / 1000.0
    if demand.need is None:
        asked = max(have, case.want.pods.get(member.pod.uid, member.size) / 1000.0)
        return Claim(have, asked, asked)
    low = case.low / 1000.0 if case.may_give else have
    load = max(low, (demand.rho or 0.0) / count)
    want = min(max(load, demand.need / count), max(low, case.high / 1000.0))
    drift = demand.drift / count
    if drift > 0.0:  # what it holds it may keep for the load that will be back
        want = max(want, min(have, want + drift))
    return Claim(
        floor=low, load=min(load, want), want=want, backlog=demand.backlog / count, drift=drift,
        scale=max(demand.scale / count, 0.02),
    )  # fmt: skip
