"""What a kubelet knows of one pod, and the status it writes from that."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autoscaler.emulate import amounts
from autoscaler.emulate.podspec import Totals, all_containers, is_sidecar, read_list, total_of, write_list
from autoscaler.emulate.versions import Version

Json = dict[str, Any]
Sizes = dict[str, dict[str, str]]  # {"requests": {...}, "limits": {...}}


def sizes_of(container: Mapping[str, Any]) -> Sizes:
    """A container's resources with only the sides that are there."""
    resources = container.get("resources") or {}
    return {side: dict(resources[side]) for side in ("limits", "requests") if resources.get(side)}


def same_size(one: Sizes, other: Sizes) -> bool:
    """By value, over both sides."""
    for side in ("limits", "requests"):
        mine, theirs = one.get(side) or {}, other.get(side) or {}
        if mine.keys() != theirs.keys():
            return False
        if any(mine[key] != theirs[key] and amounts.parse(mine[key]) != amounts.parse(theirs[key]) for key in mine):
            return False
    return True


@dataclass(slots=True)
class Container:
    """One container as it runs. Times: `started_at` in loop seconds, stamps as written."""

    name: str
    allocated: Sizes
    actual: Sizes = field(default_factory=dict)
    state: Json = field(default_factory=lambda: {"waiting": {"reason": "ContainerCreating"}})
    last_state: Json = field(default_factory=dict)
    id: str = ""
    restarts: int = 0
    started_at: float | None = None
    ready: bool = False
    quick_restarts: int = 0  # restarts by a resize in close succession
    crashes: int = 0  # of the current series, for the back-off
    usage: int = 0  # memory bytes in use, page cache included, when last looked at by the stats provider

    @property
    def running(self) -> bool:
        return "running" in self.state

    @property
    def finished(self) -> bool:
        return "terminated" in self.state


_LEAST_CPU = {"requests": "2m", "limits": "10m"}  # what a cgroup can hold: two shares, one millisecond of quota


def shown_size(container: Container) -> Sizes:
    """What the status reports as actual: read back from the cgroup, which knows no CPU below a least amount.

    Where the allocated amount would be enforced the same it is shown instead, so at rest `1m` stays `1m`.
    """
    shown: Sizes = {side: dict(listed) for side, listed in container.actual.items()}
    for side, least in _LEAST_CPU.items():
        actual = container.actual.get(side, {}).get("cpu")
        allocated = container.allocated.get(side, {}).get("cpu")
        if actual is None or amounts.parse(actual).nano >= amounts.parse(least).nano:
            continue
        same = allocated is not None and amounts.parse(allocated).nano <= amounts.parse(least).nano
        shown[side]["cpu"] = allocated if same and allocated is not None else least
    return shown


@dataclass(slots=True)
class Pending:
    """PodResizePending: `reason` Deferred or Infeasible."""

    reason: str
    message: str
    generation: int
    since: str
    probed: str


@dataclass(slots=True)
class Progress:
    """PodResizeInProgress; `reason` is Error when a decrease can't be applied."""

    generation: int
    since: str
    probed: str
    reason: str = ""
    message: str = ""


@dataclass(slots=True)
class PodRun:
    """All of one pod. `observed` is the newest generation the kubelet has taken in."""

    namespace: str
    name: str
    uid: str
    containers: dict[str, Container]
    observed: int = 0
    phase: str = "Pending"
    pending: Pending | None = None
    progress: Progress | None = None
    ip: str = ""
    start_stamp: str = ""
    transitions: dict[str, tuple[str, str]] = field(default_factory=dict)  # condition -> (status, stamp)
    deferred_since: float = 0.0
    error_due: float = 0.0
    stopping: bool = False
    held: bool = False  # stays Pending: a fault holds its image or its start

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


def adopt(pod: Json) -> PodRun:
    """Take over a pod from its status, as after a kubelet restart."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    known = {
        one["name"]: one for side in ("initContainerStatuses", "containerStatuses") for one in status.get(side) or []
    }
    containers = {}
    for _, _, container in all_containers(pod["spec"]):
        seen = known.get(container["name"])
        if seen is None:
            containers[container["name"]] = Container(container["name"], sizes_of(container))
            continue
        actual = sizes_of(seen)
        desired = sizes_of(container)
        # Limits aren't in allocatedResources: unless a resize is under way they are the actual ones.
        in_progress = any(one["type"] == "PodResizeInProgress" for one in status.get("conditions") or [])
        allocated: Sizes = {"limits": (desired if in_progress else actual).get("limits", {})}
        allocated["requests"] = dict(seen.get("allocatedResources") or actual.get("requests") or {})
        containers[container["name"]] = Container(
            container["name"],
            {side: listed for side, listed in allocated.items() if listed},
            actual,
            dict(seen.get("state") or {}),
            dict(seen.get("lastState") or {}),
            seen.get("containerID", ""),
            int(seen.get("restartCount", 0)),
            0.0 if "running" in (seen.get("state") or {}) else None,
            bool(seen.get("ready", "running" in (seen.get("state") or {}))),
        )
    run = PodRun(
        metadata.get("namespace", ""),
        metadata["name"],
        metadata["uid"],
        containers,
        observed=int(status.get("observedGeneration", metadata.get("generation", 1))),
        phase=status.get("phase", "Pending"),
        ip=status.get("podIP", ""),
        start_stamp=status.get("startTime", ""),
    )
    for one in status.get("conditions") or []:
        run.transitions[one["type"]] = (one["status"], one.get("lastTransitionTime") or "")
        generation = int(one.get("observedGeneration", run.observed))
        since, probed = one.get("lastTransitionTime") or "", one.get("lastProbeTime") or ""
        if one["type"] == "PodResizePending":
            run.pending = Pending(one.get("reason", ""), one.get("message", ""), generation, since, probed)
        elif one["type"] == "PodResizeInProgress":
            run.progress = Progress(generation, since, probed, one.get("reason", ""), one.get("message", ""))
    return run


def requested(run: PodRun, spec: Mapping[str, Any], side: str = "requests") -> Totals:
    """The pod's allocated total: what the kubelet fits others against."""
    sizes = {name: read_list(container.allocated.get(side)) for name, container in run.containers.items()}
    return total_of(spec, side, sizes)


def write_status(run: PodRun, pod: Mapping[str, Any], version: Version, *, now: str, host_ip: str) -> Json:
    """The whole `status`. Stamps are taken over where a condition's status is unchanged."""
    spec = pod["spec"]
    mains = [run.containers[one["name"]] for one in spec.get("containers") or [] if one["name"] in run.containers]
    not_ready = [container.name for container in mains if not container.ready]
    over = run.phase in ("Succeeded", "Failed")
    conditions = _resize_conditions(run, version)
    initialized = all(
        run.containers[one["name"]].finished or (is_sidecar(one) and run.containers[one["name"]].running)
        for one in spec.get("initContainers") or []
    )
    unready: dict[str, str] = {}
    if over:
        unready = {"reason": "PodCompleted" if run.phase == "Succeeded" else "PodFailed"}
    elif not_ready:
        unready = {
            "reason": "ContainersNotReady",
            "message": f"containers with unready status: [{' '.join(not_ready)}]",
        }
    ready = not unready
    started = bool(mains) and any(container.running or container.finished for container in run.containers.values())
    for kind, true, why in (
        ("PodReadyToStartContainers", started and not over, {}),
        ("Initialized", initialized or over, {"reason": "PodCompleted"} if over else {}),
        ("Ready", ready, unready),
        ("ContainersReady", ready, unready),
        ("PodScheduled", True, {}),
    ):
        conditions.append(_condition(run, kind, true, why, version, now))
    status: Json = {}
    if version.observed_generation:
        status["observedGeneration"] = run.observed
    status |= {
        "phase": run.phase,
        "conditions": conditions,
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
    }
    if run.ip:
        status |= {"podIP": run.ip, "podIPs": [{"ip": run.ip}]}
    status["startTime"] = run.start_stamp or now
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [
            _container_status(run.containers[one["name"]], one) for one in spec["initContainers"]
        ]
    status["containerStatuses"] = [_container_status(run.containers[one["name"]], one) for one in spec["containers"]]
    status["qosClass"] = (pod.get("status") or {}).get("qosClass", "")
    if version.pod_level_status:
        status["allocatedResources"] = write_list(requested(run, spec))
        actual = {name: container.actual for name, container in run.containers.items()}
        status["resources"] = {}
        for side in ("limits", "requests"):
            total = total_of(spec, side, {name: read_list(sizes.get(side)) for name, sizes in actual.items()})
            if total:
                status["resources"][side] = write_list(total)
    return status


def _condition(run: PodRun, kind: str, true: bool, why: Mapping[str, str], version: Version, now: str) -> Json:
    wanted = "True" if true else "False"
    before = run.transitions.get(kind)
    if before is None or before[0] != wanted:
        run.transitions[kind] = before = (wanted, now)
    one: Json = {"type": kind}
    if version.observed_generation:
        one["observedGeneration"] = run.observed
    one |= {"status": wanted, "lastProbeTime": None, "lastTransitionTime": before[1], **why}
    return one


def _resize_conditions(run: PodRun, version: Version) -> list[Json]:
    found: list[Json] = []
    for kind, known in (("PodResizePending", run.pending), ("PodResizeInProgress", run.progress)):
        if known is None:
            continue
        one: Json = {"type": kind}
        if version.observed_generation:
            one["observedGeneration"] = known.generation
        one |= {"status": "True", "lastProbeTime": known.probed, "lastTransitionTime": known.since}
        if known.reason:
            one["reason"] = known.reason
        if known.message:
            one["message"] = known.message
        found.append(one)
    return found


def _container_status(container: Container, spec: Mapping[str, Any]) -> Json:
    one: Json = {
        "name": container.name,
        "state": container.state,
        "lastState": container.last_state,
        "ready": container.ready,
        "restartCount": container.restarts,
        "image": spec.get("image", ""),
        "imageID": f"sha256:{'0' * 64}" if container.id else "",
    }
    if container.id:
        one["containerID"] = container.id
    one["started"] = container.running
    if container.id:
        # A container that never ran has neither.
        one["allocatedResources"] = dict(container.allocated.get("requests") or {})
        one["resources"] = shown_size(container)
    return one
