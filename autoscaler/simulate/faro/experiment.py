"""One run: jobs served event by event, their policy asked every few seconds, the CPUs shared in the jobs' order."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from autoscaler.simulate.compiled import compile_module
from autoscaler.simulate.controllers.hpa_rules import Behavior, Stabilizer
from autoscaler.simulate.faro import path
from autoscaler.simulate.faro.job import new_job
from autoscaler.simulate.faro.path import Job
from autoscaler.simulate.faro.replicas import Replicas
from autoscaler.simulate.faro.rules import MAX_REPLICAS, TARGET_S, WINDOW_S, Counter, aiad, oneshot
from autoscaler.simulate.faro.scored import scores
from autoscaler.simulate.load import Load
from autoscaler.simulate.scenario import WARM_UP_S
from autoscaler.simulate.scores import Scores

IDLE_CHECK_S = 5.0
POLICIES = ("fairshare", "aiad", "oneshot", "hpa")


def experiment(
    loads: Sequence[Load], policy: str, *, cpus: int, seed: int, process: str = "faro", target: float = 0.7
) -> Scores:
    """One run. `policy`: fairshare, aiad, oneshot, or hpa with `target` as the share of CPU used."""
    began = time.perf_counter()
    serve = compile_module(path).serve
    dice = np.random.default_rng([seed, 6])
    jobs = [new_job(load, process, seed * 1009 + number) for number, load in enumerate(loads)]
    sets = [Replicas(job, dice) for job in jobs]
    each = max(1, cpus // len(jobs)) if policy == "fairshare" else 1
    for one in sets:
        one.begin(each)
    counters = [Counter() for _ in jobs]
    stable = [Stabilizer(Behavior(most=MAX_REPLICAS)) for _ in jobs]
    end = max(load.length for load in loads)
    cores = started = 0.0
    steps = int(end / IDLE_CHECK_S)
    now = 0.0
    for step in range(1, steps + 1):
        border = step * IDLE_CHECK_S
        while now < border:
            upto = min([border, *(at for one in sets for at in one.starting)])
            for job in jobs:
                serve(job, upto)
            cores += (upto - now) * sum(one.workers for one in sets) * (upto > WARM_UP_S)
            now = upto
            for one in sets:
                one.ready(now)
        for one in sets:
            one.expire(now)
        before = [one.target for one in sets]
        if policy == "hpa" and step % 3 == 0:
            _hpa(sets, stable, step, now, target, cpus)
        elif policy in ("aiad", "oneshot") and step % 2 == 0:
            _threshold(sets, counters, step, now, oneshot if policy == "oneshot" else aiad, cpus)
        started += sum(max(0, one.target - old) for one, old in zip(sets, before, strict=True))
        for one in sets:
            one.place(now, cpus - sum(other.workers for other in sets))
    for job in jobs:
        serve(job, end + 600.0)
    return scores(jobs, end, cores, int(started), time.perf_counter() - began)


def recent(job: Job, step: int) -> float:
    """Mean latency of what ended in the last 30 s; nothing: 0."""
    bins = slice(max(0, step - int(WINDOW_S / 5.0)), step)
    count = int(job.ended_count[bins].sum())
    return float(job.ended_latency[bins].sum()) / count if count else 0.0


def _threshold(
    sets: list[Replicas],
    counters: list[Counter],
    step: int,
    now: float,
    rule: Callable[[int, float, int], int],
    cpus: int,
) -> None:
    wanted: list[tuple[Replicas, int]] = []
    for one, counter in zip(sets, counters, strict=True):
        mean = recent(one.job, step)
        due = counter.poll(mean > TARGET_S)
        if due and not one.acting(now):
            wanted.append((one, min(MAX_REPLICAS, max(1, rule(one.target, mean, due))) - one.target))
    _carry_out(sets, wanted, now, cpus)


def _hpa(sets: list[Replicas], stable: list[Stabilizer], step: int, now: float, target: float, cpus: int) -> None:
    wanted = []
    for one, stabilizer in zip(sets, stable, strict=True):
        ready = len(one.listed)
        use = float(one.job.busy[max(0, step - 6) : step].sum()) / min(now, WINDOW_S) / max(1, ready)
        ratio = use / target
        wish = one.target if abs(ratio - 1.0) <= 0.1 else max(1, math.ceil(ready * ratio - 1e-9))
        allowed = stabilizer.allow(now, one.target, wish)
        wanted.append((one, allowed - one.target))
    _carry_out(sets, wanted, now, cpus)


def _carry_out(sets: list[Replicas], wanted: list[tuple[Replicas, int]], now: float, cpus: int) -> None:
    """Downs first, then ups in the jobs' order, each cut to the quota left."""
    for one, change in wanted:
        if change < 0:
            one.shrink(-change, now)
    for one, change in wanted:
        if change > 0:
            allowed = min(change, cpus - sum(other.target for other in sets))
            if allowed > 0:
                one.grow(allowed)
