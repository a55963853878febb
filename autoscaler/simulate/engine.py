"""One run: a scenario, a controller, a seed. Tick by tick, the pods advanced exactly in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from autoscaler.simulate.arrivals import Arrivals
from autoscaler.simulate.cluster import Cluster
from autoscaler.simulate.controllers.base import Controller, Count, Order, Size
from autoscaler.simulate.controllers.ideal import Ideal
from autoscaler.simulate.fleet import SimulatedFleet
from autoscaler.simulate.load import Load
from autoscaler.simulate.scenario import Scenario, Serving
from autoscaler.simulate.scores import Scores, score
from autoscaler.simulate.service import Recorded, Tokens
from autoscaler.simulate.visible import Seen, Visibility

DRAIN_S = 60.0  # after the load's end, so that what is inside can still be answered

Watch = Callable[[list[Seen], list[Order], Cluster], None]


def run(scenario: Scenario, controller: Controller, seed: int, *, watch: Watch | None = None) -> Scores:
    """Scores of one run; `watch` sees every tick. The same arguments give the same scores to the bit (but `wall_s`)."""
    began = time.perf_counter()
    scenario = replace(scenario, serving=settled(scenario.serving, scenario.loads))
    if isinstance(controller, Ideal):
        scenario = replace(scenario, actuation=0.0)
    serving, end, target, warm_up = scenario.serving, scenario.duration, scenario.target, scenario.warm_up
    fleets = []
    for number, load in enumerate(scenario.loads):
        key = seed * 1009 + number
        arrivals = Arrivals(load, scenario.arrivals, serving.service, serving.wait, length=end, seed=key)
        fleets.append(SimulatedFleet(serving, arrivals, target=target, scored_from=warm_up, seed=key + 1))
    demand = [load.mean_rate(0.0, 60.0) * serving.service.mean for load in scenario.loads]
    shapes = controller.shapes(scenario, demand)
    cluster = Cluster(scenario, fleets, [shape.milli for shape in shapes], seed=seed)
    for number, shape in enumerate(shapes):
        cluster.start(number, shape.replicas)
    visible = Visibility(cluster, seed=seed)
    step = controller.tick or scenario.scrape
    ticks = int(end / step + 1e-9)
    before_warm = 0.0
    for tick in range(1, ticks + 1):
        cluster.advance(tick * step)
        if cluster.now <= warm_up:
            before_warm = cpu_used(cluster)
        seen = visible.scrape()
        orders = controller.decide(seen, cluster)
        if orders:
            carry_out(orders, cluster)
        if watch is not None:
            watch(seen, orders, cluster)
    cluster.advance(end)
    used, core_seconds = cpu_used(cluster) - before_warm, cluster.core_seconds
    cluster.advance(end + max(DRAIN_S, 2 * scenario.target))
    cluster.core_seconds = core_seconds
    return score(cluster, used=used, end=end, wall=time.perf_counter() - began)


def settled(serving: Serving, loads: Sequence[Load]) -> Serving:
    """The mean of a service that the load itself tells (in tokens, or recorded) comes from it."""
    service = serving.service
    if isinstance(service, Recorded):
        if not all(load.recorded for load in loads):
            raise ValueError("service recorded needs loads that say what each request took, as a column cpu_ms")
        works = np.concatenate([load.tokens for load in loads if load.tokens is not None])
        return replace(serving, service=Recorded(float(works.mean())))
    if not isinstance(service, Tokens):
        return serving
    if any(load.tokens is None or load.recorded for load in loads):
        raise ValueError("service tokens:… needs a load with tokens (--load-format requests)")
    tokens = np.concatenate([load.tokens for load in loads if load.tokens is not None])
    typical = (float(tokens[:, 0].mean()), float(tokens[:, 1].mean()))
    return replace(serving, service=replace(service, typical=typical))


def carry_out(orders: list[Order], cluster: Cluster) -> None:
    """Give the orders to the cluster and note how each workload's total changed."""
    touched = {order.pod.workload if isinstance(order, Size) else order.workload for order in orders}
    before = {workload: cluster.total(workload) for workload in touched}
    for order in orders:
        match order:
            case Size():
                cluster.resize(order.pod, order.milli)
            case Count():
                cluster.scale(order.workload, order.replicas, order.victims)
    for workload in sorted(touched):
        cluster.noted(workload, before[workload], cluster.total(workload))


def cpu_used(cluster: Cluster) -> float:
    """CPU-seconds of all pods that are there; those of pods that have gone are added by the cluster."""
    return cluster.cpu_gone + sum(
        float(cluster.fleets[pod.workload].fleet.cpu[pod.place])
        for pods in cluster.pods
        for pod in pods
        if pod.place is not None
    )
