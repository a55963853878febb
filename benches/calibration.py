"""Is the simulator to be believed? Measured against published experiments, closed forms and a real server.

    python benches/calibration.py [--traces DIR] [--truth DIR] [--seeds N] [--row NAME[,NAME…]]

`--traces` (AUTOSCALER_TRACES) holds faro/, `--truth` (AUTOSCALER_TRUTH) the recordings of an ONNX server under a CPU
quota: steady.csv, traces/steady_*.csv, traces/step_*.csv. Rows whose files aren't given are said to be not measured.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from autoscaler.queueing.live import ServingPods
from autoscaler.simulate.arrivals import Arrivals
from autoscaler.simulate.batch import Run, many
from autoscaler.simulate.fleet import SimulatedFleet, warm_up
from autoscaler.simulate.inputs import read
from autoscaler.simulate.load import Load
from autoscaler.simulate.scenario import NO_WAIT, Scenario, Serving
from autoscaler.simulate.scores import spread
from autoscaler.simulate.service import Exponential, Fixed, Service
from rows import Line, show

CORES = 2.0  # of the machine
NOT_MEASURED_S = 3.0  # at the start of each steady recording
PHASES = 10  # the recordings don't say where a quota period began: the mean over ten places


@dataclass(frozen=True, slots=True)
class Bench:
    traces: Path | None
    truth: Path | None
    seeds: int

    def of_truth(self, name: str) -> Path:
        if self.truth is None:
            raise FileNotFoundError("needs --truth DIR or AUTOSCALER_TRUTH")
        return self.truth / name


FARO_ROWS = (
    ("fairshare", 32, 16.3, 0.6),
    ("aiad", 32, 9.6, 0.8),
    ("oneshot", 32, 38.0, 3.0),
    ("fairshare", 16, 91.1, 1.0),
    ("fairshare", 24, 52.3, 1.0),
    ("aiad", 36, 7.2, 0.8),
    ("hpa:70", 32, 5.6, None),
    ("hpa:70", 36, 2.1, None),
)


def faro(bench: Bench) -> Iterator[Line]:
    if bench.traces is None:
        raise FileNotFoundError("needs --traces DIR or AUTOSCALER_TRACES")
    loads = read(bench.traces / "faro/faro_10jobs_6hr_input.json")
    runs = [
        Run(Scenario(loads, arrivals="faro", cpus=cpus), name, seed, faro_path=True)
        for name, cpus, _, _ in FARO_ROWS
        for seed in range(1, bench.seeds + 1)
    ]
    found = many(runs)
    for name, cpus, published, within in FARO_ROWS:
        scores = [
            result.scores
            for run, result in zip(runs, found, strict=True)
            if run.controller == name and run.scenario.cpus == cpus
        ]
        middle, width = spread(100 * score.violations_minute for score in scores)
        overall, _ = spread(100 * score.violations_overall for score in scores)
        wall = max(score.wall_s for score in scores)
        goal = f"published {published} ± {within}" if within else f"known {published}, not asserted"
        yield Line(
            f"{name} at {cpus} CPU: violations_minute {middle:.2f} ± {width:.2f} % ({goal}); of all requests "
            f"{overall:.2f} %; {wall:.1f} s a run",
            None if within is None else abs(middle - published) <= within,
        )


def erlang_c(servers: int, load: float) -> float:
    """Mean time in system over mean service time of M/M/c (Erlang's delay formula)."""
    offered = load * servers
    blocked = 1.0
    for number in range(1, servers + 1):
        blocked = offered * blocked / (number + offered * blocked)
    waits = blocked / (1.0 - load * (1.0 - blocked))
    return 1.0 + waits / (servers * (1.0 - load))


def sojourn(servers: int, load: float, service: Service, *, requests: float, seed: int) -> float:
    """The same by simulation, through the compiled kernel."""
    rate = load * servers / service.mean
    length = math.ceil(requests / rate / 60.0) * 60.0
    offered = Load("poisson", rates=np.full(int(length / 60.0), rate), step=60.0)
    arrivals = Arrivals(offered, "poisson", service, NO_WAIT, length=length, seed=seed)
    fleet = SimulatedFleet(Serving(service, threads=servers), arrivals, target=1.0, scored_from=0.0, seed=seed)
    fleet.open(math.inf, 1e6)
    fleet.advance(length)
    return float(fleet.tally.latency_sum.sum() / fleet.tally.bins.sum() / service.mean)


def _mean_sojourn(case: tuple[int, float, Service, int]) -> float:
    servers, load, service, seed = case
    return sojourn(servers, load, service, requests=1e7, seed=seed)


def closed_forms(bench: Bench) -> Iterator[Line]:
    cases: list[tuple[str, int, float, Service, float]] = []
    for servers, load in ((1, 0.5), (1, 0.8), (4, 0.8), (16, 0.9)):
        cases.append((f"M/M/{servers}", servers, load, Exponential(0.02), erlang_c(servers, load)))
    for load in (0.5, 0.8, 0.9):
        cases.append(("M/D/1", 1, load, Fixed(0.02), 1.0 + load / (2.0 * (1.0 - load))))
    warm_up()
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        jobs = [(servers, load, service, seed) for _, servers, load, service, _ in cases for seed in (1, 2)]
        found = list(pool.map(_mean_sojourn, jobs))
    for number, (name, _, load, _, exact) in enumerate(cases):
        measured = (found[2 * number] + found[2 * number + 1]) / 2.0
        yield Line(
            f"{name} at {load:g}: time in system {measured:.4f} services, closed form {exact:.4f} "
            f"({100 * (measured / exact - 1):+.2f} %)",
            bool(abs(measured / exact - 1) <= 0.01),
        )


@dataclass(frozen=True, slots=True)
class Recorded:
    """Requests of one recording, in seconds: when sent, CPU of the worker, the wall time spent outside it, and how
    long a thread takes to turn to the next request.
    """

    sent: np.ndarray
    cpu: np.ndarray
    outside: float
    handing_over: float
    threads: int

    @classmethod
    def read(cls, path: Path, threads: int) -> Recorded:
        with path.open() as file:
            rows = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
        column = {key: np.array([row[key] for row in rows]) for key in rows[0]}
        outside = np.median(column["latency_ms"] - column["qwait_ms"] - column["svc_ms"])
        held = 0.0
        if threads == 1:  # where the recording shows how long the thread takes to turn to the next request
            start = 1e3 * column["t_send_s"] + column["qwait_ms"]
            gaps = (start[1:] - (start + column["svc_ms"])[:-1])[column["qwait_ms"][1:] > 1.0]
            held = max(0.0, float(np.median(gaps))) / 1e3
        return cls(column["t_send_s"], column["cpu_ms"] / 1e3, float(outside) / 1e3, held, threads)

    def served(
        self, limit: float, per_request: float, phase: float, later: tuple[float, float] | None = None
    ) -> ServingPods:
        """The recorded arrivals and works through the kernel; `later`: (limit, when it is written).

        The event loop's thread burns its share of the quota beside the workers: `per_request` in all, over what the
        worker alone takes, is the parallelism.
        """
        parallelism = max(1.0, per_request / float(self.cpu.mean()))
        serving = ServingPods(threads=self.threads, parallelism=parallelism, balance="shared", keep_finished=True)
        serving.add_pod("server", at=0.0, limit=limit, cores=CORES)
        for sent, cpu in zip(self.sent + phase, self.cpu * parallelism, strict=True):
            serving.offer(float(sent), float(cpu), self.handing_over)
        if later is not None:
            serving.set_limit("server", later[0], at=later[1] + phase)
        return serving


def steady(bench: Bench) -> Iterator[Line]:
    path = bench.of_truth("steady.csv")
    with path.open() as file:
        measured = list(csv.DictReader(file))
    hits = total = 0
    for row in measured:
        limit, load = float(row["limit"]), float(row["load"])
        recorded = Recorded.read(
            path.parent / f"traces/steady_{row['variant']}_L{row['limit']}_x{row['load']}.csv", int(row["T"])
        )
        figures = []
        for number in range(PHASES):
            phase = 0.1 * number / PHASES
            serving = recorded.served(limit, float(row["cpu_ms_per_req"]) / 1e3, phase)
            serving.advance(NOT_MEASURED_S + phase)
            before = replace(serving.sample("server"))
            serving.advance(float(recorded.sent[-1]) + phase)
            pod = replace(serving.sample("server"))
            serving.advance(float(recorded.sent[-1]) + 60.0)
            latency = [
                end - arrival + recorded.outside
                for _, arrival, end in serving.finished()
                if arrival >= NOT_MEASURED_S + phase
            ]
            share = (pod.throttled_periods - before.throttled_periods) / max(1, pod.periods - before.periods)
            figures.append((*np.percentile(latency, [50, 95]) * 1e3, share))
        p50, p95, throttled = np.mean(figures, axis=0)
        allowed = 0.15 if load >= 0.5 else 0.40
        off50, off95 = p50 / float(row["p50_ms"]) - 1.0, p95 / float(row["p95_ms"]) - 1.0
        away = throttled - float(row["throttled_share"])
        met = abs(off50) <= allowed and abs(off95) <= allowed and abs(away) <= 0.1
        hits, total = hits + met, total + 1
        yield Line(
            f"{row['variant']} limit {limit:g} load {load:g}: p50 {p50:.1f} ms ({100 * off50:+.0f} %), "
            f"p95 {p95:.1f} ms ({100 * off95:+.0f} %), throttled {throttled:.2f} ({away:+.2f}); allowed "
            f"± {100 * allowed:.0f} %, ± 0.10",
            bool(met),
        )
    yield Line(f"{hits} of {total} recordings within")


def step(bench: Bench) -> Iterator[Line]:
    folder = bench.of_truth("step.csv").parent
    with (folder / "step.csv").open() as file:
        seconds = list(csv.DictReader(file))
    for variant, threads in (("A", 1), ("B", 4)):
        rows = [row for row in seconds if row["variant"] == variant]
        written = float(rows[0]["resize_t_s"])
        before = float(rows[0]["limit"])
        after = next(float(row["limit"]) for row in rows if float(row["limit"]) != before)
        per_request = sum(float(row["usage_cores"]) for row in rows) / sum(float(row["completed"]) for row in rows)
        recorded = Recorded.read(folder / f"traces/step_{variant}_r1.csv", threads)
        with (folder / f"traces/step_{variant}_r1_100ms.csv").open() as file:
            inside = [(float(row["t_s"]), int(row["inflight"])) for row in csv.DictReader(file)]
        real = next(at for at, number in inside if at > written and number <= threads) - written
        drains = []
        for number in range(PHASES):
            phase = 0.1 * number / PHASES
            serving = recorded.served(before, per_request, phase, (after, written))
            at = written
            while serving.in_flight > threads or at == written:
                at += 0.1
                serving.advance(at + phase)
            drains.append(at - written)
        drain = float(np.mean(drains))
        off = drain / real - 1.0
        yield Line(
            f"{variant}: backlog gone {drain:.1f} s after the quota write, measured {real:.1f} s ({100 * off:+.0f} %), "
            "allowed ± 25 %",
            bool(abs(off) <= 0.25),
        )


ROWS: dict[str, tuple[str, Callable[[Bench], Iterator[Line]]]] = {
    "faro": ("Faro's experiment: its path, its policies", faro),
    "closed-forms": ("queues with closed forms, within 1 %", closed_forms),
    "steady": ("an ONNX server under a quota: its arrivals and works replayed", steady),
    "step": ("the same: load up, quota written later, backlog drained", step),
}


def main() -> int:
    """Print the rows; the exit code says whether all could be measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=os.environ.get("AUTOSCALER_TRACES"))
    parser.add_argument("--truth", type=Path, default=os.environ.get("AUTOSCALER_TRUTH"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--row", default="")
    args = parser.parse_args()
    wanted = [name for name in args.row.split(",") if name]
    unknown = [name for name in wanted if name not in ROWS]
    if unknown:
        print(f"no row is called {unknown[0]}; there are {', '.join(ROWS)}", file=sys.stderr)
        return 2
    bench = Bench(
        Path(args.traces) if args.traces else None, Path(args.truth) if args.truth else None, max(1, args.seeds)
    )
    rows = {name: row for name, row in ROWS.items() if not wanted or name in wanted}
    met, missed, unmeasured = show(rows, bench, met="within", missed="OUTSIDE")
    print(f"\n{met} within, {missed} outside, {unmeasured} rows not measured")
    return 1 if unmeasured else 0


if __name__ == "__main__":
    sys.exit(main())
