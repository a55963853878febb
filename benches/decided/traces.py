"""Rows on public load traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

from autoscaler.simulate.engine import settled
from autoscaler.simulate.load import Load
from autoscaler.simulate.scenario import FARO_SERVICE, Scenario, Serving
from autoscaler.simulate.service import Tokens
from decided.runs import TRACE_SERVING, Bench, lean, mean, per_hour, percent, scored_hours
from rows import Line

HPA_TARGETS = (40, 50, 60, 70, 80, 90)

# Faro's jobs: ten services on one node, requests of 154 ms on one core, eight at a time, 50 may wait.

FARO_SERVING = Serving(FARO_SERVICE, threads=8, queue_limit=50)


@cache
def _faro_scenario(bench: Bench, cpus: float, arrivals: str) -> Scenario:
    return Scenario(bench.load("faro/faro_10jobs_6hr_input.json"), FARO_SERVING, arrivals, cpus=cpus)


def faro(cpus: float, goal: float, anchors: str) -> Callable[[Bench], Iterator[Line]]:
    def row(bench: Bench) -> Iterator[Line]:
        scenario = _faro_scenario(bench, cpus, "faro")
        found = bench.scores(scenario, "ours", "ideal")
        ours, ideal = found["ours"], found["ideal"]
        missed = 100 * mean(ours, "violations_minute")
        yield Line(
            f"violations_minute {percent(ours, 'violations_minute')}, goal <= {goal} % ({anchors})", missed <= goal
        )
        resizes = per_hour(ours, "resizes", scored_hours(scenario)) / len(scenario.loads)
        yield Line(f"resizes a job and hour {resizes:.1f}, goal <= 60", resizes <= 60)
        yield Line(f"ours: {lean(ours)}")
        yield Line(f"ideal information: {percent(ideal, 'violations_minute')} at {mean(ideal, 'mean_cores'):.2f} cores")

    return row


def uniform(
    cpus: float, goal: float, anchors: str, serving: Serving = FARO_SERVING
) -> Callable[[Bench], Iterator[Line]]:
    def row(bench: Bench) -> Iterator[Line]:
        scenario = replace(_faro_scenario(bench, cpus, "uniform"), serving=serving)
        found = bench.scores(scenario, "ours", "ideal")
        ours, ideal = found["ours"], found["ideal"]
        missed = 100 * mean(ours, "violations")
        yield Line(f"violations {percent(ours)}, goal <= {goal} % ({anchors})", missed <= goal)
        yield Line(f"ours: {lean(ours)}")
        yield Line(f"ideal information: {percent(ideal)} at {mean(ideal, 'mean_cores'):.2f} cores")

    return row


# Request rates of a second's grain, scaled to ten cores of work.


def erlang(load: Load, cores: float, serving: Serving) -> Load:
    return load.scaled(cores / (load.mean_rate() * serving.service.mean))


def trace(name: str) -> Callable[[Bench], Iterator[Line]]:
    def row(bench: Bench) -> Iterator[Line]:
        load = erlang(bench.load(f"autothrottle/{name}.txt")[0], 10.0, TRACE_SERVING)
        scenario = Scenario((load,), TRACE_SERVING)
        hpas = [f"hpa:{target}" for target in HPA_TARGETS]
        found = bench.scores(scenario, "ours", "ideal", *hpas)
        ours, ideal = found["ours"], found["ideal"]
        good = [hpa for hpa in hpas if mean(found[hpa], "violations") <= 0.005]
        best = (
            min(good, key=lambda hpa: mean(found[hpa], "mean_cores"))
            if good
            else min(hpas, key=lambda hpa: mean(found[hpa], "violations"))
        )
        cores = {one: mean(found[one], "mean_cores") for one in ("ours", "ideal", best)}
        missed = 100 * mean(ours, "violations")
        yield Line(f"violations {percent(ours)}, goal <= 0.1 % (naive <= 0.5 %)", missed <= 0.1)
        gap = cores[best] - cores["ideal"]
        closed = (cores[best] - cores["ours"]) / gap if gap > 0 else float("nan")
        yield Line(
            f"core gap closed {100 * closed:.0f} %, goal >= 50 % (ours {cores['ours']:.2f}, {best} {cores[best]:.2f} "
            f"at {percent(found[best])}, ideal {cores['ideal']:.2f} at {percent(ideal)})",
            closed >= 0.5,
        )
        yield Line(f"ours: {lean(ours)}")
        for hpa in hpas:
            yield Line(f"{hpa}: {percent(found[hpa])}, {lean(found[hpa])}")

    return row


# Requests of a language model: 0.3 ms of CPU a token read, 3 ms a token written, pods in turn.
LLM_SERVING = Serving(Tokens(0.0003, 0.003), threads=64, balance="round-robin")


def azure(name: str, fewer: float, most: float, anchors: str) -> Callable[[Bench], Iterator[Line]]:
    def row(bench: Bench) -> Iterator[Line]:
        load = bench.load(f"azure-llm-2023/AzureLLMInferenceTrace_{name}.csv")[0]
        scenario = Scenario((load,), LLM_SERVING, target=4.0 * settled(LLM_SERVING, (load,)).service.mean)
        found = bench.scores(scenario, "ours", "hpa:70", "ideal")
        ours, hpa = found["ours"], found["hpa:70"]
        ratio = mean(hpa, "violations") / max(mean(ours, "violations"), 1e-9)
        yield Line(
            f"violations {percent(ours)} against HPA-70's {percent(hpa)}: {ratio:.3g} x fewer, goal >= {fewer:g} x "
            f"({anchors})",
            ratio >= fewer,
        )
        cores = mean(ours, "mean_cores") / mean(hpa, "mean_cores")
        yield Line(f"cores {cores:.2f} x HPA-70's, goal <= {most:g} x", cores <= most)
        yield Line(f"ours: {lean(ours)}")
        yield Line(f"HPA-70: {lean(hpa)}")
        yield Line(f"ideal information: {percent(found['ideal'])}, {lean(found['ideal'])}")

    return row


def calm(name: str) -> Callable[[Bench], Iterator[Line]]:
    def row(bench: Bench) -> Iterator[Line]:
        if name == "code":
            load, serving = bench.load("azure-llm-2023/AzureLLMInferenceTrace_code.csv")[0], LLM_SERVING
            target = 4.0 * settled(serving, (load,)).service.mean
        else:
            load, serving = erlang(bench.load(f"autothrottle/{name}.txt")[0], 10.0, TRACE_SERVING), TRACE_SERVING
            target = 0.72
        scenario = Scenario((load,), serving, target=target)
        found = bench.scores(scenario, "ours", "hpa:50")
        hours = scored_hours(scenario)
        ours, hpa = (per_hour(found[one], "reversals", hours) for one in ("ours", "hpa:50"))
        yield Line(f"reversals an hour {ours:.1f}, goal <= HPA-50's + 2 = {hpa + 2:.1f} (naive 0-16)", ours <= hpa + 2)

    return row
