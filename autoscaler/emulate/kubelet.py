"""One node's kubelet: starts pods, follows resizes, writes status.

A resize goes: spec changed -> (observe delay) seen -> Infeasible, Deferred or allocated with PodResizeInProgress ->
(actuate delay) applied, condition removed. Delays and texts are those recorded from 1.36; see `versions.py` for older
servers.
"""

import json
from collections.abc import Mapping
from typing import Any, Protocol

from autoscaler.emulate import backoff
from autoscaler.emulate.admission import whole_units
from autoscaler.emulate.amounts import parse
from autoscaler.emulate.podrun import (
    Container,
    Pending,
    PodRun,
    Progress,
    Sizes,
    adopt,
    requested,
    same_size,
    sizes_of,
    write_status,
)
from autoscaler.emulate.podspec import Totals, all_containers, is_sidecar, read_list, total_of
from autoscaler.emulate.resize import restart_policy
from autoscaler.emulate.timeline import Deed, Timeline
from autoscaler.emulate.versions import Version

Json = dict[str, Any]
BIND_TO_RUNNING = 0.15  # seconds from binding to a running container
ERROR_SHOWN_AFTER = 12.0  # a decrease that can't be applied says so only at the next full sync
RETRY_DEFERRED_AFTER = 0.17  # room appeared -> Deferred pods are tried again
RETRY_DEFERRED_EVERY = 180.0
OBSERVED_AFTER_DEFERRED = 0.4  # the first Deferred of a pod shows before its observedGeneration does
LATE_STATUS = 0.5  # the size in an init container's status comes after the condition has gone
ADDED_LIMIT_SHOWS_FOR = 0.02
KUBELET_RESTART_BLIND = 30.0  # after a kubelet restart a resize sent meanwhile is seen but not applied for this long


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


class Kubelet:
    """Owns the runs of the pods bound to its node."""

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
        self._waiting: dict[tuple[str, str], Deed] = {}
        self._acting: dict[tuple[str, str], Deed] = {}
        self._periodic: Deed | None = None

    # -- pods come and go

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
            self._plan(run, self.around.version.observe_delay)
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
            self._plan(run, self.around.version.observe_delay)

    def forget(self, namespace: str, name: str) -> None:
        """The object is gone."""
        run = self.runs.pop((namespace, name), None)
        for deeds in (self._waiting, self._acting):
            if (deed := deeds.pop((namespace, name), None)) is not None:
                deed.cancel()
        if run is not None:
            self.room_appeared()

    def _create(self, run: PodRun) -> None:
        pod = self._current(run)
        if pod is None:
            return
        run.start_stamp = run.start_stamp or self.around.timeline.stamp()
        held = self.around.held_by_fault(pod)
        run.held = held is not None
        for container in run.containers.values():
            container.state = {"waiting": held or {"reason": "ContainerCreating"}}
        self._write(run)
        if held is None:
            self.around.timeline.after(BIND_TO_RUNNING * 2 / 3, self._start, run)

    def release_held(self, run: PodRun) -> None:
        """The fault that held the pod is over."""
        if run.held:
            self._create(run)

    def _start(self, run: PodRun) -> None:
        pod = self._current(run)
        if pod is None or run.stopping:
            return
        run.phase = "Running"
        for _, _, spec in all_containers(pod["spec"]):
            container = run.containers[spec["name"]]
            container.allocated = sizes_of(spec)
            self._run_container(run, pod, container)
        for spec in pod["spec"].get("initContainers") or []:
            if not is_sidecar(spec):
                container = run.containers[spec["name"]]
                stamp = self.around.timeline.stamp()
                ended = {"exitCode": 0, "reason": "Completed", "startedAt": stamp, "finishedAt": stamp}
                container.state, container.ready = {"terminated": ended | {"containerID": container.id}}, True
        self.around.process_started(pod, run)
        for name in run.containers:
            self.around.event(pod, "Normal", "Started", "Container started", name)
        self._write(run)
        self._ready_later(run, pod)

    def end_init_containers(self, run: PodRun) -> None:
        """The init containers have done their work; the others start with what is allocated by now."""
        pod = self._current(run)
        if pod is None or run.stopping:
            return
        for spec in pod["spec"].get("initContainers") or []:
            container = run.containers[spec["name"]]
            if not is_sidecar(spec) and container.running:
                self._kill(container, 0, "Completed")
                container.ready = True
                container.actual = {side: dict(listed) for side, listed in container.allocated.items()}
        self._write(run)
        run.phase = "Running"
        for container in run.containers.values():
            if not container.running and not container.finished:
                self._run_container(run, pod, container)
        self.around.process_started(pod, run)
        self._ready_later(run, pod)

    def _run_container(self, run: PodRun, pod: Json, container: Container) -> None:
        now = self.around.timeline.now()
        container.actual = {side: dict(listed) for side, listed in container.allocated.items()}
        container.id = f"containerd://{run.uid.replace('-', '')}{container.restarts:032x}"
        container.started_at = now
        container.state = {"running": {"startedAt": self.around.timeline.stamp()}}
        container.ready = False
        container.usage = self.around.memory_usage(pod, container.name)

    def _ready_later(self, run: PodRun, pod: Json) -> None:
        self.around.timeline.after(self.around.startup_seconds(pod), self._become_ready, run, run.uid)

    def _become_ready(self, run: PodRun, uid: str) -> None:
        pod = self._current(run)
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
        self._write(run)

    def _stop(self, run: PodRun, pod: Json) -> None:
        if run.stopping or self.frozen:
            return
        run.stopping = True
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        drain = self.around.process_stopped(pod, run, drain=True)
        self.around.event(pod, "Normal", "Killing", f"Stopping container {next(iter(run.containers), '')}")
        self.around.timeline.after(min(grace, max(0.1, drain)), self._stopped, run)

    def _stopped(self, run: PodRun) -> None:
        pod = self._current(run)
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
        self._write(run)
        self.around.timeline.after(0.02, self.around.pod_gone, run.namespace, run.name, run.uid)

    def end(self, run: PodRun, phase: str) -> None:
        """The pod's containers have ended for good: Succeeded or Failed, conditions of a resize wiped."""
        pod = self._current(run)
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
        self._write(run)
        self.room_appeared()

    # -- resizes

    def _plan(self, run: PodRun, delay: float) -> None:
        if run.key not in self._waiting:
            self._waiting[run.key] = self.around.timeline.after(delay, self._sync, run)

    def _sync(self, run: PodRun) -> None:
        self._waiting.pop(run.key, None)
        pod = self._current(run)
        if pod is None or self.frozen or run.phase in ("Succeeded", "Failed"):
            # A pod that is over is never looked at again; a frozen kubelet looks when it is back.
            return
        now = self.around.timeline.now()
        generation = int(pod["metadata"].get("generation", 1))
        if now < self.blind_until:
            run.observed = generation
            self._write(run)
            self._plan(run, self.blind_until - now)
            return
        wanted = {spec["name"]: sizes_of(spec) for _, _, spec in all_containers(pod["spec"])}
        changed = [name for name, size in wanted.items() if not same_size(run.containers[name].allocated, size)]
        if changed and not self._grant(run, pod, wanted, generation):
            return
        run.pending = None
        run.observed = generation
        run.deferred_since = 0.0
        if changed or run.progress is not None:
            self._begin(run, pod, generation)
        else:
            self._write(run)

    def _grant(self, run: PodRun, pod: Json, wanted: Mapping[str, Sizes], generation: int) -> bool:
        refusal = self._infeasible(run, pod, wanted)
        reason = "Infeasible"
        if refusal is None:
            refusal, reason = self._no_room(run, pod, wanted), "Deferred"
        if refusal is None:
            for name, size in wanted.items():
                run.containers[name].allocated = {side: dict(listed) for side, listed in size.items()}
            self.room_appeared()
            return True
        stamp = self.around.timeline.stamp()
        before = run.pending
        since = before.since if before is not None and before.reason == reason else stamp
        first = before is None
        run.pending = Pending(reason, refusal, generation, since, stamp)
        kind = f"OutOf{refusal.partition(': ')[2].partition(',')[0]}" if reason == "Deferred" else "Infeasible"
        if before is None or before.generation != generation:
            self._resize_event(pod, "Warning", f"Resize{reason}", f"Pod resize {kind}", refusal)
        if reason == "Deferred":
            run.deferred_since = run.deferred_since or self.around.timeline.now()
            if first and run.observed < generation:
                # Recorded: the condition comes first, observedGeneration with the next sync.
                self._write(run)
                self.around.timeline.after(OBSERVED_AFTER_DEFERRED, self._observe, run, generation)
                self._retry_periodically()
                return False
            self._retry_periodically()
        run.observed = generation
        self._write(run)
        return False

    def _observe(self, run: PodRun, generation: int) -> None:
        if self._current(run) is not None and run.observed < generation and not self.frozen:
            run.observed = generation
            self._write(run)

    def _infeasible(self, run: PodRun, pod: Json, wanted: Mapping[str, Sizes]) -> str | None:
        qos = (pod.get("status") or {}).get("qosClass")
        if qos == "Guaranteed" and self.static_cpu and _differs(run, wanted, "cpu"):
            return 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
        if qos == "Guaranteed" and self.static_memory and _differs(run, wanted, "memory"):
            return 'Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"'
        if self.swap and _differs(run, wanted, "memory", ("requests",)):
            return "Resize of containers with swap is not supported"
        if not self.around.version.refuses_beyond_node:
            asked = total_of(pod["spec"], "requests")
            for name in ("cpu", "memory"):
                if name in asked and asked[name].nano > self.allocatable[name].nano:
                    return (
                        f"Node didn't have enough capacity: {name}, requested: {whole_units(name, asked[name])}, "
                        f"capacity: {whole_units(name, self.allocatable[name])}"
                    )
        return None

    def _no_room(self, run: PodRun, pod: Json, wanted: Mapping[str, Sizes]) -> str | None:
        asked = total_of(pod["spec"], "requests")
        for name in ("cpu", "memory"):
            if name not in asked:
                continue
            others = self.allocated_by_others(run, name)
            free_for = self.allocatable[name].nano - others
            if (
                asked[name].nano > free_for
                and asked[name].nano > requested(run, pod["spec"]).get(name, asked[name]).nano
            ):
                used = others // 10**6 if name == "cpu" else others // 10**9
                return (
                    f"Node didn't have enough resource: {name}, requested: {whole_units(name, asked[name])}, "
                    f"used: {used}, capacity: {whole_units(name, self.allocatable[name])}"
                )
        return None

    def allocated_by_others(self, run: PodRun | None, name: str) -> int:
        """Nano units of `name` that the node's other pods hold."""
        total = 0
        for other in self.runs.values():
            if other is run or other.phase in ("Succeeded", "Failed"):
                continue
            pod = self._current(other)
            if pod is not None and (amount := requested(other, pod["spec"]).get(name)) is not None:
                total += amount.nano
        return total

    def room_appeared(self) -> None:
        """A neighbour shrank or went: try the Deferred again, soon."""
        if any(run.pending is not None and run.pending.reason == "Deferred" for run in self.runs.values()):
            self.around.timeline.after(RETRY_DEFERRED_AFTER, self._retry)

    def _retry_periodically(self) -> None:
        if self._periodic is None or self._periodic.act is None:
            self._periodic = self.around.timeline.after(RETRY_DEFERRED_EVERY, self._periodic_retry)

    def _periodic_retry(self) -> None:
        self._periodic = None
        self._retry()
        if any(run.pending is not None and run.pending.reason == "Deferred" for run in self.runs.values()):
            self._retry_periodically()

    def _retry(self) -> None:
        """Decreases first, then by priority, Guaranteed before Burstable, longest deferred first."""
        waiting = []
        for run in self.runs.values():
            pod = self._current(run)
            if pod is None or run.pending is None or run.pending.reason != "Deferred":
                continue
            asked, held = total_of(pod["spec"], "requests"), requested(run, pod["spec"])
            grows = any(asked[name].nano > held[name].nano for name in asked if name in held)
            qos = 0 if (pod.get("status") or {}).get("qosClass") == "Guaranteed" else 1
            waiting.append((grows, -int(pod["spec"].get("priority") or 0), qos, run.deferred_since, run.name, run))
        for *_, run in sorted(waiting, key=lambda one: one[:5]):
            self._sync(run)

    def _begin(self, run: PodRun, pod: Json, generation: int) -> None:
        differing = [one for one in run.containers.values() if not same_size(one.actual, one.allocated) and one.id]
        if not differing:
            if run.progress is not None:
                run.progress = None
                self._resize_event(pod, "Normal", "ResizeCompleted", "Pod resize completed")
            self._write(run)
            return
        stamp = self.around.timeline.stamp()
        fresh = run.progress is None or run.progress.generation != generation
        if fresh:
            self._resize_event(pod, "Normal", "ResizeStarted", "Pod resize started")
            run.progress = Progress(generation, stamp, stamp)
            run.error_due = 0.0
        if self.drop_conditions > 0:
            self.drop_conditions -= 1
            run.progress = None
        self._write(run)
        if not any(container.running for container in differing):
            # Nothing runs that could be resized (crash back-off): the next start takes the new size.
            for container in differing:
                container.actual = {side: dict(listed) for side, listed in container.allocated.items()}
            run.progress = None
            self._write(run)
            return
        self._act_later(run, self.around.version.actuate_delay)

    def _act_later(self, run: PodRun, delay: float) -> None:
        if (deed := self._acting.pop(run.key, None)) is not None:
            deed.cancel()
        self._acting[run.key] = self.around.timeline.after(delay, self._actuate, run)

    def _actuate(self, run: PodRun) -> None:
        self._acting.pop(run.key, None)
        pod = self._current(run)
        if pod is None or run.phase in ("Succeeded", "Failed"):
            return
        if self.frozen:
            return
        specs = {spec["name"]: spec for _, _, spec in all_containers(pod["spec"])}
        blocked = self._below_usage(run, pod, specs)
        if blocked:
            self._stuck(run, pod, blocked)
            return
        restart = [
            container
            for container in run.containers.values()
            if container.running and _must_restart(container, specs[container.name])
        ]
        if restart:
            self._restart_for_resize(run, pod, restart)
            return
        self._applied(run, pod)

    def _applied(self, run: PodRun, pod: Json) -> None:
        if run.progress is not None and any(_gains_limit(container) for container in run.containers.values()):
            # Recorded on cgroup v2: a limit where there was none shows before the condition goes.
            for container in run.containers.values():
                container.actual = {side: dict(listed) for side, listed in container.allocated.items()}
            self._write(run)
            self._act_later(run, ADDED_LIMIT_SHOWS_FOR)
            return
        at_start = {one["name"] for one in pod["spec"].get("initContainers") or [] if not is_sidecar(one)}
        late = [one for one in run.containers.values() if one.name in at_start and one.running]
        for container in run.containers.values():
            if container not in late:
                container.actual = {side: dict(listed) for side, listed in container.allocated.items()}
        run.progress = None
        if late:
            # Recorded: the condition goes before a running init container's status shows the new size.
            self.around.timeline.after(LATE_STATUS, self._show_late, run, [one.name for one in late])
        run.error_due = 0.0
        self.around.process_resized(pod, run)
        self._resize_event(pod, "Normal", "ResizeCompleted", "Pod resize completed")
        self._write(run)
        self.room_appeared()

    def _show_late(self, run: PodRun, names: list[str]) -> None:
        for name in names:
            run.containers[name].actual = {side: dict(one) for side, one in run.containers[name].allocated.items()}
        self._write(run)

    def _below_usage(self, run: PodRun, pod: Json, specs: Mapping[str, Json]) -> list[str]:
        found = []
        total = 0
        for container in run.containers.values():
            total += container.usage
        for container in run.containers.values():
            before, after = (size.get("limits", {}).get("memory") for size in (container.actual, container.allocated))
            if before is None or after is None or not container.running:
                continue
            wanted = parse(after).whole
            if wanted >= parse(before).whole or restart_policy(specs[container.name], "memory") == "RestartContainer":
                continue
            if container.usage >= wanted:
                found.append(
                    f'attempting to set container "{container.name}" memory limit ({wanted}) '
                    f"below current usage ({container.usage})"
                )
        if not found:
            return []
        limits = [container.allocated.get("limits", {}).get("memory") for container in run.containers.values()]
        if all(limit is not None for limit in limits):
            pod_limit = sum(parse(limit).whole for limit in limits)
            if total >= pod_limit:
                found.insert(0, f"attempting to set pod memory limit ({pod_limit}) below current usage ({total})")
        return found

    def _stuck(self, run: PodRun, pod: Json, complaints: list[str]) -> None:
        now = self.around.timeline.now()
        listed = complaints[0] if len(complaints) == 1 else "[" + ", ".join(complaints) + "]"
        message = f"cannot decrease memory limits: {listed}"
        if not run.error_due:
            run.error_due = now + ERROR_SHOWN_AFTER
            self._resize_event(pod, "Warning", "ResizeError", "Pod resize error", message)
        elif run.progress is not None:
            run.progress.reason, run.progress.message = "Error", message
            run.progress.probed = self.around.timeline.stamp()
            self._write(run)
        self._act_later(run, ERROR_SHOWN_AFTER)

    def _restart_for_resize(self, run: PodRun, pod: Json, containers: list[Container]) -> None:
        now = self.around.timeline.now()
        wait = 0.0
        for container in containers:
            spaced = container.started_at is None or now - container.started_at >= backoff.SPACED
            container.quick_restarts = 1 if spaced else container.quick_restarts + 1
            wait = max(wait, backoff.after_quick_restart(container.quick_restarts))
            message = f"Container {container.name} resize requires restart"
            self.around.event(pod, "Normal", "Killing", message, container.name)
        self.around.process_stopped(pod, run, drain=False)
        if wait:
            for container in containers:
                self._kill(container, 0, "Completed")
                message = f"back-off {wait:.0f}s restarting failed container={container.name} pod={run.name}"
                container.last_state, container.state = (
                    container.state,
                    {"waiting": {"reason": "CrashLoopBackOff", "message": message}},
                )
            self._write(run)
        again = self.around.version.restart_delay - self.around.version.actuate_delay
        self.around.timeline.after(wait + max(0.0, again), self._restarted, run, [one.name for one in containers])

    def _restarted(self, run: PodRun, names: list[str]) -> None:
        pod = self._current(run)
        if pod is None or run.stopping:
            return
        ready_at_once = self.around.startup_seconds(pod) <= 0.05
        for name in names:
            container = run.containers[name]
            if container.running:
                self._kill(container, 0, "Completed")
                container.last_state = container.state
            container.restarts += 1
            self._run_container(run, pod, container)
            container.ready = ready_at_once
        self.around.process_started(pod, run)
        if ready_at_once:
            self.around.process_ready(pod, run)
        self._applied(run, pod)
        if not ready_at_once:
            self._ready_later(run, pod)

    def _kill(self, container: Container, code: int, reason: str) -> None:
        stamp = self.around.timeline.stamp()
        began = container.state.get("running", {}).get("startedAt", stamp)
        ended = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": stamp}
        container.state = {"terminated": ended | {"containerID": container.id}}
        container.ready = False

    def crash(self, run: PodRun, name: str, *, code: int = 1, reason: str = "Error") -> None:
        """The container dies (OOMKilled: code 137) and is started again after its back-off."""
        pod = self._current(run)
        container = run.containers[name]
        if pod is None or not container.running:
            return
        now = self.around.timeline.now()
        if container.started_at is not None and now - container.started_at > backoff.FORGOTTEN_AFTER:
            container.crashes = 0
        container.crashes += 1
        self._kill(container, code, reason)
        self.around.process_stopped(pod, run, drain=False)
        wait = backoff.after_crash(container.crashes)
        if wait:
            message = (
                f"back-off {wait:.0f}s restarting failed container={name} pod={run.name}_{run.namespace}({run.uid})"
            )
            container.last_state = container.state
            container.state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
            self.around.event(pod, "Warning", "BackOff", f"Back-off restarting failed container {name}", name)
        self._write(run)
        self.around.timeline.after(wait + 0.2, self._start_again, run, name)

    def _start_again(self, run: PodRun, name: str) -> None:
        pod = self._current(run)
        container = run.containers[name]
        if pod is None or run.stopping or container.running or self.frozen:
            return
        if container.finished:
            container.last_state = container.state
        container.restarts += 1
        # The kubelet starts it with what is allocated, also after a resize that was never applied.
        self._run_container(run, pod, container)
        self.around.process_started(pod, run)
        self._write(run)
        self._ready_later(run, pod)

    # -- the kubelet itself

    def refresh_usage(self) -> None:
        """The stats provider has looked again."""
        for run in self.runs.values():
            pod = self._current(run)
            if pod is not None:
                for container in run.containers.values():
                    if container.running:
                        container.usage = self.around.memory_usage(pod, container.name)

    def thaw(self) -> None:
        """Back after `frozen`: everything that changed meanwhile is looked at within two seconds."""
        self.frozen = False
        for run in list(self.runs.values()):
            pod = self._current(run)
            if pod is None:
                continue
            if "deletionTimestamp" in pod["metadata"]:
                self._stop(run, pod)
            self._plan(run, 1.5)
            if run.progress is not None and run.key not in self._acting:
                self._act_later(run, 2.0)

    def restart(self) -> None:
        """A resize sent while it was away stays observed, unconditioned and unapplied for half a minute."""
        self.blind_until = self.around.timeline.now() + KUBELET_RESTART_BLIND
        self.thaw()

    def _current(self, run: PodRun) -> Json | None:
        pod = self.around.pod(run.namespace, run.name)
        return pod if pod is not None and pod["metadata"]["uid"] == run.uid else None

    def _write(self, run: PodRun) -> None:
        pod = self._current(run)
        if pod is not None:
            now = self.around.timeline.stamp()
            self.around.put_status(pod, write_status(run, pod, self.around.version, now=now, host_ip=self.host_ip))

    def _resize_event(self, pod: Json, kind: str, reason: str, title: str, error: str = "") -> None:
        shown: Json = {"containers": [], "generation": pod["metadata"].get("generation")}
        for _, _, spec in all_containers(pod["spec"]):
            shown["containers"].append({"name": spec["name"], "resources": sizes_of(spec)})
        if error:
            shown["error"] = error
        self.around.event(pod, kind, reason, f"{title}: {json.dumps(shown, separators=(',', ':'))}")


def _differs(
    run: PodRun, wanted: Mapping[str, Sizes], resource: str, sides: tuple[str, ...] = ("requests", "limits")
) -> bool:
    for name, size in wanted.items():
        for side in sides:
            before = read_list(run.containers[name].allocated.get(side)).get(resource)
            after = read_list(size.get(side)).get(resource)
            if (before.nano if before else None) != (after.nano if after else None):
                return True
    return False


def _gains_limit(container: Container) -> bool:
    before, after = (size.get("limits", {}) for size in (container.actual, container.allocated))
    return container.running and bool(after.keys() - before.keys())


def _must_restart(container: Container, spec: Mapping[str, Any]) -> bool:
    for resource in ("cpu", "memory"):
        if restart_policy(spec, resource) != "RestartContainer":
            continue
        for side in ("requests", "limits"):
            before, after = (size.get(side, {}).get(resource) for size in (container.actual, container.allocated))
            if before != after:
                return True
    return False
