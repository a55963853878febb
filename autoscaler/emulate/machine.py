"""What a kubelet keeps of its node and does to containers, apart from when and why.

`kubelet.py` starts and ends pods with it, `resizing.py` changes their sizes.
"""

from typing import Any, Protocol

from autoscaler.emulate.podrun import Container, PodRun, requested, write_status
from autoscaler.emulate.podspec import Totals
from autoscaler.emulate.timeline import Timeline
from autoscaler.emulate.versions import Version

Json = dict[str, Any]


class Node(Protocol):
    """What the kubelet needs of the cluster around it."""

    timeline: Timeline
    version: Version

    def pod(self, namespace: str, name: str) -> Json | None: ...

    def put_status(self, pod: Json, status: Json) -> None: ...

    def pod_gone(self, namespace: str, name: str, uid: str) -> None: ...

    def event(self, pod: Json, kind: str, reason: str, message: str, container: str = "") -> None: ...

    def startup_seconds(self, pod: Json) -> float: ...

    def process_started(self, pod: Json, run: PodRun) -> None: ...

    def process_ready(self, pod: Json, run: PodRun) -> None: ...

    def process_resized(self, pod: Json, run: PodRun) -> None: ...

    def process_stopped(self, pod: Json, run: PodRun, *, drain: bool) -> float: ...

    def memory_usage(self, pod: Json, container: str) -> int: ...

    def held_by_fault(self, pod: Json) -> Json | None: ...


class Machine:
    """One node from inside. `allocatable` and what the runs hold decide what fits."""

    def __init__(self, node_name: str, around: Node, *, host_ip: str, allocatable: Totals) -> None:
        self.node_name = node_name
        self.around = around
        self.host_ip = host_ip
        self.allocatable = allocatable
        self.static_cpu = False
        self.static_memory = False
        self.swap = False
        self.frozen = False
        self.drop_conditions = 0  # fault: that many next resizes show no PodResizeInProgress
        self.blind_until = 0.0
        self.runs: dict[tuple[str, str], PodRun] = {}
        self._held: dict[str, dict[str, int]] = {}  # uid -> nano units of each resource that are allocated to it

    def allocated_by_others(self, run: PodRun | None, name: str) -> int:
        """Nano units of `name` that the node's other pods hold."""
        total = 0
        for other in self.runs.values():
            if other is run or other.phase in ("Succeeded", "Failed"):
                continue
            held = self._held.get(other.uid)
            if held is None:
                pod = self.current(other)
                if pod is None:
                    continue
                held = {key: amount.nano for key, amount in requested(other, pod["spec"]).items()}
                self._held[other.uid] = held
            total += held.get(name, 0)
        return total

    def allocation_changed(self, run: PodRun) -> None:
        """Its total is counted anew."""
        self._held.pop(run.uid, None)

    def run_container(self, run: PodRun, pod: Json, container: Container) -> None:
        now = self.around.timeline.now()
        container.actual = {side: dict(listed) for side, listed in container.allocated.items()}
        container.id = f"containerd://{run.uid.replace('-', '')}{container.restarts:032x}"
        container.started_at = now
        container.state = {"running": {"startedAt": self.around.timeline.stamp()}}
        container.ready = False
        container.usage = self.around.memory_usage(pod, container.name)

    def ready_later(self, run: PodRun, pod: Json) -> None:
        self.around.timeline.after(self.around.startup_seconds(pod), self._become_ready, run, run.uid)

    def _become_ready(self, run: PodRun, uid: str) -> None:
        pod = self.current(run)
        if pod is None or run.stopping or self.frozen:
            if pod is not None and self.frozen and not run.stopping:
                self.around.timeline.after(1.0, self._become_ready, run, uid)
            return
        if run.phase != "Running" or all(container.ready for container in run.containers.values()):
            return
        for container in run.containers.values():
            container.ready = container.ready or container.running
        if any(not container.ready for container in run.containers.values()):
            return
        self.around.process_ready(pod, run)
        self.write(run)

    def kill(self, container: Container, code: int, reason: str) -> None:
        stamp = self.around.timeline.stamp()
        began = container.state.get("running", {}).get("startedAt", stamp)
        ended = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": stamp}
        container.state = {"terminated": ended | {"containerID": container.id}}
        container.ready = False

    def current(self, run: PodRun) -> Json | None:
        pod = self.around.pod(run.namespace, run.name)
        return pod if pod is not None and pod["metadata"]["uid"] == run.uid else None

    def write(self, run: PodRun) -> None:
        pod = self.current(run)
        if pod is not None:
            now = self.around.timeline.stamp()
            self.around.put_status(pod, write_status(run, pod, self.around.version, now=now, host_ip=self.host_ip))
