"""What is to be done: wants, grants, actions, and the reason, with numbers, for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autoscaler.model.reason import Reason
from autoscaler.model.workload import Attempt, Node, Pod, Resources, TargetRef, WorkloadRef


@dataclass(frozen=True, slots=True)
class Want:
    """What one workload would like, before sharing.

    ``cpu`` is the total in millicores over all serving pods, ``floor`` the total it must not fall below, ``urgent`` how
    many requests per second it would save by getting ``cpu`` (0 when nothing is missed), for sharing scarce cores.
    ``pods`` the wish per pod uid; ``replicas`` the wish (None: leave alone); ``memory`` bytes per pod uid.
    """

    ref: WorkloadRef
    cpu: float
    floor: float
    pods: Mapping[str, int]
    replicas: int | None
    reason: Reason
    demand: float = 0.0
    urgent: float = 0.0
    may_shrink: bool = False
    memory: Mapping[str, int] = field(default_factory=dict)
    memory_reasons: Mapping[str, Reason] = field(default_factory=dict)
    holds: tuple[Reason, ...] = ()
    """Guards that spoke: what was not done, and why."""
    replicas_reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """What a workload may have after sharing: per pod uid, CPU in millicores and memory in bytes.

    ``short`` is what was wanted and not granted (millicores), ``why`` says by what.
    """

    ref: WorkloadRef
    cpu: Mapping[str, int]
    memory: Mapping[str, int] = field(default_factory=dict)
    replicas: int | None = None
    short: float = 0.0
    why: tuple[Reason, ...] = ()
    room: Mapping[str, int] = field(default_factory=dict)
    """Millicores still free on each node after all grants: what consolidation may count on."""
    births: int | None = None
    """New pods of the template's size that quotas and the budget have room for; None: not limited, or not known."""
    births_why: Reason | None = None
    starting: Mapping[str, int] = field(default_factory=dict)
    """Sizes in millicores of pods that don't serve yet, by uid: not counted in what covers the load."""


@dataclass(frozen=True, slots=True)
class LimitRangeView:
    """The Container limits of a namespace's LimitRanges, merged to the tightest. None: not limited."""

    cpu_min: int | None = None
    cpu_max: int | None = None
    memory_min: int | None = None
    memory_max: int | None = None
    cpu_ratio: float | None = None
    """maxLimitRequestRatio."""
    pod_cpu_max: int | None = None
    pod_memory_max: int | None = None


@dataclass(frozen=True, slots=True)
class QuotaView:
    """One ResourceQuota: hard and used by key (``requests.cpu``, ``limits.cpu`` millicores, ``*.memory`` bytes)."""

    namespace: str
    name: str
    hard: Mapping[str, int]
    used: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BudgetView:
    """A CapacityBudget; ``members`` are the workloads that name it."""

    ref: WorkloadRef
    cpu: int | None
    memory: int | None
    members: tuple[WorkloadRef, ...]


@dataclass(frozen=True, slots=True)
class Ledger:
    """What is free to be spent this tick, once for all workloads.

    ``committed``: per node, the CPU *requests* in millicores of max(desired, allocated, actual) of **all** pods on it
    plus what was sent and is not finished (memory likewise). Infeasible desired sizes don't count.
    ``nodes_known`` is False where nodes can't be seen (sidecar): room is unknown, the kubelet's answer is the truth.
    """

    nodes: Mapping[str, Node] = field(default_factory=dict)
    committed_cpu: Mapping[str, int] = field(default_factory=dict)
    committed_memory: Mapping[str, int] = field(default_factory=dict)
    quotas: tuple[QuotaView, ...] = ()
    limit_ranges: Mapping[str, LimitRangeView] = field(default_factory=dict)
    budgets: tuple[BudgetView, ...] = ()
    nodes_known: bool = True
    fleet_cpu_left: int | None = None
    """Cores (millicores) the fleet limit still allows to add this minute."""
    fleet_resizes_left: int | None = None

    def free_cpu(self, node: str) -> int | None:
        """Free millicores on a node by requests; None when unknown."""
        seen = self.nodes.get(node)
        return None if seen is None else max(0, seen.cpu - self.committed_cpu.get(node, 0))

    def free_memory(self, node: str) -> int | None:
        seen = self.nodes.get(node)
        return None if seen is None else max(0, seen.memory - self.committed_memory.get(node, 0))


@dataclass(frozen=True, slots=True)
class Resize:
    """Change the size of one container of one running pod. ``after`` holds only the keys that change, others None."""

    workload: WorkloadRef
    pod: Pod
    container: str
    before: Resources
    after: Resources
    reason: Reason


@dataclass(frozen=True, slots=True)
class Revert:
    """Put an ungranted resize back to the allocated values."""

    workload: WorkloadRef
    pod: Pod
    container: str
    before: Resources
    after: Resources
    reason: Reason
    attempt: Attempt | None = None


@dataclass(frozen=True, slots=True)
class Scale:
    """Set the replicas. ``victims``: on scale-in, the pods to be removed first (get a low pod-deletion-cost)."""

    workload: WorkloadRef
    target: TargetRef
    namespace: str
    before: int
    after: int
    reason: Reason
    resource_version: str = ""
    victims: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class Evict:
    """Recreate one pod through the eviction API, within its PodDisruptionBudget."""

    workload: WorkloadRef
    pod: Pod
    reason: Reason


@dataclass(frozen=True, slots=True)
class AnnotatePod:
    """Set or remove (None) annotations of a pod: drain marks and pod-deletion-cost."""

    workload: WorkloadRef
    pod: Pod
    annotations: Mapping[str, str | None]
    reason: Reason


Action = Resize | Revert | Scale | Evict | AnnotatePod


@dataclass(frozen=True, slots=True)
class Plan:
    """One tick's decision for one workload: the actions in the order they are sent, and the holds."""

    ref: WorkloadRef
    actions: tuple[Action, ...] = ()
    holds: tuple[Reason, ...] = ()
    reason: Reason | None = None
    """The one sentence that explains this tick."""
    want: Want | None = None
    grant: Grant | None = None
