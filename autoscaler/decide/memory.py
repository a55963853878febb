"""Memory of the sized container: what it should be, in safe steps, and proof that a growth helped. Bytes throughout.

It grows by the peak working set or an OOM, never by page cache, and only up to ``vertical.memory.max``; without a
maximum it is left alone. It shrinks only with ``shrink: WhenSafe``, one canary first, against usage with page cache.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from autoscaler.decide import guards
from autoscaler.decide.case import Case
from autoscaler.decide.history import UNKNOWN, Peaks
from autoscaler.decide.standing import Member
from autoscaler.model.plan import Action, Evict, Ledger, Resize
from autoscaler.model.policy import Shrink
from autoscaler.model.quantity import format_memory
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.signal import NOT_CONFIGURED, Measured, PodSignals
from autoscaler.model.workload import Qos, ResizeRestart, Resources

MI = 2**20
MARGIN = 100 * MI
HALF_LIFE = 86_400.0
"""Seconds in which a peak that isn't seen again loses half."""
OOM_STEP = 1.2
GROW_STEP = 1.1
SHRINK_STEP = 0.9
PROOF = 60.0
"""Seconds that a pod has to show that more memory helped, and a canary that less does."""
FRESH = 20.0
"""A shrink needs a sample of usage younger than this, seconds."""
RECENT = 600.0
"""An OOM older than this, seconds, says nothing of now."""
BLANK = PodSignals()


def free(ledger: Ledger) -> dict[str, int]:
    """Bytes left on each node by requests; empty where nodes can't be seen. ``wish`` takes from it."""
    return {name: ledger.free_memory(name) or 0 for name in ledger.nodes} if ledger.nodes_known else {}


def wish(case: Case, ledger: Ledger, left: dict[str, int], now: float, brakes_open: bool = False) -> None:
    """Add the memory wishes, with a reason each, to the case's want; updates the peaks in ``case.past``."""
    spec = case.policy.spec.vertical
    most = spec.memory.max
    if case.frozen or case.want is None or not spec.enabled or most is None:
        return
    limits = ledger.limit_ranges.get(case.ref.namespace)
    if limits is not None and limits.memory_max is not None:
        most = min(most, limits.memory_max)
    peaks = _learn(case, now)
    wanted: dict[str, int] = {}
    reasons: dict[str, Reason] = {}
    holds: list[Reason] = []
    for member in (*case.stand.serving, *case.stand.starting):
        size = member.container.desired.memory_limit
        if size is None or _busy(member):
            continue
        to, reason = _grown(case, member, size, most, peaks, now)
        if to > size:
            more = (resized(member, to).memory_request or 0) - (member.container.desired.memory_request or 0)
            room = left.get(member.pod.node)
            if room is not None and more > room:
                holds.append(because(Code.NODE_FULL, wanted=format_memory(to), free=format_memory(room),
                                     node=member.pod.node))  # fmt: skip
                continue
            if room is not None:
                left[member.pod.node] = room - max(0, more)
            wanted[member.pod.uid] = to
        if reason is not None and to > size:
            reasons[member.pod.uid] = reason
        elif reason is not None:
            holds.append(reason)
    case.past = msgspec.structs.replace(case.past, peaks=peaks)
    calm = not case.demand.breach and not brakes_open
    barred = guards.learning(case.past, now) or guards.barred(case.past, now)
    if spec.memory.shrink is Shrink.WHEN_SAFE and not wanted and calm and barred is None:
        _shrink(case, peaks, wanted, reasons, holds, now)
    case.want = replace(case.want, memory=wanted, memory_reasons=reasons, holds=(*case.want.holds, *holds))


def settle(case: Case, actions: tuple[Action, ...], now: float) -> tuple[Action, ...]:
    """The wishes as actions of their own (a pod whose CPU changes now has to wait), and pods that weren't helped."""
    assert case.want is not None
    if case.policy.spec.vertical.memory.max is None or not case.policy.spec.vertical.enabled:
        return actions
    taken = {action.pod.uid for action in actions if not hasattr(action, "target")}
    peaks, sent = case.past.peaks, list(actions)
    ooms, proofs = dict(peaks.ooms), dict(peaks.proofs)
    for member in (*case.stand.serving, *case.stand.starting):
        uid, container = member.pod.uid, member.container
        to, size = case.want.memory.get(uid), container.desired.memory_limit
        if to is not None and size is not None and uid not in taken:
            reason = case.want.memory_reasons[uid]
            sent.append(Resize(case.ref, member.pod, container.name, container.desired, resized(member, to), reason))
            if reason.code is Code.OOM:
                ooms[uid] = now
                if container.oom_at is not None:  # one that was never killed, or only starts, has nothing to prove
                    proofs[uid] = now
                peaks = msgspec.structs.replace(peaks, oom_at=now, oom_floor=max(peaks.oom_floor, to))
            if to > size:
                peaks = msgspec.structs.replace(peaks, grown=(*peaks.grown[-4:], now), grown_at=now)
            else:
                first = peaks.canary != uid and reason.numbers.get("canary")
                canary, at = (uid, now) if first or peaks.canary == uid else (peaks.canary, peaks.canary_at)
                peaks = msgspec.structs.replace(peaks, shrunk_at=now, canary=canary, canary_at=at)
        elif uid in proofs and now - proofs[uid] >= max(PROOF, 2.0 * case.past.replicas.start_up):
            again = container.oom_at is not None and container.oom_at > proofs[uid]
            if again or not (container.running and member.pod.ready):
                why = "it was OOMKilled again" if again else f"not ready {now - proofs[uid]:.0f}s after more memory"
                if uid not in taken:
                    sent.append(Evict(case.ref, member.pod, because(Code.RECREATE, why=why)))
                    proofs[uid] = now  # once more only after the same time: the budget may have refused
            else:
                del proofs[uid]
    here = {member.pod.uid for member in (*case.stand.serving, *case.stand.starting, *case.stand.draining)}
    peaks = msgspec.structs.replace(
        peaks,
        ooms={uid: at for uid, at in ooms.items() if uid in here},
        proofs={uid: at for uid, at in proofs.items() if uid in here},
    )
    case.past = msgspec.structs.replace(case.past, peaks=peaks)
    return tuple(sent)


def resized(member: Member, size: int) -> Resources:
    """The memory keys for this limit: Guaranteed moves both, Burstable keeps its share, nothing is added or removed."""
    now = member.container.desired
    limit, request = now.memory_limit, now.memory_request
    if limit is None or request is None:
        return Resources(memory_limit=size)
    if member.pod.qos is Qos.GUARANTEED or request == limit:
        return Resources(memory_request=size, memory_limit=size)
    return Resources(memory_request=max(1, min(size - 1, round(size * request / limit))), memory_limit=size)


def _busy(member: Member) -> bool:
    pod = member.pod
    return (
        (pod.attempt is not None and pod.attempt.open) or pod.qos is Qos.BEST_EFFORT or pod.static or pod.windows
    )  # fmt: skip


def _learn(case: Case, now: float) -> Peaks:
    peaks = case.past.peaks
    elapsed = max(0.0, now - peaks.peak_at) if peaks.peak_at != UNKNOWN else 0.0
    seen = [_working_set(case, member) for member in case.stand.serving]
    peak = max([peaks.peak * 0.5 ** (elapsed / HALF_LIFE), *(value for value in seen if value is not None)])
    return msgspec.structs.replace(peaks, peak=peak, peak_at=now)


def _signals(case: Case, member: Member) -> PodSignals:
    return case.view.signals.pods.get(member.pod.uid, BLANK)


def _working_set(case: Case, member: Member) -> float | None:
    reading = _signals(case, member).working_set
    fresh = isinstance(reading, Measured) and reading.age_s <= case.policy.spec.signals.max_age
    return reading.value if isinstance(reading, Measured) and fresh else None


def _grown(
    case: Case, member: Member, size: int, most: int, peaks: Peaks, now: float
) -> tuple[int, Reason | None]:  # fmt: skip
    """The limit this pod should have (``size``: leave it), and why, or why not."""
    headroom = case.policy.spec.vertical.memory.headroom
    container, used = member.container, _working_set(case, member)
    last = peaks.ooms.get(member.pod.uid, peaks.oom_at)
    killed = container.oom_at
    if killed is not None and killed > last and now - killed < RECENT:
        to = min(most, _whole(max(size * OOM_STEP, size + MARGIN)))
        return (to, because(Code.OOM, limit=size)) if to > size else (size, _at_most(peaks, used or size, size))
    if size < min(most, peaks.oom_floor):
        return min(most, peaks.oom_floor), because(Code.OOM, limit=size)  # what killed one pod will kill its peers
    if used is None or member in case.stand.starting:
        return size, None
    target = max(peaks.peak, used) * (1.0 + headroom)
    if target <= size:
        return size, None
    to = min(most, _whole(max(target, size * GROW_STEP)))
    if to > size:
        return to, because(Code.MEMORY_GROW, used=max(peaks.peak, used), limit=size, headroom=headroom)
    return size, _at_most(peaks, used, size) if used * (1.0 + headroom) > size else None


def _at_most(peaks: Peaks, used: float, size: int) -> Reason:
    """Growth that came in several steps and would go on is a leak; one step that ends at the maximum is not."""
    if len(peaks.grown) > 1:
        return because(Code.LEAK, used=used, limit=size)
    return because(Code.HELD, why=f"memory is at its maximum {format_memory(size)}")


def _shrink(
    case: Case, peaks: Peaks, wanted: dict[str, int], reasons: dict[str, Reason], holds: list[Reason], now: float
) -> None:
    if peaks.shrunk_at != UNKNOWN and now - peaks.shrunk_at < PROOF:
        return
    memory = case.policy.spec.vertical.memory
    least = memory.min if memory.min is not None else (case.view.template.memory if case.view.template else None)
    if least is None or peaks.peak <= 0.0:
        return
    floor = max(least, peaks.oom_floor, _whole(peaks.peak * (1.0 + memory.headroom)))
    sized = [member for member in case.stand.serving if member.container.desired.memory_limit and not _busy(member)]
    canary = next((member for member in sized if member.pod.uid == peaks.canary), None)
    stood = (canary.container.desired.memory_limit or 0) if canary is not None else 0
    followers = [m for m in sized if canary is not None and (m.container.desired.memory_limit or 0) > stood]
    for member in followers or ([canary] if canary is not None else sized[:1]):
        size = member.container.desired.memory_limit or 0
        to = max(floor, -int(-size * SHRINK_STEP // MI) * MI, stood if followers else 0)
        if to >= size or member.container.memory_restart is ResizeRestart.RESTART_CONTAINER:
            continue
        unsafe = _unsafe(case, member, to, peaks, now)
        if unsafe is not None:
            holds.append(unsafe)
            continue
        wanted[member.pod.uid] = to
        reasons[member.pod.uid] = because(
            Code.MEMORY_SHRINK, peak=peaks.peak, limit=size, window=HALF_LIFE, canary=not followers
        )


def _unsafe(case: Case, member: Member, to: int, peaks: Peaks, now: float) -> Reason | None:
    """Why this limit may not be asked for: unknown or old usage, a fresh container, or too little margin."""
    usage = _signals(case, member).memory_usage
    if not isinstance(usage, Measured) or _working_set(case, member) is None:
        detail = "" if isinstance(usage, Measured) or usage == NOT_CONFIGURED else usage.detail
        return because(Code.NO_SIGNAL, signal="memory usage", why=detail or "not measured")
    if usage.age_s >= FRESH:
        return because(Code.STALE, signal="memory usage", age=usage.age_s, limit=FRESH)
    started = member.container.started_at
    if started is None or now - started < PROOF:
        return because(Code.HELD, why="memory doesn't shrink within 60s of a container's start")
    margin = max(0.1 * max(usage.value, peaks.peak), float(MARGIN))
    if to < max(usage.value, peaks.peak) + margin:
        return because(Code.MEMORY_UNSAFE, wanted=to, usage=usage.value, age=usage.age_s, margin=margin)
    return None


def _whole(size: float) -> int:
    """Rounded up to MiB."""
    return -int(-size // MI) * MI
