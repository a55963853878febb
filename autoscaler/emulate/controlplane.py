"""The cluster without its wire: the store, and everything that acts on it.

Nodes with their kubelets, the scheduler, the controllers, quota and disruption-budget bookkeeping. Each is told of
changes by the store and answers with changes; `api.py` puts requests to it, `server.py` puts HTTP around that.
"""

import functools
import random
import uuid
from collections.abc import Mapping
from typing import Any

from autoscaler.emulate import admission, amounts
from autoscaler.emulate.amounts import Amount
from autoscaler.emulate.disruption import budget_status, budgets_of
from autoscaler.emulate.faults import Faults
from autoscaler.emulate.inside import Idle, Inside
from autoscaler.emulate.kinds import (
    CUSTOM_RESOURCE_DEFINITION,
    DISRUPTION_BUDGET,
    EVENT,
    LIMIT_RANGE,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_QUOTA,
    SCALABLE,
    Kind,
    Registry,
)
from autoscaler.emulate.kubelet import Kubelet
from autoscaler.emulate.podrun import PodRun
from autoscaler.emulate.podspec import Totals, add, qos_class, read_list, set_pod_defaults, write_list
from autoscaler.emulate.resize import validate_containers
from autoscaler.emulate.scheduling import Room, allocatable, is_node_ready, node_condition, node_object
from autoscaler.emulate.status import invalid, not_found, required
from autoscaler.emulate.store import Change, Store, Stored
from autoscaler.emulate.timeline import Deed, Timeline
from autoscaler.emulate.versions import Version
from autoscaler.emulate.workloads import Controllers, controller_of, suffix

Json = dict[str, Any]
SCHEDULER_LATENCY = 0.01
USAGE_EVERY = 12.0  # the kubelet's stats are that old at most
NOT_READY_AFTER = 39.0  # a silent kubelet's node goes NotReady
QUOTA_FREED_AFTER = 1.0  # the quota controller takes its time after a shrink


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
    ) -> None:
        self.timeline = timeline
        self.version = version
        self.inside: Inside = inside or Idle()
        self.dice = random.Random(seed)
        self.registry = Registry(metrics_api=metrics_api)
        self.store = Store(history=history)
        self.faults = Faults()
        self.room = Room()
        self.kubelets: dict[str, Kubelet] = {}
        self.controllers = Controllers(self)
        self.quota_freed_after = QUOTA_FREED_AFTER
        self._unscheduled: set[tuple[str, str]] = set()
        self._scheduling: Deed | None = None
        self._recount: dict[str, Deed] = {}
        self._budgets_deed: Deed | None = None
        self.store.subscribe(POD.storage, self._pod_changed)
        self.store.subscribe(NODE.storage, self._node_changed)
        self.store.subscribe(RESOURCE_QUOTA.storage, self._quota_changed)
        self.store.subscribe(DISRUPTION_BUDGET.storage, lambda change: self._recount_budgets_later())
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
        grown = admission.check_quotas(pod, None, self.quotas(pod["metadata"]["namespace"]))
        if dry_run:
            return pod
        self.charge_quotas(pod["metadata"]["namespace"], grown)
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
        self.record_event(POD, pod, kind, reason, message, component="kubelet", container=container)

    def record_event(
        self, of: Kind, thing: Json, kind: str, reason: str, message: str, *, component: str, container: str = ""
    ) -> None:
        metadata = thing["metadata"]
        now = self.timeline.stamp()
        about = {
            "kind": of.kind,
            "namespace": metadata.get("namespace", ""),
            "name": metadata["name"],
            "uid": metadata["uid"],
            "apiVersion": of.api_version,
            "resourceVersion": metadata.get("resourceVersion", ""),
        }
        if container:
            about["fieldPath"] = f"spec.containers{{{container}}}"
        host = (thing.get("spec") or {}).get("nodeName", "")
        self.create_object(
            EVENT,
            {
                "metadata": {
                    "name": f"{metadata['name']}.{self.dice.getrandbits(64):016x}",
                    "namespace": metadata.get("namespace") or "default",
                },
                "involvedObject": about,
                "reason": reason,
                "message": message,
                "source": {"component": component} | ({"host": host} if host else {}),
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
                "type": kind,
                "eventTime": None,
                "reportingComponent": component,
                "reportingInstance": host,
            },
        )

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
        if change.type == "DELETED":
            self.room.note(pod, gone=True)
            self._unscheduled.discard((namespace, name))
            if kubelet is not None:
                kubelet.forget(namespace, name)
            self._recount_quota_later(namespace, 0.0)
        else:
            self.room.note(pod)
            if not node:
                self._unscheduled.add((namespace, name))
                self._schedule_later()
            elif kubelet is not None:
                run = kubelet.runs.get((namespace, name))
                if run is None or run.uid != pod["metadata"]["uid"]:
                    kubelet.take(pod)
                elif (
                    change.before is None
                    or change.before.body.get("spec") != pod["spec"]
                    or (change.before.body["metadata"].get("generation") != pod["metadata"].get("generation"))
                ):
                    kubelet.changed(pod)
            if change.before is not None:
                self._recount_quota_later(namespace, self.quota_freed_after)
        if self._unscheduled and change.before is not None:
            self._schedule_later()
        self.controllers.mark_owner(pod)
        self._recount_budgets_later()

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
        self._schedule_later()

    def _definition_changed(self, change: Change) -> None:
        if change.type == "DELETED":
            self.registry.forget(change.stored.body)
        else:
            self.registry.learn(change.stored.body)

    def _schedule_later(self) -> None:
        if self._unscheduled and (self._scheduling is None or self._scheduling.act is None):
            self._scheduling = self.timeline.after(SCHEDULER_LATENCY, self._schedule)

    def _schedule(self) -> None:
        self._scheduling = None
        nodes = [stored.body for stored in self.store.all(NODE.storage)]
        waiting = []
        for key in self._unscheduled:
            stored = self.store.get(POD.storage, *key)
            if stored is not None and not stored.body["spec"].get("nodeName"):
                waiting.append(stored)
        waiting.sort(key=lambda one: (-int(one.body["spec"].get("priority") or 0), one.revision))
        for stored in waiting:
            message = self.faults.unschedulable(stored.body)
            node: str | None = None
            if message is None:
                node, message = self.room.place(stored.body, nodes)
            if node is None:
                self._say_unschedulable(stored, message)
            else:
                self._bind(stored, node)

    def _bind(self, stored: Stored, node: str) -> None:
        self._unscheduled.discard((stored.namespace, stored.name))
        body = stored.thaw()
        body["spec"]["nodeName"] = node
        body["status"]["conditions"] = [self._scheduled_condition(body, True, "", "")]
        put = self.store.put(POD.storage, body)
        message = f"Successfully assigned {stored.namespace}/{stored.name} to {node}"
        self.record_event(POD, put.body, "Normal", "Scheduled", message, component="default-scheduler")

    def _say_unschedulable(self, stored: Stored, message: str) -> None:
        body = stored.thaw()
        conditions = body["status"].get("conditions") or []
        if conditions and conditions[0].get("message") == message:
            return
        body["status"]["conditions"] = [self._scheduled_condition(body, False, "Unschedulable", message)]
        put = self.store.put(POD.storage, body)
        self.record_event(POD, put.body, "Warning", "FailedScheduling", message, component="default-scheduler")

    def _scheduled_condition(self, pod: Json, true: bool, reason: str, message: str) -> Json:
        one: Json = {"type": "PodScheduled"}
        if self.version.observed_generation:
            one["observedGeneration"] = pod["metadata"].get("generation", 1)
        one |= {"status": "True" if true else "False", "lastProbeTime": None}
        one["lastTransitionTime"] = self.timeline.stamp()
        return one | ({"reason": reason, "message": message} if reason else {})

    def _refresh_usage(self) -> None:
        for kubelet in self.kubelets.values():
            kubelet.refresh_usage()
        self.timeline.after(USAGE_EVERY, self._refresh_usage)

    # -- quota and disruption budgets

    def quotas(self, namespace: str) -> list[Json]:
        return [stored.body for stored in self.store.all(RESOURCE_QUOTA.storage, namespace)]

    def charge_quotas(self, namespace: str, grown: list[tuple[str, Totals]]) -> None:
        """Admission books what it lets in at once."""
        for name, growth in grown:
            stored = self.store.get(RESOURCE_QUOTA.storage, namespace, name)
            if stored is None:
                continue
            body = stored.thaw()
            used = read_list((body.get("status") or {}).get("used"))
            add(used, growth)
            body["status"] = {"hard": body["spec"].get("hard") or {}, "used": write_list(used)}
            self.store.put(RESOURCE_QUOTA.storage, body)

    def _quota_changed(self, change: Change) -> None:
        if change.before is None or change.before.body["spec"] != change.stored.body["spec"]:
            self._recount_quota_later(change.stored.namespace, 0.05)

    def _recount_quota_later(self, namespace: str, delay: float) -> None:
        if namespace in self._recount or not self.store.all(RESOURCE_QUOTA.storage, namespace):
            return
        self._recount[namespace] = self.timeline.after(delay, self._recount_quota, namespace)

    def _recount_quota(self, namespace: str) -> None:
        self._recount.pop(namespace, None)
        for stored in self.store.all(RESOURCE_QUOTA.storage, namespace):
            hard = read_list(stored.body["spec"].get("hard"))
            used: Totals = {name: Amount(0, amount.family) for name, amount in hard.items()}
            for pod in self.store.all(POD.storage, namespace):
                for name, amount in admission.quota_use(pod.body).items():
                    if name in used:
                        used[name] = Amount(used[name].nano + amount.nano, amount.family)
            body = stored.thaw()
            body["status"] = {"hard": body["spec"].get("hard") or {}, "used": write_list(used)}
            if body["status"] != stored.body.get("status"):
                self.store.put(RESOURCE_QUOTA.storage, body)

    def _recount_budgets_later(self) -> None:
        if self._budgets_deed is None and self.store.all(DISRUPTION_BUDGET.storage):
            self._budgets_deed = self.timeline.after(0.03, self._recount_budgets)

    def _recount_budgets(self) -> None:
        self._budgets_deed = None
        for stored in self.store.all(DISRUPTION_BUDGET.storage):
            pods = [one.body for one in self.store.all(POD.storage, stored.namespace)]
            status = budget_status(stored.body, pods, self.expected_pods, self.timeline.stamp())
            if status != stored.body.get("status"):
                body = stored.thaw()
                body["status"] = status
                self.store.put(DISRUPTION_BUDGET.storage, body)

    def expected_pods(self, pod: Mapping[str, Any]) -> tuple[str, int] | None:
        """(uid, replicas) of the pod's controller."""
        owner = controller_of(pod)
        if owner is None or owner["kind"] not in SCALABLE:
            return None
        stored = self.store.get(SCALABLE[owner["kind"]].storage, pod["metadata"]["namespace"], owner["name"])
        return None if stored is None else (stored.uid, int(stored.body["spec"].get("replicas", 1)))

    def budgets_for(self, pod: Mapping[str, Any]) -> list[Stored]:
        return budgets_of(pod, self.store.all(DISRUPTION_BUDGET.storage, pod["metadata"]["namespace"]))

    # -- nodes that fail

    def freeze_kubelet(self, node: str) -> None:
        """It stops answering; the node goes NotReady after a while."""
        self._kubelet(node).frozen = True
        self.timeline.after(NOT_READY_AFTER, self._notice_silence, node)

    def thaw_kubelet(self, node: str) -> None:
        self._kubelet(node).thaw()
        self.set_node_ready(node, True)

    def restart_kubelet(self, node: str) -> None:
        self._kubelet(node).restart()
        self.set_node_ready(node, True)

    def _notice_silence(self, node: str) -> None:
        if self._kubelet(node).frozen:
            self.set_node_ready(node, None)

    def set_node_ready(self, node: str, ready: bool | None) -> None:
        """True, False, or None for Unknown; pods of a node that isn't ready are not Ready either."""
        stored = self.store.get(NODE.storage, "", node)
        if stored is None:
            raise not_found("nodes", node)
        body = stored.thaw()
        reason = {True: "KubeletReady", False: "KubeletNotReady", None: "NodeStatusUnknown"}[ready]
        conditions = [one for one in body["status"]["conditions"] if one["type"] != "Ready"]
        body["status"]["conditions"] = [*conditions, node_condition("Ready", ready, reason, self.timeline.stamp())]
        taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
        body["spec"]["taints"] = [] if ready else [taint]
        if ready:
            body["spec"].pop("taints")
        self.store.put(NODE.storage, body)

    def _kubelet(self, node: str) -> Kubelet:
        try:
            return self.kubelets[node]
        except KeyError:
            raise ValueError(f"no node {node}; there are {', '.join(sorted(self.kubelets)) or 'none'}") from None


__all__ = ["ControlPlane", "amounts", "is_node_ready"]
