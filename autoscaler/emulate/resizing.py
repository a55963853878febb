"""The kubelet's side of a resize, up to the grant.

Spec changed -> (observe delay) seen -> Infeasible, Deferred or allocated with PodResizeInProgress -> (actuate delay,
`actuating.py`) applied, condition removed. Delays and texts are those recorded from 1.36; see `versions.py` for older
servers.
"""

from collections.abc import Mapping
from typing import Any

from autoscaler.emulate.actuating import Actuator
from autoscaler.emulate.admission import whole_units
from autoscaler.emulate.machine import Machine
from autoscaler.emulate.podrun import Pending, PodRun, Sizes, requested, same_size, sizes_of
from autoscaler.emulate.podspec import all_containers, read_list, total_of
from autoscaler.emulate.timeline import Deed

Json = dict[str, Any]
RETRY_DEFERRED_AFTER = 0.17  # room appeared -> Deferred pods are tried again
RETRY_DEFERRED_EVERY = 180.0
OBSERVED_AFTER_DEFERRED = 0.4  # the first Deferred of a pod shows before its observedGeneration does


class Resizer:
    """Looks at the resizes of one node's pods and grants what fits."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.actuator = Actuator(machine, self.room_appeared)
        self._waiting: dict[tuple[str, str], Deed] = {}
        self._periodic: Deed | None = None

    def forget(self, key: tuple[str, str]) -> None:
        """The pod is gone."""
        if (deed := self._waiting.pop(key, None)) is not None:
            deed.cancel()
        self.actuator.forget(key)

    def resume(self, run: PodRun) -> None:
        """The kubelet is back: look at the pod again, and finish what was begun."""
        self.plan(run, 1.5)
        self.actuator.resume(run)

    def plan(self, run: PodRun, delay: float) -> None:
        if run.key not in self._waiting:
            self._waiting[run.key] = self.machine.around.timeline.after(delay, self._sync, run)

    def _sync(self, run: PodRun) -> None:
        self._waiting.pop(run.key, None)
        pod = self.machine.current(run)
        if pod is None or self.machine.frozen or run.phase in ("Succeeded", "Failed"):
            # A pod that is over is never looked at again; a frozen kubelet looks when it is back.
            return
        now = self.machine.around.timeline.now()
        generation = int(pod["metadata"].get("generation", 1))
        if now < self.machine.blind_until:
            run.observed = generation
            self.machine.write(run)
            self.plan(run, self.machine.blind_until - now)
            return
        wanted = {spec["name"]: sizes_of(spec) for _, _, spec in all_containers(pod["spec"])}
        changed = [name for name, size in wanted.items() if not same_size(run.containers[name].allocated, size)]
        if changed and not self._grant(run, pod, wanted, generation):
            return
        run.pending = None
        run.observed = generation
        run.deferred_since = 0.0
        if changed or run.progress is not None:
            self.actuator.begin(run, pod, generation)
        else:
            self.machine.write(run)

    def _grant(self, run: PodRun, pod: Json, wanted: Mapping[str, Sizes], generation: int) -> bool:
        refusal = self._infeasible(run, pod, wanted)
        reason = "Infeasible"
        if refusal is None:
            refusal, reason = self._no_room(run, pod, wanted), "Deferred"
        if refusal is None:
            for name, size in wanted.items():
                run.containers[name].allocated = {side: dict(listed) for side, listed in size.items()}
            self.machine.allocation_changed(run)
            self.room_appeared()
            return True
        stamp = self.machine.around.timeline.stamp()
        before = run.pending
        since = before.since if before is not None and before.reason == reason else stamp
        first = before is None
        run.pending = Pending(reason, refusal, generation, since, stamp)
        kind = f"OutOf{refusal.partition(': ')[2].partition(',')[0]}" if reason == "Deferred" else "Infeasible"
        if before is None or before.generation != generation:
            self.actuator.event(pod, "Warning", f"Resize{reason}", f"Pod resize {kind}", refusal)
        if reason == "Deferred":
            run.deferred_since = run.deferred_since or self.machine.around.timeline.now()
            if first and run.observed < generation:
                # Recorded: the condition comes first, observedGeneration with the next sync.
                self.machine.write(run)
                self.machine.around.timeline.after(OBSERVED_AFTER_DEFERRED, self._observe, run, generation)
                self._retry_periodically()
                return False
            self._retry_periodically()
        run.observed = generation
        self.machine.write(run)
        return False

    def _observe(self, run: PodRun, generation: int) -> None:
        if self.machine.current(run) is not None and run.observed < generation and not self.machine.frozen:
            run.observed = generation
            self.machine.write(run)

    def _infeasible(self, run: PodRun, pod: Json, wanted: Mapping[str, Sizes]) -> str | None:
        qos = (pod.get("status") or {}).get("qosClass")
        if qos == "Guaranteed" and self.machine.static_cpu and _differs(run, wanted, "cpu"):
            return 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
        if qos == "Guaranteed" and self.machine.static_memory and _differs(run, wanted, "memory"):
            return 'Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"'
        if self.machine.swap and _differs(run, wanted, "memory", ("requests",)):
            return "Resize of containers with swap is not supported"
        if not self.machine.around.version.refuses_beyond_node:
            asked = total_of(pod["spec"], "requests")
            for name in ("cpu", "memory"):
                if name in asked and asked[name].nano > self.machine.allocatable[name].nano:
                    return (
                        f"Node didn't have enough capacity: {name}, requested: {whole_units(name, asked[name])}, "
                        f"capacity: {whole_units(name, self.machine.allocatable[name])}"
                    )
        return None

    def _no_room(self, run: PodRun, pod: Json, wanted: Mapping[str, Sizes]) -> str | None:
        asked = total_of(pod["spec"], "requests")
        for name in ("cpu", "memory"):
            if name not in asked:
                continue
            others = self.machine.allocated_by_others(run, name)
            free_for = self.machine.allocatable[name].nano - others
            if (
                asked[name].nano > free_for
                and asked[name].nano > requested(run, pod["spec"]).get(name, asked[name]).nano
            ):
                used = others // 10**6 if name == "cpu" else others // 10**9
                return (
                    f"Node didn't have enough resource: {name}, requested: {whole_units(name, asked[name])}, "
                    f"used: {used}, capacity: {whole_units(name, self.machine.allocatable[name])}"
                )
        return None

    def room_appeared(self) -> None:
        """A neighbour shrank or went: try the Deferred again, soon."""
        if any(run.pending is not None and run.pending.reason == "Deferred" for run in self.machine.runs.values()):
            self.machine.around.timeline.after(RETRY_DEFERRED_AFTER, self._retry)

    def _retry_periodically(self) -> None:
        if self._periodic is None or self._periodic.act is None:
            self._periodic = self.machine.around.timeline.after(RETRY_DEFERRED_EVERY, self._periodic_retry)

    def _periodic_retry(self) -> None:
        self._periodic = None
        self._retry()
        if any(run.pending is not None and run.pending.reason == "Deferred" for run in self.machine.runs.values()):
            self._retry_periodically()

    def _retry(self) -> None:
        """Decreases first, then by priority, Guaranteed before Burstable, longest deferred first."""
        waiting = []
        for run in self.machine.runs.values():
            pod = self.machine.current(run)
            if pod is None or run.pending is None or run.pending.reason != "Deferred":
                continue
            asked, held = total_of(pod["spec"], "requests"), requested(run, pod["spec"])
            grows = any(asked[name].nano > held[name].nano for name in asked if name in held)
            qos = 0 if (pod.get("status") or {}).get("qosClass") == "Guaranteed" else 1
            waiting.append((grows, -int(pod["spec"].get("priority") or 0), qos, run.deferred_since, run.name, run))
        for *_, run in sorted(waiting, key=lambda one: one[:5]):
            self._sync(run)


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
