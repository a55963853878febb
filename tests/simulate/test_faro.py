"""Faro's experiment path: its rules, on a small load."""

from __future__ import annotations

import numpy as np
import pytest

from autoscaler.simulate.faro.experiment import experiment
from autoscaler.simulate.faro.job import new_job
from autoscaler.simulate.faro.replicas import Replicas
from autoscaler.simulate.load import Load

HOUR = Load("job", rates=np.full(30, 5.0), step=60.0)


def test_enough_replicas_miss_nothing_and_one_is_not_enough() -> None:
    many = experiment([HOUR], "fairshare", cpus=4, seed=1)
    one = experiment([HOUR], "fairshare", cpus=1, seed=1)
    assert many.violations_minute < 0.001 and many.mean_cores == 4.0
    assert one.violations_minute > 0.1  # 0.77 Erlang of Faro's bursty arrivals on one
    assert many.p50 == pytest.approx(0.155, abs=0.02)  # one service and two passes of the router


def test_policies_add_replicas_within_the_cpus_and_repeat_to_the_bit() -> None:
    busy = Load("busy", rates=np.full(30, 15.0), step=60.0)
    for policy in ("aiad", "oneshot", "hpa"):
        scores = [experiment([busy, HOUR], policy, cpus=6, seed=2) for _ in range(2)]
        assert scores[0].violations_minute == scores[1].violations_minute
        assert scores[0].replicas_started >= 2
        assert scores[0].mean_cores <= 6.0


def test_a_removed_replicas_worker_holds_its_cpu_and_starts_hot() -> None:
    replicas = Replicas(new_job(HOUR, "faro", 1), np.random.default_rng(1))
    replicas.begin(3)
    replicas.shrink(1, now=100.0)
    assert (replicas.target, replicas.workers, replicas.acting(102.0), replicas.acting(103.5)) == (2, 3, True, False)
    replicas.expire(125.0)
    assert replicas.workers == 3
    replicas.grow(2)
    assert replicas.place(126.0, free=0) == 0
    assert replicas.starting == [129.0] and replicas.waiting == 1  # hot on the idle worker; no CPU for the other
    assert replicas.place(131.0, free=1) == 1
    assert sorted(replicas.starting) == [129.0, 166.0]
    replicas.ready(170.0)
    replicas.shrink(2, now=200.0)
    replicas.expire(230.0)
    assert replicas.workers == 2
