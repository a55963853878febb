"""A scenario: the load, how pods serve it, the cluster they are in. Frozen values; cores, seconds, shares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autoscaler.simulate.service import Fixed, Lognormal, Service

if TYPE_CHECKING:
    from autoscaler.simulate.load import Load

FARO_SERVICE = Lognormal(0.0793, 0.0686, 0.4225)
NO_WAIT = Fixed(0.0)
WARM_UP_S = 300.0


@dataclass(frozen=True, slots=True)
class Serving:
    """How one pod serves.

    `batch_*` are the fixed parts of a batch: CPU-seconds and seconds off the CPU. A thread pool that spins burns
    `spin_cores` for up to `spin_window` seconds after it ran out of work.
    """

    service: Service = FARO_SERVICE
    wait: Service = NO_WAIT
    threads: int = 64
    parallelism: float = 1.0
    balance: str = "shared"
    queue_limit: int = 1_000_000
    batch: int = 1
    batch_cpu: float = 0.0
    batch_wait: float = 0.0
    spin_window: float = 0.0
    spin_cores: float = 1.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything but the controller and the seed."""

    loads: tuple[Load, ...]
    serving: Serving = field(default_factory=Serving)
    arrivals: str = "poisson"
    target: float = 0.72
    within: float = 0.995
    cpus: float | None = None  # one node of this many cores for all pods
    budget: float | None = None  # cores all workloads may have together, wherever their pods are
    room: float | None = None  # a node for each pod, with this share of its first size free
    pods: int = 1  # pods of a workload that is sized vertically, at the start
    pod_cpu: float = 1.0  # size of a pod where the number of pods is what changes
    max_replicas: int | None = None  # what ours may scale to; None: as many as at the start
    scrape: float = 5.0
    actuation: float = 1.8
    cold_start: float = 35.0
    cold_start_spread: float = 0.0  # shape of a lognormal around it
    warm_up: float = WARM_UP_S  # not scored, except by the minute metric; whole minutes
    length: float | None = None  # seconds; None: as long as the load

    @property
    def capacity(self) -> float | None:
        """Cores for all workloads together; None: no end of them."""
        return min((cores for cores in (self.cpus, self.budget) if cores is not None), default=None)

    @property
    def duration(self) -> float:
        longest = max(load.length for load in self.loads)
        return longest if self.length is None else min(self.length, longest)
