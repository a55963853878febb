"""All resizes under way: what was sent, followed with every new sight of the cluster, and told to the next decision."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from autoscaler.act.lifecycle import follow
from autoscaler.act.patches import FIELD_MANAGER
from autoscaler.act.ports import Outcome, Result
from autoscaler.act.record import Record, adopt, begin, bound, refused, succeed
from autoscaler.act.sizes import changes, overlay
from autoscaler.model.plan import Resize, Revert
from autoscaler.model.seen import Seen, Subject
from autoscaler.model.workload import Attempt, Node, Pod, ResizeState, Resources, WorkloadRef, WorkloadView

KEPT_S: Final = 900.0
"""How long an ended resize is still told to decisions (what was refused, when the last change was complete)."""
BLIND_S: Final = 15.0
"""On a sight older than this nothing is concluded."""


class Follower:
    """Records by pod uid; one resized container per pod. Not thread-safe: lives in one tick loop.

    ``manager``: our field manager; resizes it has under way are adopted when a workload is first seen.
    """

    def __init__(self, manager: str = FIELD_MANAGER) -> None:
        self._manager = manager
        self._records: dict[str, Record] = {}
        self._told: dict[str, tuple[Record, Attempt]] = {}
        self._met: set[WorkloadRef] = set()
        self._ended: list[Record] = []

    @property
    def records(self) -> Mapping[str, Record]:
        return self._records

    def in_flight(self) -> int:
        """Resizes that are sent and have not ended."""
        return sum(1 for record in self._records.values() if record.open)

    def attempts(self) -> Mapping[str, Attempt]:
        """By pod uid, as last followed; the same value as long as nothing changed."""
        return {uid: self._tell(record) for uid, record in self._records.items()}

    def _tell(self, record: Record) -> Attempt:
        known = self._told.get(record.uid)
        if known is None or known[0] is not record:
            known = self._told[record.uid] = (record, record.attempt)
        return known[1]

    def of(self, ref: WorkloadRef) -> tuple[Record, ...]:
        return tuple(record for record in self._records.values() if record.workload == ref)

    def unseen(self, look: Callable[[str], Pod | None]) -> Mapping[str, tuple[int, int]]:
        """Per node, (millicores, bytes) of requests that were sent and that the watch doesn't show yet.

        ``look`` finds the newest sight of a pod by uid.
        """
        found: dict[str, tuple[int, int]] = {}
        for uid, record in self._records.items():
            pod = look(uid) if record.open else None
            container = pod.container(record.container) if pod is not None else None
            if pod is None or container is None or not pod.node:
                continue
            more = overlay(container.desired, record.wanted)
            cpu = max(0, (more.cpu_request or 0) - (container.desired.cpu_request or 0))
            memory = max(0, (more.memory_request or 0) - (container.desired.memory_request or 0))
            if cpu or memory:
                have = found.get(pod.node, (0, 0))
                found[pod.node] = (have[0] + cpu, have[1] + memory)
        return found

    def promised(self) -> Mapping[str, tuple[str, Resources]]:
        """By pod uid: the container and the size that was sent and has not ended; the ledger counts it as spent."""
        return {
            uid: (record.container, overlay(record.before, record.wanted))
            for uid, record in self._records.items()
            if record.open
        }

    def take_over(self) -> None:
        """Someone else may have acted meanwhile: what is under way at the next sight of each workload is adopted."""
        self._met.clear()

    def ended(self) -> tuple[Record, ...]:
        """Those that came to their end since this was last asked, each once."""
        ended, self._ended = tuple(self._ended), []
        return ended

    def sent(self, action: Resize | Revert, outcome: Outcome, now: float, timeout: float) -> Record | None:
        """Remember what became of a resize request; None where nothing reached a server (printed, skipped)."""
        match outcome.result:
            case Result.PRINTED | Result.SKIPPED:
                return None
            case Result.ACCEPTED | Result.UNCHANGED:
                record = self._begin(action, now, timeout, _generation(outcome.body))
            case Result.UNAVAILABLE if outcome.status != 503:  # a 503 surely did nothing; anything else may have
                record = self._begin(action, now, timeout, None, answered=False)
            case _:
                return self.refuse(action, outcome.result.value, outcome.message, now, timeout)
        self._records[action.pod.uid] = record
        return record

    def refuse(
        self, action: Resize | Revert, word: str, message: str, now: float, timeout: float, *, asked: bool = True
    ) -> Record:
        """Remember a refusal: the server's, or (``asked`` False) our own before sending.

        While an earlier resize of the pod is still open, that one stays on record: it is what the cluster has.
        """
        record = refused(self._begin(action, now, timeout, None), word, message, now)
        previous = self._records.get(action.pod.uid)
        if previous is None or not previous.open:
            self._records[action.pod.uid] = record
        if asked:
            self._ended.append(record)
        return record

    def _begin(
        self, action: Resize | Revert, now: float, timeout: float, generation: int | None, *, answered: bool = True
    ) -> Record:
        reverts = None
        if isinstance(action, Revert):
            reverts = action.attempt.wanted if action.attempt is not None else action.before
        record = begin(
            action.pod, workload=action.workload, container=action.container,
            wanted=changes(action.before, action.after), now=now, timeout=timeout, generation=generation,
            answered=answered, reverts=reverts, code=action.reason.code,
        )  # fmt: skip
        return succeed(record, self._records.get(action.pod.uid))

    def watch(self, seen: Seen) -> Seen:
        """Follow every resize on this sight of the cluster, adopt unknown ones, and tell each pod's attempt."""
        now = seen.at
        subjects = []
        shown: set[WorkloadRef] = set()
        by_workload = _grouped(self._records.values())
        for subject in seen.subjects:
            view = subject.view
            shown.add(view.ref)
            if view.seen_age_s <= BLIND_S and not (view.hold and not view.pods):
                if view.ref not in self._met:
                    self._adopt(subject, now)
                    self._met.add(view.ref)
                    by_workload[view.ref] = list(self.of(view.ref))
                self._follow(by_workload.get(view.ref, ()), view.pods, seen.ledger.nodes, now)
            subjects.append(replace(subject, view=self._dressed(view)) if by_workload.get(view.ref) else subject)
        self._expire(shown, now)
        return replace(seen, subjects=tuple(subjects))

    def _adopt(self, subject: Subject, now: float) -> None:
        view, timeout = subject.view, float(subject.policy.spec.resize.timeout_seconds)
        for pod in view.pods:
            known = self._records.get(pod.uid)
            if (known is None or not known.open) and view.container:
                record = adopt(
                    pod, workload=view.ref, container=view.container, manager=self._manager, now=now, timeout=timeout
                )
                if record is not None:
                    self._records[pod.uid] = record

    def _follow(self, records: Iterable[Record], pods: Sequence[Pod], nodes: Mapping[str, Node], now: float) -> None:
        records = tuple(records)
        if not any(record.open for record in records):
            return
        by_uid = {pod.uid: pod for pod in pods}
        for record in records:
            pod = by_uid.get(record.uid)
            if pod is None:
                pod = next((one for one in pods if one.name == record.name), None)
            node = nodes.get(record.node)
            self._keep(record, follow(record, pod, now, node_ready=node is None or node.ready))

    def _keep(self, old: Record, new: Record) -> None:
        if new is old:
            return
        self._records[new.uid] = new
        if old.open and not new.open:
            self._ended.append(new)

    def _expire(self, shown: Collection[WorkloadRef], now: float) -> None:
        """Forget what ended long ago; end what nobody shows any more (a policy taken away, a cluster unseen)."""
        for uid, record in list(self._records.items()):
            if record.open:
                if now >= bound(record):
                    ended = replace(record, state=ResizeState.TIMED_OUT, state_at=now, message="it was lost from sight")
                    self._keep(record, ended)
            elif now - record.state_at > KEPT_S or record.state in (ResizeState.GONE, ResizeState.TERMINATED):
                del self._records[uid]
                self._told.pop(uid, None)
        self._met &= set(shown)

    def _dressed(self, view: WorkloadView) -> WorkloadView:
        pods = tuple(self._dress(pod) for pod in view.pods)
        return view if all(new is old for new, old in zip(pods, view.pods, strict=True)) else replace(view, pods=pods)

    def _dress(self, pod: Pod) -> Pod:
        record = self._records.get(pod.uid)
        if record is None:
            return pod
        if record.open and record.answered and record.generation is not None and pod.generation < record.generation:
            # The watch lags behind the answer: what the server has accepted is what is desired.
            pod = replace(
                pod,
                containers=tuple(
                    replace(one, desired=overlay(one.desired, record.wanted)) if one.name == record.container else one
                    for one in pod.containers
                ),
            )
        attempt = self._tell(record)
        return pod if pod.attempt is attempt else replace(pod, attempt=attempt)


def _grouped(records: Iterable[Record]) -> dict[WorkloadRef, list[Record]]:
    found: dict[WorkloadRef, list[Record]] = {}
    for record in records:
        found.setdefault(record.workload, []).append(record)
    return found


def _generation(body: Mapping[str, Any] | None) -> int | None:
    """metadata.generation of an answered pod; None where the server keeps none (before 1.33)."""
    generation = ((body or {}).get("metadata") or {}).get("generation")
    return generation if isinstance(generation, int) and generation > 0 else None
