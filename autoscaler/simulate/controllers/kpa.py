"""Knative's pod autoscaler, on requests in flight (https://knative.dev/docs/serving/autoscaling/).

Wanted pods = in flight, averaged over a stable window of 60 s, over the target (70 % of what a pod takes at once); the
panic window of 6 s takes over for as long as it wants twice the ready pods or more, and then nothing goes down. Up at
most 1000-fold, down at most by half, at once. Decides every 2 s, here at each scrape. Never below one pod.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from autoscaler.simulate.cluster import Cluster
from autoscaler.simulate.controllers.base import Count, Order, Shape, horizontal_shapes
from autoscaler.simulate.scenario import Scenario
from autoscaler.simulate.visible import Seen

STABLE_S, PANIC_S = 60.0, 6.0
PANIC_THRESHOLD = 2.0
UP_RATE, DOWN_RATE = 1000.0, 2.0
UTILIZATION = 0.7


class PodScaler:
    """One workload's windows; `target`: requests in flight wanted in a pod."""

    def __init__(self, target: float) -> None:
        self._target = target
        self._seen: deque[tuple[float, float]] = deque()
        self._panic_since: float | None = None
        self._panic_pods = 0

    def wanted(self, now: float, in_flight: float, ready: int) -> int:
        """Pods, at this moment, with so many ready."""
        self._seen.append((now, in_flight))
        while self._seen[0][0] <= now - STABLE_S:
            self._seen.popleft()
        ready = max(1, ready)
        lowest, highest = math.floor(ready / DOWN_RATE), math.ceil(ready * UP_RATE)
        stable = self._pods(now, STABLE_S)
        panic = self._pods(now, PANIC_S)
        over = panic / ready >= PANIC_THRESHOLD
        stable, panic = (min(max(pods, lowest), highest) for pods in (stable, panic))
        if over:
            self._panic_since = now
        elif self._panic_since is not None and now - self._panic_since >= STABLE_S:
            self._panic_since, self._panic_pods = None, 0
        if self._panic_since is not None:
            self._panic_pods = max(self._panic_pods, panic)
            return max(1, self._panic_pods)
        return max(1, stable)

    def _pods(self, now: float, window: float) -> int:
        values = [value for at, value in self._seen if at > now - window]
        return math.ceil(sum(values) / len(values) / self._target - 1e-9)


class Kpa:
    """`concurrency`: requests a pod may serve at once; without it, what one core serves, so one."""

    tick: float | None = None

    def __init__(self, concurrency: float | None = None) -> None:
        self._target = (concurrency or 1.0) * UTILIZATION
        self._scalers: dict[int, PodScaler] = {}

    def shapes(self, scenario: Scenario, demand: Sequence[float]) -> list[Shape]:
        return horizontal_shapes(scenario, demand, share=UTILIZATION)

    def decide(self, seen: Sequence[Seen], cluster: Cluster) -> list[Order]:
        orders: list[Order] = []
        for one in seen:
            scaler = self._scalers.setdefault(one.workload, PodScaler(self._target))
            wanted = scaler.wanted(cluster.now, float(one.in_flight), len(one.ready))
            if wanted != one.replicas:
                orders.append(Count(one.workload, wanted, f"{one.in_flight} in flight"))
        return orders
