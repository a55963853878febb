"""Objects of a cluster as the program keeps them: slim, frozen, amounts already whole numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autoscaler.kube.wire import Owner, Selector
from autoscaler.model.workload import Node, Resources


@dataclass(frozen=True, slots=True)
class Named:
    """What every object has. ``key`` identifies it in a store."""

    namespace: str
    name: str
    uid: str
    resource_version: str

    @property
    def key(self) -> str:
        return self.uid


@dataclass(frozen=True, slots=True)
class NodeSeen:
    node: Node
    resource_version: str

    @property
    def key(self) -> str:
        return self.node.name


@dataclass(frozen=True, slots=True)
class TargetSeen(Named):
    """A Deployment, StatefulSet or ReplicaSet, or the scale subresource of anything else.

    ``rolling`` as far as the object's own status tells; a Deployment's ReplicaSets tell more. ``template_hash`` is
    known from the object itself for StatefulSets only. ``template`` maps container names to their sizes in
    the pod template.
    """

    api_version: str = "apps/v1"
    kind: str = "Deployment"
    replicas: int = 1
    current: int = 0
    rolling: bool = False
    paused: bool = False
    template: Mapping[str, Resources] = field(default_factory=dict)
    template_hash: str = ""
    selector: str = ""
    owner: Owner | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    scaled_by: str = ""
    scaled_at: float | None = None
    scalable: bool = True


@dataclass(frozen=True, slots=True)
class ReplicaSetSeen(TargetSeen):
    revision: int = 0


@dataclass(frozen=True, slots=True)
class ScalerSeen(Named):
    """Another owner of replicas or sizes: an HPA, a ScaledObject, a VPA. ``by`` is how it is named to a person."""

    kind: str = ""
    target_kind: str = ""
    target_name: str = ""
    by: str = ""
    acts: bool = True
    """False when it only watches: a VPA in mode Off, a paused ScaledObject."""


@dataclass(frozen=True, slots=True)
class BudgetSeen(Named):
    """A PodDisruptionBudget. ``healthy`` is how many pods must stay, once the controller has said so."""

    selector: Selector = field(default_factory=Selector)
    healthy: int | None = None
    min_available: str | int | None = None
    max_unavailable: str | int | None = None


@dataclass(frozen=True, slots=True)
class LimitsSeen(Named):
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class Limit:
    """One entry of a LimitRange: ``type`` is Container or Pod; millicores and bytes by ``cpu``/``memory``."""

    type: str
    low: Mapping[str, int]
    high: Mapping[str, int]
    cpu_ratio: float | None


@dataclass(frozen=True, slots=True)
class QuotaSeen(Named):
    """A ResourceQuota on running pods; ``hard`` and ``used`` by full key (``requests.cpu``), millicores or bytes."""

    hard: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    applies: bool = True
    """False when its scopes may leave inference pods out: then the server's refusal is the truth."""
