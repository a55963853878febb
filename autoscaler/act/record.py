"""What is remembered of one resize that was sent: sizes, clocks, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from autoscaler.act.sizes import agree, overlay, requests_only, restarts
from autoscaler.model.reason import Code
from autoscaler.model.workload import OPEN_STATES, Attempt, Container, Pod, ResizeState, Resources, WorkloadRef

BOUND_FACTOR: Final = 8

State = ResizeState


@dataclass(frozen=True, slots=True)
class Record:
    """One resize that was sent. Times are unix seconds on the tick's clock, sizes hold only the keys that were set."""

    workload: WorkloadRef
    namespace: str
    name: str
    uid: str
    container: str
    before: Resources
    """Desired before it was sent (all keys)."""
    wanted: Resources
    first_sent: float
    sent: float
    timeout: float
    state: ResizeState = State.SENT
    state_at: float = 0.0
    generation: int | None = None
    """metadata.generation in the answer; None when the server has none or the answer was lost."""
    first_generation: int | None = None
    answered: bool = True
    """False: the request may or may not have arrived."""
    pending_since: float | None = None
    error_since: float | None = None
    granted_at: float | None = None
    restarts: bool = False
    restart_count: int = 0
    started_at: float | None = None
    oom_at: float | None = None
    for_oom: bool = False
    well_since: float | None = None
    """Since when the container has been running and Ready after the growth for OOM."""
    refusal: str = ""
    message: str = ""
    reverts: Resources | None = None
    adopted: bool = False
    node: str = ""
    code: str = ""
    """The reason code it was sent for."""

    @property
    def open(self) -> bool:
        return self.state in OPEN_STATES

    @property
    def granted(self) -> bool:
        return self.granted_at is not None

    @property
    def shrinks_memory(self) -> bool:
        after, before = self.wanted.memory_limit, self.before.memory_limit
        return after is not None and before is not None and after < before

    @property
    def attempt(self) -> Attempt:
        """What the next view carries in ``Pod.attempt``."""
        return Attempt(
            state=self.state,
            wanted=self.wanted,
            since=self.first_sent,
            refusal=self.refusal,
            message=self.message,
            before=self.before,
            granted=self.granted,
            until=None if self.open else self.state_at,
            reverts=self.reverts,
            generation=self.generation,
            restarts=self.restarts,
        )


def bound(record: Record) -> float:
    """The time by which the record has reached a terminal state, whatever the cluster does."""
    return record.sent + BOUND_FACTOR * record.timeout


def begin(
    pod: Pod,
    *,
    workload: WorkloadRef,
    container: str,
    wanted: Resources,
    now: float,
    timeout: float,
    generation: int | None = None,
    answered: bool = True,
    reverts: Resources | None = None,
    code: str = "",
) -> Record:
    """The record of a resize that the server has just accepted (or whose answer was lost)."""
    seen = pod.container(container)
    return Record(
        workload=workload,
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        container=container,
        before=seen.desired if seen is not None else Resources(),
        wanted=wanted,
        first_sent=now,
        sent=now,
        timeout=timeout,
        state_at=now,
        generation=generation,
        first_generation=generation,
        answered=answered,
        restarts=seen is not None and restarts(seen, wanted),
        restart_count=seen.restart_count if seen is not None else 0,
        started_at=seen.started_at if seen is not None else None,
        oom_at=seen.oom_at if seen is not None else None,
        for_oom=code == Code.OOM,
        reverts=reverts,
        node=pod.node,
        code=code,
    )


def succeed(record: Record, previous: Record | None) -> Record:
    """A resize sent while another of the same container had not been granted goes on with that one's clocks.

    A new PATCH also clears the kubelet's ``reason=Error`` for about ten seconds: the error clock goes on in any case.
    A revert is the end of the chain and gets its own clocks.
    """
    if previous is None or not previous.open or record.reverts is not None or previous.container != record.container:
        return record
    if previous.state is State.ERROR or not previous.granted:
        return replace(
            record,
            first_sent=previous.first_sent,
            first_generation=previous.first_generation,
            pending_since=previous.pending_since,
            error_since=previous.error_since,
        )
    return replace(record, error_since=previous.error_since)


def refused(record: Record, word: str, message: str, now: float) -> Record:
    """The server did not take it."""
    return replace(record, state=State.REFUSED, state_at=now, refusal=word, message=message)


def adopt(
    pod: Pod, *, workload: WorkloadRef, container: str, manager: str, now: float, timeout: float
) -> Record | None:
    """The record of a resize found under way that nobody here remembers: sent by us before a restart.

    None when nothing is under way, or when another manager asked for it: that one is not ours to end. Where the server
    doesn't say who asked, a desired size that is not allocated is taken for ours.
    """
    seen = pod.container(container)
    if seen is None or not pod.active or pod.resized_by not in ("", manager) or not _under_way(pod, seen):
        return None
    granted = seen.allocated is not None and agree(seen.allocated, requests_only(seen.desired))
    before = overlay(seen.desired, seen.actual or Resources())
    if not granted and seen.allocated is not None:
        before = overlay(before, seen.allocated)
    record = begin(
        pod, workload=workload, container=container, wanted=seen.desired, now=now, timeout=timeout,
        generation=pod.generation,
    )  # fmt: skip
    return replace(record, before=before, adopted=True)


def _under_way(pod: Pod, container: Container) -> bool:
    if pod.resize_pending or pod.resizing or pod.resize_error:
        return True
    if pod.resize_dialect not in ("", "Completed"):
        return True
    if not pod.node or container.allocated is None:
        return False
    if not agree(container.allocated, requests_only(container.desired)):
        return True
    actual = container.actual
    return actual is not None and container.running and not agree(actual, container.desired, tolerant=True)
