"""Deployments: a ReplicaSet per template, rolled over without losing availability."""

import copy
from typing import Any, Protocol

from autoscaler.emulate.kinds import DEPLOYMENT, REPLICA_SET, Kind
from autoscaler.emulate.owners import owner_reference, template_hash
from autoscaler.emulate.store import Store
from autoscaler.emulate.timeline import Timeline

Json = dict[str, Any]


class Around(Protocol):
    """What a Deployment needs of the cluster."""

    timeline: Timeline
    store: Store

    def create_object(self, kind: Kind, body: Json) -> Json: ...

    def put_object(self, kind: Kind, body: Json) -> None: ...


class Owned(Protocol):
    """What it needs of the other controllers."""

    def owned(self, kind: Kind, owner: Json) -> list[Json]: ...

    def put_status(self, kind: Kind, thing: Json, status: Json) -> None: ...


class Deployments:
    """Reconciles one Deployment at a time."""

    def __init__(self, around: Around, controllers: Owned) -> None:
        self.around = around
        self.controllers = controllers

    def reconcile(self, deployment: Json) -> None:
        spec, metadata = deployment["spec"], deployment["metadata"]
        sets = self.controllers.owned(REPLICA_SET, deployment)
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
        self.controllers.put_status(DEPLOYMENT, deployment, status)

    def _condition(self, thing: Json, kind: str, true: bool, reason: str, message: str) -> Json:
        now, value = self.around.timeline.stamp(), "True" if true else "False"
        before = next((one for one in (thing.get("status") or {}).get("conditions") or [] if one["type"] == kind), None)
        if before is not None and before["status"] == value and before["reason"] == reason:
            return dict(before)
        since = before["lastTransitionTime"] if before is not None and before["status"] == value else now
        one = {"type": kind, "status": value, "lastUpdateTime": now, "lastTransitionTime": since}
        return one | {"reason": reason, "message": message}


def _share(value: Any, of: int, *, up: bool) -> int:
    if isinstance(value, str) and value.endswith("%"):
        exact = int(value[:-1]) * of
        return -(-exact // 100) if up else exact // 100
    return int(value)
