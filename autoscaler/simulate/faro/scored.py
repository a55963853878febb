"""What the jobs of one run come to: Faro's minute metric beside shares, latencies and cores."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autoscaler.simulate.faro.path import ENDED, Job
from autoscaler.simulate.faro.rules import TARGET_S
from autoscaler.simulate.scenario import WARM_UP_S
from autoscaler.simulate.scores import Scores, minute_metric


def scores(jobs: Sequence[Job], end: float, core_seconds: float, started: int, wall: float) -> Scores:
    minutes = math.ceil(end / 60.0)
    arrivals, within, shares, waits = [], [], [], []
    total = good_total = 0
    for job in jobs:
        in_time = job.arrival < end
        minute = (job.arrival[in_time] / 60.0).astype(np.int64)
        met = ((job.latency >= 0.0) & (job.latency <= TARGET_S))[in_time]
        arrivals.append(np.bincount(minute, minlength=minutes))
        within.append(np.bincount(minute[met], minlength=minutes))
        scored = arrivals[-1][5:].sum(), within[-1][5:].sum()
        total, good_total = total + scored[0], good_total + scored[1]
        shares.append(1.0 - scored[1] / max(1, scored[0]))
        latency = job.latency[in_time][minute >= 5]
        waits.append(np.where(latency < 0.0, math.inf, latency))
    ranked = np.sort(np.concatenate(waits))

    def at(share: float) -> float | None:
        value = float(ranked[min(len(ranked) - 1, math.ceil(share * len(ranked)) - 1)])
        return value if math.isfinite(value) else None

    used = float(sum(job.busy[60:].sum() for job in jobs))
    assert all(int(job.at[ENDED]) <= len(job.arrival) for job in jobs)
    return Scores(
        violations_minute=minute_metric(arrivals, within),
        violations=float(np.mean(shares)),
        violations_overall=float(1.0 - good_total / max(1, total)),
        p50=at(0.50),
        p95=at(0.95),
        p99=at(0.99),
        core_hours=float(core_seconds / 3600.0),
        mean_cores=float(core_seconds / (end - WARM_UP_S)),
        slack=float(1.0 - used / core_seconds) if core_seconds else 0.0,
        resizes=0,
        replicas_started=started,
        reversals=0,
        requests=int(total),
        wall_s=wall,
    )
