"""What a run missed and cost, under the names that the command prints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from autoscaler.simulate.cluster import Cluster
from autoscaler.simulate.tally import BINS, RESOLUTION, SHORTEST


@dataclass(frozen=True, slots=True)
class Scores:
    """Shares in [0, 1], latencies in seconds (None: not answered at all), counts over the scored time and all pods.

    violations_minute   by minute of arrival the share missed, mean over workloads, then over minutes; all minutes
    violations          misses / requests, unweighted mean over workloads; dropped and unfinished count as missed
    violations_overall  misses / requests of all
    core_hours          of max(desired, allocated) from binding to deletion, starting and draining included
    slack               share of these that was not used
    reversals           changes of a workload's total against its change less than two minutes before
    """

    violations_minute: float
    violations: float
    violations_overall: float
    p50: float | None
    p95: float | None
    p99: float | None
    core_hours: float
    mean_cores: float
    slack: float
    resizes: int
    replicas_started: int
    reversals: int
    requests: int
    wall_s: float

    def as_json(self, controller: str, seed: int) -> dict[str, Any]:
        return {"controller": controller, "seed": seed, **asdict(self)}


def minute_metric(arrivals: Sequence[np.ndarray], within: Sequence[np.ndarray]) -> float:
    """Faro's: minutes (rows of equal length) without arrivals don't count for that workload."""
    length = max(len(row) for row in arrivals)
    total, met = np.zeros((len(arrivals), length)), np.zeros((len(arrivals), length))
    for number, (row, good) in enumerate(zip(arrivals, within, strict=True)):
        total[number, : len(row)], met[number, : len(row)] = row, good
    some = total > 0
    share = np.divide(met, total, out=np.zeros_like(total), where=some)
    jobs = some.sum(axis=0)
    means = share.sum(axis=0)[jobs > 0] / jobs[jobs > 0]
    return float(1.0 - means.mean()) if len(means) else 0.0


def percentile(bins: np.ndarray, lost: int, share: float) -> float | None:
    """Upper edge of the bin; requests never answered come last."""
    total = int(bins.sum()) + lost
    if total == 0:
        return None
    place = int(np.searchsorted(np.cumsum(bins), math.ceil(share * total)))
    return None if place >= BINS else SHORTEST * (1.0 + RESOLUTION) ** place


def score(cluster: Cluster, *, used: float, end: float, wall: float) -> Scores:
    """`used`: CPU-seconds burnt in the scored time, `end`: when the load ended."""
    arrivals = [fleet.minute_arrivals for fleet in cluster.fleets]
    within = [fleet.tally.minute_within for fleet in cluster.fleets]
    first = math.ceil(cluster.scenario.warm_up / 60.0 - 1e-9)
    scored = [(row[first:].sum(), good[first:].sum()) for row, good in zip(arrivals, within)]  # noqa: B905
    shares = [1.0 - good / total for total, good in scored if total > 0]
    total, good = sum(total for total, _ in scored), sum(good for _, good in scored)
    bins = np.sum([fleet.tally.bins for fleet in cluster.fleets], axis=0)
    lost = sum(fleet.scored_arrivals for fleet in cluster.fleets) - int(bins.sum())
    span = max(end - cluster.scenario.warm_up, 1e-9)
    return Scores(
        violations_minute=minute_metric(arrivals, within),
        violations=float(np.mean(shares)) if shares else 0.0,
        violations_overall=float(1.0 - good / total) if total else 0.0,
        p50=percentile(bins, lost, 0.50),
        p95=percentile(bins, lost, 0.95),
        p99=percentile(bins, lost, 0.99),
        core_hours=cluster.core_seconds / 3600.0,
        mean_cores=cluster.core_seconds / span,
        slack=1.0 - used / cluster.core_seconds if cluster.core_seconds > 0 else 0.0,
        resizes=cluster.resizes,
        replicas_started=cluster.started,
        reversals=cluster.reversals,
        requests=int(sum(fleet.scored_arrivals for fleet in cluster.fleets)),
        wall_s=wall,
    )


def spread(values: Iterable[float]) -> tuple[float, float]:
    """Mean and standard deviation (of the sample)."""
    array = np.array(list(values), dtype=float)
    return float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else 0.0
