"""Rows on made-up loads: one thing that can go wrong in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from autoscaler.simulate.batch import Result
from autoscaler.simulate.generate import generate
from autoscaler.simulate.load import Load
from autoscaler.simulate.scenario import FARO_SERVICE, Scenario, Serving
from autoscaler.simulate.service import Fixed, Lognormal
from decided.runs import TRACE_SERVING, Bench, lean, mean, percent
from rows import Line


def steady(bench: Bench) -> Iterator[Line]:
    scenario = Scenario((generate("steady:rate=65,length=3900s"),), TRACE_SERVING)
    ours = bench.scores(scenario, "ours")["ours"]
    resizes, reversals = mean(ours, "resizes"), mean(ours, "reversals")
    yield Line(f"resizes in the hour {resizes:.1f}, goal <= 2 (naive 3-5)", resizes <= 2)
    yield Line(f"reversals {reversals:.1f}, goal 0", reversals <= 0)
    yield Line(f"violations {percent(ours)}; {lean(ours)}")


def random_eight(bench: Bench) -> Iterator[Line]:
    service = Lognormal(0.0793, 0.0686, 0.4225)
    serving = Serving(service, threads=8, balance="random")
    load = generate(f"steady:rate={8.0 / service.mean},length=3900s")
    scenario = Scenario((load,), serving, target=2.3 * service.mean, pods=8)
    found = bench.scores(scenario, "ours", "ideal")
    missed = 100 * mean(found["ours"], "violations")
    yield Line(f"violations {percent(found['ours'])}, goal <= 1 % (naive 30 %)", missed <= 1.0)
    yield Line(f"ours: {lean(found['ours'])}")


def tiny(bench: Bench) -> Iterator[Line]:
    service = FARO_SERVICE
    load = generate(f"steady:rate={0.05 / service.mean},length=3900s")
    scenario = Scenario((load,), Serving(service, threads=4), target=0.72)
    found = bench.scores(scenario, "ours")["ours"]
    missed = 100 * mean(found, "violations")
    yield Line(f"violations {percent(found)}, goal <= 1 % (naive 10 %)", missed <= 1.0)
    yield Line(f"ours: {lean(found)}")


def inelastic(bench: Bench) -> Iterator[Line]:
    # One thread a pod, one core a request: a pod can't use more than one core, whatever its size.
    serving = Serving(FARO_SERVICE, threads=1, queue_limit=200)
    load = generate(f"steps:rate={1.5 / FARO_SERVICE.mean},high={4.5 / FARO_SERVICE.mean},every=20m,length=1h")
    scenario = Scenario((load,), serving, pods=4, max_replicas=20)
    found = bench.results(scenario, "ours", "ours-horizontal", watched=True)
    ours, flat = ([one.scores for one in found[name]] for name in ("ours", "ours-horizontal"))
    waits = [wait for one in found["ours"] if (wait := _handed_over(one)) is not None]
    handed = max(waits) if len(waits) == len(found["ours"]) else float("inf")
    yield Line(
        f"handed to horizontal {handed:.0f} s after the second grow (latest of the seeds), goal <= 60 s", handed <= 60.0
    )
    misses, limit = 100 * mean(ours, "violations"), 110 * mean(flat, "violations")
    yield Line(f"violations {misses:.3g} %, goal <= 1.1 x horizontal-only = {limit:.3g} %", misses <= limit)
    yield Line(f"ours: {lean(ours)}")
    yield Line(f"horizontal only: {lean(flat)}")
    elastic = replace(scenario, serving=Serving(FARO_SERVICE, threads=16))
    wrong = bench.results(elastic, "ours", watched=True)["ours"]
    grows = sum(_grows(one) for one in wrong)
    said = sum(_said(one, "CannotUseMoreCpu") > 0 for one in wrong)
    share = 100.0 * said / max(1, grows)
    yield Line(f"grows on elastic pods judged wrongly {said} of {grows} ({share:.2g} %), goal <= 1 %", share <= 1.0)


def _grows(result: Result) -> int:
    assert result.timeline is not None
    return sum(1 for decision in result.timeline.decisions if decision.grown > 0)


def _said(result: Result, code: str) -> int:
    assert result.timeline is not None
    return sum(codes.get(code, (0, 0.0))[0] for codes in result.timeline.codes)


def _handed_over(result: Result) -> float | None:
    """Seconds from the second grow after the load's step to the first new replica; None when there was none."""
    assert result.timeline is not None
    after = [one for one in result.timeline.decisions if one.at > 1200.0]
    grows = [one.at for one in after if one.grown > 0]
    replicas = [one.replicas for one in result.timeline.decisions if one.at <= 1200.0]
    before = replicas[-1] if replicas else 4
    more = [one.at for one in after if one.replicas > before]
    if not more:
        return None
    second = grows[1] if len(grows) > 1 else grows[0] if grows else more[0]
    return max(0.0, more[0] - second)


def room(share: float) -> Callable[[Bench], Iterator[Line]]:
    def row(bench: Bench) -> Iterator[Line]:
        load = generate(
            f"bursts:rate={4.0 / FARO_SERVICE.mean},high={8.0 / FARO_SERVICE.mean},every=12m,lasts=180s,length=1h"
        )
        # The same pods for both: nodes with this much of a pod's size free, new pods on new nodes.
        scenario = Scenario(
            (load,), Serving(FARO_SERVICE, threads=16), room=share, pods=6, pod_cpu=1.0, max_replicas=24
        )
        found = bench.scores(scenario, "ours", "ours-horizontal")
        ours, flat = found["ours"], found["ours-horizontal"]
        missed, limit = 100 * mean(ours, "violations"), 110 * mean(flat, "violations") + 0.1
        yield Line(f"violations {percent(ours)}, goal <= 1.1 x {percent(flat)} + 0.1 = {limit:.3g} %", missed <= limit)
        cores = mean(ours, "mean_cores") / mean(flat, "mean_cores")
        yield Line(f"cores {cores:.3f} x horizontal-only's, goal <= 1.05 x", cores <= 1.05)
        yield Line(f"ours: {lean(ours)}")
        yield Line(f"horizontal only: {lean(flat)}")

    return row


def slow_dependency(bench: Bench) -> Iterator[Line]:
    # 20 ms of CPU, then a database that takes 0.8 s of an objective of 0.5 s.
    serving = Serving(Fixed(0.020), wait=Lognormal(0.0, 0.8, 0.2), threads=256)
    scenario = Scenario((generate("steady:rate=50,length=1h"),), serving, target=0.5)
    found = bench.results(scenario, "ours", watched=True)["ours"]
    grown = [_grown(one) for one in found]
    yield Line(f"cores bought beyond the start {max(grown):.2f}, goal 0", max(grown) <= 1e-9)
    said = sum(_said(one, "NotCpuBound") > 0 for one in found)
    yield Line(f"NOT_CPU_BOUND said in {said} of {len(found)} runs", said == len(found))
    yield Line(f"ours: {lean([one.scores for one in found])}")


def _grown(result: Result) -> float:
    assert result.timeline is not None
    series = [result.timeline.series(0)["cores"]]
    return max(0.0, max(series[0]) - series[0][0])


def spinning(bench: Bench) -> Iterator[Line]:
    plain = Serving(Fixed(0.018), threads=4)
    spun = replace(plain, spin_window=0.064, spin_cores=1.0)
    load = generate("diurnal:rate=12,swing=0.7,period=30m,length=1h")
    found = {
        name: bench.scores(Scenario((load,), serving, target=0.1), "ours")["ours"]
        for name, serving in (("plain", plain), ("spinning", spun))
    }
    cores = mean(found["spinning"], "mean_cores") / mean(found["plain"], "mean_cores")
    yield Line(f"cores {cores:.2f} x those without spinning, goal <= 1.3 x (naive 4 x)", cores <= 1.3)
    missed, calm_ = (100 * mean(found[name], "violations") for name in ("spinning", "plain"))
    yield Line(f"violations {missed:.3g} %, without spinning {calm_:.3g} %, goal: no worse", missed <= calm_ + 0.05)
    yield Line(f"spinning: {lean(found['spinning'])}")
    yield Line(f"plain: {lean(found['plain'])}")


def one_burst(bench: Bench) -> Iterator[Line]:
    rate = 4.0 / FARO_SERVICE.mean
    rates = np.full(3600, rate)
    rates[1800:1860] = 3.0 * rate
    scenario = Scenario((Load("burst", rates=rates),), TRACE_SERVING)
    found = bench.results(scenario, "ours", watched=True)["ours"]
    excess = []
    for one in found:
        assert one.timeline is not None
        series = one.timeline.series(0)
        at, cores = np.array(series["at"]), np.array(series["cores"])
        quiet = cores[(at > 900) & (at <= 1800)].mean()
        after = cores[(at > 1860 + 300) & (at <= 1860 + 360)].mean()
        excess.append(after / quiet - 1.0)
    yield Line(
        f"size 5 min after over the quiet size: {100 * max(excess):+.1f} % (largest), goal within 10 %",
        max(excess) <= 0.1,
    )
    yield Line(f"ours: {percent([one.scores for one in found])}, {lean([one.scores for one in found])}")
