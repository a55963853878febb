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
from autoscaler.queueing.state import BALANCING

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


class ServiceSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What one pod of a workload does with a request. Seconds, CPU-seconds, cores, bytes."""

    work: float = 0.020  # CPU-seconds of a request
    work_variation: float = 0.0  # coefficient of variation (lognormal); 0: all alike
    wait: float = 0.0  # seconds off the CPU after the work
    threads: int = 8  # requests worked on at the same time
    parallelism: float = 1.0  # cores one request can use
    balance: str = "round-robin"  # shared, round-robin, random, least-outstanding
    queue_limit: int = 1000  # waiting requests of a pod; more are answered 503
    batch: int = 1
    batch_cpu: float = 0.0
    batch_wait: float = 0.0
    buckets: tuple[float, ...] = ()  # bounds of the latency histogram; empty: the usual ones
    failures: float = 0.0  # share of the answers that are 500
    idle_cores: float = 0.0  # burnt all the time
    startup: float = 0.2  # seconds from running to Ready …
    startup_cpu: float = 0.0  # … plus this work at the size the pod has,
    startup_cores: float = 4.0  # of which it can use that many cores
    memory: int = 0  # working set without requests; 0: two fifths of the limit, or 200 MiB without one
    memory_per_request: int = 0
    page_cache: int = 0
    leak: float = 0.0  # bytes per second
    container: str = ""  # the one that serves; empty: the first


class LoadSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Requests per second: [seconds since the start, rate] steps."""

    steps: list[tuple[float, float]] = []
    ramp: bool = False
    even: bool = False


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
    service: ServiceSpec | None = None  # what the pods do with requests; without it they idle
    load: LoadSpec = LoadSpec()

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
    resize_validator: bool = True  # 1.36: the admission plugin that answers 403 NodeCapacity; without it Deferred
    shared_pages: bool = False  # one port for all pods' /metrics, told apart by path, instead of one each

    def playing(self, kubernetes: str) -> "ClusterSpec":
        """The same cluster under another version."""
        return msgspec.structs.replace(self, kubernetes=kubernetes)


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
        if workload.service is not None:
            _service(f"{at}.service", workload.service)
        for field in ("cpu", "memory", "cpu_limit", "memory_limit"):
            if value := getattr(workload, field):
                _quantity(f"{at}.{field}", value)


def _service(at: str, service: ServiceSpec) -> None:
    if service.work <= 0:
        raise ValueError(f"{at}.work: {service.work:g} CPU-seconds; a request needs some")
    if service.threads < 1:
        raise ValueError(f"{at}.threads: {service.threads}; at least 1")
    if service.balance not in BALANCING:
        raise ValueError(f"{at}.balance: {service.balance!r} ({', '.join(BALANCING)})")
    if not 0 <= service.failures <= 1:
        raise ValueError(f"{at}.failures: {service.failures:g} is no share of 1")


def _quantity(where: str, value: str) -> None:
    try:
        amounts.parse(value)
    except amounts.NotAQuantity:
        raise ValueError(f"{where}: {value!r} is not a quantity (500m, 2, 1Gi)") from None
