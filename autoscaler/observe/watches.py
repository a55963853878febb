"""Which kinds are watched, and whether that works: synced, how long ago, and what is in the way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from autoscaler.kube import kinds, neighbours
from autoscaler.kube.client import KubeClient
from autoscaler.kube.decode import decode_pod
from autoscaler.kube.discovery import collection_path
from autoscaler.kube.errors import KubeError
from autoscaler.kube.store import Store
from autoscaler.kube.watch import Kind, Reflector
from autoscaler.observe.known import Known, Share

HEARTBEAT_S: Final = 5.0
"""A quiet watch is vouched for by asking the server for a sign of life this often."""
RECALL_S: Final = 1.0
"""A server that gave none is asked this often, so that all watches return as soon as it does."""
_SCALER_KINDS: Final = ("HorizontalPodAutoscaler", "VerticalPodAutoscaler", "ScaledObject")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scope:
    """What may be seen. ``namespace`` None: the whole cluster. ``nodes`` False: they can't be read (sidecar), room is
    unknown. ``pods``: extra query for the pods, such as a label selector."""

    namespace: str | None = None
    nodes: bool = True
    pods: Mapping[str, str] = field(default_factory=dict)


class Watches:
    """The reflectors that fill ``known``. Without the needed ones nothing is decided; the optional ones may be missing
    or forbidden."""

    def __init__(self, client: KubeClient, scope: Scope, known: Known) -> None:
        self.scope = scope
        self._client = client
        self._known = known
        self._vouched_at: dict[str, float] = {}
        self._alive = True
        self._lost = False
        self.needed, self.optional = self._reflectors()

    @property
    def all(self) -> tuple[Reflector[Any], ...]:
        return (*self.needed, *self.optional)

    def _reflectors(self) -> tuple[list[Reflector[Any]], list[Reflector[Any]]]:
        def watch(
            api: str, plural: str, decode: Callable[[Any], Any], store: Store[Any], **query: str
        ) -> Reflector[Any]:
            inside = None if plural == "nodes" else self.scope.namespace
            return Reflector(self._client, Kind(plural, collection_path(api, plural, inside), decode, query), store)

        # Deployments and StatefulSets share a store but not a list: each reflector replaces only its own kind.
        deployments, stateful = Share(self._known.targets, "Deployment"), Share(self._known.targets, "StatefulSet")
        hpas, vpas, keda = (Share(self._known.scalers, kind) for kind in _SCALER_KINDS)
        needed = [
            watch("v1", "pods", decode_pod, self._known.pods, **self.scope.pods),
            watch("apps/v1", "deployments", kinds.decode_deployment, deployments),
            watch("apps/v1", "replicasets", kinds.decode_replica_set, self._known.replica_sets),
        ]
        if self.scope.nodes:
            needed.append(watch("v1", "nodes", kinds.decode_node, self._known.nodes))
        optional = [
            watch("apps/v1", "statefulsets", kinds.decode_stateful_set, stateful),
            watch("autoscaling/v2", "horizontalpodautoscalers", neighbours.decode_hpa, hpas),
            watch("autoscaling.k8s.io/v1", "verticalpodautoscalers", neighbours.decode_vpa, vpas),
            watch("keda.sh/v1alpha1", "scaledobjects", neighbours.decode_scaled_object, keda),
            watch(
                "policy/v1", "poddisruptionbudgets", neighbours.decode_disruption_budget, self._known.disruption_budgets
            ),
            watch("v1", "limitranges", neighbours.decode_limit_range, self._known.limits),
            watch("v1", "resourcequotas", neighbours.decode_quota, self._known.quotas),
        ]
        return needed, optional

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self.all:
                tasks.create_task(reflector.run(), name=f"watch {reflector.kind.name}")
            tasks.create_task(self._heartbeats(), name="heartbeat")

    async def wait_synced(self, timeout: float | None = None) -> bool:
        """Wait until everything was read once; kinds that may not be read or don't exist don't count. False when
        ``timeout`` seconds passed; ``problems`` says why."""
        try:
            async with asyncio.timeout(timeout):
                await asyncio.gather(*(r.settled.wait() for r in self.all))
        except TimeoutError:
            return False
        return self.synced

    @property
    def synced(self) -> bool:
        """Pods and targets were listed."""
        return all(r.synced.is_set() for r in self.needed if r.kind.name != "nodes")

    def age(self) -> float:
        """Seconds since the cluster was surely seen: by the watch with the oldest word. Infinite before the first."""
        now = asyncio.get_running_loop().time()
        return max(now - self._seen_at(r) for r in self.needed if not (r.barred and r.kind.name == "nodes"))

    def _seen_at(self, reflector: Reflector[Any]) -> float:
        heard = reflector.heard_at
        if heard is None or not reflector.synced.is_set():
            return float("-inf")
        # An open watch with nothing to say was current at every sign of life, and that stays so once it is lost.
        return max(heard, self._vouched_at.get(reflector.kind.name, heard))

    def why(self, plural: str) -> str:
        """Why a kind isn't seen; empty when it is."""
        return next((r.trouble for r in self.all if r.kind.name == plural), "")

    @property
    def nodes_known(self) -> bool:
        """Whether room can be told: only with the nodes *and* the pods of all namespaces in sight."""
        whole = self.scope.namespace is None and not self.scope.pods
        return whole and any(r.kind.name == "nodes" and r.synced.is_set() and not r.barred for r in self.needed)

    def problems(self) -> tuple[str, ...]:
        """What can't be seen, each as one sentence; empty when all is well."""
        needed = tuple(r.trouble for r in self.needed if r.trouble)
        barred = (r for r in self.optional if r.barred and not r.missing)
        return needed + tuple(f"{r.kind.name} are not read: {r.trouble}" for r in barred)

    async def _heartbeats(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S if self._alive else RECALL_S)
            before = self._alive
            await self._beat()
            if self._alive and not before:  # nobody waits out a pause that was meant for a server that is away
                for reflector in self.all:
                    reflector.hurry()
            self._say()

    def _say(self) -> None:
        """One line when sight is lost and one when it is back, instead of one from every watch."""
        lost = next((r.trouble for r in self.needed if r.trouble and not r.watching), "")
        if bool(lost) != self._lost:
            _log.warning("the cluster can't be seen: %s", lost) if lost else _log.info("the cluster is seen again")
        self._lost = bool(lost)

    async def _beat(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._alive and all(r.heard_at is not None and now - r.heard_at < HEARTBEAT_S for r in self.needed):
            return
        open_ones = [r.kind.name for r in self.needed if r.watching]
        try:
            answer = await self._client.request("GET", "/livez", deadline=HEARTBEAT_S)
        except KubeError:
            self._alive = False
            return
        self._alive = answer.status < 500  # even a 403 is a sign of life
        if self._alive:
            still = (r.kind.name for r in self.needed if r.watching and r.kind.name in open_ones)
            self._vouched_at |= dict.fromkeys(still, now)
