"""Many runs on all cores: one process a core, the results in the order of the runs."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from autoscaler.model.policy import PolicySpec
from autoscaler.simulate.controllers.names import make
from autoscaler.simulate.engine import run
from autoscaler.simulate.faro.experiment import POLICIES, experiment
from autoscaler.simulate.fleet import warm_up
from autoscaler.simulate.scenario import Scenario
from autoscaler.simulate.scores import Scores
from autoscaler.simulate.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Run:
    """One scenario under one controller with one seed. `faro_path`: through Faro's own router and workers instead."""

    scenario: Scenario
    controller: str
    seed: int
    policy: PolicySpec | None = None
    watched: bool = False
    faro_path: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    scores: Scores
    timeline: Timeline | None


def one(job: Run) -> Result:
    """Carry out one run in this process."""
    if job.faro_path:
        kind, _, rest = job.controller.partition(":")
        if kind not in POLICIES or job.scenario.cpus is None:
            raise ValueError(f"Faro's path is for {', '.join(POLICIES)} with --cpus, not for {job.controller}")
        target = float(rest) / 100.0 if rest else 0.7
        scores = experiment(
            job.scenario.loads,
            kind,
            cpus=int(job.scenario.cpus),
            seed=job.seed,
            process=job.scenario.arrivals,
            target=target,
        )
        return Result(scores, None)
    controller = make(job.controller, job.policy)
    if not job.watched:
        return Result(run(job.scenario, controller, job.seed), None)
    names = tuple(load.name for load in job.scenario.loads)
    timeline = Timeline(names, controller.tick or job.scenario.scrape)
    scores = run(
        job.scenario,
        controller,
        job.seed,
        watch=lambda seen, orders, cluster: timeline.note(seen, orders, cluster, controller),
    )
    return Result(scores, timeline)


def many(runs: Sequence[Run], *, done: Callable[[Run, Result], None] | None = None) -> list[Result]:
    """All of them; `done` is told of each as it ends."""
    for name in {job.controller for job in runs if not job.faro_path}:
        make(name)  # a wrong name is an error here, not in a worker
    workers = min(len(runs), os.cpu_count() or 1)
    results: list[Result | None] = [None] * len(runs)
    if workers <= 1:
        for place, job in enumerate(runs):
            results[place] = result = one(job)
            if done is not None:
                done(job, result)
        return [result for result in results if result is not None]
    warm_up()
    # A fresh interpreter in each worker: forking one that has threads (numba, tests) may deadlock.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        places = {pool.submit(one, job): place for place, job in enumerate(runs)}
        for future in as_completed(places):
            place = places[future]
            results[place] = result = future.result()
            if done is not None:
                done(runs[place], result)
    return [result for result in results if result is not None]
