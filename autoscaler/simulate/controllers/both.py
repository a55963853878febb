"""HPA and VPA on the same workload, each on its own CPU rule: what the documentation of both warns against.

VPA sizes the pods, and since HPA's utilisation is use over request, each change of one moves the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.simulate.cluster import Cluster
from autoscaler.simulate.controllers.base import Count, Order, Shape, Size
from autoscaler.simulate.controllers.hpa import Hpa
from autoscaler.simulate.controllers.vpa import Vpa
from autoscaler.simulate.scenario import Scenario
from autoscaler.simulate.visible import Seen


class HpaWithVpa:
    """HPA's orders after VPA's; new pods are born at the recommended size, as VPA's admission webhook does."""

    tick: float | None = None

    def __init__(self, target: float) -> None:
        self._hpa = Hpa(target)
        self._vpa = Vpa()

    def shapes(self, scenario: Scenario, demand: Sequence[float]) -> list[Shape]:
        return self._hpa.shapes(scenario, demand)

    def decide(self, seen: Sequence[Seen], cluster: Cluster) -> list[Order]:
        sizes = self._vpa.decide(seen, cluster)
        for order in sizes:
            if isinstance(order, Size):
                cluster.templates[order.pod.workload] = max(10, order.milli)
        counts = self._hpa.decide(seen, cluster)
        return [*sizes, *(order for order in counts if isinstance(order, Count))]
