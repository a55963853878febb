"""Ideal information: the true work of the next five seconds, no lag, no actuation delay, a tick each second.

Not a bound: it sizes by the same head-room rule as ours, it just knows what comes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autoscaler.simulate.cluster import Cluster
from autoscaler.simulate.controllers.base import STEP, Order, Shape, Size, vertical_shapes
from autoscaler.simulate.scenario import Scenario
from autoscaler.simulate.visible import Seen

AHEAD_S = 5.0
BETA = 1.0
DRAIN_S = 1.0


class Ideal:
    """Cores = work of the next 5 s / 5 s + its root + what drains the backlog within the objective."""

    tick: float | None = 1.0

    def __init__(self) -> None:
        self._scenario: Scenario | None = None
        self._mean = 0.0

    def shapes(self, scenario: Scenario, demand: Sequence[float]) -> list[Shape]:
        self._scenario = scenario
        self._mean = scenario.serving.service.mean
        return vertical_shapes(scenario, demand)

    def decide(self, seen: Sequence[Seen], cluster: Cluster) -> list[Order]:
        assert self._scenario is not None
        burned: list[float] = []
        spare: list[float] = []
        for one in seen:
            load = cluster.fleets[one.workload].coming(AHEAD_S) / AHEAD_S
            backlog = max(0.0, one.in_flight - load) * self._mean
            burned.append(load + backlog / DRAIN_S)
            spare.append(BETA * math.sqrt(load))
        wants = [sum(parts) for parts in zip(burned, spare, strict=True)]
        if self._scenario.capacity is not None:
            wants = shared(burned, spare, self._scenario.capacity - STEP / 1000 * len(wants))
        orders: list[Order] = []
        for one, want in zip(seen, wants, strict=True):
            pods = [pod.pod for pod in one.ready]
            each = max(STEP, math.ceil(want * 1000 / max(1, len(pods)) / STEP) * STEP)
            # Shrinks first, so that their room is there for the grows.
            orders += [Size(pod, each, "true arrivals") for pod in pods]
        return sorted(orders, key=lambda order: order.milli - order.pod.desired if isinstance(order, Size) else 0)


def shared(burned: list[float], spare: list[float], capacity: float) -> list[float]:
    """The load first, in proportion where even that is too much; then as much of the head-room as is left for all."""
    load, head_room = sum(burned), sum(spare)
    if load >= capacity:
        return [cores * capacity / load for cores in burned]
    part = min(1.0, (capacity - load) / head_room) if head_room > 0 else 0.0
    return [cores + part * extra for cores, extra in zip(burned, spare, strict=True)]
