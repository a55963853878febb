"""Nothing moves."""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.simulate.cluster import Cluster
from autoscaler.simulate.controllers.base import Order, Shape, vertical_shapes
from autoscaler.simulate.scenario import Scenario
from autoscaler.simulate.visible import Seen


class Static:
    """`cores` for each workload for good; without it, what the first minute needs."""

    tick: float | None = None

    def __init__(self, cores: float | None = None) -> None:
        self._cores = cores

    def shapes(self, scenario: Scenario, demand: Sequence[float]) -> list[Shape]:
        if self._cores is None:
            return vertical_shapes(scenario, demand)
        return [Shape(scenario.pods, round(self._cores * 1000 / scenario.pods))] * len(demand)

    def decide(self, seen: Sequence[Seen], cluster: Cluster) -> list[Order]:
        return []
