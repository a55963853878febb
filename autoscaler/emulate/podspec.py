"""What the API server makes of a pod's spec: defaults, canonical quantities, QoS class, what it counts as requested."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from autoscaler.emulate import amounts
from autoscaler.emulate.amounts import Amount

Json = dict[str, Any]
_COMPUTE = ("cpu", "memory")
_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """A restartable init container."""
    return container.get("restartPolicy") == "Always"


def all_containers(spec: Mapping[str, Any]) -> Iterator[tuple[str, int, Json]]:
    """(list name, index, container) of init containers and containers, in that order."""
    for where in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(where) or []):
            yield where, index, container


def set_defaults(spec: Json) -> None:
    """Fill in and canonicalise, in place. Raises NotAQuantity."""
    for _, _, container in all_containers(spec):
        resources = container.setdefault("resources", {}) or {}
        container["resources"] = resources
        for side in ("limits", "requests"):
            listed = resources.get(side)
            if listed is None:
                resources.pop(side, None)
                continue
            resources[side] = {name: amounts.canonical(value) for name, value in listed.items()}
        limits = resources.get("limits") or {}
        if limits:
            requests = resources.setdefault("requests", {})
            for name, value in limits.items():
                requests.setdefault(name, value)
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        container.setdefault("imagePullPolicy", _pull_policy(str(container.get("image", ""))))
        for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
            if isinstance(container.get(probe), dict):
                for key, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1)):
                    container[probe].setdefault(key, value)
                container[probe].setdefault("failureThreshold", 3)
        for port in container.get("ports") or []:
            port.setdefault("protocol", "TCP")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")


def set_pod_defaults(spec: Json) -> None:
    """What a pod gets beyond its template's defaults: service account, tolerations, priority."""
    set_defaults(spec)
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("priority", 0)
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(one.get("key") == key for one in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def _pull_policy(image: str) -> str:
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") and "@" not in image else "IfNotPresent"


def qos_class(spec: Mapping[str, Any]) -> str:
    """Guaranteed, Burstable or BestEffort, from cpu and memory of all containers. Zero counts as unset."""
    seen_any = False
    guaranteed = True
    for _, _, container in all_containers(spec):
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in _COMPUTE:
            request = amounts.parse(requests[name]).nano if name in requests else 0
            limit = amounts.parse(limits[name]).nano if name in limits else 0
            seen_any = seen_any or request > 0 or limit > 0
            guaranteed = guaranteed and limit > 0 and request == limit
    if not seen_any:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


Totals = dict[str, Amount]


def read_list(listed: Mapping[str, Any] | None) -> Totals:
    return {name: amounts.parse(value) for name, value in (listed or {}).items()}


def write_list(totals: Mapping[str, Amount]) -> Json:
    return {name: amounts.write(totals[name]) for name in sorted(totals)}


def add(into: Totals, more: Mapping[str, Amount]) -> None:
    for name, amount in more.items():
        there = into.get(name)
        into[name] = amount if there is None else Amount(there.nano + amount.nano, there.family)


def largest(into: Totals, other: Mapping[str, Amount]) -> None:
    for name, amount in other.items():
        there = into.get(name)
        if there is None or amount.nano > there.nano:
            into[name] = amount


def total_of(spec: Mapping[str, Any], side: str, per_container: Mapping[str, Totals] | None = None) -> Totals:
    """A pod's requests or limits: the containers and sidecars together, or the hungriest init container.

    `per_container` replaces what the spec says of a container (its allocated or actual size).
    """

    def of(container: Mapping[str, Any]) -> Totals:
        if per_container is not None and container["name"] in per_container:
            return per_container[container["name"]]
        return read_list((container.get("resources") or {}).get(side))

    running: Totals = {}
    at_start: Totals = {}
    for container in spec.get("initContainers") or []:
        mine = of(container)
        if is_sidecar(container):
            add(running, mine)
            largest(at_start, running)
        else:
            peak = dict(running)
            add(peak, mine)
            largest(at_start, peak)
    for container in spec.get("containers") or []:
        add(running, of(container))
    largest(running, at_start)
    add(running, read_list(spec.get("overhead")) if side == "requests" else {})
    return running


def statuses(pod: Mapping[str, Any]) -> Iterable[Json]:
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or []
    yield from status.get("containerStatuses") or []


def condition(pod: Mapping[str, Any], kind: str) -> Json | None:
    for one in (pod.get("status") or {}).get("conditions") or []:
        if one.get("type") == kind:
            found: Json = one
            return found
    return None


def is_ready(pod: Mapping[str, Any]) -> bool:
    ready = condition(pod, "Ready")
    return ready is not None and ready["status"] == "True"


def is_over(pod: Mapping[str, Any]) -> bool:
    """Succeeded or Failed: it counts nowhere any more."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def counted(pod: Mapping[str, Any], side: str = "requests") -> Totals:
    """What scheduler and quota count: per container the largest of desired, allocated and actual.

    Desired is left out while the resize is Infeasible.
    """
    spec = pod["spec"]
    pending = condition(pod, "PodResizePending")
    infeasible = pending is not None and pending.get("reason") == "Infeasible"
    sizes: dict[str, Totals] = {}
    desired = {
        container["name"]: read_list((container.get("resources") or {}).get(side))
        for _, _, container in all_containers(spec)
    }
    for status in statuses(pod):
        known: Totals = {}
        if side == "requests":
            largest(known, read_list(status.get("allocatedResources")))
        largest(known, read_list((status.get("resources") or {}).get(side)))
        if not known:
            continue
        if not infeasible:
            largest(known, desired.get(status["name"], {}))
        sizes[status["name"]] = known
    return total_of(spec, side, sizes)


def is_label(text: str) -> bool:
    return len(text) <= 63 and _LABEL.match(text) is not None
