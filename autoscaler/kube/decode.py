"""Pods as API servers of 1.27 and later send them → ``Pod`` values and what they occupy on their node.

10,000 pods take a fraction of a second: only what is decided on is parsed, and equal parts are shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Final

import msgspec

from autoscaler.kube.podwire import ContainerSpec, ContainerStatus, PodSpec, PodWire, State
from autoscaler.kube.wire import (
    Condition,
    Meta,
    Owner,
    Sizes,
    bytes_of,
    controller,
    milli,
    requests_of,
    resources,
    shared,
    when,
)
from autoscaler.model.workload import Container, Pod, Qos, ResizeRestart, Resources

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
OWN_PREFIX: Final = "inference-autoscaler.dev/"
_KEPT_ANNOTATIONS: Final = (OWN_PREFIX, "prometheus.io/", DELETION_COST)


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod with what the scheduler counts for it.

    ``cpu`` (millicores) and ``memory`` (bytes) are requests of max(desired, allocated, actual), Infeasible desired
    sizes left out, init containers and overhead included; 0 for a terminal pod. ``owner`` is its managing owner.
    """

    pod: Pod
    cpu: int
    memory: int
    owner: Owner | None

    @property
    def key(self) -> str:
        return self.pod.uid

    @property
    def resource_version(self) -> str:
        return self.pod.resource_version


_POD: Final = msgspec.json.Decoder(PodWire)


def decode_pod(raw: bytes | msgspec.Raw) -> PodSeen:
    """One pod. Raises ValueError (msgspec's errors are) for what is not a pod or has an unreadable quantity."""
    return pod_seen(_POD.decode(raw))


def pod_from(body: Mapping[str, object]) -> PodSeen:
    """One pod from an already decoded body, as a PATCH answers it. Raises ValueError."""
    return pod_seen(msgspec.convert(body, PodWire))


_NO_STATUS: Final = ContainerStatus()


def pod_seen(wire: PodWire) -> PodSeen:
    meta, spec, status = wire.metadata, wire.spec, wire.status
    statuses = {s.name: s for s in status.container_statuses or ()}
    sidecars = [c for c in spec.init_containers or () if c.restart_policy == "Always"]
    containers = tuple(_container(c, statuses.get(c.name, _NO_STATUS), False) for c in spec.containers or ())
    if sidecars:
        begun = {s.name: s for s in status.init_container_statuses or ()}
        containers += tuple(_container(c, begun.get(c.name, _NO_STATUS), True) for c in sidecars)
    conditions = {c.type: c for c in status.conditions or ()}
    pending, progress = _true(conditions, "PodResizePending"), _true(conditions, "PodResizeInProgress")
    scheduled, ready = conditions.get("PodScheduled"), _true(conditions, "Ready")
    owner = controller(meta)
    labels = meta.labels or {}
    annotations = meta.annotations or {}
    resized_by, resized_at = _resized_by(meta)
    pod = Pod(
        namespace=intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        containers=containers,
        node=intern(spec.node_name),
        phase=intern(status.phase or "Pending"),
        qos=_qos(status.qos_class, containers),
        ready=ready is not None,
        created_at=when(meta.creation_timestamp) or 0.0,
        scheduled_at=when(scheduled.last_transition_time) if scheduled and scheduled.status == "True" else None,
        ready_at=when(ready.last_transition_time) if ready else None,
        deleting=meta.deletion_timestamp is not None,
        resource_version=meta.resource_version,
        generation=meta.generation or 1,
        observed_generation=status.observed_generation,
        resize_pending=(pending.reason or "Unknown") if pending else "",
        resize_pending_message=(pending.message or "") if pending else "",
        resizing=progress is not None,
        resize_error=(progress.reason or "") if progress else "",
        resize_error_message=(progress.message or "") if progress else "",
        resize_dialect=status.resize or "",
        unschedulable=scheduled is not None and scheduled.status == "False" and scheduled.reason == "Unschedulable",
        template_hash=intern(labels.get("pod-template-hash") or labels.get("controller-revision-hash") or ""),
        owner_uid=intern(owner.uid) if owner else "",
        static="kubernetes.io/config.mirror" in annotations or (owner is not None and owner.kind == "Node"),
        windows=(spec.os is not None and spec.os.name == "windows")
        or (spec.node_selector or {}).get("kubernetes.io/os") == "windows",
        whole=None if spec.resources is None or (own := resources(spec.resources)) == Resources() else own,
        deletion_cost=_whole(annotations.get(DELETION_COST)),
        termination_grace_s=30.0
        if spec.termination_grace_period_seconds is None
        else float(spec.termination_grace_period_seconds),
        priority=spec.priority or 0,
        labels=shared(labels),
        annotations=shared({k: v for k, v in annotations.items() if k.startswith(_KEPT_ANNOTATIONS)}),
        ip=status.pod_ip or "",
        probes_failing=_probes_fail(statuses),
        resized_by=resized_by,
        resized_at=resized_at,
    )
    cpu, memory = (0, 0) if pod.phase in ("Succeeded", "Failed") else _occupied(spec, containers, pod)
    return PodSeen(pod, cpu, memory, owner)


def _container(spec: ContainerSpec, status: ContainerStatus, sidecar: bool) -> Container:
    state, last = status.state, status.last_state
    restart = {p.resource_name: p.restart_policy for p in spec.resize_policy or ()}
    return Container(
        name=intern(spec.name),
        desired=resources(spec.resources),
        allocated=None if status.allocated_resources is None else requests_of(status.allocated_resources),
        actual=None if status.resources is None else resources(status.resources),
        cpu_restart=_restart(restart.get("cpu")),
        memory_restart=_restart(restart.get("memory")),
        running=state is not None and state.running is not None,
        ready=status.ready,
        started_at=when(state.running.started_at) if state and state.running else None,
        restart_count=status.restart_count,
        oom_at=_oom(state) or _oom(last),
        waiting_reason=intern((state.waiting.reason or "") if state and state.waiting else ""),
        extended=_extended(spec.resources),
        sidecar=sidecar,
    )


def _restart(policy: str | None) -> ResizeRestart:
    return ResizeRestart.RESTART_CONTAINER if policy == "RestartContainer" else ResizeRestart.NOT_REQUIRED


def _oom(state: State | None) -> float | None:
    if state is None or state.terminated is None or state.terminated.reason != "OOMKilled":
        return None
    return when(state.terminated.finished_at) or 0.0


def _extended(sizes: Sizes | None) -> Mapping[str, str]:
    """Device-like resources: names with a domain. Storage and hugepages are not devices."""
    if sizes is None:
        return shared(None)
    amounts = {**(sizes.requests or {}), **(sizes.limits or {})}
    return shared({key: str(value) for key, value in amounts.items() if "/" in key})


def _true(conditions: Mapping[str, Condition], kind: str) -> Condition | None:
    found = conditions.get(kind)
    return found if found is not None and found.status == "True" else None


def _whole(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _qos(said: str | None, containers: Iterable[Container]) -> Qos:
    """The server's word; by its own rule where it sends none."""
    if said in ("Guaranteed", "Burstable", "BestEffort"):
        return Qos(said)
    sizes = [c.desired for c in containers]
    if all(s == Resources() for s in sizes):
        return Qos.BEST_EFFORT
    exact = all(
        s.cpu_limit is not None and s.memory_limit is not None
        and s.cpu_request in (None, s.cpu_limit) and s.memory_request in (None, s.memory_limit)
        for s in sizes
    )  # fmt: skip
    return Qos.GUARANTEED if exact else Qos.BURSTABLE


def _probes_fail(statuses: Mapping[str, ContainerStatus]) -> bool:
    """A container that runs and had started, but is not ready: its readiness probe fails."""
    return any(s.started and not s.ready and s.state is not None and s.state.running is not None
               for s in statuses.values())  # fmt: skip


def _resized_by(meta: Meta) -> tuple[str, float | None]:
    """Who resized last and when, by managedFields; empty when nobody did."""
    found: tuple[str, float | None] = ("", None)
    for entry in meta.managed_fields or ():
        if entry.subresource == "resize":
            at = when(entry.time)
            if not found[0] or (at or 0.0) >= (found[1] or 0.0):
                found = (intern(entry.manager), at)
    return found


def held(container: Container, infeasible: bool) -> tuple[int, int]:
    """(millicores, bytes) of requests that scheduler and quota count for one container."""
    sizes = [s for s in (container.allocated, container.actual) if s is not None]
    if not infeasible or not sizes:
        sizes.append(container.desired)
    return max(s.cpu_request or 0 for s in sizes), max(s.memory_request or 0 for s in sizes)


def _occupied(spec: PodSpec, containers: tuple[Container, ...], pod: Pod) -> tuple[int, int]:
    """Requests the scheduler counts for a live pod (``resource.PodRequests`` of component-helpers)."""
    infeasible = pod.resize_pending == "Infeasible" or pod.resize_dialect == "Infeasible"
    each = {c.name: held(c, infeasible) for c in containers}
    cpu, memory = sum(c for c, _ in each.values()), sum(m for _, m in each.values())
    if spec.init_containers:
        # An init container runs beside the sidecars started before it, while the others wait.
        beside_cpu = beside_memory = 0
        for init in spec.init_containers:
            if init.name in each:
                beside_cpu, beside_memory = beside_cpu + each[init.name][0], beside_memory + each[init.name][1]
                continue
            own = resources(init.resources)
            cpu = max(cpu, beside_cpu + (own.cpu_request or 0))
            memory = max(memory, beside_memory + (own.memory_request or 0))
    if spec.resources is not None and spec.resources.requests:  # pod-level requests stand for all containers
        whole = resources(spec.resources)
        cpu = cpu if whole.cpu_request is None else whole.cpu_request
        memory = memory if whole.memory_request is None else whole.memory_request
    if spec.overhead:
        cpu += milli(spec.overhead.get("cpu", 0))
        memory += bytes_of(spec.overhead.get("memory", 0))
    return cpu, memory


def with_wanted(seen: PodSeen, container: str, wanted: Resources) -> tuple[int, int]:
    """What the pod occupies once a resize of ``container`` to ``wanted`` that was sent is counted as well."""
    extra_cpu = extra_memory = 0
    found = seen.pod.container(container)
    if found is not None:
        cpu, memory = held(found, seen.pod.resize_pending == "Infeasible")
        extra_cpu = max(0, (wanted.cpu_request or 0) - cpu)
        extra_memory = max(0, (wanted.memory_request or 0) - memory)
    return seen.cpu + extra_cpu, seen.memory + extra_memory
