"""The Horizontal Pod Autoscaler on the made-up cluster: on CPU utilisation or on requests in flight per pod."""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.simulate.cluster import Cluster
from autoscaler.simulate.controllers.base import Count, Order, Shape, horizontal_shapes
from autoscaler.simulate.controllers.hpa_rules import (
    INITIALIZATION_S,
    SYNC_S,
    Behavior,
    PodUse,
    Stabilizer,
    replicas_wanted,
)
from autoscaler.simulate.scenario import Scenario
from autoscaler.simulate.visible import PodSeen, Seen


class Hpa:
    """`target`: CPU utilisation as a share of the request, or with `in_flight` the requests inside a pod."""

    tick: float | None = None

    def __init__(self, target: float, *, in_flight: bool = False, behavior: Behavior | None = None) -> None:
        self._target = target
        self._in_flight = in_flight
        self._behavior = behavior or Behavior()
        self._stable: dict[int, Stabilizer] = {}
        self._due = 0.0

    def shapes(self, scenario: Scenario, demand: Sequence[float]) -> list[Shape]:
        return horizontal_shapes(scenario, demand, share=0.7 if self._in_flight else self._target)

    def decide(self, seen: Sequence[Seen], cluster: Cluster) -> list[Order]:
        now = cluster.now
        if now < self._due:
            return []
        self._due = now + SYNC_S
        orders: list[Order] = []
        for one in seen:
            current = one.replicas
            uses = [self._use(pod, now) for pod in one.pods if not pod.pod.draining]
            wanted = replicas_wanted(current, uses, self._target)
            stable = self._stable.setdefault(one.workload, Stabilizer(self._behavior))
            allowed = stable.allow(now, current, wanted)
            if allowed != current:
                orders.append(Count(one.workload, allowed, f"use over target wants {wanted} pods"))
        return orders

    def _use(self, pod: PodSeen, now: float) -> PodUse:
        if not pod.serving:
            return PodUse(None, False)
        if self._in_flight:
            return PodUse(float(pod.in_flight), True)
        if pod.cpu is None:
            return PodUse(None, False)
        # Young pods count only with a sample that was taken wholly after they became ready.
        ready_at = pod.pod.ready_at or 0.0
        if now < pod.pod.created_at + INITIALIZATION_S and pod.cpu.at < ready_at + pod.cpu.window:
            return PodUse(None, False)
        return PodUse(pod.cpu.cores * 1000.0 / pod.pod.allocated, True)
