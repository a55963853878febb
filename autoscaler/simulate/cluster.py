"""The made-up cluster: nodes with room, pods that start slowly, resizes that take a moment and may have to wait.

Sizes are millicores. A resize is desired at once, reaches the node after the actuation delay and is granted if the
node's allocated sizes leave room, else it is deferred until a shrink or a deletion makes it. What would exceed a budget
is refused at once. New pods are born at the
template's size and bound to a node with room for max(desired, allocated) of all on it; without room they are pending.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from autoscaler.simulate.fleet import SimulatedFleet
from autoscaler.simulate.scenario import Scenario

REVERSAL_S = 120.0
LARGE_NODE = 64_000  # millicores, where nothing else is asked for
MIN_LIMIT = 10  # millicores: the least quota a kernel takes


@dataclass(slots=True, eq=False)
class SimulatedPod:
    """One pod and its three moments. `place` is where it serves in its fleet, None before and after."""

    uid: str
    number: int
    workload: int
    desired: int
    allocated: int
    created_at: float
    node: SimulatedNode | None = None
    ready_at: float | None = None
    place: int | None = None
    draining: bool = False
    gone: bool = False
    deferred: bool = False
    asked_at: float = 0.0


@dataclass(slots=True, eq=False)
class SimulatedNode:
    name: str
    capacity: int
    pods: list[SimulatedPod] = field(default_factory=list)

    @property
    def free_allocated(self) -> int:
        """What the node itself can still grant."""
        return self.capacity - sum(pod.allocated for pod in self.pods)

    @property
    def free(self) -> int:
        """What the scheduler counts as free."""
        return self.capacity - sum(max(pod.desired, pod.allocated) for pod in self.pods)


class Cluster:
    """All workloads' pods, and time: `advance` runs everything up to a moment."""

    def __init__(
        self, scenario: Scenario, fleets: Sequence[SimulatedFleet], templates: Sequence[int], *, seed: int
    ) -> None:
        """`templates`: millicores that a workload's pods are born with."""
        self.scenario = scenario
        self.fleets = fleets
        self.templates = list(templates)
        self.pods: list[list[SimulatedPod]] = [[] for _ in fleets]
        self.replicas = [0] * len(fleets)
        self.nodes: list[SimulatedNode] = []
        self.now = 0.0
        self.resizes = 0
        self.started = 0
        self.reversals = 0
        self.core_seconds = 0.0  # max(desired, allocated) of bound pods, from the end of the warm-up on
        self.cpu_gone = 0.0  # CPU-seconds that pods had used when they went
        self._milli = 0
        self._counted_to = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self._last_change: list[tuple[float, int]] = [(-math.inf, 0)] * len(fleets)
        self._dice = np.random.default_rng([seed, 77])
        self._born = 0
        if scenario.cpus is not None:
            self._node(round(scenario.cpus * 1000))

    # what controllers order

    def resize(self, pod: SimulatedPod, milli: int) -> None:
        """Ask for another size; nothing happens to a pod that is gone or has it already."""
        milli = max(MIN_LIMIT, milli)
        if pod.gone or pod.draining or milli == pod.desired:
            return
        if milli > pod.desired and self._over_budget(milli - pod.desired):
            return  # as a ResourceQuota refuses it
        freed = milli < pod.desired
        pod.desired = milli
        pod.asked_at = self.now
        pod.deferred = False
        self.resizes += self.now >= self.scenario.warm_up
        self._recount()
        self._at(self.now + self.scenario.actuation, lambda: self._grant(pod))
        if freed and self.scenario.budget is not None:
            self._bind_pending()

    def scale(self, workload: int, replicas: int, victims: Sequence[SimulatedPod] = ()) -> None:
        """Set the number of pods. Without `victims` the ReplicaSet's order: unready first, then the newest."""
        replicas = max(0, replicas)
        self.replicas[workload] = replicas
        alive = [pod for pod in self.pods[workload] if not pod.draining]
        for _ in range(replicas - len(alive)):
            self._create(workload)
        if len(alive) > replicas:
            ranked = sorted(alive, key=lambda pod: (pod not in victims, pod.ready_at is not None, -pod.number))
            for pod in ranked[: len(alive) - replicas]:
                self._remove(pod)
        self._recount()

    def noted(self, workload: int, before: int, after: int) -> None:
        """One decision changed a workload's total: a change back within two minutes is a reversal."""
        if after == before:
            return
        direction = 1 if after > before else -1
        at, last = self._last_change[workload]
        if last == -direction and self.now - at < REVERSAL_S and self.now >= self.scenario.warm_up:
            self.reversals += 1
        self._last_change[workload] = (self.now, direction)

    def total(self, workload: int) -> int:
        """Millicores desired by a workload's pods that are not on their way out."""
        return sum(pod.desired for pod in self.pods[workload] if not pod.draining)

    # time

    def start(self, workload: int, replicas: int) -> None:
        """Pods that serve from the first moment."""
        self.replicas[workload] = replicas
        for _ in range(replicas):
            pod = self._create(workload, cold=False)
            if pod.node is not None:
                self._ready(pod)
        self.started = 0
        self._recount()

    def advance(self, to: float) -> None:
        """Run events and serve requests up to `to`."""
        while self._events and self._events[0][0] <= to:
            at, _, event = heapq.heappop(self._events)
            self._pass(at)
            event()
            self._recount()
        self._pass(to)
        for fleet in self.fleets:
            fleet.advance(to)
        self._sweep()

    def _pass(self, to: float) -> None:
        since = max(self._counted_to, self.scenario.warm_up)
        if to > since:
            self.core_seconds += (to - since) * self._milli / 1000.0
        self._counted_to = max(self._counted_to, to)
        self.now = to

    def _recount(self) -> None:
        self._milli = sum(max(pod.desired, pod.allocated) for pods in self.pods for pod in pods if pod.node is not None)

    def _at(self, when: float, event: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (when, self._order, event))

    # what happens

    def _node(self, capacity: int) -> SimulatedNode:
        node = SimulatedNode(f"node-{len(self.nodes)}", capacity)
        self.nodes.append(node)
        return node

    def _create(self, workload: int, *, cold: bool = True) -> SimulatedPod:
        self._born += 1
        template = self.templates[workload]
        pod = SimulatedPod(
            uid=f"{workload}-{self._born}",
            number=self._born,
            workload=workload,
            desired=template,
            allocated=template,
            created_at=self.now,
        )
        self.pods[workload].append(pod)
        self.started += self.now >= self.scenario.warm_up
        self._bind(pod, cold=cold)
        return pod

    def _over_budget(self, more: int) -> bool:
        """Whether so many millicores more exceed what all may have together, by desired sizes."""
        budget = self.scenario.budget
        if budget is None:
            return False
        bound = sum(pod.desired for pods in self.pods for pod in pods if pod.node is not None)
        return bound + more > round(budget * 1000)

    def _bind(self, pod: SimulatedPod, *, cold: bool = True) -> None:
        scenario = self.scenario
        if self._over_budget(pod.desired):
            return
        if scenario.cpus is not None:
            node = self.nodes[0] if self.nodes[0].free >= pod.desired else None
        elif scenario.room is not None:
            # A node of its own size for each pod; an empty one is used again.
            capacity = round(self.templates[pod.workload] * (1.0 + scenario.room))
            empty = (node for node in self.nodes if not node.pods and node.capacity == capacity)
            node = next(empty, None) or self._node(capacity)
        else:
            roomy = (node for node in self.nodes if node.free >= max(pod.desired, LARGE_NODE // 2))
            node = next(roomy, None) or self._node(LARGE_NODE)
        if node is None:
            return
        pod.node = node
        node.pods.append(pod)
        if cold:
            self._at(self.now + self._start_up(), lambda: self._ready(pod))

    def _start_up(self) -> float:
        shape = self.scenario.cold_start_spread
        if shape <= 0:
            return self.scenario.cold_start
        return self.scenario.cold_start * float(np.exp(shape * self._dice.standard_normal() - shape**2 / 2))

    def _ready(self, pod: SimulatedPod) -> None:
        if pod.gone or pod.draining or pod.node is None:
            return
        fleet = self.fleets[pod.workload]
        fleet.advance(self.now)
        pod.ready_at = self.now
        pod.place = fleet.open(pod.allocated / 1000.0, pod.node.capacity / 1000.0)

    def _grant(self, pod: SimulatedPod) -> None:
        """The node's answer to the size desired now (an older order for another size finds this one)."""
        if pod.gone or pod.node is None or pod.desired == pod.allocated:
            return
        if pod.desired > pod.allocated and pod.desired - pod.allocated > pod.node.free_allocated:
            pod.deferred = True
            return
        shrunk = pod.desired < pod.allocated
        pod.allocated = pod.desired
        pod.deferred = False
        if pod.place is not None:
            fleet = self.fleets[pod.workload]
            fleet.advance(self.now)
            fleet.set_limit(pod.place, pod.allocated / 1000.0)
        if shrunk:
            self._room_on(pod.node)

    def _room_on(self, node: SimulatedNode) -> None:
        """Room appeared: the deferred resizes that fit are granted, the one that waited longest first."""
        for pod in sorted((pod for pod in node.pods if pod.deferred), key=lambda pod: pod.asked_at):
            self._grant(pod)
        self._bind_pending()

    def _bind_pending(self) -> None:
        for pods in self.pods:
            for pod in pods:
                if pod.node is None and not pod.gone:
                    self._bind(pod)

    def _remove(self, pod: SimulatedPod) -> None:
        pod.draining = True
        if pod.place is None:
            self._gone(pod)
            return
        fleet = self.fleets[pod.workload]
        fleet.advance(self.now)
        fleet.drain(pod.place)

    def _sweep(self) -> None:
        """Drained pods that are empty go."""
        for workload, pods in enumerate(self.pods):
            for pod in [pod for pod in pods if pod.draining and pod.place is not None]:
                assert pod.place is not None
                if self.fleets[workload].empty(pod.place):
                    self.cpu_gone += float(self.fleets[workload].fleet.cpu[pod.place])
                    self.fleets[workload].close(pod.place)
                    self._gone(pod)

    def _gone(self, pod: SimulatedPod) -> None:
        pod.gone = True
        pod.place = None
        self.pods[pod.workload].remove(pod)
        if pod.node is not None:
            pod.node.pods.remove(pod)
            node, pod.node = pod.node, None
            self._recount()
            self._room_on(node)
        self._recount()
