"""Nodes as objects, and the scheduler: a pod goes where its requests fit, to the node with the most room left."""

from collections.abc import Iterable, Mapping
from typing import Any

from autoscaler.emulate import amounts
from autoscaler.emulate.podspec import Totals, counted, is_over, read_list, total_of

Json = dict[str, Any]
_PREEMPTION = (
    "no new claims to deallocate, preemption: 0/{n} nodes are available: {n} Preemption is not helpful for scheduling."
)


def node_object(
    name: str, *, cpu: str, memory: str, pods: int, zone: str, labels: Mapping[str, str], git_version: str, stamp: str
) -> Json:
    """A Ready node. `cpu` and `memory` are what is allocatable."""
    capacity = {
        "cpu": amounts.write(amounts.parse(cpu)),
        "ephemeral-storage": "100Gi",
        "memory": amounts.write(amounts.parse(memory)),
        "pods": str(pods),
    }
    return {
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/zone": zone,
                **labels,
            },
        },
        "spec": {},
        "status": {
            "capacity": dict(capacity),
            "allocatable": dict(capacity),
            "conditions": [
                node_condition("MemoryPressure", False, "KubeletHasSufficientMemory", stamp),
                node_condition("DiskPressure", False, "KubeletHasNoDiskPressure", stamp),
                node_condition("PIDPressure", False, "KubeletHasSufficientPID", stamp),
                node_condition("Ready", True, "KubeletReady", stamp),
            ],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
            "nodeInfo": {
                "kubeletVersion": git_version,
                "operatingSystem": "linux",
                "architecture": "amd64",
                "containerRuntimeVersion": "emulated://1",
                "kernelVersion": "6.1.0",
                "osImage": "emulated",
                "kubeProxyVersion": git_version,
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
            },
        },
    }


def node_condition(kind: str, true: bool | None, reason: str, stamp: str) -> Json:
    status = "Unknown" if true is None else "True" if true else "False"
    one = {"type": kind, "status": status, "lastHeartbeatTime": stamp, "lastTransitionTime": stamp}
    return one | {"reason": reason, "message": f"kubelet says {reason}"}


def is_node_ready(node: Mapping[str, Any]) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])


def allocatable(node: Mapping[str, Any]) -> Totals:
    return read_list(node["status"]["allocatable"])


class Room:
    """What each node has left, kept up to date by the pods' changes."""

    def __init__(self) -> None:
        self._taken: dict[str, dict[str, int]] = {}  # node -> resource -> nano
        self._pods: dict[tuple[str, str], tuple[str, dict[str, int]]] = {}

    def note(self, pod: Mapping[str, Any], *, gone: bool = False) -> None:
        metadata = pod["metadata"]
        key = metadata.get("namespace", ""), metadata["name"]
        if (before := self._pods.pop(key, None)) is not None:
            for name, nano in before[1].items():
                self._taken[before[0]][name] -= nano
        node = pod["spec"].get("nodeName")
        if gone or not node or is_over(pod):
            return
        use = {name: amount.nano for name, amount in counted(pod).items()} | {"pods": amounts.NANO}
        taken = self._taken.setdefault(node, {})
        for name, nano in use.items():
            taken[name] = taken.get(name, 0) + nano
        self._pods[key] = node, use

    def free(self, node: Mapping[str, Any]) -> dict[str, int]:
        taken = self._taken.get(node["metadata"]["name"], {})
        return {name: amount.nano - taken.get(name, 0) for name, amount in allocatable(node).items()}

    def place(self, pod: Mapping[str, Any], nodes: Iterable[Mapping[str, Any]]) -> tuple[str | None, str]:
        """(node name, "") or (None, the scheduler's message)."""
        asked = {name: amount.nano for name, amount in total_of(pod["spec"], "requests").items()}
        asked["pods"] = amounts.NANO
        best: tuple[float, str] | None = None
        refused: dict[str, int] = {}
        count = 0
        for node in nodes:
            count += 1
            why = self._refusal(pod, node, asked)
            if why:
                for one in why:
                    refused[one] = refused.get(one, 0) + 1
                continue
            free, whole = self.free(node), allocatable(node)
            score = sum(
                (free.get(name, 0) - asked.get(name, 0)) / whole[name].nano
                for name in ("cpu", "memory")
                if name in whole
            )
            if best is None or (-score, node["metadata"]["name"]) < best:
                best = (-score, node["metadata"]["name"])
        if best is not None:
            return best[1], ""
        reasons = ", ".join(f"{refused[why]} {why}" for why in sorted(refused))
        tail = _PREEMPTION.format(n=count)
        return None, f"0/{count} nodes are available: {reasons}. {tail}"

    def _refusal(self, pod: Mapping[str, Any], node: Mapping[str, Any], asked: Mapping[str, int]) -> list[str]:
        if not is_node_ready(node):
            return ["node(s) had untolerated taint(s)"]
        if node["spec"].get("unschedulable"):
            return ["node(s) were unschedulable"]
        labels = node["metadata"].get("labels") or {}
        wanted = pod["spec"].get("nodeSelector") or {}
        if any(labels.get(key) != value for key, value in wanted.items()):
            return ["node(s) didn't match Pod's node affinity/selector"]
        free = self.free(node)
        short = [name for name, nano in asked.items() if nano > 0 and nano > free.get(name, 0)]
        return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in sorted(short)]
