"""One invocation of the command: flags and scenario file to runs, runs to table, JSON and report."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoscaler.simulate.assembly import build
from autoscaler.simulate.batch import Result, Run, many
from autoscaler.simulate.faro.experiment import POLICIES
from autoscaler.simulate.faro.rules import TARGET_S as FARO_TARGET
from autoscaler.simulate.given import read_policy, settle
from autoscaler.simulate.scenario import Scenario
from autoscaler.simulate.table import table

_SERVER_FLAGS = ("service", "threads", "parallelism", "balance", "queue_limit", "batch")


def carry_out(args: argparse.Namespace, defaults: Mapping[str, Any]) -> int:
    """Everything the command does; ValueError and OSError are for the person who called it."""
    given = settle(args, defaults)
    policy = read_policy(Path(given["policy"])) if given["policy"] else None
    scenario = build(given, policy)
    controllers = [name.strip() for name in given["controller"].split(",") if name.strip()]
    if not controllers:
        raise ValueError("--controller names nobody")
    seeds = int(given["seeds"])
    if seeds < 1:
        raise ValueError("--seeds must be at least 1")
    faro = as_published(scenario, given)
    theirs = [name for name in controllers if faro and name.partition(":")[0] in POLICIES]
    if theirs:
        print(f"{', '.join(theirs)}: through Faro's own router, queue and workers", file=sys.stderr)
    runs = [
        Run(
            scenario,
            name,
            seed,
            policy,
            watched=bool(given["report"]) and seed == 1,
            faro_path=name in theirs,
        )
        for name in controllers
        for seed in range(1, seeds + 1)
    ]
    results = many(runs, done=_progress(len(runs)))
    if given["json"]:
        rows = [result.scores.as_json(run.controller, run.seed) for run, result in zip(runs, results, strict=True)]
        text = json.dumps(rows, indent=2) + "\n"
        if given["json"] == "-":
            sys.stdout.write(text)
        else:
            Path(given["json"]).write_text(text, encoding="utf-8")
    if given["report"]:
        from autoscaler.simulate.report import write

        write(Path(given["report"]), runs, results, given)
        print(f"report: {given['report']}", file=sys.stderr)
    if given["json"] != "-":
        print("\n".join(table(runs, results)))
    return 0


def as_published(scenario: Scenario, given: Mapping[str, Any]) -> bool:
    """Whether nothing differs from Faro's published experiment, so that its policies can run on its own path."""
    return (
        scenario.arrivals == "faro"
        and scenario.cpus is not None
        and all(given[name] is None for name in _SERVER_FLAGS)
        and scenario.serving.wait.mean == 0.0
        and scenario.target == FARO_TARGET
        and scenario.length is None
        and scenario.budget is None
        and all(load.rates is not None and load.step == 60.0 for load in scenario.loads)
    )


def _progress(total: int) -> Any:
    ended = 0

    def done(run: Run, result: Result) -> None:
        nonlocal ended
        ended += 1
        scores = result.scores
        print(
            f"[{ended}/{total}] {run.controller} seed {run.seed}: {100 * scores.violations:.3g} % missed, "
            f"{scores.mean_cores:.4g} cores ({scores.wall_s:.1f} s)",
            file=sys.stderr,
            flush=True,
        )

    return done
