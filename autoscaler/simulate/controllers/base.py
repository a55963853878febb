"""What a controller is: it sees scrapes and objects, and orders sizes and numbers of pods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from autoscaler.simulate.cluster import Cluster, SimulatedPod
from autoscaler.simulate.scenario import Scenario
from autoscaler.simulate.visible import Seen

STEP = 100  # millicores


@dataclass(frozen=True, slots=True)
class Size:
    """Resize one pod to so many millicores."""

    pod: SimulatedPod
    milli: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Count:
    """Set a workload's replicas."""

    workload: int
    replicas: int
    why: str = ""
    victims: tuple[SimulatedPod, ...] = ()


Order = Size | Count


@dataclass(frozen=True, slots=True)
class Shape:
    """Pods of one workload at the start: how many, and the millicores of each."""

    replicas: int
    milli: int


class Controller(Protocol):
    """`tick`: seconds between decisions when not the scrape interval. Only objects and `Seen` may be looked at."""

    tick: float | None

    def shapes(self, scenario: Scenario, demand: Sequence[float]) -> list[Shape]:
        """The start, sized for the first minute; `demand` is each workload's mean load in cores then."""
        ...

    def decide(self, seen: Sequence[Seen], cluster: Cluster) -> list[Order]: ...


def vertical_shapes(scenario: Scenario, demand: Sequence[float]) -> list[Shape]:
    """`pods` pods each, together the load and its root (one standard deviation of a Poisson number in service)."""
    wanted = [load + math.sqrt(load) for load in demand]
    capacity = scenario.capacity
    scale = 1.0 if capacity is None else min(1.0, capacity / sum(wanted))
    shapes = []
    for cores in wanted:
        each = cores * scale * 1000 / scenario.pods
        rounded = math.ceil(each / STEP) if scale == 1.0 else math.floor(each / STEP)
        shapes.append(Shape(scenario.pods, max(STEP, rounded * STEP)))
    if capacity is not None:
        _fit(shapes, round(capacity * 1000))
    return shapes


def _fit(shapes: list[Shape], capacity: int) -> None:
    """Take steps from the largest until all fit."""
    while sum(shape.replicas * shape.milli for shape in shapes) > capacity:
        largest = max(range(len(shapes)), key=lambda number: shapes[number].milli)
        shape = shapes[largest]
        if shape.milli <= STEP:
            raise ValueError(
                f"{len(shapes)} workloads don't fit into {capacity / 1000:g} CPUs: raise --cpus or --budget"
            )
        shapes[largest] = Shape(shape.replicas, shape.milli - STEP)


def horizontal_shapes(scenario: Scenario, demand: Sequence[float], *, share: float) -> list[Shape]:
    """Pods of `pod_cpu`, used to `share` in the first minute; where all don't fit, the largest give first."""
    milli = round(scenario.pod_cpu * 1000)
    counts = [max(1, math.ceil(load / share / scenario.pod_cpu - 1e-9)) for load in demand]
    if scenario.capacity is not None:
        most = int(scenario.capacity * 1000 // milli)
        if most < len(counts):
            raise ValueError(
                f"{len(counts)} pods of {milli}m don't fit into {scenario.capacity:g} CPUs: raise --cpus or --budget"
            )
        while sum(counts) > most:
            counts[counts.index(max(counts))] -= 1
    return [Shape(count, milli) for count in counts]
