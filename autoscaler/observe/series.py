"""Rows of the shared queries as samples of live pods: by name *and* incarnation.

A pod's rows count only where they are of the pod that lives now: not of another address under the same name, not from
before its container started, not of another uid. Of two scrapes of one target one is kept; of two targets of one pod
(a port scraped by itself and once more through a proxy) the one that the policy, or the pod's annotation, names.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

from autoscaler.model.signal import Absent, Cause
from autoscaler.model.workload import Pod
from autoscaler.observe.counters import PodSample, Role, checked
from autoscaler.observe.queries import KUBELET_METRICS, MARK, TARGET, Scope
from autoscaler.observe.rows import Gathering
from autoscaler.observe.scrape import incarnation

CLOCKS_DIFFER_S = 2.0
"""A sample this much older than its container's start may still be of it: clocks differ."""

PodKey = tuple[str, str]
"""Namespace and name."""


@dataclass(slots=True)
class Target:
    """One scraped target's rows.

    ``numbers`` by role or metric, ``buckets`` by bound as written, ``quantiles`` by share; ``rest``: the other labels
    that tell it from its copies.
    """

    instance: str = ""
    rest: tuple[str, ...] = ()
    uid: str = ""
    at: float = math.nan
    numbers: dict[str, float] = field(default_factory=dict)
    buckets: dict[str, float] = field(default_factory=dict)
    quantiles: dict[float, float] = field(default_factory=dict)

    def of(self, pod: Pod, container: str) -> Hashable:
        """The incarnation whose counters these are."""
        return (*incarnation(pod, container), self.instance)


TargetKey = tuple[str, str, tuple[str, ...]]
"""Namespace, pod name, and the labels that tell its targets apart."""
_NUMBER, _BUCKET, _QUANTILE, _TIME, _NOTHING = range(5)


class TargetRows(Gathering[TargetKey, Target]):
    """Reads page queries (``queries.page_query``): each row into its target."""

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self._namespace, self._pod = scope.namespace, scope.pod
        self._apart = (*TARGET, *scope.replicas)

    def place(self, labels: dict[str, str]) -> tuple[TargetKey, int, str]:
        apart = tuple([labels.get(label, "") for label in self._apart])
        key = (labels.get(self._namespace, ""), labels.get(self._pod, ""), apart)
        role = labels.get(MARK) or labels.get("__name__")
        if role:
            return key, _TIME if role == "time" else _NUMBER, role
        if "le" in labels:
            return key, _BUCKET, labels["le"]
        written = labels.get("quantile", "")
        try:
            float(written)
        except ValueError:
            return key, _NOTHING, written
        return key, _QUANTILE, written

    def new(self, name: TargetKey) -> Target:
        apart = name[2]
        return Target(apart[0], apart[1:], apart[2])

    def put(self, into: Target, kind: int, name: str, number: float) -> None:
        if kind == _NUMBER:
            into.numbers[name] = number
        elif kind == _BUCKET:
            into.buckets[name] = number
        elif kind == _TIME:
            into.at = number
        elif kind == _QUANTILE:
            into.quantiles[float(name)] = number


def by_pod(found: Mapping[TargetKey, Target]) -> dict[PodKey, list[Target]]:
    """Each pod's targets."""
    of_pods: dict[PodKey, list[Target]] = {}
    for (namespace, pod, _), target in found.items():
        of_pods.setdefault((namespace, pod), []).append(target)
    return of_pods


def of_live_pod(pod: Pod, found: Sequence[Target], container: str, port: int | None) -> Target | Absent:
    """The one target that is this pod now, or why none is."""
    if not found:
        return Absent(Cause.NO_SUCH_METRIC, f"no series of pod {pod.name}")
    own = [target for target in found if target.uid in ("", pod.uid) and not _elsewhere(target.instance, pod.ip)]
    if not own:
        return Absent(Cause.STALE, f"only series of an earlier {pod.name}")
    timed = [target for target in own if not math.isnan(target.at)]
    if not timed:
        return Absent(Cause.NO_SUCH_METRIC, f"no counter of pod {pod.name}")
    running = pod.container(container) or (pod.containers[0] if pod.containers else None)
    since = running.started_at if running is not None and running.started_at else pod.created_at
    fresh = [target for target in timed if target.at >= since - CLOCKS_DIFFER_S]
    if not fresh:
        return Absent(Cause.STALE, f"no sample since the container of {pod.name} started")
    wanted = port or _annotated(pod)
    # the named port first, then the newest, then by name: the same choice every tick
    return min(fresh, key=lambda target: (_port(target.instance) != wanted, -target.at, target.instance, target.rest))


_ROLE_OF = {metric: role for role, metric in KUBELET_METRICS.items()}
_KUBELET_COUNTERS = tuple((role, role.value) for role in (Role.CPU, Role.PERIODS, Role.THROTTLED, Role.PRESSURE))
_KUBELET_GAUGES = tuple((role, role.value) for role in (Role.WORKING_SET, Role.MEMORY_USAGE, Role.PEAK_MEMORY))


@dataclass(slots=True)
class ContainerRows:
    """One container incarnation's figures."""

    id: str
    at: float = math.nan
    numbers: dict[str, float] = field(default_factory=dict)


ContainerKey = tuple[str, str, str]
"""Namespace, pod and container name."""


GroupKey = tuple[str, str, str, str]
"""Namespace, pod, container name and cgroup."""


class GroupRows(Gathering[GroupKey, ContainerRows]):
    """Reads kubelet queries (``queries.kubelet_query``): each row into its container incarnation."""

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self._namespace, self._pod = scope.namespace, scope.pod

    def place(self, labels: dict[str, str]) -> tuple[GroupKey, int, str]:
        pod = labels.get(self._namespace, ""), labels.get(self._pod, "")
        key = (*pod, labels.get("container", ""), labels.get("id", ""))
        metric = labels.get("__name__", "")
        if metric in _ROLE_OF:
            return key, _NUMBER, _ROLE_OF[metric]
        return key, _TIME if labels.get(MARK) == "time" else _NOTHING, ""

    def new(self, name: GroupKey) -> ContainerRows:
        return ContainerRows(name[3])

    def put(self, into: ContainerRows, kind: int, name: str, number: float) -> None:
        if kind == _NUMBER:
            into.numbers[name] = number
        elif kind == _TIME:
            into.at = number


def by_container(found: Mapping[GroupKey, ContainerRows]) -> dict[ContainerKey, list[ContainerRows]]:
    """Each container's incarnations."""
    of_containers: dict[ContainerKey, list[ContainerRows]] = {}
    for (namespace, pod, container, _), figures in found.items():
        of_containers.setdefault((namespace, pod, container), []).append(figures)
    return of_containers


def container_sample(pod: Pod, container: str, found: Sequence[ContainerRows]) -> PodSample | Absent:
    """The figures of the incarnation that runs now: its cgroup names the pod's uid, and no other is newer."""
    own = [one for one in found if not math.isnan(one.at) and of_this_pod(one.id, pod.uid)]
    if not own:
        return Absent(Cause.NO_SUCH_METRIC, f"no kubelet figures of {pod.name}/{container}")
    newest = max(own, key=lambda one: (one.at, bool(one.id)))
    running = pod.container(container)
    if running is not None and running.started_at and newest.at < running.started_at - CLOCKS_DIFFER_S:
        return Absent(Cause.STALE, f"no kubelet figures since {pod.name}/{container} started")
    sample = PodSample((pod.uid, newest.id), newest.at)
    for role, name in _KUBELET_COUNTERS:
        if (number := newest.numbers.get(name)) is not None:
            sample.counters[role] = checked(number, name)
    for role, name in _KUBELET_GAUGES:
        if (number := newest.numbers.get(name)) is not None:
            sample.gauges[role] = checked(number, name)
    return sample


def of_this_pod(group: str, uid: str) -> bool:
    """Whether a cgroup path is of this pod; one that names no pod (``metrics/resource`` has no id) may be."""
    return "pod" not in group or uid in group or uid.replace("-", "_") in group


@functools.lru_cache(maxsize=65536)
def _elsewhere(instance: str, ip: str) -> bool:
    """Whether the target's address is certainly not the pod's."""
    host = instance.rpartition(":")[0].strip("[]")
    try:
        have, own = ip_address(host), ip_address(ip)
    except ValueError:
        return False
    return have.version == own.version and have != own


def _port(instance: str) -> int | None:
    written = instance.rpartition(":")[2]
    return int(written) if written.isdigit() else None


def _annotated(pod: Pod) -> int | None:
    written = pod.annotations.get("prometheus.io/port", "")
    return int(written) if written.isdigit() else None
