"""Whole runs: repeatable, honest about what is seen and paid, and the cluster's rules."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from autoscaler.simulate.arrivals import Arrivals
from autoscaler.simulate.batch import Run, one
from autoscaler.simulate.cluster import Cluster
from autoscaler.simulate.command import add_arguments, run
from autoscaler.simulate.controllers.names import make
from autoscaler.simulate.engine import run as simulate
from autoscaler.simulate.fleet import SimulatedFleet
from autoscaler.simulate.generate import generate
from autoscaler.simulate.load import Load
from autoscaler.simulate.scenario import NO_WAIT, Scenario, Serving
from autoscaler.simulate.scores import minute_metric, percentile
from autoscaler.simulate.service import Exponential, Fixed
from autoscaler.simulate.tally import BINS
from autoscaler.simulate.timeline import MOST_BINS
from autoscaler.simulate.visible import Visibility

BURSTS = generate("bursts:rate=30,high=90,every=5m,lasts=40s,length=15m")


def fleet_of(load: Load, serving: Serving, *, seed: int = 1, process: str = "poisson") -> SimulatedFleet:
    arrivals = Arrivals(load, process, serving.service, serving.wait, length=load.length, seed=seed)
    return SimulatedFleet(serving, arrivals, target=0.72, scored_from=0.0, seed=seed)


def cluster_of(scenario: Scenario, *templates: int) -> Cluster:
    fleets = [fleet_of(load, scenario.serving) for load in scenario.loads]
    return Cluster(scenario, fleets, templates, seed=1)


@pytest.mark.parametrize(
    ("servers", "service", "load", "expected"),
    [
        (1, Exponential(0.01), 0.7, 1 / 0.3),
        (1, Fixed(0.01), 0.7, 1 + 0.7 / 0.6),
        (4, Exponential(0.01), 0.8, 1.7455),
    ],
)
def test_queues_with_closed_forms(servers: int, service: Exponential | Fixed, load: float, expected: float) -> None:
    offered = Load("a", rates=np.full(10, load * servers / service.mean), step=300.0)
    fleet = fleet_of(offered, Serving(service, threads=servers))
    fleet.open(float("inf"), 1e6)
    fleet.advance(offered.length)
    measured = fleet.tally.latency_sum.sum() / fleet.tally.bins.sum() / service.mean
    assert measured == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("name", ["ours", "hpa:60", "kpa", "hpa+vpa:70", "aiad", "ideal"])
def test_a_second_run_is_the_same_to_the_bit(name: str) -> None:
    scenario = Scenario((BURSTS, generate("steady:rate=10,length=15m")), cpus=24.0)

    def scores(seed: int) -> dict[str, object]:
        found = asdict(simulate(scenario, make(name), seed))
        del found["wall_s"]
        return found

    first = scores(3)
    assert first == scores(3)
    assert first != scores(4)


def test_a_static_size_costs_what_it_is_and_misses_what_exceeds_it() -> None:
    load = Load("a", rates=np.full(900, 20.0))
    serving = Serving(Fixed(0.1))
    enough = simulate(Scenario((load,), serving), make("static:4"), 1)
    assert enough.mean_cores == pytest.approx(4.0) and enough.core_hours == pytest.approx(4.0 * 600 / 3600)
    assert enough.violations == 0.0 and enough.p50 == pytest.approx(0.1, rel=0.01)
    assert enough.slack == pytest.approx(0.5, abs=0.05) and (enough.resizes, enough.replicas_started) == (0, 0)
    short = simulate(Scenario((load,), serving), make("static:1"), 1)
    assert short.violations > 0.99 and short.p99 is None and short.slack < 0.01


def test_dropped_and_unfinished_requests_are_missed() -> None:
    load = Load("a", rates=np.full(900, 20.0))
    scenario = Scenario((load,), Serving(Fixed(0.1), threads=1, queue_limit=0))
    scores = simulate(scenario, make("static:8"), 1)
    assert 0.5 < scores.violations < 0.8  # M/D/1/1: load 2 loses two of three
    assert scores.p50 is None
    assert scores.violations_overall == scores.violations


def test_a_grow_without_room_waits_for_the_shrink_that_makes_it() -> None:
    scenario = Scenario((BURSTS, BURSTS), cpus=4.0)
    cluster = cluster_of(scenario, 2000, 2000)
    cluster.start(0, 1)
    cluster.start(1, 1)
    (first,), (second,) = cluster.pods
    cluster.advance(5.0)
    cluster.resize(first, 3000)
    cluster.advance(6.7)
    assert (first.allocated, first.deferred) == (2000, False)
    cluster.advance(6.9)
    assert (first.allocated, first.deferred) == (2000, True)
    cluster.resize(second, 1000)
    cluster.advance(8.6)
    assert (first.allocated, second.allocated) == (2000, 2000)
    cluster.advance(9.0)
    assert (first.allocated, second.allocated, first.deferred) == (3000, 1000, False)
    assert cluster.fleets[0].fleet.limit[first.place] == 3.0


def test_a_new_pod_starts_cold_where_there_is_room_and_costs_from_then_on() -> None:
    scenario = Scenario((replace(BURSTS, name="a"),), cpus=3.0)
    cluster = cluster_of(scenario, 1000)
    cluster.start(0, 1)
    cluster.advance(300.0)
    cluster.scale(0, 4)
    assert [pod.node is not None for pod in cluster.pods[0]] == [True, True, True, False]
    cluster.advance(334.0)
    assert sum(pod.place is not None for pod in cluster.pods[0]) == 1
    cluster.advance(336.0)
    assert sum(pod.place is not None for pod in cluster.pods[0]) == 3
    assert cluster.core_seconds == pytest.approx(36.0 * 3.0)
    cluster.scale(0, 1)  # the pending one goes first, then the newest
    cluster.advance(400.0)
    assert [pod.number for pod in cluster.pods[0]] == [1]


def test_controllers_see_cpu_late_and_counters_at_each_scrape() -> None:
    scenario = Scenario((Load("a", rates=np.full(600, 20.0)),), Serving(Fixed(0.1)))
    cluster = cluster_of(scenario, 4000)
    cluster.start(0, 1)
    visible = Visibility(cluster, seed=1)
    ages = []
    for tick in range(1, 100):
        cluster.advance(5.0 * tick)
        (seen,) = visible.scrape()
        (pod,) = seen.pods
        assert seen.window == pytest.approx(5.0)
        assert seen.requests * 5.0 == pytest.approx(round(seen.requests * 5.0))
        if pod.cpu is not None:
            ages.append(cluster.now - pod.cpu.at)
            assert pod.cpu.cores == pytest.approx(2.0, abs=1.5)
    assert min(ages) >= 5.0 and max(ages) <= 20.0
    assert len(ages) > 90


def test_ours_meets_the_objective_with_fewer_cores_than_the_peak_needs() -> None:
    scores = simulate(Scenario((BURSTS,)), make("ours"), 1)
    still = simulate(Scenario((BURSTS,)), make("static"), 1)
    assert scores.violations < still.violations / 2
    assert 5.0 < scores.mean_cores < 90 * 0.154
    assert scores.resizes > 0 and scores.replicas_started == 0


def test_half_of_ours_can_be_switched_off() -> None:
    scenario = Scenario((BURSTS,), pods=2, max_replicas=40)
    vertical, horizontal = (one(Run(scenario, name, 1, watched=True)) for name in ("ours-vertical", "ours-horizontal"))
    assert vertical.timeline is not None and horizontal.timeline is not None
    assert vertical.scores.resizes > 0
    assert {decision.replicas for decision in vertical.timeline.decisions} == {2}
    assert horizontal.scores.resizes == 0
    assert max(decision.replicas for decision in horizontal.timeline.decisions) > 7


def test_a_timeline_stays_small_and_keeps_its_sums() -> None:
    load = generate("steady:rate=5,length=12000s")
    found = one(Run(Scenario((load,)), "hpa:70", 1, watched=True))
    assert found.timeline is not None
    (bins,) = found.timeline.bins
    assert len(bins) <= MOST_BINS and found.timeline.width == 10.0
    assert sum(bin_.ticks for bin_ in bins) == 2400
    assert sum(bin_.ended for bin_ in bins) == pytest.approx(60_000, rel=0.02)


def test_a_wait_off_the_cpu_is_latency_without_cores() -> None:
    load = Load("a", rates=np.full(400, 10.0))
    scores = simulate(Scenario((load,), Serving(Fixed(0.01), wait=Fixed(0.2))), make("static:1"), 1)
    assert scores.p50 == pytest.approx(0.21, rel=0.01)
    assert scores.slack > 0.85


def test_the_minute_metric_weighs_minutes_and_workloads_alike() -> None:
    arrivals = [np.array([10, 0, 10]), np.array([1000, 1000, 0])]
    within = [np.array([5, 0, 10]), np.array([1000, 500, 0])]
    # Minutes: (0.5 + 1)/2, 0.5, 1: idle workloads don't count in their minute.
    assert minute_metric(arrivals, within) == pytest.approx(1 - (0.75 + 0.5 + 1.0) / 3)


def test_percentiles_count_the_unanswered_last() -> None:
    bins = np.zeros(BINS, dtype=np.int64)
    bins[100] = 98
    assert percentile(bins, 2, 0.95) == pytest.approx(1e-4 * 1.005**100)
    assert percentile(bins, 2, 0.99) is None
    assert percentile(np.zeros(BINS, dtype=np.int64), 0, 0.5) is None


def called(*words: str) -> int:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return run(parser.parse_args(words))


def test_the_command_gives_one_object_for_each_controller_and_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trace.txt").write_text("\n".join(["20"] * 120 + ["40"] * 480))
    (tmp_path / "policy.yaml").write_text(
        "kind: InferenceAutoscaler\nspec:\n  scaleTargetRef: {name: web}\n"
        "  objective: {latency: {target: 400ms, within: 99%}}\n  vertical: {cpu: {max: '6'}}\n"
    )
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("load: trace.txt\ncontroller: [ours]\nseeds: 3\npolicy: policy.yaml\nmean-erlang: 5\n")
    page = tmp_path / "report.html"
    assert called("--scenario", str(scenario), "--seeds", "1", "--json", "-", "--report", str(page)) == 0
    out, err = capsys.readouterr()
    (row,) = json.loads(out)
    assert {"controller", "seed", "violations", "violations_minute", "violations_overall", "p50", "p95", "p99"} <= set(
        row
    )
    assert {"core_hours", "mean_cores", "slack", "resizes", "replicas_started", "reversals", "wall_s"} <= set(row)
    assert (row["controller"], row["seed"]) == ("ours", 1)
    assert 0 < row["mean_cores"] <= 6.01  # the policy's maximum
    assert "[1/1] ours seed 1" in err
    text = page.read_text()
    assert text.count("<svg") == 2 and "Decisions of ours" in text
    assert "<script" not in text and "src=" not in text and 'href="http' not in text


def test_a_recorded_trace_is_replayed_with_its_own_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "trace.csv").write_text("t_send_s,cpu_ms\n0,120\n" + "".join(f"{n},10\n" for n in range(1, 20)))
    words = ("--load", str(tmp_path / "trace.csv"), "--controller", "static:0.5", "--json", "-")
    assert called(*words, "--warm-up", "0s") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["requests"] == 20 and row["mean_cores"] == pytest.approx(0.5)
    assert row["p50"] == pytest.approx(0.010, rel=0.01) and row["p99"] == pytest.approx(0.220, rel=0.01)
    assert called(*words) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["requests"] == 0 and row["p50"] is None  # all within the first five minutes


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "no load"),
        (("--load", "/nowhere.csv"), "/nowhere.csv"),
        (("--generate", "steady", "--controller", "bogus"), "'bogus' is none of ours"),
        (("--generate", "steady", "--service", "slow"), "service 'slow'"),
        (("--generate", "steady", "--cpus", "4", "--room", "10%"), "give one of them"),
        (("--generate", "steady", "--slo", "soon"), "--slo soon"),
        (("--generate", "steady", "--service", "tokens:context=1ms,generated=1ms"), "needs a load with tokens"),
        (("--generate", "idle:rate=0", "--mean-erlang", "3"), "without requests"),
        (("--from-prometheus", "http://127.0.0.1:9"), "needs --query"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_exit_2(
    words: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(*words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.startswith("autoscaler simulate: ") and complaint in err


def test_without_the_extra_one_line_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "from autoscaler.simulate.command import add_arguments, run\n"
        "import argparse; parser = argparse.ArgumentParser(); add_arguments(parser)\n"
        "sys.exit(run(parser.parse_args(['--generate', 'steady'])))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1 and "install inference-autoscaler[report]" in found.stderr


def test_arrivals_without_a_wait_need_none() -> None:
    assert NO_WAIT.draw(np.random.default_rng(1), 3).tolist() == [0.0, 0.0, 0.0]


def test_a_budget_is_never_exceeded_wherever_the_pods_are() -> None:
    scenario = Scenario((BURSTS, generate("steady:rate=10,length=15m")), budget=9.0)
    most = []
    for name in ("ours", "hpa:60", "vpa"):
        controller = make(name)
        simulate(
            scenario,
            controller,
            1,
            watch=lambda seen, orders, cluster: most.append(
                sum(pod.desired for pods in cluster.pods for pod in pods if pod.node is not None)
            ),
        )
    assert 8000 < max(most) <= 9000
