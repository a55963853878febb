"""The port behind which every metric source stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from autoscaler.model.policy import Policy
from autoscaler.model.signal import Signals
from autoscaler.model.workload import Pod, WorkloadRef


@dataclass(frozen=True, slots=True)
class Watched:
    """A workload as a metric source needs to know it: its policy, its live pods, and the container that is sized."""

    ref: WorkloadRef
    policy: Policy
    pods: tuple[Pod, ...]
    container: str = ""


class MetricSource(Protocol):
    """``read`` answers for every workload asked about: with readings, or with the cause of their absence. Never raises
    for a source that is down; ``at`` is the tick's time in unix seconds."""

    name: str

    async def read(self, workloads: Sequence[Watched], at: float) -> Mapping[WorkloadRef, Signals]: ...


class RememberingSource(MetricSource, Protocol):
    """Remembers the counters of the workloads of its last read, and forgets all others'."""

    def again(self) -> MetricSource:
        """The same source with a memory of its own, for other workloads."""
        ...
