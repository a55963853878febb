"""The cluster without its wire: the store, and everything that acts on it.

Nodes with their kubelets, the scheduler, the controllers, quota and disruption-budget bookkeeping. Each is told of
changes by the store and answers with changes; `api.py` puts requests to it, `server.py` puts HTTP around that.
"""

import functools
import random
import uuid
from collections.abc import Mapping
from typing import Any

from autoscaler.emulate import admission
from autoscaler.emulate.bookkeeping import Bookkeeping
from autoscaler.emulate.faults import Faults
from autoscaler.emulate.inside import Idle, Inside
from autoscaler.emulate.kinds import (
    CUSTOM_RESOURCE_DEFINITION,
    LIMIT_RANGE,
    NAMESPACE,
    NODE,
    POD,
    SCALABLE,
    Kind,
    Registry,
)
from autoscaler.emulate.kubelet import Kubelet
from autoscaler.emulate.nodelife import NodeLifecycle
from autoscaler.emulate.owners import controller_of, suffix
from autoscaler.emulate.podrun import PodRun
from autoscaler.emulate.podspec import qos_class, set_pod_defaults
from autoscaler.emulate.recorder import Recorder
from autoscaler.emulate.resize import validate_containers
from autoscaler.emulate.scheduler import Scheduler
from autoscaler.emulate.scheduling import allocatable, node_object
from autoscaler.emulate.status import invalid, required
from autoscaler.emulate.store import Change, Store, Stored
from autoscaler.emulate.timeline import Timeline
from autoscaler.emulate.versions import Version
from autoscaler.emulate.workloads import Controllers

Json = dict[str, Any]
USAGE_EVERY = 12.0  # the kubelet's stats are that old at most


class ControlPlane:
    """All state of one emulated cluster."""

    def __init__(
        self,
        timeline: Timeline,
        version: Version,
        *,
        inside: Inside | None = None,
        seed: int = 1,
        history: int = 2000,
        metrics_api: bool = True,
        resize_validator: bool = True,
    ) -> None:
        """`resize_validator`: the admission plugin of 1.36 that refuses requests above the node at the patch."""
        self.timeline = timeline
        self.version = version
        self.refuses_beyond_node = resize_validator and version.refuses_beyond_node
        self.inside: Inside = inside or Idle()
        self.dice = random.Random(seed)
        self.registry = Registry(metrics_api=metrics_api)
        self.store = Store(history=history)
        self.faults = Faults()
        self.kubelets: dict[str, Kubelet] = {}
        self.recorder = Recorder(timeline, self.dice, self.create_object)
        self.scheduler = Scheduler(self.store, timeline, version, self.faults, self.recorder)
        self.books = Bookkeeping(self.store, timeline)
        self.nodes = NodeLifecycle(self.store, timeline, self.kubelets, self.delete_pod)
        self.controllers = Controllers(self)
        self.store.subscribe(POD.storage, self._pod_changed)
        self.store.subscribe(NODE.storage, self._node_changed)
        self.store.subscribe(CUSTOM_RESOURCE_DEFINITION.storage, self._definition_changed)
        for kind in SCALABLE.values():
            self.store.subscribe(kind.storage, functools.partial(self._workload_changed, kind))
        for name in ("default", "kube-system"):
            self.add_namespace(name)
        timeline.after(USAGE_EVERY, self._refresh_usage)

    # -- objects

    def new_metadata(self, metadata: Json) -> Json:
        """uid, creationTimestamp, a name from generateName; in place."""
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + suffix(self.dice)
        metadata["uid"] = str(uuid.UUID(int=self.dice.getrandbits(128), version=4))
        metadata["creationTimestamp"] = self.timeline.stamp()
        metadata.pop("resourceVersion", None)
        metadata.pop("deletionTimestamp", None)
        return metadata

    def create_object(self, kind: Kind, body: Json) -> Json:
        """For controllers and for setting a scene: no validation."""
        self.new_metadata(body["metadata"])
        if kind.has_generation:
            body["metadata"]["generation"] = 1
        return self.store.put(kind.storage, body).body

    def put_object(self, kind: Kind, body: Json) -> None:
        self.store.put(kind.storage, body)

    def delete_object(self, kind: Kind, namespace: str, name: str) -> None:
        """Remove it and what it owns."""
        gone = self.store.remove(kind.storage, namespace, name)
        if gone is None:
            return
        if kind.kind in SCALABLE:
            for owned_kind in (*SCALABLE.values(), POD):
                for stored in self.store.all(owned_kind.storage, namespace):
                    owner = controller_of(stored.body)
                    if owner is None or owner["uid"] != gone.uid:
                        continue
                    if owned_kind is POD:
                        self.delete_pod(namespace, stored.name)
                    else:
                        self.delete_object(owned_kind, namespace, stored.name)

    def add_namespace(self, name: str) -> None:
        if self.store.get(NAMESPACE.storage, "", name) is None:
            labels = {"kubernetes.io/metadata.name": name}
            self.create_object(
                NAMESPACE,
                {
                    "metadata": {"name": name, "labels": labels},
                    "spec": {"finalizers": ["kubernetes"]},
                    "status": {"phase": "Active"},
                },
            )

    def add_node(
        self,
        name: str,
        *,
        cpu: str = "8",
        memory: str = "32Gi",
        pods: int = 110,
        zone: str = "zone-a",
        labels: Mapping[str, str] | None = None,
        extended: Mapping[str, str] | None = None,
    ) -> Kubelet:
        body = node_object(
            name, cpu=cpu, memory=memory, pods=pods, zone=zone, labels=labels or {},
            git_version=self.version.git_version, stamp=self.timeline.stamp(),
        )  # fmt: skip
        for side in ("capacity", "allocatable"):
            body["status"][side].update(extended or {})
        kubelet = Kubelet(name, self, host_ip="127.0.0.1", allocatable=allocatable(body))
        self.kubelets[name] = kubelet
        self.create_object(NODE, body)
        return kubelet

    # -- pods

    def pod(self, namespace: str, name: str) -> Json | None:
        stored = self.store.get(POD.storage, namespace, name)
        return None if stored is None else stored.body

    def prepare_pod(self, body: Json) -> Json:
        """Defaults, validation and admission of a new pod; nothing is stored. Raises Refused, NotAQuantity."""
        metadata, spec = body["metadata"], body["spec"]
        namespace = metadata["namespace"]
        self.new_metadata(metadata)
        metadata["generation"] = 1
        ranges = [stored.body for stored in self.store.all(LIMIT_RANGE.storage, namespace)]
        set_pod_defaults(spec)
        admission.fill_from_limit_ranges(spec, ranges)
        set_pod_defaults(spec)
        if not spec.get("containers"):
            raise invalid("Pod", metadata["name"], [required("spec.containers")])
        if causes := validate_containers(spec, creating=True):
            raise invalid("Pod", metadata["name"], causes)
        body["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
        admission.check_limit_ranges(body, ranges)
        return body

    def create_pod(self, body: Json, *, dry_run: bool = False) -> Json:
        """A controller's or a client's new pod. Raises Refused."""
        pod = self.prepare_pod(body)
        grown = admission.check_quotas(pod, None, self.books.quotas(pod["metadata"]["namespace"]))
        if dry_run:
            return pod
        self.books.charge_quotas(pod["metadata"]["namespace"], grown)
        stored = self.store.put(POD.storage, pod)
        return stored.body

    def delete_pod(self, namespace: str, name: str, grace: float | None = None) -> Json | None:
        """Ask for the end; returns the pod as it is then, or None when there was none."""
        stored = self.store.get(POD.storage, namespace, name)
        if stored is None:
            return None
        body = stored.thaw()
        metadata = body["metadata"]
        seconds = float(body["spec"].get("terminationGracePeriodSeconds", 30)) if grace is None else grace
        bound = bool(body["spec"].get("nodeName"))
        if seconds <= 0 or not bound or (body.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            self.store.remove(POD.storage, namespace, name)
            return body
        if "deletionTimestamp" in metadata:
            return body
        metadata["deletionTimestamp"] = self.timeline.stamp()
        metadata["deletionGracePeriodSeconds"] = int(seconds)
        metadata["generation"] = int(metadata.get("generation", 1)) + 1
        return self.store.put(POD.storage, body).body

    def plant(self, pod: Json) -> Stored:
        """Put a pod with the status it has; its node's kubelet takes it over as it stands."""
        pod["metadata"].setdefault("uid", str(uuid.UUID(int=self.dice.getrandbits(128), version=4)))
        pod["metadata"].setdefault("creationTimestamp", self.timeline.stamp())
        return self.store.put(POD.storage, pod)

    def run_of(self, namespace: str, name: str) -> tuple[Kubelet, PodRun] | None:
        """The kubelet and its view of a pod, once it is bound."""
        pod = self.pod(namespace, name)
        kubelet = self.kubelets.get((pod or {"spec": {}})["spec"].get("nodeName", ""))
        run = kubelet.runs.get((namespace, name)) if kubelet is not None else None
        return (kubelet, run) if kubelet is not None and run is not None else None

    def limit_ranges(self, namespace: str) -> list[Json]:
        return [stored.body for stored in self.store.all(LIMIT_RANGE.storage, namespace)]

    def node_resizes(self, node: Stored | None) -> bool:
        """Does the pod's node support resizes? A pod without a node can be resized freely."""
        return node is None or node.name not in self.faults.nodes_without_resize

    def annotate_pod(self, namespace: str, name: str, notes: Mapping[str, str]) -> None:
        """As an admission webhook or an operator would; no new generation."""
        stored = self.store.get(POD.storage, namespace, name)
        if stored is None:
            return
        body = stored.thaw()
        annotations = body["metadata"].setdefault("annotations", {})
        if notes.items() <= annotations.items():
            return
        annotations.update(notes)
        self.store.put(POD.storage, body)

    # -- what kubelets ask for

    def put_status(self, pod: Json, status: Json) -> None:
        stored = self.store.get(POD.storage, pod["metadata"].get("namespace", ""), pod["metadata"]["name"])
        if stored is None or stored.body.get("status") == status:
            return
        body = stored.thaw()
        body["status"] = status
        self.store.put(POD.storage, body)

    def pod_gone(self, namespace: str, name: str, uid: str) -> None:
        pod = self.pod(namespace, name)
        if pod is not None and pod["metadata"]["uid"] == uid:
            self.store.remove(POD.storage, namespace, name)

    def event(self, pod: Json, kind: str, reason: str, message: str, container: str = "") -> None:
        self.recorder.record(POD, pod, kind, reason, message, component="kubelet", container=container)

    def startup_seconds(self, pod: Json) -> float:
        return self.inside.startup_seconds(pod)

    def process_started(self, pod: Json, run: PodRun) -> None:
        self.inside.started(pod, run)

    def process_ready(self, pod: Json, run: PodRun) -> None:
        self.inside.ready(pod, run)

    def process_resized(self, pod: Json, run: PodRun) -> None:
        self.inside.resized(pod, run)

    def process_stopped(self, pod: Json, run: PodRun, *, drain: bool) -> float:
        return self.inside.stopped(pod, run, drain=drain)

    def memory_usage(self, pod: Json, container: str) -> int:
        return self.inside.memory_usage(pod, container)

    def held_by_fault(self, pod: Json) -> Json | None:
        return self.faults.holds(pod)

    # -- reactions to changes

    def _pod_changed(self, change: Change) -> None:
        pod = change.stored.body
        namespace, name = pod["metadata"].get("namespace", ""), pod["metadata"]["name"]
        node = pod["spec"].get("nodeName", "")
        kubelet = self.kubelets.get(node)
        self.scheduler.pod_changed(change)
        if kubelet is not None:
            if change.type == "DELETED":
                kubelet.forget(namespace, name)
            else:
                self._tell(kubelet, change)
        self.controllers.mark_owner(pod)
        self.books.pod_changed(change)

    def _tell(self, kubelet: Kubelet, change: Change) -> None:
        pod = change.stored.body
        run = kubelet.runs.get((change.stored.namespace, change.stored.name))
        if run is None or run.uid != change.stored.uid:
            kubelet.take(pod)
            return
        before = None if change.before is None else change.before.body
        if (
            before is None
            or before["spec"] != pod["spec"]
            or before["metadata"].get("generation") != pod["metadata"].get("generation")
        ):
            kubelet.changed(pod)

    def _workload_changed(self, kind: Kind, change: Change) -> None:
        body = change.stored.body
        if change.type != "DELETED":
            self.controllers.mark(kind.kind, body["metadata"]["namespace"], body["metadata"]["name"])
        self.controllers.mark_owner(body)

    def _node_changed(self, change: Change) -> None:
        body = change.stored.body
        kubelet = self.kubelets.get(body["metadata"]["name"])
        if change.type == "DELETED":
            self.kubelets.pop(body["metadata"]["name"], None)
            return
        if kubelet is not None:
            kubelet.allocatable = allocatable(body)
            kubelet.room_appeared()
        self.scheduler.look_again()

    def _definition_changed(self, change: Change) -> None:
        if change.type == "DELETED":
            self.registry.forget(change.stored.body)
        else:
            self.registry.learn(change.stored.body)

    def _refresh_usage(self) -> None:
        for kubelet in self.kubelets.values():
            kubelet.refresh_usage()
        self.timeline.after(USAGE_EVERY, self._refresh_usage)

    # -- what tests do to nodes

    def freeze_kubelet(self, node: str) -> None:
        self.nodes.freeze(node)

    def thaw_kubelet(self, node: str) -> None:
        self.nodes.thaw(node)

    def restart_kubelet(self, node: str) -> None:
        self.nodes.restart(node)

    def set_node_ready(self, node: str, ready: bool | None) -> None:
        self.nodes.set_ready(node, ready)
