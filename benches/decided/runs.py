"""The runs behind a row, and what is said of their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autoscaler.simulate.batch import Result, Run, many
from autoscaler.simulate.inputs import read
from autoscaler.simulate.load import Load
from autoscaler.simulate.scenario import FARO_SERVICE, Scenario, Serving
from autoscaler.simulate.scores import Scores, spread

TRACE_SERVING = Serving(FARO_SERVICE, threads=32)


@dataclass(frozen=True, slots=True)
class Bench:
    """Where the traces are and how many seeds each run has."""

    traces: Path | None
    seeds: int

    def load(self, name: str) -> tuple[Load, ...]:
        if self.traces is None:
            raise FileNotFoundError("needs --traces DIR or AUTOSCALER_TRACES")
        return read(self.traces / name)

    def results(
        self, scenario: Scenario, *controllers: str, watched: bool = False, seeds: int | None = None
    ) -> dict[str, list[Result]]:
        """Every controller with every seed."""
        numbers = range(1, (seeds or self.seeds) + 1)
        runs = [Run(scenario, name, seed, watched=watched) for name in controllers for seed in numbers]
        found = many(runs)
        return {
            name: [result for run, result in zip(runs, found, strict=True) if run.controller == name]
            for name in controllers
        }

    def scores(self, scenario: Scenario, *controllers: str) -> dict[str, list[Scores]]:
        return {name: [one.scores for one in found] for name, found in self.results(scenario, *controllers).items()}


def mean(scores: Sequence[Scores], name: str) -> float:
    return spread(getattr(score, name) for score in scores)[0]


def percent(scores: Sequence[Scores], name: str = "violations") -> str:
    middle, width = spread(100.0 * getattr(score, name) for score in scores)
    return f"{middle:.3g} ± {width:.2g} %"


def per_hour(scores: Sequence[Scores], name: str, hours: float) -> float:
    return mean(scores, name) / hours


def scored_hours(scenario: Scenario) -> float:
    return (scenario.duration - 300.0) / 3600.0


def lean(scores: Sequence[Scores]) -> str:
    p99 = [score.p99 for score in scores if score.p99 is not None]
    return (
        f"{mean(scores, 'mean_cores'):.2f} cores, p99 {max(p99, default=float('inf')):.3g} s, "
        f"{mean(scores, 'resizes'):.0f} resizes, {mean(scores, 'replicas_started'):.0f} starts, "
        f"{mean(scores, 'reversals'):.1f} reversals"
    )
