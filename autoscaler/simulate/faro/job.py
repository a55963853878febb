"""One job of the experiment: its requests, drawn ahead, in the arrays that its path works on."""

from __future__ import annotations

import math

import numpy as np

from autoscaler.simulate.arrivals import Arrivals
from autoscaler.simulate.compiled import floats, wholes
from autoscaler.simulate.faro.path import HELD, MOST_REPLICAS, PER_REPLICA, Job
from autoscaler.simulate.load import Load
from autoscaler.simulate.scenario import FARO_SERVICE
from autoscaler.simulate.service import Fixed, Lognormal

ROUTER = Lognormal(0.003485, 0.000988, 0.481)


def new_job(load: Load, process: str, seed: int) -> Job:
    length = load.length
    drawn = Arrivals(load, process, FARO_SERVICE, Fixed(0.0), length=length, seed=seed)
    batches = [drawn.between(60.0 * minute, 60.0 * (minute + 1)) for minute in range(math.ceil(length / 60.0))]
    # What a minute drew beyond the end of the trace comes too.
    arrival = np.concatenate([batch.times for batch in batches] + [drawn.late])
    dice = np.random.default_rng([seed, 5])
    count = len(arrival)
    at = wholes(9, 0)
    at[HELD] = -1
    bins = math.ceil(length / 5.0) + 40
    return Job(
        at=at,
        ends=floats(1, math.inf),
        arrival=arrival,
        service=FARO_SERVICE.draw(dice, count),
        router_in=ROUTER.draw(dice, count),
        router_out=ROUTER.draw(dice, count),
        latency=floats(count, -1.0),
        router=wholes(1 << 18, 0),
        queue=wholes(1 << 7, 0),
        order=wholes(MOST_REPLICAS, 0),
        inside=wholes(MOST_REPLICAS, 0),
        first=wholes(MOST_REPLICAS, 0),
        flight=wholes(MOST_REPLICAS * PER_REPLICA, 0),
        done=floats(MOST_REPLICAS, math.inf),
        ended_count=wholes(bins, 0),
        ended_latency=floats(bins, 0.0),
        busy=floats(bins, 0.0),
    )
