"""The Horizontal Pod Autoscaler, autoscaling/v2, on CPU utilisation or on requests in flight per pod.

From the documentation of its algorithm (https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/):
desired = ceil(current x value / target); nothing within a tolerance of 10 %; every 15 s; pods that are not ready, or
without a sample since they became ready, count as idle when growing, missing ones as fully used when shrinking, and
if that turns the direction nothing is done. Then `behavior`: scale-down takes the highest wish of 300 s and at most
100 % in 15 s; scale-up at most the larger of 4 pods and 100 % in 15 s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoscaler.simulate.cluster import Cluster
from autoscaler.simulate.controllers.base import Count, Order, Shape, horizontal_shapes
from autoscaler.simulate.scenario import Scenario
from autoscaler.simulate.visible import PodSeen, Seen

SYNC_S = 15.0
TOLERANCE = 0.1
INITIALIZATION_S = 300.0  # --horizontal-pod-autoscaler-cpu-initialization-period
READINESS_DELAY_S = 30.0  # --horizontal-pod-autoscaler-initial-readiness-delay


@dataclass(frozen=True, slots=True)
class Behavior:
    """HPA's own defaults."""

    down_window: float = 300.0
    up_window: float = 0.0
    up_pods: int = 4
    up_percent: int = 100
    down_percent: int = 100
    period: float = 15.0
    most: int = 1000
    least: int = 1


@dataclass(frozen=True, slots=True)
class PodUse:
    """One pod as the replica calculator sees it: value over request, or None without a usable sample."""

    use: float | None
    ready: bool


def replicas_wanted(current: int, pods: Sequence[PodUse], target: float) -> int:
    """The replica calculator: `target` is the wanted use, as a share of the request or in the metric's unit."""
    measured = [pod.use for pod in pods if pod.ready and pod.use is not None]
    missing = sum(1 for pod in pods if pod.ready and pod.use is None)
    unready = sum(1 for pod in pods if not pod.ready)
    if not measured:
        return current
    ratio = sum(measured) / len(measured) / target
    if not (missing or (unready and ratio > 1.0)):
        if abs(ratio - 1.0) <= TOLERANCE:
            return current
        return math.ceil(ratio * len(measured) - 1e-9)
    filled = list(measured)
    if missing:
        # Pessimism in both directions: unknown pods are at the target's full request when shrinking, idle when growing.
        filled += [max(1.0, target) if ratio < 1.0 else 0.0] * missing
    if ratio > 1.0:
        filled += [0.0] * unready
    anew = sum(filled) / len(filled) / target
    if abs(anew - 1.0) <= TOLERANCE or (ratio < 1.0 < anew) or (anew < 1.0 < ratio):
        return current
    wanted = math.ceil(anew * len(filled) - 1e-9)
    if (anew < 1.0 and wanted > current) or (anew > 1.0 and wanted < current):
        return current
    return wanted


class Stabilizer:
    """`behavior` of one HPA: windows and rates."""

    def __init__(self, behavior: Behavior) -> None:
        self._behavior = behavior
        self._wishes: list[tuple[float, int]] = []
        self._added: list[tuple[float, int]] = []

    def allow(self, now: float, current: int, wanted: int) -> int:
        behavior = self._behavior
        self._wishes.append((now, wanted))
        longest = max(behavior.down_window, behavior.up_window)
        self._wishes = [wish for wish in self._wishes if now - wish[0] <= longest]
        highest = max(wish for at, wish in self._wishes if now - at <= behavior.down_window)
        lowest = min(wish for at, wish in self._wishes if now - at <= behavior.up_window)
        stable = min(max(current, lowest), highest)
        self._added = [change for change in self._added if now - change[0] < behavior.period]
        changed = sum(change for _, change in self._added)
        before = current - changed
        if stable > current:
            limit = max(before + behavior.up_pods, math.ceil(before * (1 + behavior.up_percent / 100)))
            stable = min(stable, max(current, limit))
        elif stable < current:
            stable = max(stable, min(current, math.floor(before * (1 - behavior.down_percent / 100))))
        stable = min(max(stable, behavior.least), behavior.most)
        if stable != current:
            self._added.append((now, stable - current))
        return stable


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
