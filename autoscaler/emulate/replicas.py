"""ReplicaSets and StatefulSets: as many pods as wanted, and which go first when there are too many."""

import copy
from typing import Any, Protocol

from autoscaler.emulate.kinds import POD, REPLICA_SET, STATEFUL_SET, Kind
from autoscaler.emulate.owners import owner_reference, template_hash
from autoscaler.emulate.podspec import is_over, is_ready

Json = dict[str, Any]
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


class Around(Protocol):
    """What a set needs of the cluster."""

    def create_pod(self, body: Json) -> Json: ...

    def delete_pod(self, namespace: str, name: str) -> Json | None: ...


class Owned(Protocol):
    """What it needs of the other controllers."""

    def owned(self, kind: Kind, owner: Json) -> list[Json]: ...

    def put_status(self, kind: Kind, thing: Json, status: Json) -> None: ...


class ReplicaSets:
    """Reconciles one set at a time."""

    def __init__(self, around: Around, controllers: Owned) -> None:
        self.around = around
        self.controllers = controllers

    def reconcile(self, replica_set: Json) -> None:
        pods = [pod for pod in self.controllers.owned(POD, replica_set) if not is_over(pod)]
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
        self.controllers.put_status(kind, owner, status)

    def reconcile_stateful(self, stateful_set: Json) -> None:
        pods = {pod["metadata"]["name"]: pod for pod in self.controllers.owned(POD, stateful_set)}
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
