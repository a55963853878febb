"""What is held back however much it is wanted: fleet limits, the breaker, and the care that restarts need.

Pure: a brake's memory is a frozen value that goes in and comes out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from autoscaler.act.record import Record
from autoscaler.act.sizes import overlay
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.seen import Subject
from autoscaler.model.signal import value_or
from autoscaler.model.workload import Pod, ResizeState, WorkloadRef, WorkloadView

MINUTE_S: Final = 60.0
WINDOW: Final = 50
"""The breaker judges this many resizes, …"""
FEWEST: Final = 10
"""… needs at least this many to judge, …"""
BAD_SHARE: Final = 0.2
"""… and opens when more than this share of them failed or made misses worse."""
MEMORY_S: Final = 900.0
"""Results older than this are forgotten, so that a fleet that stands still can shrink again."""
RESTART_GAP_S: Final = 12.0
"""RestartContainer resizes count as crashes: closer together than this the kubelet backs off (12, 25, 50 s)."""

FAILED: Final = frozenset({ResizeState.INFEASIBLE, ResizeState.TIMED_OUT, ResizeState.REFUSED})
ANSWERS: Final = frozenset(
    {"NodeCapacity", "Quota", "LimitRange", "Conflict", "Gone", "Throttled", "Unavailable", "Lost"}
)
"""Refusals that say nothing against resizing: no room, someone was faster, the API server is away."""


@dataclass(frozen=True, slots=True)
class FleetLimits:
    """``cpu_per_minute`` millicores that may be added in any minute, ``in_flight`` resizes at once; None: no limit."""

    cpu_per_minute: int | None = None
    in_flight: int | None = None


@dataclass(frozen=True, slots=True)
class Brakes:
    """``added``: (when, millicores) of the last minute; ``results``: (when, good) of the last resizes, oldest first."""

    added: tuple[tuple[float, int], ...] = ()
    results: tuple[tuple[float, bool], ...] = ()


def cpu_left(brakes: Brakes, limits: FleetLimits, now: float) -> int | None:
    """Millicores that may still be added now; None without a limit."""
    if limits.cpu_per_minute is None:
        return None
    spent = sum(milli for at, milli in brakes.added if now - at < MINUTE_S)
    return max(0, limits.cpu_per_minute - spent)


def resizes_left(in_flight: int, limits: FleetLimits) -> int | None:
    """Resizes that may still be sent now; None without a limit."""
    return None if limits.in_flight is None else max(0, limits.in_flight - in_flight)


def spend(brakes: Brakes, milli: int, now: float) -> Brakes:
    """Remember that CPU was added."""
    if milli <= 0:
        return brakes
    *before, last = brakes.added or ((0.0, 0),)
    if int(last[0]) == int(now):  # one entry a second is exact enough, and stays short
        return replace(brakes, added=(*before, (now, last[1] + milli)))
    return replace(brakes, added=(*((at, one) for at, one in brakes.added if now - at < MINUTE_S), (now, milli)))


def fleet_limit(
    brakes: Brakes, limits: FleetLimits, *, milli: int, in_flight: int, now: float, unanswered: int = 0
) -> Reason | None:
    """Why this resize has to wait, or None. Giving capacity back never waits.

    ``unanswered``: millicores in requests that have been sent and not answered.
    """
    if milli <= 0:
        return None
    left = cpu_left(brakes, limits, now)
    if left is not None and milli > left - unanswered:
        return because(Code.FLEET_LIMIT, limit=f"{limits.cpu_per_minute}m of CPU added in a minute")
    if resizes_left(in_flight, limits) == 0:
        return because(Code.FLEET_LIMIT, limit=f"{limits.in_flight} resizes in flight")
    return None


def judge(brakes: Brakes, good: bool, now: float) -> Brakes:
    """Remember how a resize ended: ``good`` False when it failed, was not granted, or made misses worse."""
    return replace(brakes, results=(*brakes.results, (now, good))[-WINDOW:])


def breaker(brakes: Brakes, now: float) -> Reason | None:
    """BREAKER when shrinking and consolidation have to stop, with the numbers for the alarm."""
    recent = [good for at, good in brakes.results if now - at < MEMORY_S]
    bad = recent.count(False)
    if len(recent) < FEWEST or bad <= BAD_SHARE * len(recent):
        return None
    return because(Code.BREAKER, bad=bad, total=len(recent))


def failed(record: Record) -> bool | None:
    """Whether an ended resize counts as failed; None where it says nothing (the pod went, someone else resized)."""
    if record.state in FAILED:
        return None if record.state is ResizeState.REFUSED and record.refusal in ANSWERS else True
    return False if record.state in (ResizeState.COMPLETE, ResizeState.REVERTED) else None


@dataclass(frozen=True, slots=True)
class Trial:
    """A completed shrink whose effect is awaited: it was good if misses stay allowed for a minute."""

    workload: WorkloadRef
    since: float

    @staticmethod
    def of(record: Record, subject: Subject, now: float) -> Trial | None:
        """None where there is nothing to try: no shrink, no latency objective, or misses were too many before."""
        before, after = record.before.cpu, overlay(record.before, record.wanted).cpu
        if record.reverts is not None or before is None or after is None or after >= before:
            return None
        misses = value_or(subject.view.signals.misses)
        allowed = _allowed(subject)
        if misses is None or allowed is None or misses > allowed:
            return None
        return Trial(record.workload, now)


def verdict(trial: Trial, subject: Subject | None, now: float) -> bool | None:
    """False: misses rose above what is allowed within a minute of the shrink; True: they did not; None: too early."""
    misses = value_or(subject.view.signals.misses) if subject is not None else None
    allowed = _allowed(subject) if subject is not None else None
    if misses is not None and allowed is not None and misses > allowed:
        return False
    return True if now - trial.since >= MINUTE_S else None


def _allowed(subject: Subject) -> float | None:
    latency = subject.policy.spec.objective.latency
    return None if latency is None else 1.0 - latency.within


def may_restart(
    pod: Pod,
    view: WorkloadView,
    records: Iterable[Record],
    *,
    max_unavailable: int,
    now: float,
    restarting: Collection[str] = (),
) -> Reason | None:
    """Why a resize that restarts the container of ``pod`` has to wait, or None.

    ``records`` are those of the workload, ``restarting`` the uids already chosen in this tick. One at a time within
    ``max_unavailable`` and the PodDisruptionBudget; the same pod only Ready again and `RESTART_GAP_S` later.
    """
    busy: set[str] = set(restarting)
    for record in records:
        if not record.restarts:
            continue
        if record.open:
            busy.add(record.uid)
        elif record.uid == pod.uid and now - max(record.sent, record.state_at) < RESTART_GAP_S:
            return because(Code.HELD, why=f"{pod.name} restarted for a resize less than {RESTART_GAP_S:.0f}s ago")
    unavailable = {one.uid for one in view.pods if one.active and not one.ready} | busy
    unavailable.discard(pod.uid)
    if pod.uid in busy:
        return because(Code.HELD, why=f"{pod.name} is restarting for a resize")
    away = len(unavailable) + 1
    if pod.ready and away > max_unavailable:
        return because(Code.HELD, why=f"restarting {pod.name} would make {away} pods unavailable of {max_unavailable}")
    if pod.ready and view.pdb_min_available is not None:
        left = sum(1 for one in view.pods if one.active and one.ready and one.uid not in busy) - 1
        needed = view.pdb_min_available
        if left < needed:
            return because(Code.HELD, why=f"restarting {pod.name} would leave {left} ready, its budget needs {needed}")
    return None
