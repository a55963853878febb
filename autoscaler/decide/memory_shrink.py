"""Taking memory back, safely: one pod first, its peers after it stood, and all of it undone when it did harm.

Only with ``shrink: WhenSafe``, by a tenth at most, never below usage *with* page cache plus a margin. A pod on trial
that is killed, restarts, or whose workload misses its objective gets its memory back, and the next shrink is barred for
a quarter of an hour; so it is when the kubelet refuses to apply one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from autoscaler.decide import guards
from autoscaler.decide.case import Case
from autoscaler.decide.history import UNKNOWN, Peaks
from autoscaler.decide.memory_size import MI, PROOF, busy, limit_of, members, resized, signals_of, whole, working_set
from autoscaler.decide.standing import Member
from autoscaler.model.plan import Ledger
from autoscaler.model.policy import Shrink
from autoscaler.model.quantity import format_memory
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.signal import NOT_CONFIGURED, Measured
from autoscaler.model.workload import Attempt, ResizeRestart, ResizeState

MARGIN: Final = 100 * MI
MARGIN_SHARE: Final = 0.1
STEP: Final = 0.9
FRESH: Final = 20.0
"""A shrink needs a sample of usage younger than this, seconds."""
BARRED: Final = 900.0
"""Seconds without a shrink after one did harm or was refused."""
ARRIVES: Final = 10.0
"""Seconds after which a shrink that was accepted is seen."""
WORTH: Final = 0.1
WORTH_LEAST: Final = 64 * MI
"""A first step down must have this much to win in all, of the limit and in bytes: less is not worth a trial."""
ROSE: Final = 1.1
"""A breach under so much more load than at the shrink is the load's."""
OURS: Final = "inference-autoscaler"
"""The field manager of our resizes: a smaller pod that we made so lately is one on trial."""


@dataclass(slots=True)
class Shrinks:
    """Wishes by pod uid, a reason for each, and what was not done."""

    wanted: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, Reason] = field(default_factory=dict)
    holds: list[Reason] = field(default_factory=list)


def judge(case: Case, peaks: Peaks, now: float) -> Peaks:
    """What became of the shrinks: undone where they did harm, a canary of an earlier process found again."""
    here = {member.pod.uid: member for member in members(case)}
    owed = {uid: size for uid, size in peaks.owed.items() if uid in here and limit_of(here[uid]) < size}
    if owed != peaks.owed:
        peaks = msgspec.structs.replace(peaks, owed=owed)
    for member in here.values():
        since = _refused_at(member.pod.attempt, limit_of(member))
        if since is not None and since + BARRED > max(now, peaks.barred_until):
            peaks = msgspec.structs.replace(peaks, barred_until=since + BARRED, canary="", before={})
    peaks = _found_again(case, peaks, now)
    if (
        peaks.before
        and now - peaks.shrunk_at > ARRIVES
        and not any(limit_of(here[uid]) < size for uid, size in peaks.before.items() if uid in here)
    ):  # none has less: it was refused, and would be again
        barred = max(peaks.barred_until, now + BARRED)
        return msgspec.structs.replace(peaks, before={}, canary="", shrunk_at=UNKNOWN, barred_until=barred)
    if not peaks.before or peaks.shrunk_at == UNKNOWN or now - peaks.shrunk_at > PROOF:
        return msgspec.structs.replace(peaks, before={}) if peaks.before else peaks
    why = _harm(case, peaks, here, now)
    if why is None:
        return peaks
    back = {uid: size for uid, size in peaks.before.items() if uid in here and limit_of(here[uid]) < size}
    if not back:
        return msgspec.structs.replace(peaks, before={})
    return msgspec.structs.replace(
        peaks, before={}, owed={**owed, **back}, owed_why=why, canary="", barred_until=now + BARRED
    )


def _harm(case: Case, peaks: Peaks, here: dict[str, Member], now: float) -> str | None:
    ago = f"{max(0.0, now - peaks.shrunk_at):.0f}s after it"
    for uid in peaks.before:
        member = here.get(uid)
        if member is None:
            continue
        if member.container.oom_at is not None and member.container.oom_at > peaks.shrunk_at:
            return f"{member.pod.name} was OOMKilled {ago}"
        if (member.container.started_at or 0.0) > peaks.shrunk_at or not member.container.running:
            return f"{member.pod.name} restarted {ago}"
    demand = case.demand
    if demand.breach and (demand.rho or 0.0) <= ROSE * peaks.trial_demand:
        return f"the objective is missed {ago}"
    return None


def _refused_at(attempt: Attempt | None, limit: int) -> float | None:
    """When a shrink was sent that the kubelet won't apply, or that was taken back for it."""
    if attempt is None:
        return None
    before, wanted = attempt.before, attempt.wanted.memory_limit
    if attempt.reverts is not None:
        undone = attempt.reverts.memory_limit
        return attempt.since if undone is not None and undone < limit else None
    shrank = before is not None and wanted is not None and wanted < (before.memory_limit or 0)
    return attempt.since if shrank and attempt.state is ResizeState.ERROR else None


def _grew(peaks: Peaks, now: float) -> bool:
    """Whether memory was too small lately: what was just given is not taken back, nor is who got less on trial."""
    return peaks.grown_at != UNKNOWN and now - peaks.grown_at < BARRED


def _found_again(case: Case, peaks: Peaks, now: float) -> Peaks:
    """After a restart of this process the canary is the pod with less than its peers, on trial if lately made so."""
    if (
        peaks.owed
        or now < peaks.barred_until
        or _grew(peaks, now)
        or case.policy.spec.vertical.memory.shrink is not Shrink.WHEN_SAFE
    ):
        return peaks
    sized = {member.pod.uid: member for member in case.stand.serving if limit_of(member)}
    most = max(map(limit_of, sized.values()), default=0)
    smaller = {uid: member for uid, member in sized.items() if limit_of(member) < most}
    if not smaller or (peaks.canary in smaller and (peaks.before or now - peaks.shrunk_at > PROOF)):
        return peaks
    canary = smaller.get(peaks.canary) or min(smaller.values(), key=limit_of)
    since = peaks.shrunk_at if peaks.canary in smaller else None
    lately = canary.pod.resized_at if canary.pod.resized_by == OURS else None
    if since is None and lately is not None and 0.0 <= now - lately <= PROOF:
        since = lately
    if since is None:  # who made it so small, and when, isn't known: it has to stand from now on
        return msgspec.structs.replace(peaks, canary=canary.pod.uid, canary_at=now, shrunk_at=now, before={})
    before = {uid: most for uid, member in smaller.items() if limit_of(member) <= limit_of(canary)}
    return msgspec.structs.replace(
        peaks, canary=canary.pod.uid, canary_at=since, shrunk_at=since, before=before,
        trial_demand=case.demand.rho or 0.0,
    )  # fmt: skip


def shrink(case: Case, peaks: Peaks, ledger: Ledger, now: float, brakes_open: bool) -> Shrinks:
    """The next step down, if there is one to take: the canary's, or its peers' to where it stood."""
    out = Shrinks()
    spec = case.policy.spec.vertical.memory
    ceiling = spec.max
    sized = [member for member in case.stand.serving if limit_of(member)]
    if spec.shrink is not Shrink.WHEN_SAFE:
        over = [member for member in sized if ceiling is not None and limit_of(member) > ceiling]
        if over and ceiling is not None:
            why = f"{over[0].pod.name} has {format_memory(limit_of(over[0]))} of memory, more than the maximum " \
                  f"{format_memory(ceiling)}, and memory.shrink is Never"  # fmt: skip
            out.holds.append(because(Code.HELD, why=why))
        return out
    if peaks.peak <= 0.0:
        return out
    sized = [member for member in sized if not busy(member)]
    canary = next((member for member in sized if member.pod.uid == peaks.canary), None)
    stood = limit_of(canary) if canary is not None else 0
    followers = [member for member in sized if canary is not None and limit_of(member) > stood]
    steps: list[tuple[Member, int]] = []
    for member in followers or ([canary] if canary is not None else sized[:1]):
        floor = _floor(case, member, peaks, ledger)
        if floor is None:
            continue
        to = max(floor, whole(limit_of(member) * STEP), stood if followers else 0)
        lowered = ceiling is not None and limit_of(member) > ceiling
        if not followers and not lowered and limit_of(member) - floor < max(WORTH * limit_of(member), WORTH_LEAST):
            continue
        if to < limit_of(member) and member.container.memory_restart is not ResizeRestart.RESTART_CONTAINER:
            steps.append((member, to))
    if not steps:
        return out
    held = _held(case, peaks, now, brakes_open)
    if held is not None:
        out.holds.append(held)
        return out
    for member, to in steps:
        wanted = ceiling if ceiling is not None and limit_of(member) > ceiling else to
        unsafe = _unsafe(case, member, to, wanted, peaks, now)
        if unsafe is not None:
            out.holds.append(unsafe)
            continue
        usage = signals_of(case, member).memory_usage
        assert isinstance(usage, Measured)
        out.wanted[member.pod.uid] = to
        out.reasons[member.pod.uid] = because(
            Code.MEMORY_SHRINK, peak=peaks.peak, limit=limit_of(member), usage=usage.value, age=usage.age_s,
            canary=not followers,
        )  # fmt: skip
    return out


def taken(peaks: Peaks, case: Case, member: Member, reason: Reason, now: float) -> Peaks:
    """Remember a step that is sent: its pod is on trial. A canary's step begins a new trial."""
    uid, first = member.pod.uid, bool(reason.numbers.get("canary"))
    before = {uid: limit_of(member)} if first else {**peaks.before, uid: limit_of(member)}
    return msgspec.structs.replace(
        peaks, shrunk_at=now, before=before, trial_demand=case.demand.rho or 0.0,
        canary=uid if first else peaks.canary, canary_at=now if first else peaks.canary_at,
    )  # fmt: skip


def _floor(case: Case, member: Member, peaks: Peaks, ledger: Ledger) -> int | None:
    """The least limit that is wanted: peak with head-room, what killed before, the policy's and the LimitRange's.

    A maximum below all that is the user's word: it is gone to as far as it is safe.
    """
    memory = case.policy.spec.vertical.memory
    least = memory.min if memory.min is not None else (case.view.template.memory if case.view.template else None)
    if least is None and memory.max is None:
        return None
    floor = max(least or 0, peaks.oom_floor, whole(peaks.peak * (1.0 + memory.headroom)))
    if memory.max is not None:
        if least is None and limit_of(member) <= memory.max:
            return None
        floor = min(floor, memory.max)
    limits = ledger.limit_ranges.get(case.ref.namespace)
    request = member.container.desired.memory_request
    if limits is not None and limits.memory_min is not None and request:
        share = request / limit_of(member)
        floor = max(floor, whole(limits.memory_min / share))
        while (resized(member, floor).memory_request or 0) < limits.memory_min:
            floor += MI
    return floor


def _held(case: Case, peaks: Peaks, now: float, brakes_open: bool) -> Reason | None:
    left = peaks.barred_until - now
    if left > 0.0:
        return because(Code.BARRED, left=left)
    if _grew(peaks, now) and not _lowered(case):
        left = peaks.grown_at + BARRED - now
        return because(Code.HELD, why=f"memory grew lately: none is taken back for {left:.0f}s more")
    if brakes_open:
        return because(Code.BREAKER, bad=0, total=0)
    if peaks.shrunk_at != UNKNOWN and now - peaks.shrunk_at < PROOF:
        left = peaks.shrunk_at + PROOF - now
        return because(Code.HELD, why=f"less memory is on trial ({_on_trial(case, peaks)}) for {left:.0f}s more")
    if case.demand.breach:
        return because(Code.HELD, why="memory doesn't shrink while the objective is missed")
    return guards.learning(case.past, now) or guards.barred(case.past, now)


def _lowered(case: Case) -> bool:
    """Whether the maximum is below what pods have: the user's word, which no growth of before stands against."""
    ceiling = case.policy.spec.vertical.memory.max
    return ceiling is not None and any(limit_of(member) > ceiling for member in case.stand.serving)


def _on_trial(case: Case, peaks: Peaks) -> str:
    tried = [one for one in members(case) if one.pod.uid in peaks.before or one.pod.uid == peaks.canary]
    return ", ".join(f"{one.pod.name} with {format_memory(limit_of(one))}" for one in tried[:3]) or "its pod is gone"


def _unsafe(case: Case, member: Member, to: int, wanted: int, peaks: Peaks, now: float) -> Reason | None:
    """Why this limit may not be asked for: unknown or old usage, a fresh container, or too little margin."""
    seen = signals_of(case, member)
    usage = seen.memory_usage
    if not isinstance(usage, Measured) or working_set(case, member) is None:
        detail = "" if isinstance(usage, Measured) or usage == NOT_CONFIGURED else usage.detail
        return because(Code.NO_SIGNAL, signal="memory usage", why=detail or "not measured")
    if usage.age_s >= FRESH:
        return because(Code.STALE, signal="memory usage", age=usage.age_s, limit=FRESH)
    started = member.container.started_at
    if started is None or now - started < PROOF:
        return because(Code.HELD, why="memory doesn't shrink within 60s of a container's start")
    most = max(usage.value, peaks.peak, seen.peak_memory.value if isinstance(seen.peak_memory, Measured) else 0.0)
    margin = max(MARGIN_SHARE * most, float(MARGIN))
    if to < most + margin:
        return because(
            Code.MEMORY_UNSAFE, pod=member.pod.name, wanted=wanted, usage=usage.value, age=usage.age_s, margin=margin
        )
    return None
