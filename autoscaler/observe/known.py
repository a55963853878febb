"""Everything the watches have told, with the ways in: by owner, by name, by namespace. Plain bookkeeping, no I/O.

``touched`` tells readers cheaply what changed: a number that rises whenever anything under an owner did.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from autoscaler.kube.decode import PodSeen
from autoscaler.kube.seen import BudgetSeen, LimitsSeen, NodeSeen, QuotaSeen, ReplicaSetSeen, ScalerSeen, TargetSeen
from autoscaler.kube.store import Seen as Stored
from autoscaler.kube.store import Store
from autoscaler.model.workload import Pod, TargetRef
from autoscaler.observe.ledger import Commitments

Key = tuple[str, str, str]
"""Namespace, kind, name."""


class Known:
    def __init__(self) -> None:
        self.commitments = Commitments()
        self.surroundings = 0
        """Rises when something that any view may depend on changed: zones, other owners, disruption budgets."""
        self.zones: dict[str, str] = {}
        self._tick = itertools.count(1)
        self._touched: dict[str, int] = {}
        self._by_owner: dict[str, dict[str, PodSeen]] = {}
        self._sets_of: dict[str, dict[str, ReplicaSetSeen]] = {}
        self._by_name: dict[Key, str] = {}
        self._scalers: dict[Key, dict[str, ScalerSeen]] = {}
        self._disruption: dict[str, dict[str, BudgetSeen]] = {}

        self.pods: Store[PodSeen] = Store(self._pod_changed)
        self.nodes: Store[NodeSeen] = Store(self._node_changed)
        self.targets: Store[TargetSeen] = Store(self._target_changed)
        self.replica_sets: Store[ReplicaSetSeen] = Store(self._set_changed)
        self.scalers: Store[ScalerSeen] = Store(self._scaler_changed)
        self.disruption_budgets: Store[BudgetSeen] = Store(self._disruption_changed)
        self.limits: Store[LimitsSeen] = Store()
        self.quotas: Store[QuotaSeen] = Store()

    def touched(self, root: str) -> int:
        """Rises when the object of this uid, its ReplicaSets or its pods changed; 0 when nothing is known of it."""
        return self._touched.get(root, 0)

    def target(self, namespace: str, ref: TargetRef) -> TargetSeen | None:
        """A Deployment, StatefulSet or ReplicaSet as it was last seen; None when there is none."""
        uid = self._by_name.get((namespace, ref.kind, ref.name))
        if uid is None:
            return None
        return self.targets.items.get(uid) or self.replica_sets.items.get(uid)

    def pods_of(self, target: TargetSeen) -> tuple[Pod, ...]:
        """The pods below a target, oldest first."""
        owners = (target.uid, *self._sets_of.get(target.uid, ()))
        found = [seen.pod for owner in owners for seen in self._by_owner.get(owner, {}).values()]
        if target.kind == "Pod" and target.uid in self.pods.items:
            found.append(self.pods.items[target.uid].pod)
        return tuple(sorted(found, key=lambda pod: (pod.created_at, pod.name)))

    def sets_of(self, target: TargetSeen) -> tuple[ReplicaSetSeen, ...]:
        return tuple(self._sets_of.get(target.uid, {}).values())

    def scalers_of(self, namespace: str, ref: TargetRef) -> tuple[ScalerSeen, ...]:
        return tuple(self._scalers.get((namespace, ref.kind, ref.name), {}).values())

    def disruption_in(self, namespace: str) -> tuple[BudgetSeen, ...]:
        return tuple(self._disruption.get(namespace, {}).values())

    def roots(self, pod_uid: str) -> tuple[str, ...]:
        """The uids of everything that this pod belongs to, nearest first."""
        seen = self.pods.items.get(pod_uid)
        return () if seen is None else self._roots_of(seen)

    def _roots_of(self, seen: PodSeen) -> tuple[str, ...]:
        owner = seen.pod.owner_uid
        if not owner:
            return (seen.pod.uid,)
        owning_set = self.replica_sets.items.get(owner)
        above = owning_set.owner.uid if owning_set is not None and owning_set.owner is not None else ""
        return (owner, above) if above else (owner,)

    def _touch(self, *roots: str) -> None:
        for root in roots:
            self._touched[root] = next(self._tick)

    def _pod_changed(self, before: PodSeen | None, after: PodSeen | None) -> None:
        self.commitments.changed(before, after)
        if before is not None:
            self._touch(*self._roots_of(before))
            _file(self._by_owner, before.pod.owner_uid, before.pod.uid, None)
        if after is not None:
            self._touch(*self._roots_of(after))
            _file(self._by_owner, after.pod.owner_uid, after.pod.uid, after)
        elif before is not None:
            self._forget(before.pod.uid, before.pod.owner_uid)

    def _forget(self, pod: str, owner: str) -> None:
        """Jobs and bare pods come and go without end; numbers that nobody asks for must not pile up."""
        self._touched.pop(pod, None)
        if owner not in self._by_owner and owner not in self.targets.items and owner not in self.replica_sets.items:
            self._touched.pop(owner, None)

    def _node_changed(self, before: NodeSeen | None, after: NodeSeen | None) -> None:
        if (before.node.zone if before else None) != (after.node.zone if after else None):
            self.surroundings += 1
        if after is not None:
            self.zones[after.node.name] = after.node.zone
        elif before is not None:
            self.zones.pop(before.node.name, None)

    def _target_changed(self, before: TargetSeen | None, after: TargetSeen | None) -> None:
        if before is not None:
            self._touch(before.uid)
            if self._by_name.get(_name_key(before)) == before.uid:
                del self._by_name[_name_key(before)]
        if after is not None:
            self._touch(after.uid)
            self._by_name[_name_key(after)] = after.uid
        if after is None and before is not None:
            self._touched.pop(before.uid, None)

    def _set_changed(self, before: ReplicaSetSeen | None, after: ReplicaSetSeen | None) -> None:
        self._target_changed(before, after)
        for seen, here in ((before, False), (after, True)):
            if seen is not None and seen.owner is not None:
                self._touch(seen.owner.uid)
                _file(self._sets_of, seen.owner.uid, seen.uid, seen if here else None)

    def _scaler_changed(self, before: ScalerSeen | None, after: ScalerSeen | None) -> None:
        for seen, here in ((before, False), (after, True)):
            if seen is not None:
                key = (seen.namespace, seen.target_kind, seen.target_name)
                _file(self._scalers, key, seen.uid, seen if here else None)
        if not _alike(before, after):
            self.surroundings += 1

    def _disruption_changed(self, before: BudgetSeen | None, after: BudgetSeen | None) -> None:
        for seen, here in ((before, False), (after, True)):
            if seen is not None:
                _file(self._disruption, seen.namespace, seen.uid, seen if here else None)
        if not _alike(before, after):
            self.surroundings += 1


def _name_key(seen: TargetSeen) -> Key:
    return (seen.namespace, seen.kind, seen.name)


def _alike(before: Any, after: Any) -> bool:
    """Equal but for the version: status updates that change nothing here come every few seconds."""
    return (
        before is not None
        and after is not None
        and replace(before, resource_version="") == replace(after, resource_version="")
    )


def _file(shelf: dict[Any, dict[str, Any]], key: Any, uid: str, seen: Any) -> None:
    inside = shelf.setdefault(key, {})
    if seen is None:
        inside.pop(uid, None)
        if not inside:
            del shelf[key]
    else:
        inside[uid] = seen


class Share(Store[Any]):
    """One kind's share of a common store, so that a list of this kind doesn't throw out the others."""

    def __init__(self, whole: Store[Any], kind: str) -> None:
        super().__init__(self._pass_on)
        self._whole = whole
        self._kind = kind

    def _pass_on(self, before: Stored | None, after: Stored | None) -> None:
        if after is not None:
            self._whole.put(after)
        elif before is not None:
            self._whole.drop(before.key)
