"""FairShare, AIAD and Oneshot on the made-up cluster: the policies of Faro's evaluation (beomyeol/faro, EuroSys'25).

Every 10 s the mean latency of what ended in the last 30 s, dropped requests included; above the objective counts up,
else down; three ups in a row or sixty downs act. AIAD moves by one replica (as INFaaS does), Oneshot in proportion to
latency over objective. FairShare divides the cores evenly and stays. Their exact experiment, with its router and
workers, is `autoscaler.simulate.faro`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence

from autoscaler.simulate.cluster import Cluster
from autoscaler.simulate.controllers.base import Count, Order, Shape
from autoscaler.simulate.faro.rules import MAX_REPLICAS, POLL_S, WINDOW_S, Counter, aiad, oneshot
from autoscaler.simulate.scenario import Scenario
from autoscaler.simulate.visible import Seen

DROPPED_LATENCY_S = 0.01  # what a refused request takes


class FairShare:
    """The node's cores over the workloads, in whole pods, for good."""

    tick: float | None = None

    def shapes(self, scenario: Scenario, demand: Sequence[float]) -> list[Shape]:
        if scenario.capacity is None:
            raise ValueError("fairshare divides --cpus or --budget: give one of them")
        each = int(scenario.capacity / scenario.pod_cpu / len(demand))
        if each < 1:
            raise ValueError(f"{scenario.capacity:g} CPUs are less than a pod for each of {len(demand)} workloads")
        return [Shape(each, round(scenario.pod_cpu * 1000))] * len(demand)

    def decide(self, seen: Sequence[Seen], cluster: Cluster) -> list[Order]:
        return []


class Threshold:
    """AIAD or Oneshot: one pod a workload at the start."""

    tick: float | None = None

    def __init__(self, rule: Callable[[int, float, int], int]) -> None:
        self._rule = rule
        self._counters: dict[int, Counter] = {}
        self._ended: dict[int, deque[tuple[float, float, float]]] = {}
        self._busy: dict[int, float] = {}
        self._due = 0.0

    def shapes(self, scenario: Scenario, demand: Sequence[float]) -> list[Shape]:
        return [Shape(1, round(scenario.pod_cpu * 1000))] * len(demand)

    def decide(self, seen: Sequence[Seen], cluster: Cluster) -> list[Order]:
        now = cluster.now
        for one in seen:
            ended = self._ended.setdefault(one.workload, deque())
            count = (one.requests + one.failures) * one.window
            ended.append((now, count, (one.latency + one.failures * DROPPED_LATENCY_S) * one.window))
            while ended[0][0] <= now - WINDOW_S + 1e-9:
                ended.popleft()
        if now + 1e-9 < self._due:
            return []
        self._due = now + POLL_S
        wanted: list[tuple[int, int, int]] = []
        for one in seen:
            ended = self._ended[one.workload]
            count = sum(row[1] for row in ended)
            mean = sum(row[2] for row in ended) / count if count > 0 else 0.0
            due = self._counters.setdefault(one.workload, Counter()).poll(mean > cluster.scenario.target)
            acting = any(not pod.serving for pod in one.pods if not pod.pod.draining)
            if due and not acting and now >= self._busy.get(one.workload, 0.0):
                scaled = mean * 0.72 / cluster.scenario.target  # the rule's formula is written for 720 ms
                goal = min(MAX_REPLICAS, max(1, self._rule(one.replicas, scaled, due)))
                wanted.append((one.workload, one.replicas, goal))
        return self._cut(wanted, cluster)

    def _cut(self, wanted: list[tuple[int, int, int]], cluster: Cluster) -> list[Order]:
        """Downs first; ups as far as the node goes."""
        orders: list[Order] = []
        milli = cluster.templates[0]
        room = math.inf
        if cluster.scenario.capacity is not None:
            room = int(cluster.scenario.capacity * 1000 / milli) - sum(cluster.replicas)
        for workload, current, goal in wanted:
            if goal < current:
                orders.append(Count(workload, goal, "below the objective for ten minutes"))
                room += current - goal
                self._busy[workload] = cluster.now + 3.0
        for workload, current, goal in wanted:
            if goal > current and room > 0:
                granted = current + int(min(goal - current, room))
                orders.append(Count(workload, granted, "above the objective for 30 s"))
                room -= granted - current
        return orders


RULES = {"aiad": aiad, "oneshot": oneshot}
