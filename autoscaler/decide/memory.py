"""Memory of the sized container: what it should be, in safe steps, and proof that a growth helped. Bytes throughout.

It grows by the peak working set or an OOM, never by page cache, and only up to ``vertical.memory.max``; without a
maximum it is left alone. Wishes of all workloads are granted together (``memory_rooms``), what was refused is
remembered (``memory_refusals``); it has to prove that it helped (``memory_proof``), and is taken back only where that
is allowed and safe (``memory_shrink``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from autoscaler.decide import memory_proof, memory_refusals, memory_shrink
from autoscaler.decide.case import Case
from autoscaler.decide.history import UNKNOWN, Peaks
from autoscaler.decide.memory_rooms import share
from autoscaler.decide.memory_size import MI, PROOF, busy, limit_of, members, resized, whole, working_set
from autoscaler.decide.standing import Member
from autoscaler.model.plan import Action, Ledger, Resize
from autoscaler.model.quantity import format_memory
from autoscaler.model.reason import Code, Reason, because

HALF_LIFE: Final = 86_400.0
"""Seconds in which a peak that isn't seen again loses half."""
OOM_STEP: Final = 1.2
OOM_LEAST: Final = 100 * MI
GROW_STEP: Final = 1.1
RECENT: Final = 600.0
"""An OOM older than this, seconds, says nothing of now."""

__all__ = ["settle", "share", "wish"]


def wish(case: Case, ledger: Ledger, now: float, brakes_open: bool = False) -> None:
    """Add the memory wishes, with a reason each, to the case's want; updates the peaks in ``case.past``."""
    spec = case.policy.spec.vertical
    most = spec.memory.max
    if case.frozen or case.want is None or not spec.enabled or most is None:
        return
    present = members(case)
    peaks = memory_refusals.learn(_learn(case, now), present, now)
    peaks = memory_shrink.judge(case, peaks, now)
    wanted: dict[str, int] = {}
    reasons: dict[str, Reason] = {}
    holds: list[Reason] = []
    for member in present:
        size, uid = limit_of(member), member.pod.uid
        if not size or busy(member):
            continue
        to, reason = _grown(case, member, size, most, peaks, now)
        if reason is not None and reason.code is Code.OOM:  # what killed one pod will kill its peers
            peaks = msgspec.structs.replace(peaks, oom_floor=max(peaks.oom_floor, to))
        to, refused = memory_refusals.bounded(peaks, member, to)
        if refused is not None:
            holds.append(refused)
        if to > size and reason is not None:
            wanted[uid], reasons[uid] = to, reason
        elif reason is not None and refused is None:
            holds.append(reason)
    if not wanted:
        step = memory_shrink.shrink(case, peaks, ledger, now, brakes_open)
        wanted, reasons = step.wanted, step.reasons
        holds += step.holds
    holds += memory_proof.told(case, peaks)
    replicas, why = memory_proof.replicas(peaks, now)
    case.past = msgspec.structs.replace(case.past, peaks=peaks)
    case.want = replace(
        case.want, memory=wanted, memory_reasons=reasons, holds=(*case.want.holds, *holds), replicas=replicas,
        replicas_reason=why,
    )  # fmt: skip


def settle(case: Case, actions: tuple[Action, ...], now: float) -> tuple[Action, ...]:
    """The wishes as actions of their own (a pod whose CPU changes now has to wait), and pods that weren't helped."""
    assert case.want is not None
    if case.policy.spec.vertical.memory.max is None or not case.policy.spec.vertical.enabled:
        return actions
    taken = {action.pod.uid for action in actions if not hasattr(action, "target")}
    peaks, sent = case.past.peaks, list(actions)
    ooms, proofs, asked = dict(peaks.ooms), dict(peaks.proofs), dict(peaks.asked)
    for member in members(case):
        uid, container, size = member.pod.uid, member.container, limit_of(member)
        to = case.want.memory.get(uid)
        if to is None or uid in taken:
            continue
        taken.add(uid)
        reason = case.want.memory_reasons[uid]
        sent.append(Resize(case.ref, member.pod, container.name, container.desired, resized(member, to), reason))
        if to < size:
            peaks = memory_shrink.taken(peaks, case, member, reason, now)
            continue
        peaks = msgspec.structs.replace(peaks, grown=(*peaks.grown[-4:], now), grown_at=now)
        if reason.code is Code.OOM and _killed_lately(member, now):
            ooms[uid] = now
            if not _recovered(member, now):  # nor have its peers anything to prove
                proofs[uid], asked[uid] = now, to
            peaks = msgspec.structs.replace(
                peaks, oom_at=now, barred_until=max(peaks.barred_until, now + memory_shrink.BARRED)
            )
    here = {member.pod.uid for member in (*members(case), *case.stand.draining)}
    peaks = msgspec.structs.replace(
        peaks,
        ooms={uid: at for uid, at in ooms.items() if uid in here},
        proofs={uid: at for uid, at in proofs.items() if uid in here},
        asked={uid: size for uid, size in asked.items() if uid in here},
        # One that is gone is remembered until its successor may serve: no other goes meanwhile.
        evicted={uid: at for uid, at in peaks.evicted.items() if uid in here or now - at < PROOF},
    )
    peaks, evictions = memory_proof.judge(case, peaks, frozenset(taken), now)
    case.past = msgspec.structs.replace(case.past, peaks=peaks)
    return (*sent, *evictions)


def _learn(case: Case, now: float) -> Peaks:
    """The decaying peak of the pod that uses most. Another template starts anew."""
    peaks = case.past.peaks
    template = case.view.scale.template_hash if case.view.scale is not None else ""
    if template and template != peaks.template:
        peaks = msgspec.structs.replace(peaks, template=template) if not peaks.template else Peaks(template=template)
    elapsed = max(0.0, now - peaks.peak_at) if peaks.peak_at != UNKNOWN else 0.0
    seen = [working_set(case, member) for member in case.stand.serving]
    peak = max([peaks.peak * 0.5 ** (elapsed / HALF_LIFE), *(value for value in seen if value is not None)])
    return msgspec.structs.replace(peaks, peak=peak, peak_at=now)


def _killed_lately(member: Member, now: float) -> bool:
    killed = member.container.oom_at
    return killed is not None and now - killed < RECENT


def _recovered(member: Member, now: float) -> bool:
    """It serves again, and has for a while, with what it had."""
    killed = member.container.oom_at
    return killed is not None and now - killed >= PROOF and member.container.running and member.pod.ready


def _answered(case: Case, peaks: Peaks, member: Member) -> float:
    """Until when kills of this pod were answered: by an earlier process, too, as far as the server shows it."""
    pod = member.pod
    earlier = pod.resized_at if pod.resized_by == memory_shrink.OURS else None
    if earlier is None or earlier >= case.past.since or not member.container.running:
        earlier = UNKNOWN
    return max(earlier, peaks.ooms.get(pod.uid, peaks.oom_at))


def _grown(case: Case, member: Member, size: int, most: int, peaks: Peaks, now: float) -> tuple[int, Reason | None]:
    """The limit this pod should have (``size``: leave it), and why, or why not."""
    uid, used = member.pod.uid, working_set(case, member)
    if memory_proof.on_trial(peaks, member):
        return size, None  # more did not help: it is recreated, or has help
    owed = min(most, peaks.owed.get(uid, 0))
    killed = member.container.oom_at
    if killed is not None and killed > _answered(case, peaks, member) and _killed_lately(member, now):
        to = max(owed, min(most, whole(max(size * OOM_STEP, size + OOM_LEAST))))
        if to > size:
            return to, because(Code.OOM, pod=member.pod.name, limit=size)
        return size, _at_most(peaks, used or size, size, f"{member.pod.name} was OOMKilled: ")
    if size < min(most, peaks.oom_floor):
        floor = min(most, peaks.oom_floor)
        return max(owed, floor), because(Code.OOM, pod="a pod like it", limit=f"less than {format_memory(floor)}")
    if size < owed:
        return owed, because(Code.MEMORY_UNDO, limit=size, why=peaks.owed_why)
    headroom = case.policy.spec.vertical.memory.headroom
    highest = max(peaks.peak, used or 0.0)  # a new pod, not measured yet, will need what its peers do
    target = highest * (1.0 + headroom)
    if target <= size:
        return size, None
    to = min(most, whole(max(target, size * GROW_STEP)))
    if to > size:
        return to, because(Code.MEMORY_GROW, used=highest, limit=size, headroom=headroom)
    return size, _at_most(peaks, used, size) if used is not None and used * (1.0 + headroom) > size else None


def _at_most(peaks: Peaks, used: float, size: int, what: str = "") -> Reason:
    """Growth that came in several steps and would go on is a leak; one step that ends at the maximum is not."""
    if len(peaks.grown) > 1:
        return because(Code.LEAK, used=used, limit=size)
    return because(Code.HELD, why=f"{what}memory is at its maximum {format_memory(size)}")
