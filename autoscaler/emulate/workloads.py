"""What the controller manager does: Deployments keep ReplicaSets, ReplicaSets and StatefulSets keep pods.

Event-driven: whatever changed is marked, and one deed a little later reconciles all that is marked.
"""

import functools
import random
from collections.abc import Mapping
from typing import Any, Protocol

from autoscaler.emulate.deployments import Deployments
from autoscaler.emulate.kinds import DEPLOYMENT, POD, REPLICA_SET, STATEFUL_SET, Kind
from autoscaler.emulate.owners import controller_of
from autoscaler.emulate.replicas import ReplicaSets
from autoscaler.emulate.store import Change, Key, Storage, Store
from autoscaler.emulate.timeline import Deed, Timeline

Json = dict[str, Any]
_LATENCY = 0.012  # seconds a controller takes to notice
_KINDS = {kind.kind: kind for kind in (DEPLOYMENT, REPLICA_SET, STATEFUL_SET)}


class Around(Protocol):
    """What the controllers need of the cluster."""

    timeline: Timeline
    store: Store
    dice: random.Random

    def create_pod(self, body: Json) -> Json: ...

    def delete_pod(self, namespace: str, name: str) -> Json | None: ...

    def create_object(self, kind: Kind, body: Json) -> Json: ...

    def put_object(self, kind: Kind, body: Json) -> None: ...

    def delete_object(self, kind: Kind, namespace: str, name: str) -> None: ...


class Controllers:
    """Marks and reconciles."""

    def __init__(self, around: Around) -> None:
        self.around = around
        self.deployments = Deployments(around, self)
        self.sets = ReplicaSets(around, self)
        self._marked: set[tuple[str, str, str]] = set()  # (kind, namespace, name)
        self._deed: Deed | None = None
        self._owned: dict[tuple[Storage, str], dict[Key, None]] = {}  # by owner's uid, in order of creation
        for kind in (POD, REPLICA_SET):
            around.store.subscribe(kind.storage, functools.partial(self._note_owner, kind.storage))

    def _note_owner(self, storage: Storage, change: Change) -> None:
        stored = change.stored
        owner = controller_of(stored.body)
        if owner is None:
            return
        listed = self._owned.setdefault((storage, owner["uid"]), {})
        if change.type == "DELETED":
            listed.pop((stored.namespace, stored.name), None)
        else:
            listed.setdefault((stored.namespace, stored.name))

    def mark(self, kind: str, namespace: str, name: str) -> None:
        if kind not in _KINDS:
            return
        self._marked.add((kind, namespace, name))
        if self._deed is None or self._deed.act is None:
            self._deed = self.around.timeline.after(_LATENCY, self._reconcile)

    def mark_owner(self, thing: Mapping[str, Any]) -> None:
        if (owner := controller_of(thing)) is not None:
            self.mark(owner["kind"], thing["metadata"].get("namespace", ""), owner["name"])

    def _reconcile(self) -> None:
        self._deed = None
        marked, self._marked = self._marked, set()
        # Deployments first: they may change what ReplicaSets want.
        for kind, namespace, name in sorted(marked, key=lambda one: (one[0] != "Deployment", one)):
            stored = self.around.store.get(_KINDS[kind].storage, namespace, name)
            if stored is None:
                continue
            if kind == "Deployment":
                self.deployments.reconcile(stored.thaw())
            elif kind == "ReplicaSet":
                self.sets.reconcile(stored.thaw())
            else:
                self.sets.reconcile_stateful(stored.thaw())

    def owned(self, kind: Kind, owner: Mapping[str, Any]) -> list[Json]:
        """Objects whose controller is `owner`; don't edit them."""
        uid = owner["metadata"]["uid"]
        found = []
        for namespace, name in self._owned.get((kind.storage, uid), {}):
            stored = self.around.store.get(kind.storage, namespace, name)
            reference = controller_of(stored.body) if stored is not None else None
            if stored is not None and reference is not None and reference["uid"] == uid:
                found.append(stored.body)
        return found

    def put_status(self, kind: Kind, thing: Json, status: Json) -> None:
        stored = self.around.store.get(kind.storage, thing["metadata"]["namespace"], thing["metadata"]["name"])
        if stored is None:
            return
        annotations = thing["metadata"].get("annotations")
        if stored.body.get("status") == status and stored.body["metadata"].get("annotations") == annotations:
            return
        body = stored.thaw()
        body["status"] = status
        if annotations:
            body["metadata"]["annotations"] = annotations
        self.around.put_object(kind, body)
