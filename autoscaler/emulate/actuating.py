"""Making a granted resize real: in progress, applied, stuck on memory in use, or with a restart of the container."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from autoscaler.emulate import backoff
from autoscaler.emulate.amounts import parse
from autoscaler.emulate.machine import Machine
from autoscaler.emulate.podrun import Container, PodRun, Progress, same_size, sizes_of
from autoscaler.emulate.podspec import all_containers, is_sidecar
from autoscaler.emulate.resize import restart_policy
from autoscaler.emulate.timeline import Deed

Json = dict[str, Any]
ERROR_SHOWN_AFTER = 12.0  # a decrease that can't be applied says so only at the next full sync
LATE_STATUS = 0.5  # the size in an init container's status comes after the condition has gone
ADDED_LIMIT_SHOWS_FOR = 0.02


class Actuator:
    """Applies what is allocated to what runs. `room_appeared` is called whenever a pod may have let go of something."""

    def __init__(self, machine: Machine, room_appeared: Callable[[], None]) -> None:
        self.machine = machine
        self.room_appeared = room_appeared
        self._acting: dict[tuple[str, str], Deed] = {}

    def forget(self, key: tuple[str, str]) -> None:
        """The pod is gone."""
        if (deed := self._acting.pop(key, None)) is not None:
            deed.cancel()

    def resume(self, run: PodRun) -> None:
        """The kubelet is back: finish what was begun."""
        if run.progress is not None and run.key not in self._acting:
            self._act_later(run, 2.0)

    def begin(self, run: PodRun, pod: Json, generation: int) -> None:
        differing = [one for one in run.containers.values() if not same_size(one.actual, one.allocated) and one.id]
        if not differing:
            if run.progress is not None:
                run.progress = None
                self.event(pod, "Normal", "ResizeCompleted", "Pod resize completed")
            self.machine.write(run)
            return
        stamp = self.machine.around.timeline.stamp()
        fresh = run.progress is None or run.progress.generation != generation
        if fresh:
            self.event(pod, "Normal", "ResizeStarted", "Pod resize started")
            run.progress = Progress(generation, stamp, stamp)
            run.error_due = 0.0
        if self.machine.drop_conditions > 0:
            self.machine.drop_conditions -= 1
            run.progress = None
        self.machine.write(run)
        if not any(container.running for container in differing):
            # Nothing runs that could be resized (crash back-off): the next start takes the new size.
            for container in differing:
                container.actual = {side: dict(listed) for side, listed in container.allocated.items()}
            run.progress = None
            self.machine.write(run)
            return
        self._act_later(run, self.machine.around.version.actuate_delay)

    def _act_later(self, run: PodRun, delay: float) -> None:
        if (deed := self._acting.pop(run.key, None)) is not None:
            deed.cancel()
        self._acting[run.key] = self.machine.around.timeline.after(delay, self._actuate, run)

    def _actuate(self, run: PodRun) -> None:
        self._acting.pop(run.key, None)
        pod = self.machine.current(run)
        if pod is None or run.phase in ("Succeeded", "Failed"):
            return
        if self.machine.frozen:
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
            self.machine.write(run)
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
            self.machine.around.timeline.after(LATE_STATUS, self._show_late, run, [one.name for one in late])
        run.error_due = 0.0
        self.machine.around.process_resized(pod, run)
        self.event(pod, "Normal", "ResizeCompleted", "Pod resize completed")
        self.machine.write(run)
        self.room_appeared()

    def _show_late(self, run: PodRun, names: list[str]) -> None:
        for name in names:
            run.containers[name].actual = {side: dict(one) for side, one in run.containers[name].allocated.items()}
        self.machine.write(run)

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
        now = self.machine.around.timeline.now()
        listed = complaints[0] if len(complaints) == 1 else "[" + ", ".join(complaints) + "]"
        message = f"cannot decrease memory limits: {listed}"
        if not run.error_due:
            run.error_due = now + ERROR_SHOWN_AFTER
            self.event(pod, "Warning", "ResizeError", "Pod resize error", message)
        elif run.progress is not None:
            run.progress.reason, run.progress.message = "Error", message
            run.progress.probed = self.machine.around.timeline.stamp()
            self.machine.write(run)
        self._act_later(run, ERROR_SHOWN_AFTER)

    def _restart_for_resize(self, run: PodRun, pod: Json, containers: list[Container]) -> None:
        now = self.machine.around.timeline.now()
        wait = 0.0
        for container in containers:
            spaced = container.started_at is None or now - container.started_at >= backoff.SPACED
            container.quick_restarts = 1 if spaced else container.quick_restarts + 1
            wait = max(wait, backoff.after_quick_restart(container.quick_restarts))
            message = f"Container {container.name} resize requires restart"
            self.machine.around.event(pod, "Normal", "Killing", message, container.name)
        self.machine.around.process_stopped(pod, run, drain=False)
        if wait:
            for container in containers:
                self.machine.kill(container, 0, "Completed")
                message = f"back-off {wait:.0f}s restarting failed container={container.name} pod={run.name}"
                container.last_state, container.state = (
                    container.state,
                    {"waiting": {"reason": "CrashLoopBackOff", "message": message}},
                )
            self.machine.write(run)
        again = self.machine.around.version.restart_delay - self.machine.around.version.actuate_delay
        self.machine.around.timeline.after(
            wait + max(0.0, again), self._restarted, run, [one.name for one in containers]
        )

    def _restarted(self, run: PodRun, names: list[str]) -> None:
        pod = self.machine.current(run)
        if pod is None or run.stopping:
            return
        ready_at_once = self.machine.around.startup_seconds(pod) <= 0.05
        for name in names:
            container = run.containers[name]
            if container.running:
                self.machine.kill(container, 0, "Completed")
                container.last_state = container.state
            container.restarts += 1
            self.machine.run_container(run, pod, container)
            container.ready = ready_at_once
        self.machine.around.process_started(pod, run)
        if ready_at_once:
            self.machine.around.process_ready(pod, run)
        self._applied(run, pod)
        if not ready_at_once:
            self.machine.ready_later(run, pod)

    def event(self, pod: Json, kind: str, reason: str, title: str, error: str = "") -> None:
        shown: Json = {"containers": [], "generation": pod["metadata"].get("generation")}
        for _, _, spec in all_containers(pod["spec"]):
            shown["containers"].append({"name": spec["name"], "resources": sizes_of(spec)})
        if error:
            shown["error"] = error
        self.machine.around.event(pod, kind, reason, f"{title}: {json.dumps(shown, separators=(',', ':'))}")


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
