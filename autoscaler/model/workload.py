"""Workload, pod, container, node as a tick sees them; the three sizes: desired / allocated / actual.

All times are unix seconds on the tick's clock (an epoch taken at start plus monotonic time: it never jumps).
CPU in millicores, memory in bytes; ``None`` means the key is absent on the server.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from autoscaler.model.signal import Signals


@dataclass(frozen=True, slots=True, order=True)
class WorkloadRef:
    """The workload a policy is about: namespace and name of the *policy*, the key of everything remembered."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, order=True)
class TargetRef:
    """The object that owns the pods (``scaleTargetRef``)."""

    api_version: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


@dataclass(frozen=True, slots=True)
class Resources:
    """CPU and memory of one container in one of the three sizes. Others are never touched, so not held here."""

    cpu_request: int | None = None
    cpu_limit: int | None = None
    memory_request: int | None = None
    memory_limit: int | None = None

    @property
    def cpu(self) -> int | None:
        """The CPU a container can use: its limit, or its request when it has no limit."""
        return self.cpu_limit if self.cpu_limit is not None else self.cpu_request

    @property
    def memory(self) -> int | None:
        return self.memory_limit if self.memory_limit is not None else self.memory_request


class ResizeRestart(enum.StrEnum):
    """``resizePolicy[].restartPolicy``."""

    NOT_REQUIRED = "NotRequired"
    RESTART_CONTAINER = "RestartContainer"


@dataclass(frozen=True, slots=True)
class Container:
    """One container: spec (desired), ``allocatedResources`` (requests only) and status ``resources`` (actual)."""

    name: str
    desired: Resources
    allocated: Resources | None = None
    actual: Resources | None = None
    cpu_restart: ResizeRestart = ResizeRestart.NOT_REQUIRED
    memory_restart: ResizeRestart = ResizeRestart.NOT_REQUIRED
    running: bool = True
    ready: bool = True
    started_at: float | None = None
    restart_count: int = 0
    oom_at: float | None = None
    """When the container was last OOMKilled, if it was."""
    waiting_reason: str = ""
    """``ImagePullBackOff``, ``CrashLoopBackOff`` …, empty when running."""
    extended: Mapping[str, str] = field(default_factory=dict)
    """GPUs and other extended resources with their amounts: such pods are scaled horizontally."""
    sidecar: bool = False
    """A restartable init container."""


class Qos(enum.StrEnum):
    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


class ResizeState(enum.StrEnum):
    """The life of one resize, as ``act/lifecycle.py`` follows it. NONE: nothing under way."""

    NONE = "None"
    SENT = "Sent"
    DEFERRED = "Deferred"
    INFEASIBLE = "Infeasible"
    APPLYING = "Applying"
    ERROR = "Error"
    GRANTED = "Granted"
    COMPLETE = "Complete"
    SUPERSEDED = "Superseded"
    GONE = "Gone"
    TERMINATED = "Terminated"
    TIMED_OUT = "TimedOut"
    REVERTED = "Reverted"
    REFUSED = "Refused"
    OVERDUE = "Overdue"


OPEN_STATES = frozenset(
    {ResizeState.SENT, ResizeState.DEFERRED, ResizeState.APPLYING, ResizeState.ERROR, ResizeState.GRANTED,
     ResizeState.OVERDUE}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Attempt:
    """Our resize of one pod, as far as it has come.

    ``wanted`` is the size asked for (only the keys that were set); ``since`` when this attempt was first sent;
    ``refusal`` what a refusal said (``NodeCapacity``, ``Quota``, ``LimitRange``, ``Forbidden``, ``Invalid``,
    ``Webhook``, ``Conflict``, ``OomAgain`` …).
    """

    state: ResizeState
    wanted: Resources
    since: float
    refusal: str = ""
    message: str = ""
    before: Resources | None = None
    """The desired size before this attempt."""
    granted: bool = False
    """The kubelet has allocated it. What is granted is never taken back because it is late."""
    until: float | None = None
    """When the state became terminal; None while it is open."""
    reverts: Resources | None = None
    """Set on a revert: the size that was not granted."""
    generation: int | None = None
    """metadata.generation that the server answered with."""
    restarts: bool = False
    """The container restarts for it (resizePolicy RestartContainer)."""

    @property
    def open(self) -> bool:
        """Sent and not yet at its end."""
        return self.state in OPEN_STATES


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of a workload (or, in the ledger, of anybody)."""

    namespace: str
    name: str
    uid: str
    containers: tuple[Container, ...]
    node: str = ""
    phase: str = "Running"
    qos: Qos = Qos.BURSTABLE
    ready: bool = True
    created_at: float = 0.0
    scheduled_at: float | None = None
    ready_at: float | None = None
    """When Ready last became true."""
    deleting: bool = False
    resource_version: str = ""
    generation: int = 1
    observed_generation: int | None = None
    resize_pending: str = ""
    """Reason of PodResizePending when True: Deferred, Infeasible, or a newer server's word."""
    resize_pending_message: str = ""
    resizing: bool = False
    """PodResizeInProgress is True."""
    resize_error: str = ""
    """Reason of PodResizeInProgress, ``Error`` when the kubelet refuses to apply."""
    resize_error_message: str = ""
    resize_dialect: str = ""
    """``status.resize`` as an alpha server fills it."""
    unschedulable: bool = False
    template_hash: str = ""
    owner_uid: str = ""
    static: bool = False
    windows: bool = False
    whole: Resources | None = None
    """The pod's own (pod-level) CPU and memory, that all containers share; None where it has none."""
    deletion_cost: int | None = None
    termination_grace_s: float = 30.0
    priority: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    ip: str = ""
    attempt: Attempt | None = None
    probes_failing: bool = False
    resized_by: str = ""
    """Field manager of the last resize, by managedFields; empty when nobody resized."""
    resized_at: float | None = None

    def container(self, name: str) -> Container | None:
        for container in self.containers:
            if container.name == name:
                return container
        return None

    @property
    def active(self) -> bool:
        """Neither terminal nor on its way out."""
        return not self.deleting and self.phase not in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    cpu: int
    """Allocatable millicores."""
    memory: int
    """Allocatable bytes."""
    ready: bool = True
    unschedulable: bool = False
    zone: str = ""


@dataclass(frozen=True, slots=True)
class ScaleView:
    """The replicas side of the target. ``desired`` is spec.replicas (absent means 0 on the scale subresource)."""

    desired: int
    current: int
    resource_version: str = ""
    rollout: bool = False
    """A rollout is under way: sizes and replicas are held."""
    template_hash: str = ""
    selector: str = ""
    other_owner: str = ""
    """Who else sets the replicas (``hpa/NAME``, ``scaledobject/NAME``, a field manager), empty when nobody."""
    paused: bool = False
    scaled_by: str = ""
    """Field manager that last set the replicas, by managedFields; empty when unknown."""
    scaled_at: float | None = None


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """All that one tick knows about one workload."""

    ref: WorkloadRef
    target: TargetRef
    scale: ScaleView | None
    pods: tuple[Pod, ...]
    signals: Signals
    container: str = ""
    """The container that is sized, resolved from the policy, the preset or because it is the only one."""
    template: Resources | None = None
    """That container's size in the pod template: new pods are born with it."""
    hold: str = ""
    """Why this workload can't be decided on now (target gone, wanted twice, bad policy); empty when it can."""
    paused: bool = False
    pdb_min_available: int | None = None
    """How many pods the PodDisruptionBudget keeps, of the replicas of now."""
    pdb_floor: int | None = None
    """The same where it doesn't follow the replicas: an absolute ``minAvailable``."""
    zones: int = 1
    seen_age_s: float = 0.0
    """Seconds since the cluster was last heard (watch event or bookmark)."""
    size_owner: str = ""
    """Who else sets the sizes (``vpa/NAME``), empty when nobody."""
