"""Deferred resizes that need no answer: the room they wait for is on its way.

When a full node is divided anew, the grow is sent right behind the shrinks that make its room, and the kubelet defers
it until they are done. Such a resize keeps its place in the kubelet's queue: neither a refusal, nor taken back.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.model.plan import Ledger
from autoscaler.model.seen import Seen, Subject
from autoscaler.model.workload import Container, Pod, ResizeState

PATIENCE = 15.0
"""Seconds: a shrink is applied within two, if it is applied at all."""


class Queue:
    """What the shrinks in progress of the decided workloads will leave on each node, in millicores of requests."""

    def __init__(self, seen: Seen) -> None:
        self._ledger: Ledger = seen.ledger
        self._now = seen.at
        self._subjects: Sequence[Subject] = seen.subjects
        self._coming: dict[str, int] | None = None

    def waits(self, pod: Pod, container: Container) -> bool:
        """Whether this pod's deferred resize fits as soon as those shrinks are done."""
        attempt = pod.attempt
        if attempt is None or attempt.state is not ResizeState.DEFERRED or attempt.granted:
            return False
        if attempt.reverts is not None or self._now - attempt.since > PATIENCE:
            return False
        if attempt.wanted.memory_request is not None or not self._ledger.nodes_known:
            return False
        node = self._ledger.nodes.get(pod.node)
        if node is None:
            return False
        if self._coming is None:
            self._coming = self._count()
        coming = self._coming.get(pod.node, 0)
        # The ledger counts the deferred size itself, too.
        return coming > 0 and node.cpu - self._ledger.committed_cpu.get(pod.node, 0) + coming >= 0

    def _count(self) -> dict[str, int]:
        coming: dict[str, int] = {}
        for subject in self._subjects:
            for pod in subject.view.pods:
                for container in pod.containers:
                    held = max(_request(container.allocated), _request(container.actual))
                    less = held - (container.desired.cpu_request or 0)
                    if less > 0 and not pod.resize_pending:
                        coming[pod.node] = coming.get(pod.node, 0) + less
        return coming


def _request(resources: object) -> int:
    return getattr(resources, "cpu_request", None) or 0
