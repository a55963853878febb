"""One query's answer and what it says about itself; a source that is down is a value here, not an exception."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from autoscaler.model.signal import Absent, Cause, Measured, Reading, Signals
from autoscaler.model.workload import Pod
from autoscaler.observe.answers import Asked, expected_pods
from autoscaler.observe.counters import Role
from autoscaler.observe.names import SignalNames
from autoscaler.observe.ports import Watched
from autoscaler.observe.prometheus import Answer, Prometheus, QueryRefused, Unavailable
from autoscaler.observe.queries import FEW_PODS, Scope
from autoscaler.observe.rows import Gathered, Gathering, Row

K = TypeVar("K")
T = TypeVar("T")

SOURCE = "prometheus"

PARTIAL = 0.99
"""Coverage of what came with a warning: nobody knows how much is missing."""


@dataclass(slots=True)
class Told:
    """``at``: the server's time of evaluation; ``asked_at``: our clock's; ``why``: there is no answer, and why;
    ``partial``: the server's warning."""

    at: float = 0.0
    asked_at: float = -math.inf
    why: Absent | None = None
    partial: str = ""


async def tell(
    prometheus: Prometheus, clock: Callable[[], float], query: str, at: float | None = None
) -> tuple[Answer[list[Row]], Told]:
    """An answer, or none with the cause; never raises for a source that is down."""
    answer, told = await _told(clock, prometheus.ask(query, at))
    if answer is None:
        return Answer([]), told
    told.at = answer.rows[0].value[0] if answer.rows else 0.0
    return answer, told


async def tell_much(
    prometheus: Prometheus, clock: Callable[[], float], query: str, gather: Gathering[K, T], at: float | None = None
) -> tuple[Gathered[K, T], Told]:
    """As ``tell``, for answers of very many rows."""
    answer, told = await _told(clock, prometheus.read(query, gather, at))
    if answer is None:
        return Gathered({}), told
    told.at = answer.rows.at
    return answer.rows, told


async def _told(clock: Callable[[], float], asking: Awaitable[Answer[T]]) -> tuple[Answer[T] | None, Told]:
    told = Told(asked_at=clock())
    try:
        answer = await asking
    except QueryRefused as refused:
        told.why = Absent(Cause.REFUSED, str(refused)[:200], SOURCE)
    except Unavailable as down:
        told.why = Absent(Cause.SOURCE_DOWN, str(down)[:200], SOURCE)
    else:
        if answer.warnings:
            told.partial = "; ".join(answer.warnings)[:160]
        return answer, told
    return None, told


def scope_of(prometheus: Prometheus, workloads: Sequence[Watched]) -> Scope:
    """The series of these workloads' namespaces, or just of their pods where those are few."""
    settings = prometheus.settings
    names = tuple(sorted({pod.name for watched in workloads for pod in watched.pods}))
    return Scope(
        namespaces=tuple(sorted({watched.ref.namespace for watched in workloads})),
        pods=names if len(names) <= FEW_PODS else (),
        pod=settings.pod_label,
        namespace=settings.namespace_label,
        replicas=settings.replica_labels,
    )


def asked_of(watched: Watched, names: SignalNames, roles: frozenset[Role]) -> Asked:
    return Asked(
        names=names,
        objective=watched.policy.spec.objective.latency,
        max_age_s=watched.policy.spec.signals.max_age,
        age_fixed=watched.policy.spec.signals.max_age_set,
        source=SOURCE,
        expected={pod.uid for pod in expected_pods(watched.pods)},
        roles=roles,
    )


def why_no_rows(absent: Absent, told: Told | None, was_there: bool) -> Absent:
    """Why a pod has no rows: missing from a partial answer, gone since it was there, or what the rows say."""
    if told is not None and told.partial:
        return Absent(Cause.PARTIAL, told.partial, SOURCE)
    if absent.cause is Cause.NO_SUCH_METRIC and was_there:
        return Absent(Cause.STALE, absent.detail + " any more", SOURCE)
    return Absent(absent.cause, absent.detail, SOURCE)


def running(pods: Sequence[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.active and pod.phase == "Running"]


def capped_signals(signals: Signals, partial: str) -> Signals:
    """Values that came with a warning are not whole, and say so."""

    def capped(reading: Reading) -> Reading:
        if isinstance(reading, Measured) and reading.source == SOURCE:
            note = f"partial: {partial}"[:160]
            return msgspec.structs.replace(reading, coverage=min(reading.coverage, PARTIAL), note=note)
        return reading

    return replace(
        signals,
        requests=capped(signals.requests),
        misses=capped(signals.misses),
        failures=capped(signals.failures),
        in_flight=capped(signals.in_flight),
        cpu=capped(signals.cpu),
        throttled=capped(signals.throttled),
        pressure=capped(signals.pressure),
        working_set=capped(signals.working_set),
    )
