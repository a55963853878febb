"""Nodes that fall silent: NotReady after a while, their pods not Ready, and after five minutes told to go."""

from collections.abc import Callable, Mapping
from typing import Any

from autoscaler.emulate.kinds import NODE, POD
from autoscaler.emulate.kubelet import Kubelet
from autoscaler.emulate.podspec import is_over
from autoscaler.emulate.scheduling import is_node_ready, node_condition
from autoscaler.emulate.status import not_found
from autoscaler.emulate.store import Store
from autoscaler.emulate.timeline import Timeline

Json = dict[str, Any]
NOT_READY_AFTER = 39.0  # recorded: a silent kubelet's node goes NotReady
EVICTED_AFTER = 300.0  # the default toleration of not-ready nodes


class NodeLifecycle:
    """Freezes, thaws and restarts kubelets. `delete_pod(namespace, name)` asks for a pod's end."""

    def __init__(
        self,
        store: Store,
        timeline: Timeline,
        kubelets: Mapping[str, Kubelet],
        delete_pod: Callable[[str, str], Any],
    ) -> None:
        self.store = store
        self.timeline = timeline
        self.kubelets = kubelets
        self._delete_pod = delete_pod

    def freeze(self, node: str) -> None:
        """It stops answering; the node goes NotReady after a while."""
        self._kubelet(node).frozen = True
        self.timeline.after(NOT_READY_AFTER, self._notice_silence, node)

    def thaw(self, node: str) -> None:
        self.set_ready(node, True)
        self._kubelet(node).thaw()

    def restart(self, node: str) -> None:
        self.set_ready(node, True)
        self._kubelet(node).restart()

    def _notice_silence(self, node: str) -> None:
        if self._kubelet(node).frozen:
            self.set_ready(node, None)

    def set_ready(self, node: str, ready: bool | None) -> None:
        """True, False, or None for Unknown; pods of a node that isn't ready are not Ready either."""
        stored = self.store.get(NODE.storage, "", node)
        if stored is None:
            raise not_found("nodes", node)
        body = stored.thaw()
        reason = {True: "KubeletReady", False: "KubeletNotReady", None: "NodeStatusUnknown"}[ready]
        conditions = [one for one in body["status"]["conditions"] if one["type"] != "Ready"]
        body["status"]["conditions"] = [*conditions, node_condition("Ready", ready, reason, self.timeline.stamp())]
        body["spec"].pop("taints", None)
        if not ready:
            body["spec"]["taints"] = [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]
        self.store.put(NODE.storage, body)
        if not ready:
            self._mark_pods(node)
            self.timeline.after(EVICTED_AFTER, self._evict_from, node)

    def _mark_pods(self, node: str) -> None:
        for stored in self.store.all(POD.storage):
            if stored.body["spec"].get("nodeName") != node or is_over(stored.body):
                continue
            body = stored.thaw()
            for one in body["status"].get("conditions") or []:
                if one["type"] == "Ready" and one["status"] == "True":
                    one["status"], one["lastTransitionTime"] = "False", self.timeline.stamp()
                    self.store.put(POD.storage, body)

    def _evict_from(self, node: str) -> None:
        stored = self.store.get(NODE.storage, "", node)
        if stored is None or is_node_ready(stored.body):
            return
        for pod in self.store.all(POD.storage):
            if pod.body["spec"].get("nodeName") == node:
                self._delete_pod(pod.namespace, pod.name)

    def _kubelet(self, node: str) -> Kubelet:
        try:
            return self.kubelets[node]
        except KeyError:
            raise ValueError(f"no node {node}; there are {', '.join(sorted(self.kubelets)) or 'none'}") from None
