"""What an emulated cluster is made of, as a value and as a YAML file.

kubernetes: "1.36"
nodes:
  - {name: node-1, cpu: "4", memory: 16Gi, zone: zone-a}
workloads:
  - name: resnet
    namespace: serving
    replicas: 2
    cpu: 500m                      # requests and limits, unless given apart:
    memory: 1Gi                    # cpuLimit, memoryLimit
"""

from pathlib import Path
from typing import Any

import msgspec
import yaml

from autoscaler.emulate import amounts, versions
from autoscaler.emulate.podspec import is_label

Json = dict[str, Any]


class NodeSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One node; `cpu` and `memory` are allocatable."""

    name: str
    cpu: str = "8"
    memory: str = "32Gi"
    pods: int = 110
    zone: str = "zone-a"
    labels: dict[str, str] = {}
    extended: dict[str, str] = {}
    static_cpu: bool = False


class WorkloadSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One Deployment or StatefulSet of serving pods. `cpu` and `memory` are the requests; no `cpu_limit`: the same."""

    name: str
    namespace: str = "default"
    kind: str = "Deployment"
    replicas: int = 1
    container: str = "server"
    image: str = "example.com/server:1"
    cpu: str = "500m"
    memory: str = "512Mi"
    cpu_limit: str | None = None
    memory_limit: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    resize_policy: dict[str, str] = {}
    grace: int = 30
    pod: Json = {}  # further fields of the pod's spec
    sidecars: list[Json] = []  # further containers

    def as_object(self) -> Json:
        """The object without kind and apiVersion."""
        labels = {"app": self.name, **self.labels}
        container: Json = {
            "name": self.container,
            "image": self.image,
            "resources": {
                "requests": {"cpu": self.cpu, "memory": self.memory},
                "limits": {"cpu": self.cpu_limit or self.cpu, "memory": self.memory_limit or self.memory},
            },
        }
        for side in ("cpu", "memory"):
            if getattr(self, f"{side}_limit") == "":
                del container["resources"]["limits"][side]
        if self.resize_policy:
            container["resizePolicy"] = [
                {"resourceName": name, "restartPolicy": policy} for name, policy in self.resize_policy.items()
            ]
        metadata: Json = {"labels": labels}
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        pod: Json = {"containers": [container, *self.sidecars], "terminationGracePeriodSeconds": self.grace, **self.pod}
        return {
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": labels},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": {"app": self.name}},
                "template": {"metadata": metadata, "spec": pod},
            },
        }


class ClusterSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """All of it. `startup`: seconds from running to Ready of pods without a service model."""

    kubernetes: str = versions.DEFAULT
    nodes: list[NodeSpec] = msgspec.field(default_factory=lambda: [NodeSpec("node-1")])
    workloads: list[WorkloadSpec] = []
    startup: float = 0.2
    seed: int = 1


class BadSpec(ValueError):
    """A spec that can't be played; the message names the place and the remedy."""


def load(path: Path) -> ClusterSpec:
    """Raises BadSpec."""
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as trouble:
        raise BadSpec(f"{path}: {trouble.strerror}") from None
    except yaml.YAMLError as trouble:
        raise BadSpec(f"{path}: no YAML: {str(trouble).splitlines()[0]}") from None
    try:
        spec = msgspec.convert(raw or {}, ClusterSpec)
        check(spec)
    except (msgspec.ValidationError, ValueError) as trouble:
        raise BadSpec(f"{path}: {trouble}") from None
    return spec


def check(spec: ClusterSpec) -> None:
    """Raises ValueError naming the field."""
    versions.version(spec.kubernetes)
    for index, node in enumerate(spec.nodes):
        _quantity(f"nodes[{index}].cpu", node.cpu)
        _quantity(f"nodes[{index}].memory", node.memory)
    for index, workload in enumerate(spec.workloads):
        at = f"workloads[{index}]"
        if not is_label(workload.name):
            raise ValueError(f"{at}.name: {workload.name!r} is no name (lower case letters, digits, -)")
        if workload.kind not in ("Deployment", "StatefulSet", "ReplicaSet"):
            raise ValueError(f"{at}.kind: {workload.kind!r} (Deployment, StatefulSet or ReplicaSet)")
        if workload.replicas < 0:
            raise ValueError(f"{at}.replicas: {workload.replicas} is negative")
        for field in ("cpu", "memory", "cpu_limit", "memory_limit"):
            if value := getattr(workload, field):
                _quantity(f"{at}.{field}", value)


def _quantity(where: str, value: str) -> None:
    try:
        amounts.parse(value)
    except amounts.NotAQuantity:
        raise ValueError(f"{where}: {value!r} is not a quantity (500m, 2, 1Gi)") from None
