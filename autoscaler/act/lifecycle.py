"""The life of one resize, as a small closed state machine over what the watch shows of the pod.

    sent → deferred | infeasible | applying | error → granted → complete
         → superseded | gone | terminated | refused | timed out        (and ``reverted``: a completed revert)

``follow`` is pure; its clocks are the caller's ``now`` (never the server's timestamps, which restart or freeze) and
belong to the *first* attempt for a pod (`record.succeed`), so asking again doesn't buy time. Every record ends within
`record.bound`.

Two kinds of lateness differ: what is **not granted** in time is ``TIMED_OUT`` and to be reverted; what was granted and
is late is ``OVERDUE``, an alarm, and never a reason to take capacity back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from autoscaler.act.record import Record, bound
from autoscaler.act.sizes import agree, asked, is_empty, requests_only, spell
from autoscaler.model.workload import Container, Pod, ResizeState, Resources

OVERDUE_FACTOR: Final = 5
"""A granted resize is given up this many timeouts after the grant (its record ends, its size stays)."""
OOM_PROOF_S: Final = 10.0
"""How long a container must be running and Ready after a growth for OOM before it counts as having helped."""
OOM_AGAIN: Final = "OomAgain"
LOST: Final = "Lost"
LOST_S: Final = 10.0
"""A patch whose answer was lost and that the watch doesn't show after this long never arrived."""

State = ResizeState
_PENDING: Final = {"Deferred": State.DEFERRED, "Infeasible": State.INFEASIBLE}
_ALPHA_PENDING: Final = frozenset({"Deferred", "Infeasible"})


def follow(record: Record, pod: Pod | None, now: float, *, node_ready: bool = True) -> Record:
    """One step: where the resize stands, given what the watch shows of the pod now. Closed records stay closed.

    ``pod`` is the pod now found under the record's name (None: there is none), ``node_ready`` whether its node reports.
    """
    if not record.open:
        return record
    return _bounded(_seen(record, pod, now, node_ready), now)


def _seen(record: Record, pod: Pod | None, now: float, node_ready: bool) -> Record:
    """The table of facts, row by row; the first that applies decides."""
    if pod is None or pod.uid != record.uid:
        return _to(record, State.GONE, now, "the pod is gone" if pod is None else "another pod has its name now")
    if pod.deleting or pod.phase in ("Succeeded", "Failed"):
        return _to(record, State.TERMINATED, now, "the pod is terminating" if pod.deleting else f"the pod {pod.phase}")
    container = pod.container(record.container)
    if container is None:
        return _to(record, State.SUPERSEDED, now, f"the pod has no container {record.container!r}")

    if not agree(container.desired, record.wanted):
        if _predates(record, pod, container):
            return _waits(record, now, "the watch has not shown it yet" if record.answered else "its answer was lost")
        return _to(record, State.SUPERSEDED, now, f"someone asked for {spell(container.desired)}")
    if not record.answered:
        record = replace(record, answered=True, generation=pod.generation, first_generation=pod.generation)
    if record.for_oom and not record.granted and record.oom_at != container.oom_at:
        # an OOM before the grant still belongs to the old size
        record = replace(record, oom_at=container.oom_at)

    observed = pod.observed_generation is None or record.generation is None or (
        pod.observed_generation >= record.generation
    )  # fmt: skip
    dialect = pod.resize_dialect
    pending = pod.resize_pending or (dialect if dialect in _ALPHA_PENDING else "")
    if pending and observed:
        return _pending(record, pending, pod.resize_pending_message, now)
    if not pod.node:
        return _granted(record, now, "applies when the pod is scheduled")
    if not observed:
        return _waits(record, now, "the node is not ready" if not node_ready else "the kubelet has not seen it yet")
    if dialect == "Proposed":
        return _waits(record, now, "proposed to the kubelet")

    if pod.resize_error == "Error":
        return _error(record, pod.resize_error_message, now)
    if pod.resizing or pod.resize_error or dialect == "InProgress":
        unknown = f"in progress, {pod.resize_error}: {pod.resize_error_message}" if pod.resize_error else ""
        return _applying(record, now, unknown)

    done = dialect == "Completed"
    allocated, to_allocate = container.allocated, requests_only(record.wanted)
    if allocated is None and container.running and not done and not is_empty(to_allocate):
        return _waits(record, now, "the kubelet reports no allocation")
    if allocated is not None and not agree(allocated, to_allocate):
        return _waits(record, now, f"observed, {spell(allocated)} allocated")
    if record.for_oom and record.granted and container.oom_at != record.oom_at:
        return _to(replace(record, refusal=OOM_AGAIN), State.TIMED_OUT, now, "OOMKilled again after the growth")
    if not container.running:
        return _granted(record, now, "applies when the container starts")
    return _settling(record, pod, container, now, done)


def _settling(record: Record, pod: Pod, container: Container, now: float, done: bool) -> Record:
    """Nothing pending, nothing in progress, allocated as asked, container running: is it really done?"""
    actual = container.actual
    moved = any(amount != getattr(record.before, key) for key, amount in asked(requests_only(record.wanted)))
    if actual is None and not done:
        return _late(record, now, "the kubelet reports no actual size", moved)
    if actual is not None and not agree(actual, record.wanted, tolerant=True):
        untouched = agree(actual, Resources(**{key: getattr(record.before, key) for key, _ in asked(record.wanted)}))
        if now - _clock(record) >= record.timeout and not untouched:
            return _to(record, State.COMPLETE, now, f"done with drift: runs with {spell(actual)}", granted=True)
        return _late(record, now, f"runs with {spell(actual)}", moved)
    if record.restarts:
        if container.restart_count <= record.restart_count:
            return _applying(record, now, "the container has not restarted yet")
        if not (pod.ready and container.ready):
            return _applying(record, now, "restarted, not Ready yet")
    if record.for_oom:
        return _proved(record, pod, container, now)
    if container.started_at != record.started_at and not record.restarts and not record.adopted:
        if not container.ready:
            return _applying(record, now, "the container restarted by itself, not Ready yet")
        return _to(record, State.COMPLETE, now, "the container restarted by itself meanwhile", granted=True)
    return _to(record, State.COMPLETE, now, "", granted=True)


def _proved(record: Record, pod: Pod, container: Container, now: float) -> Record:
    """A growth for OOM is done when the container runs, is Ready and was not OOMKilled again."""
    if not (pod.ready and container.ready):
        return _granted(replace(record, well_since=None), now, "grown after OOM, not Ready yet")
    since = now if record.well_since is None else record.well_since
    if now - since < OOM_PROOF_S:
        return _granted(replace(record, well_since=since), now, "grown after OOM, watching")
    return _to(record, State.COMPLETE, now, "no further OOMKilled", granted=True)


def _predates(record: Record, pod: Pod, container: Container) -> bool:
    """Whether this sight of the pod is older than our patch (the watch lags behind the answer)."""
    if record.generation is not None and record.answered:
        return pod.generation < record.generation
    return agree(container.desired, record.before)


def _pending(record: Record, reason: str, message: str, now: float) -> Record:
    state = _PENDING.get(reason)
    if state is State.INFEASIBLE:
        return _to(replace(record, refusal="Infeasible"), State.INFEASIBLE, now, message)
    since = now if record.pending_since is None else record.pending_since
    record = replace(record, pending_since=since)
    if state is None:  # a newer server's word: not complete, hold
        return _to(record, State.SENT, now, f"pending, {reason}: {message}")
    return _to(replace(record, refusal="Deferred"), State.DEFERRED, now, message)


def _error(record: Record, message: str, now: float) -> Record:
    since = now if record.error_since is None else record.error_since
    return _to(replace(record, error_since=since), State.ERROR, now, message, granted=True)


def _applying(record: Record, now: float, message: str) -> Record:
    if record.error_since is not None:  # our own PATCH hides reason=Error for a while
        return _to(record, State.ERROR, now, record.message or message, granted=True)
    return _to(record, State.APPLYING, now, message, granted=True)


def _granted(record: Record, now: float, message: str) -> Record:
    return _to(record, State.GRANTED, now, message, granted=True)


def _late(record: Record, now: float, message: str, moved: bool) -> Record:
    """Allocated requests are the proof of a grant; a change of limits only has none but the condition."""
    return _granted(record, now, message) if moved or record.granted else _waits(record, now, message)


def _waits(record: Record, now: float, message: str) -> Record:
    return _to(record, State.SENT, now, message)


def _to(record: Record, state: ResizeState, now: float, message: str, *, granted: bool = False) -> Record:
    if state is State.COMPLETE and record.reverts is not None:
        state = State.REVERTED
    if granted and record.refusal:
        record = replace(record, refusal="")
    if state is record.state and message == record.message and (record.granted_at is not None or not granted):
        return record
    return replace(
        record,
        state=state,
        state_at=record.state_at if state is record.state else now,
        message=message,
        granted_at=now if granted and record.granted_at is None else record.granted_at,
    )


def _clock(record: Record) -> float:
    """When the phase began whose lateness counts."""
    if record.state is State.ERROR and record.error_since is not None:
        return record.error_since
    if record.granted_at is not None:
        return record.granted_at
    return record.first_sent if record.pending_since is None else record.pending_since


def _bounded(record: Record, now: float) -> Record:
    """Lateness, last: no state may last for ever."""
    if not record.open:
        return record
    late = now - _clock(record)
    if not record.answered and late >= min(LOST_S, record.timeout):
        return replace(record, state=State.REFUSED, state_at=now, refusal=LOST, message="it never arrived")
    if now >= bound(record):
        return _to(record, State.TIMED_OUT, now, record.message)
    if not record.granted:
        if late < record.timeout:
            return record
        return _to(record, State.TIMED_OUT, now, record.message or "not granted in time")
    if record.state is State.ERROR:
        return record if late < record.timeout else _to(record, State.TIMED_OUT, now, record.message)
    if late >= OVERDUE_FACTOR * record.timeout:
        return _to(record, State.TIMED_OUT, now, f"granted, never complete: {record.message}")
    return record if late < record.timeout else _to(record, State.OVERDUE, now, record.message)
