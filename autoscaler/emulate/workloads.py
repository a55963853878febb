"""What the controller manager does: Deployments keep ReplicaSets, ReplicaSets and StatefulSets keep pods.

Event-driven: whatever changed is marked, and one deed a little later reconciles all that is marked.
"""

import copy
import functools
import hashlib
import json
import random
from collections.abc import Mapping
from typing import Any, Protocol

from autoscaler.emulate.kinds import DEPLOYMENT, POD, REPLICA_SET, STATEFUL_SET, Kind
from autoscaler.emulate.podspec import is_over, is_ready
from autoscaler.emulate.store import Change, Key, Storage, Store
from autoscaler.emulate.timeline import Deed, Timeline

Json = dict[str, Any]
_LATENCY = 0.012  # seconds a controller takes to notice
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
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


def suffix(dice: random.Random, length: int = 5) -> str:
    """As generated names end."""
    return "".join(dice.choice(_LETTERS) for _ in range(length))


def template_hash(template: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:10])


class Controllers:
    """Marks and reconciles."""

    def __init__(self, around: Around) -> None:
        self.around = around
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
                self._deployment(stored.thaw())
            elif kind == "ReplicaSet":
                self._replica_set(stored.thaw())
            else:
                self._stateful_set(stored.thaw())

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

    # -- Deployments

    def _deployment(self, deployment: Json) -> None:
        spec, metadata = deployment["spec"], deployment["metadata"]
        sets = self.owned(REPLICA_SET, deployment)
        current_hash = template_hash(spec["template"])
        name = f"{metadata['name']}-{current_hash}"
        current = next((one for one in sets if one["metadata"]["name"] == name), None)
        wanted = int(spec.get("replicas", 1))
        old = [one for one in sets if one["metadata"]["name"] != name]
        if current is None:
            first = wanted if not any(one["spec"].get("replicas", 0) for one in old) else 0
            current = self._new_replica_set(deployment, name, current_hash, first, len(sets) + 1)
        old_replicas = sum(int(one["spec"].get("replicas", 0)) for one in old)
        if old_replicas == 0 or spec.get("strategy", {}).get("type") == "Recreate":
            if old_replicas:
                for one in old:
                    self._scale_set(one, 0)
                if sum(int((one.get("status") or {}).get("replicas", 0)) for one in old):
                    wanted = 0
            self._scale_set(current, wanted)
        else:
            self._roll(deployment, current, old, wanted)
        self._deployment_status(deployment, [*old, current], current)

    def _new_replica_set(self, deployment: Json, name: str, hashed: str, replicas: int, revision: int) -> Json:
        spec, metadata = deployment["spec"], deployment["metadata"]
        template = copy.deepcopy(spec["template"])
        template.setdefault("metadata", {}).setdefault("labels", {})["pod-template-hash"] = hashed
        selector = copy.deepcopy(spec["selector"])
        selector.setdefault("matchLabels", {})["pod-template-hash"] = hashed
        metadata.setdefault("annotations", {})["deployment.kubernetes.io/revision"] = str(revision)
        return self.around.create_object(
            REPLICA_SET,
            {
                "metadata": {
                    "name": name,
                    "namespace": metadata["namespace"],
                    "labels": dict(template["metadata"]["labels"]),
                    "annotations": {"deployment.kubernetes.io/revision": str(revision)},
                    "ownerReferences": [owner_reference(DEPLOYMENT, deployment)],
                },
                "spec": {"replicas": replicas, "selector": selector, "template": template},
            },
        )

    def _roll(self, deployment: Json, current: Json, old: list[Json], wanted: int) -> None:
        rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
        surge = _share(rolling.get("maxSurge", "25%"), wanted, up=True)
        missing = _share(rolling.get("maxUnavailable", "25%"), wanted, up=False)
        if surge == 0 and missing == 0:
            missing = 1
        sets = [*old, current]
        total = sum(int(one["spec"].get("replicas", 0)) for one in sets)
        mine = int(current["spec"].get("replicas", 0))
        grown = min(wanted, mine + max(0, wanted + surge - total))
        if grown != mine:
            self._scale_set(current, grown)
        available = sum(int((one.get("status") or {}).get("availableReplicas", 0)) for one in sets)
        removable = available - (wanted - missing)
        for one in old:
            replicas = int(one["spec"].get("replicas", 0))
            ready = int((one.get("status") or {}).get("availableReplicas", 0))
            # Pods that don't serve go first and cost no availability.
            fewer = min(replicas, (replicas - ready) + max(0, removable))
            if fewer > 0:
                removable -= max(0, fewer - (replicas - ready))
                self._scale_set(one, replicas - fewer)

    def _scale_set(self, replica_set: Json, replicas: int) -> None:
        stored = self.around.store.get(
            REPLICA_SET.storage, replica_set["metadata"]["namespace"], replica_set["metadata"]["name"]
        )
        if stored is None or int(stored.body["spec"].get("replicas", 0)) == replicas:
            return
        body = stored.thaw()
        body["spec"]["replicas"] = replicas
        body["metadata"]["generation"] = int(body["metadata"].get("generation", 1)) + 1
        replica_set["spec"] = body["spec"]
        self.around.put_object(REPLICA_SET, body)

    def _deployment_status(self, deployment: Json, sets: list[Json], current: Json) -> None:
        totals = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), 0)
        for one in sets:
            for name in totals:
                totals[name] += int((one.get("status") or {}).get(name, 0))
        wanted = int(deployment["spec"].get("replicas", 1))
        status: Json = {"observedGeneration": deployment["metadata"].get("generation", 1)}
        status["replicas"] = totals["replicas"]
        status["updatedReplicas"] = int((current.get("status") or {}).get("replicas", 0))
        status["readyReplicas"] = totals["readyReplicas"]
        status["availableReplicas"] = totals["availableReplicas"]
        status["unavailableReplicas"] = max(0, wanted - totals["availableReplicas"])
        status = {name: value for name, value in status.items() if value or name == "observedGeneration"}
        complete = status.get("updatedReplicas", 0) >= wanted and totals["availableReplicas"] >= wanted
        rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
        least = wanted - _share(rolling.get("maxUnavailable", "25%"), wanted, up=False)
        enough = totals["availableReplicas"] >= least
        named = f'ReplicaSet "{current["metadata"]["name"]}"'
        status["conditions"] = [
            self._condition(
                deployment,
                "Progressing",
                True,
                "NewReplicaSetAvailable" if complete else "ReplicaSetUpdated",
                f"{named} has successfully progressed." if complete else f"{named} is progressing.",
            ),
            self._condition(
                deployment,
                "Available",
                enough,
                "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
                f"Deployment {'has' if enough else 'does not have'} minimum availability.",
            ),
        ]
        self._put_status(DEPLOYMENT, deployment, status)

    def _condition(self, thing: Json, kind: str, true: bool, reason: str, message: str) -> Json:
        now, value = self.around.timeline.stamp(), "True" if true else "False"
        before = next((one for one in (thing.get("status") or {}).get("conditions") or [] if one["type"] == kind), None)
        if before is not None and before["status"] == value and before["reason"] == reason:
            return dict(before)
        since = before["lastTransitionTime"] if before is not None and before["status"] == value else now
        one = {"type": kind, "status": value, "lastUpdateTime": now, "lastTransitionTime": since}
        return one | {"reason": reason, "message": message}

    def _put_status(self, kind: Kind, thing: Json, status: Json) -> None:
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

    # -- ReplicaSets

    def _replica_set(self, replica_set: Json) -> None:
        pods = [pod for pod in self.owned(POD, replica_set) if not is_over(pod)]
        terminating = [pod for pod in pods if "deletionTimestamp" in pod["metadata"]]
        living = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        wanted = int(replica_set["spec"].get("replicas", 1))
        for _ in range(wanted - len(living)):
            self._new_pod(REPLICA_SET, replica_set, None)
        if len(living) > wanted:
            for pod in sorted(living, key=self._first_to_go)[: len(living) - wanted]:
                self.around.delete_pod(pod["metadata"]["namespace"], pod["metadata"]["name"])
        self._pods_status(REPLICA_SET, replica_set, living, terminating)

    def _first_to_go(self, pod: Json) -> tuple[Any, ...]:
        """Unassigned first, Pending before Running, not ready before ready, cheap before dear, young before old."""
        metadata, status = pod["metadata"], pod.get("status") or {}
        phase = {"Pending": 0, "Unknown": 1}.get(status.get("phase", "Pending"), 2)
        try:
            cost = int((metadata.get("annotations") or {}).get(DELETION_COST, "0"))
        except ValueError:
            cost = 0
        restarts = sum(int(one.get("restartCount", 0)) for one in status.get("containerStatuses") or [])
        age = -int(metadata["resourceVersion"]) if "creationTimestamp" not in metadata else 0
        created = metadata.get("creationTimestamp", "")
        return bool(pod["spec"].get("nodeName")), phase, is_ready(pod), cost, -restarts, _later_first(created), age

    def _new_pod(self, kind: Kind, owner: Json, name: str | None) -> None:
        template = copy.deepcopy(owner["spec"]["template"])
        metadata = template.get("metadata") or {}
        own: Json = {
            "namespace": owner["metadata"]["namespace"],
            "labels": dict(metadata.get("labels") or {}),
            "ownerReferences": [owner_reference(kind, owner)],
        }
        if metadata.get("annotations"):
            own["annotations"] = dict(metadata["annotations"])
        if name is None:
            own["generateName"] = owner["metadata"]["name"] + "-"
        else:
            own["name"] = name
        self.around.create_pod({"metadata": own, "spec": template["spec"]})

    def _pods_status(self, kind: Kind, owner: Json, living: list[Json], terminating: list[Json]) -> None:
        ready = sum(is_ready(pod) for pod in living)
        status: Json = {"replicas": len(living)}
        if kind is REPLICA_SET:
            labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
            status["fullyLabeledReplicas"] = sum(
                labels.items() <= (pod["metadata"].get("labels") or {}).items() for pod in living
            )
        status |= {"readyReplicas": ready, "availableReplicas": ready, "terminatingReplicas": len(terminating)}
        if kind is STATEFUL_SET:
            revision = f"{owner['metadata']['name']}-{template_hash(owner['spec']['template'])}"
            status |= {"currentReplicas": len(living), "updatedReplicas": len(living)}
            status |= {"currentRevision": revision, "updateRevision": revision, "collisionCount": 0}
        status = {name: value for name, value in status.items() if value or name == "replicas"}
        status["observedGeneration"] = owner["metadata"].get("generation", 1)
        self._put_status(kind, owner, status)

    # -- StatefulSets

    def _stateful_set(self, stateful_set: Json) -> None:
        pods = {pod["metadata"]["name"]: pod for pod in self.owned(POD, stateful_set)}
        living = [pod for pod in pods.values() if "deletionTimestamp" not in pod["metadata"] and not is_over(pod)]
        terminating = [pod for pod in pods.values() if "deletionTimestamp" in pod["metadata"]]
        wanted = int(stateful_set["spec"].get("replicas", 1))
        one_by_one = stateful_set["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        name = stateful_set["metadata"]["name"]
        for ordinal in range(wanted):
            pod = pods.get(f"{name}-{ordinal}")
            if pod is None:
                self._new_pod(STATEFUL_SET, stateful_set, f"{name}-{ordinal}")
            if one_by_one and (pod is None or not is_ready(pod)):
                break
        beyond = sorted(
            (pod for pod in living if int(pod["metadata"]["name"].rpartition("-")[2]) >= wanted),
            key=lambda pod: -int(pod["metadata"]["name"].rpartition("-")[2]),
        )
        if beyond and not (one_by_one and terminating):
            for pod in beyond[:1] if one_by_one else beyond:
                self.around.delete_pod(pod["metadata"]["namespace"], pod["metadata"]["name"])
        self._pods_status(STATEFUL_SET, stateful_set, living, terminating)


def _later_first(stamp: str) -> tuple[int, ...]:
    return tuple(-ord(letter) for letter in stamp)


def _share(value: Any, of: int, *, up: bool) -> int:
    if isinstance(value, str) and value.endswith("%"):
        exact = int(value[:-1]) * of
        return -(-exact // 100) if up else exact // 100
    return int(value)


def controller_of(thing: Mapping[str, Any]) -> Json | None:
    for reference in thing["metadata"].get("ownerReferences") or []:
        if reference.get("controller"):
            found: Json = reference
            return found
    return None


def owner_reference(kind: Kind, owner: Mapping[str, Any]) -> Json:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
