"""An emulated cluster to test against, over real HTTP.

    spec = ClusterSpec(
        kubernetes="1.36",
        nodes=[NodeSpec("node-1", cpu="4", memory="16Gi")],
        workloads=[WorkloadSpec("resnet", namespace="serving", replicas=2, cpu="500m", memory="1Gi",
                                service=ServiceSpec(work=0.02), load=LoadSpec(steps=[(0, 20)]))],
    )
    async with EmulatedCluster(spec) as cluster:
        await cluster.settled()                        # all wanted pods are Ready
        cluster.url                                    # http://127.0.0.1:PORT, no token needed
        cluster.kubeconfig(tmp_path / "config")        # a file for any client; returns its path
        pod = cluster.pods("serving")[0]               # the objects as stored; don't edit them
        cluster.plane.store                            # all of them, and what changed
        cluster.audit.of("patch", "pods", "resize")    # what was asked for, by whom, with which answer
        cluster.audit.writes()                         # everything that could have changed something
        cluster.workload("resnet").load = 40.0         # requests per second, or [(0, 40), (60, 80)] steps
        cluster.workload("resnet").totals()            # offered, served, dropped; its pods serve /metrics at
                                                       # status.podIP and the prometheus.io/port annotation
        cluster.set_memory("resnet-…", 900 * 2**20)    # working set (and page cache) of a pod's container
        await cluster.server_down(); await cluster.server_up()
        cluster.faults.troubles.append(Trouble("PATCH .*/resize", code=429, retry_after=1, times=2))
        cluster.cut_watches(); cluster.faults.silent_watches = True
        cluster.plane.freeze_kubelet("node-1"); cluster.plane.thaw_kubelet("node-1")
        cluster.add_user("daemon", token="t", rules=rules_of(role))     # then kubeconfig(path, token="t")

All time is `asyncio.get_running_loop().time()`: under looptime a virtual hour passes in a moment.
"""

import asyncio
import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from autoscaler.emulate.amounts import NANO, parse
from autoscaler.emulate.api import Api
from autoscaler.emulate.audit import Audit
from autoscaler.emulate.authorize import ADMIN_TOKEN, Rule, Users
from autoscaler.emulate.controlplane import ControlPlane
from autoscaler.emulate.faults import Faults, Trouble
from autoscaler.emulate.inside import Inside
from autoscaler.emulate.kindrules import complete
from autoscaler.emulate.kinds import DEPLOYMENT, POD, REPLICA_SET, STATEFUL_SET
from autoscaler.emulate.kubelet_pages import Measurements
from autoscaler.emulate.load import Load
from autoscaler.emulate.metrics_page import render
from autoscaler.emulate.pages import HOST, PodPages
from autoscaler.emulate.podrun import PodRun
from autoscaler.emulate.podspec import is_ready
from autoscaler.emulate.server import ApiServer
from autoscaler.emulate.serving import Fleet, Process, Serving
from autoscaler.emulate.spec import ClusterSpec, LoadSpec, NodeSpec, ServiceSpec, WorkloadSpec
from autoscaler.emulate.timeline import Timeline
from autoscaler.emulate.versions import version
from autoscaler.queueing.live import PodCounters

Json = dict[str, Any]
_KINDS = {"Deployment": DEPLOYMENT, "ReplicaSet": REPLICA_SET, "StatefulSet": STATEFUL_SET}


class EmulatedCluster:
    """The whole of it; an async context manager."""

    def __init__(
        self,
        spec: ClusterSpec | None = None,
        *,
        port: int = 0,
        audit_file: Path | None = None,
        inside: Inside | None = None,
    ) -> None:
        self.spec = spec or ClusterSpec()
        self.audit = Audit(audit_file)
        self.users = Users()
        self._port = port
        self._inside = inside
        self._reset: dict[str, PodCounters] = {}
        self._server: ApiServer | None = None
        self._plane: ControlPlane | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        timeline = Timeline(loop)
        self.serving = Serving(timeline, self, startup=self.spec.startup)
        inside = self._inside or self.serving
        plane = ControlPlane(
            timeline,
            version(self.spec.kubernetes),
            inside=inside,
            seed=self.spec.seed,
            resize_validator=self.spec.resize_validator,
        )
        self._plane = plane
        self._pages = PodPages(plane.faults, self.page, shared=self.spec.shared_pages)
        self.measurements = Measurements(timeline, plane.store, self.serving, seed=self.spec.seed)
        self._api = Api(plane, self.users)
        self._api.pages = {
            "metrics/cadvisor": self.measurements.cadvisor,
            "metrics/resource": self.measurements.resource,
            "metrics.k8s.io/pods": self.measurements.pod_metrics,
            "metrics.k8s.io/nodes": self.measurements.node_metrics,
        }
        self._server = ApiServer(self._api, self.audit, port=self._port)
        for node in self.spec.nodes:
            self.add_node(node)
        for workload in self.spec.workloads:
            self.add_workload(workload)
        await self._server.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, trouble: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._server is not None:
            await self._server.stop()
        if self._plane is not None:
            self._plane.timeline.close()
            await self._pages.stop()
        self.audit.close()

    # -- what there is

    @property
    def plane(self) -> ControlPlane:
        if self._plane is None:
            raise RuntimeError("the emulated cluster is not running: use it in `async with`")
        return self._plane

    @property
    def server(self) -> ApiServer:
        if self._server is None:
            raise RuntimeError("the emulated cluster is not running: use it in `async with`")
        return self._server

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def faults(self) -> Faults:
        return self.plane.faults

    def kubeconfig(self, path: Path, *, token: str = ADMIN_TOKEN, namespace: str = "default") -> Path:
        """Write a kubeconfig; returns the path."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "emulated", "cluster": {"server": self.url}}],
            "users": [{"name": "emulated", "user": {"token": token}}],
            "contexts": [
                {"name": "emulated", "context": {"cluster": "emulated", "user": "emulated", "namespace": namespace}}
            ],
            "current-context": "emulated",
        }
        # JSON is YAML in which `n`, `on` and `123` are text to every parser.
        path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        return path

    def pods(self, namespace: str | None = None, *, workload: str | None = None) -> list[Json]:
        """Pods as stored (not to be edited), by name; `workload` is the value of their `app` label."""
        found = [stored.body for stored in self.plane.store.all(POD.storage, namespace)]
        if workload is not None:
            found = [pod for pod in found if (pod["metadata"].get("labels") or {}).get("app") == workload]
        return sorted(found, key=lambda pod: (pod["metadata"].get("namespace", ""), pod["metadata"]["name"]))

    def workload(self, name: str, namespace: str | None = None) -> "Handle":
        """One serving workload. Raises KeyError."""
        for (where, known), fleet in self.serving.fleets.items():
            if known == name and namespace in (None, where):
                return Handle(self, where, fleet)
        raise KeyError(f"no serving workload {name}")

    def object(self, kind: str, namespace: str, name: str) -> Json:
        """One Deployment, ReplicaSet or StatefulSet. Raises KeyError."""
        stored = self.plane.store.get(_KINDS[kind].storage, namespace, name)
        if stored is None:
            raise KeyError(f"{kind} {namespace}/{name}")
        return stored.body

    # -- what is added

    def add_node(self, node: NodeSpec) -> None:
        kubelet = self.plane.add_node(
            node.name, cpu=node.cpu, memory=node.memory, pods=node.pods, zone=node.zone, labels=node.labels,
            extended=node.extended,
        )  # fmt: skip
        kubelet.static_cpu = node.static_cpu

    def add_workload(self, workload: WorkloadSpec) -> None:
        self.plane.add_namespace(workload.namespace)
        if workload.service is not None:
            load = Load(workload.load.steps, ramp=workload.load.ramp, even=workload.load.even, seed=self.spec.seed)
            largest = max((parse(node.cpu).nano / NANO for node in self.spec.nodes), default=1.0)
            fleet = Fleet(workload.name, workload.service, load, begin=self.plane.timeline.now(), node_cores=largest)
            self.serving.fleets[workload.namespace, workload.name] = fleet
        kind = _KINDS[workload.kind]
        body = workload.as_object()
        body["metadata"]["generation"] = 1
        complete(kind, body)
        self.plane.create_object(kind, body)

    def add_pod(self, pod: Json) -> Json:
        """A bare pod, through the defaults and checks of creation. Raises Refused."""
        self.plane.add_namespace(pod["metadata"].setdefault("namespace", "default"))
        return self.plane.create_pod(pod)

    def add_user(self, name: str, *, token: str, rules: Iterable[Rule]) -> None:
        self.users.add(name, token, rules)

    # -- waiting

    async def until(self, true: Callable[[], bool], *, within: float = 60.0, what: str = "what was waited for") -> None:
        """Wait in loop time, looking at every change. Raises TimeoutError saying what didn't come."""
        changed = asyncio.Event()
        stops = [self.plane.store.subscribe(kind.storage, lambda _: changed.set()) for kind in (POD, *_KINDS.values())]
        try:
            async with asyncio.timeout(within):
                while not true():
                    changed.clear()
                    try:
                        async with asyncio.timeout(0.2):
                            await changed.wait()
                    except TimeoutError:
                        continue
        except TimeoutError:
            raise TimeoutError(f"{what} did not happen within {within:g} s") from None
        finally:
            for stop in stops:
                stop()

    async def settled(self, *, within: float = 60.0) -> None:
        """Until every workload has as many Ready pods as it wants and none is ending."""

        def all_there() -> bool:
            for kind in _KINDS.values():
                for stored in self.plane.store.all(kind.storage):
                    wanted = int(stored.body["spec"].get("replicas", 1))
                    if kind is not DEPLOYMENT and stored.body["metadata"].get("ownerReferences"):
                        continue
                    status = stored.body.get("status") or {}
                    if int(status.get("readyReplicas", 0)) != wanted or int(status.get("replicas", 0)) != wanted:
                        return False
            pods = [stored.body for stored in self.plane.store.all(POD.storage)]
            return all(is_ready(pod) and "deletionTimestamp" not in pod["metadata"] for pod in pods)

        await self.until(all_there, within=within, what="all wanted pods being Ready")

    # -- what goes wrong

    async def server_down(self) -> None:
        """Connections end and nothing listens on the port."""
        await self.server.stop()

    async def server_up(self) -> None:
        await self.server.start()

    def cut_watches(self) -> None:
        self.faults.cut_watches += 1
        self.server.look_at_faults()

    def silence_watches(self, silent: bool = True) -> None:
        self.faults.silent_watches = silent
        self.server.look_at_faults()

    def set_memory(self, pod: str, working_set: int, *, page_cache: int = 0, seen: bool = False) -> None:
        """Bytes in use by the pod's containers; with `seen` the kubelet's stats know it at once."""
        self.serving.set_memory(pod, working_set, page_cache)
        if seen:
            for kubelet in self.plane.kubelets.values():
                kubelet.refresh_usage()

    def oom_kill(self, namespace: str, pod: str, container: str | None = None) -> None:
        """The kernel kills a container; the kubelet starts it again after its back-off."""
        self.crash(namespace, pod, container, code=137, reason="OOMKilled")

    def crash(
        self, namespace: str, pod: str, container: str | None = None, *, code: int = 1, reason: str = "Error"
    ) -> None:
        found = self.plane.run_of(namespace, pod)
        if found is None:
            raise KeyError(f"pod {namespace}/{pod} runs nowhere")
        kubelet, run = found
        kubelet.crash(run, container or next(iter(run.containers)), code=code, reason=reason)

    # -- what serving asks for

    def announce(self, pod: Json, run: PodRun, process: Process) -> None:
        """The process listens: its address goes where a scraper looks for it."""
        port, path = self._pages.open(process)
        run.ip = HOST
        notes = {"prometheus.io/scrape": "true", "prometheus.io/port": str(port), "prometheus.io/path": path}
        self.plane.annotate_pod(process.namespace, process.name, notes)

    def withdraw(self, process: Process) -> None:
        self._pages.close(process)

    def out_of_memory(self, process: Process) -> None:
        self.crash(process.namespace, process.name, process.container, code=137, reason="OOMKilled")

    def page(self, process: Process, fault: str = "") -> str | None:
        """The text of a pod's /metrics now; None when the pod is gone."""
        found = self.plane.pod(process.namespace, process.name)
        fleet = self.serving.fleet_of(found) if found is not None else None
        if found is None or fleet is None:
            return None
        now = self.plane.timeline.now()
        fleet.advance(now)
        if fault == "reset" and process.uid not in self._reset:
            self._reset[process.uid] = dataclasses.replace(
                fleet.counters(process), latency_buckets=list(fleet.counters(process).latency_buckets)
            )
        working_set, _ = self.serving.memory_of(found, process.container)
        base = self._reset.get(process.uid)
        return render(fleet, process, now, self.plane.timeline.wall(), working_set, fault=fault, base=base)


class Handle:
    """One serving workload of a running cluster."""

    def __init__(self, cluster: EmulatedCluster, namespace: str, fleet: Fleet) -> None:
        self._cluster = cluster
        self.namespace = namespace
        self.fleet = fleet

    @property
    def name(self) -> str:
        return self.fleet.name

    @property
    def load(self) -> Load:
        return self.fleet.load

    @load.setter
    def load(self, load: Load | float | Sequence[tuple[float, float]]) -> None:
        """From now on: a Load, a constant rate, or (seconds from now, rate) steps."""
        if isinstance(load, int | float):
            load = Load([(0.0, float(load))])
        elif not isinstance(load, Load):
            load = Load(load)
        self.fleet.set_load(load, self._cluster.plane.timeline.now())

    def pods(self) -> list[Json]:
        """As stored (not to be edited)."""
        return self._cluster.pods(self.namespace, workload=self.name)

    def totals(self) -> tuple[int, int, int]:
        """(requests offered, served, dropped or shed) until now, by all pods that ever were."""
        self.fleet.advance(self._cluster.plane.timeline.now())
        dropped = self.fleet.pods.dropped
        return self.fleet.offered, self.fleet.offered - dropped - self.fleet.pods.in_flight, dropped


__all__ = [
    "ClusterSpec",
    "EmulatedCluster",
    "Load",
    "LoadSpec",
    "NodeSpec",
    "Rule",
    "ServiceSpec",
    "Trouble",
    "WorkloadSpec",
]
