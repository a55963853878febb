"""One node's kubelet: starts pods, ends them, starts containers again; its Resizer follows the resizes."""

from typing import Any

from autoscaler.emulate import backoff
from autoscaler.emulate.machine import Machine, Node
from autoscaler.emulate.podrun import PodRun, adopt, sizes_of
from autoscaler.emulate.podspec import Totals, all_containers, is_sidecar
from autoscaler.emulate.resizing import Resizer

Json = dict[str, Any]
BIND_TO_RUNNING = 0.15  # seconds from binding to a running container
KUBELET_RESTART_BLIND = 30.0  # after a kubelet restart a resize sent meanwhile is seen but not applied for this long


class Kubelet(Machine):
    """Owns the runs of the pods bound to its node."""

    def __init__(self, node_name: str, around: Node, *, host_ip: str, allocatable: Totals) -> None:
        super().__init__(node_name, around, host_ip=host_ip, allocatable=allocatable)
        self.resizes = Resizer(self)

    def room_appeared(self) -> None:
        """A neighbour shrank or went, or the node grew: try the Deferred again, soon."""
        self.resizes.room_appeared()

    def take(self, pod: Json) -> None:
        """A pod is bound here (or planted with a status of its own)."""
        run = adopt(pod)
        self.runs[run.key] = run
        if any(container.id for container in run.containers.values()):
            now = self.around.timeline.now()
            for container in run.containers.values():
                if container.running:
                    container.started_at = now
                    container.usage = self.around.memory_usage(pod, container.name)
            self.resizes.plan(run, self.around.version.observe_delay)
            if "deletionTimestamp" in pod["metadata"]:
                self._stop(run, pod)
            return
        run.observed = int(pod["metadata"].get("generation", 1))
        self.around.timeline.after(BIND_TO_RUNNING / 3, self._create, run)

    def changed(self, pod: Json) -> None:
        run = self.runs.get((pod["metadata"].get("namespace", ""), pod["metadata"]["name"]))
        if run is None or run.uid != pod["metadata"]["uid"]:
            return
        if "deletionTimestamp" in pod["metadata"]:
            self._stop(run, pod)
        if run.observed != pod["metadata"].get("generation"):
            self.resizes.plan(run, self.around.version.observe_delay)

    def forget(self, namespace: str, name: str) -> None:
        """The object is gone."""
        run = self.runs.pop((namespace, name), None)
        self.resizes.forget((namespace, name))
        if run is not None:
            self.allocation_changed(run)
            self.room_appeared()

    def _create(self, run: PodRun) -> None:
        pod = self.current(run)
        if pod is None:
            return
        run.start_stamp = run.start_stamp or self.around.timeline.stamp()
        held = self.around.held_by_fault(pod)
        run.held = held is not None
        for container in run.containers.values():
            container.state = {"waiting": held or {"reason": "ContainerCreating"}}
        self.write(run)
        if held is None:
            self.around.timeline.after(BIND_TO_RUNNING * 2 / 3, self._start, run)

    def release_held(self, run: PodRun) -> None:
        """The fault that held the pod is over."""
        if run.held:
            self._create(run)

    def _start(self, run: PodRun) -> None:
        pod = self.current(run)
        if pod is None or run.stopping:
            return
        run.phase = "Running"
        for _, _, spec in all_containers(pod["spec"]):
            container = run.containers[spec["name"]]
            container.allocated = sizes_of(spec)
            self.allocation_changed(run)
            self.run_container(run, pod, container)
        for spec in pod["spec"].get("initContainers") or []:
            if not is_sidecar(spec):
                container = run.containers[spec["name"]]
                stamp = self.around.timeline.stamp()
                ended = {"exitCode": 0, "reason": "Completed", "startedAt": stamp, "finishedAt": stamp}
                container.state, container.ready = {"terminated": ended | {"containerID": container.id}}, True
        self.around.process_started(pod, run)
        for name in run.containers:
            self.around.event(pod, "Normal", "Started", "Container started", name)
        self.write(run)
        self.ready_later(run, pod)

    def end_init_containers(self, run: PodRun) -> None:
        """The init containers have done their work; the others start with what is allocated by now."""
        pod = self.current(run)
        if pod is None or run.stopping:
            return
        for spec in pod["spec"].get("initContainers") or []:
            container = run.containers[spec["name"]]
            if not is_sidecar(spec) and container.running:
                self.kill(container, 0, "Completed")
                container.ready = True
                container.actual = {side: dict(listed) for side, listed in container.allocated.items()}
        self.write(run)
        run.phase = "Running"
        for container in run.containers.values():
            if not container.running and not container.finished:
                self.run_container(run, pod, container)
        self.around.process_started(pod, run)
        self.ready_later(run, pod)

    def _stop(self, run: PodRun, pod: Json) -> None:
        if run.stopping or self.frozen:
            return
        run.stopping = True
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        drain = self.around.process_stopped(pod, run, drain=True)
        self.around.event(pod, "Normal", "Killing", f"Stopping container {next(iter(run.containers), '')}")
        self.around.timeline.after(min(grace, max(0.1, drain)), self._stopped, run)

    def _stopped(self, run: PodRun) -> None:
        pod = self.current(run)
        if pod is None:
            return
        stamp = self.around.timeline.stamp()
        for container in run.containers.values():
            if container.running:
                ended = {"exitCode": 0, "reason": "Completed", "startedAt": container.state["running"]["startedAt"]}
                container.state = {"terminated": ended | {"finishedAt": stamp, "containerID": container.id}}
            container.ready = False
        run.phase = "Succeeded"
        run.pending = run.progress = None
        run.observed = int(pod["metadata"].get("generation", run.observed))
        self.write(run)
        self.around.timeline.after(0.02, self.around.pod_gone, run.namespace, run.name, run.uid)

    def end(self, run: PodRun, phase: str) -> None:
        """The pod's containers have ended for good: Succeeded or Failed, conditions of a resize wiped."""
        pod = self.current(run)
        if pod is None:
            return
        self.around.process_stopped(pod, run, drain=False)
        code, reason = (0, "Completed") if phase == "Succeeded" else (1, "Error")
        stamp = self.around.timeline.stamp()
        for container in run.containers.values():
            began = container.state.get("running", {}).get("startedAt", stamp)
            ended = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": stamp}
            container.state, container.ready = {"terminated": ended | {"containerID": container.id}}, False
        run.phase, run.pending, run.progress = phase, None, None
        self.write(run)
        self.room_appeared()

    def crash(self, run: PodRun, name: str, *, code: int = 1, reason: str = "Error") -> None:
        """The container dies (OOMKilled: code 137) and is started again after its back-off."""
        pod = self.current(run)
        container = run.containers[name]
        if pod is None or not container.running:
            return
        now = self.around.timeline.now()
        if container.started_at is not None and now - container.started_at > backoff.FORGOTTEN_AFTER:
            container.crashes = 0
        container.crashes += 1
        self.kill(container, code, reason)
        self.around.process_stopped(pod, run, drain=False)
        wait = backoff.after_crash(container.crashes)
        if wait:
            message = (
                f"back-off {wait:.0f}s restarting failed container={name} pod={run.name}_{run.namespace}({run.uid})"
            )
            container.last_state = container.state
            container.state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
            self.around.event(pod, "Warning", "BackOff", f"Back-off restarting failed container {name}", name)
        self.write(run)
        self.around.timeline.after(wait + 0.2, self._start_again, run, name)

    def _start_again(self, run: PodRun, name: str) -> None:
        pod = self.current(run)
        container = run.containers[name]
        if pod is None or run.stopping or container.running or self.frozen:
            return
        if container.finished:
            container.last_state = container.state
        container.restarts += 1
        # The kubelet starts it with what is allocated, also after a resize that was never applied.
        self.run_container(run, pod, container)
        self.around.process_started(pod, run)
        self.write(run)
        self.ready_later(run, pod)

    def refresh_usage(self) -> None:
        """The stats provider has looked again."""
        for run in self.runs.values():
            pod = self.current(run)
            if pod is not None:
                for container in run.containers.values():
                    if container.running:
                        container.usage = self.around.memory_usage(pod, container.name)

    def thaw(self) -> None:
        """Back after `frozen`: everything that changed meanwhile is looked at within two seconds."""
        self.frozen = False
        for run in list(self.runs.values()):
            pod = self.current(run)
            if pod is None:
                continue
            if "deletionTimestamp" in pod["metadata"]:
                self._stop(run, pod)
            self.resizes.resume(run)

    def restart(self) -> None:
        """A resize sent while it was away stays observed, unconditioned and unapplied for half a minute."""
        self.blind_until = self.around.timeline.now() + KUBELET_RESTART_BLIND
        self.thaw()
