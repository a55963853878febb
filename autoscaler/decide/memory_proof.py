"""More memory after an OOM kill has to prove that it helped: running, Ready, not killed again. Or else another way.

What was not helped is recreated through the eviction API (its budget and the role may refuse); what is still there and
no better after that gets another replica beside it, which takes part of the load. It never grows without end.
"""

from __future__ import annotations

from typing import Final

import msgspec

from autoscaler.decide.case import Case
from autoscaler.decide.history import UNKNOWN, Peaks
from autoscaler.decide.memory_size import PROOF, limit_of, members
from autoscaler.decide.standing import Member
from autoscaler.model.plan import Evict
from autoscaler.model.quantity import format_memory
from autoscaler.model.reason import Code, Reason, because

SPREAD_S: Final = 1800.0
"""Seconds that the replica added for memory's sake is kept."""


def judge(case: Case, peaks: Peaks, resized: frozenset[str], now: float) -> tuple[Peaks, list[Evict]]:
    """Growths that have had their time, and the pod to recreate, one at a time. ``resized``: those changed just now."""
    proofs, asked, evicted, ooms = dict(peaks.proofs), dict(peaks.asked), dict(peaks.evicted), dict(peaks.ooms)
    evictions: list[Evict] = []
    for member in members(case):
        pod, uid = member.pod, member.pod.uid
        if uid not in proofs or uid in resized:
            continue
        if pod.attempt is not None and pod.attempt.open and not pod.attempt.granted:
            proofs[uid] = now  # it hasn't got the memory yet
            continue
        if limit_of(member) < asked.get(uid, 0):
            del proofs[uid]  # refused or taken back: nothing to judge
            continue
        why = _not_helped(case, member, proofs[uid], now)
        if why is None:
            continue
        if why == "":
            for kept in (proofs, asked, evicted):
                kept.pop(uid, None)
            continue
        if evictions or any(now - proofs.get(other, at) < PROOF for other, at in evicted.items()):
            continue
        if uid in evicted and (peaks.spread_at == UNKNOWN or now - peaks.spread_at >= SPREAD_S):
            desired = case.view.scale.desired if case.view.scale is not None else 0
            peaks = msgspec.structs.replace(peaks, spread=desired + 1 if desired else 0, spread_at=now)
        evictions.append(Evict(case.ref, pod, because(Code.RECREATE, why=f"{pod.name} {why}")))
        # That is the answer to this kill. Once more only after the same time: budget or role may refuse.
        evicted.setdefault(uid, now)
        proofs[uid] = ooms[uid] = now
    return msgspec.structs.replace(peaks, proofs=proofs, asked=asked, evicted=evicted, ooms=ooms), evictions


def on_trial(peaks: Peaks, member: Member) -> bool:
    """Whether this pod was given more memory after a kill and was killed again before it proved that it helps."""
    since, killed = peaks.proofs.get(member.pod.uid), member.container.oom_at
    return since is not None and killed is not None and killed > since


def told(case: Case, peaks: Peaks) -> list[Reason]:
    """What is said of pods that are still there after more memory did not help."""
    said = []
    for member in members(case):
        if on_trial(peaks, member) or member.pod.uid in peaks.evicted:
            tried = "; it was not recreated (budget, or no right to evict)" if member.pod.uid in peaks.evicted else ""
            why = f"{member.pod.name} has {format_memory(limit_of(member))} and more did not help{tried}"
            said.append(because(Code.HELD, why=why))
    return said


def replicas(peaks: Peaks, now: float) -> tuple[int | None, Reason | None]:
    """Replicas wished for because memory could not help, and why."""
    if not peaks.spread or peaks.spread_at == UNKNOWN or now - peaks.spread_at >= SPREAD_S:
        return None, None
    return peaks.spread, because(Code.SPREAD)


def _not_helped(case: Case, member: Member, since: float, now: float) -> str | None:
    """Why it did not help; empty: it did; None: too early to say."""
    killed, size = member.container.oom_at, format_memory(limit_of(member))
    if killed is not None and killed > since:
        return f"was OOMKilled again {killed - since:.0f}s after it got {size}"
    if now - since < max(PROOF, 2.0 * case.past.replicas.start_up):
        return None
    if member.container.running and member.pod.ready:
        return ""
    return f"is not ready {now - since:.0f}s after it got {size}"
