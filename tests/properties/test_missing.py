"""What isn't known never shrinks a pod and never takes a replica away: for each signal and each cause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.model.signal import Absent, Cause, Measured, Reading, Signals
from tests.properties import rules, worlds
from tests.properties.cluster import GI, Cluster
from tests.properties.loads import GROWN, LATENCY, METRIC, USE, Load, served
from tests.properties.runs import examples

NEEDED = {
    "latency": ("requests", "misses", "in_flight", "cpu"),
    "cpu": ("cpu",),
    "metric": ("custom",),
}
OBJECTIVES: dict[str, dict[str, Any]] = {"latency": LATENCY, "cpu": USE, "metric": METRIC}
FAULTS: dict[str, Reading | None] = {str(cause): Absent(cause, "here") for cause in Cause}
FAULTS |= {"old": None, "of half the pods": None}


def broken(reading: Reading, fault: str) -> Reading:
    if fault == "old":
        return msgspec.structs.replace(reading, age_s=40.0)
    if fault == "of half the pods":
        return msgspec.structs.replace(reading, coverage=0.5)
    put = FAULTS[fault]
    assert put is not None
    return put


def without(signals: Signals, name: str, fault: str) -> Signals:
    if name == "custom":
        return replace(signals, custom={"queue": broken(signals.custom["queue"], fault)})
    return replace(signals, **{name: broken(getattr(signals, name), fault)})


CASES = [
    (objective, name, fault)
    for objective, names in NEEDED.items()
    for name in names
    for fault in FAULTS
    # No requests is something known; a gauge that nobody configured is not missing.
    if fault != Cause.NO_TRAFFIC and (name, fault) != ("in_flight", Cause.NOT_CONFIGURED)
]


def fallen(objective: str) -> tuple[Cluster, Load]:
    """Three large pods whose load has been high for three minutes and falls to a tenth now."""
    cluster, load = served(OBJECTIVES[objective], pods=3, size=2000, rate=20.0)
    for _ in range(36):
        load.tick(cluster)
    load.rate = 2.0
    return cluster, load


@pytest.mark.parametrize("objective", NEEDED)
def test_with_all_signals_it_shrinks_and_scales_in(objective: str) -> None:
    """Without this the next test would prove nothing."""
    cluster, load = fallen(objective)
    before = load.capacity(cluster)
    for _ in range(180):
        load.tick(cluster)
    assert load.capacity(cluster) < 0.6 * before
    assert cluster.held[0].replicas < 3


@pytest.mark.parametrize(("objective", "name", "fault"), CASES)
def test_nothing_is_taken_away_while_a_signal_is_missing(objective: str, name: str, fault: str) -> None:
    cluster, load = fallen(objective)
    for _ in range(120):
        cluster.held[0].signals = without(load.measured(cluster), name, fault)
        seen, plans = cluster.tick()
        for subject in seen.subjects:
            plan = plans[subject.view.ref]
            assert rules.lost(seen, subject, plan) == []
            assert plan.holds, "a hold says what is missing"


@given(st.data())
@examples(60)
def test_nor_by_any_workload_of_any_cluster(data: st.DataObject) -> None:
    """Random worlds that have learned from random signals, and then see nothing at all."""
    cluster: Cluster = data.draw(worlds.clusters())
    for signals in data.draw(worlds.courses(cluster, 3)):
        for one, measured in zip(cluster.held, signals, strict=True):
            one.signals = measured
        for _ in range(data.draw(st.sampled_from([1, 5, 25]))):
            cluster.tick()
    nothing: Absent = Absent(data.draw(st.sampled_from([c for c in Cause if c is not Cause.NO_TRAFFIC])), "here")
    for one in cluster.held:
        one.signals = Signals(nothing, one.signals.counts, *([nothing] * 9), custom={"queue": nothing})
    for _ in range(40):
        seen, plans = cluster.tick()
        for subject in seen.subjects:
            assert rules.lost(seen, subject, plans[subject.view.ref]) == []


@pytest.mark.parametrize("fault", [f for f in FAULTS if f not in (Cause.NO_TRAFFIC, "of half the pods")])
@pytest.mark.parametrize("missing", ["working_set", "memory_usage"])
def test_memory_is_not_taken_back_unseen(missing: str, fault: str) -> None:
    cluster, load = served(GROWN, pods=3, size=1000, rate=5.0, memory=4 * GI)
    load.memory = 0.2 * GI
    for _ in range(300):
        signals = load.measured(cluster)
        pods = {
            uid: msgspec.structs.replace(pod, **{missing: broken(getattr(pod, missing), fault)})
            for uid, pod in signals.pods.items()
        }
        cluster.held[0].signals = replace(signals, pods=pods)
        _, plans = cluster.tick()
        for action in rules.sized(plans[cluster.held[0].ref]):
            assert action.after.memory_limit is None or action.after.memory_limit > (action.before.memory_limit or 0)


def test_and_is_where_it_is_seen() -> None:
    cluster, load = served(GROWN, pods=3, size=1000, rate=5.0, memory=4 * GI)
    load.memory = 0.2 * GI
    for _ in range(300):
        load.tick(cluster)
    assert min(pod.containers[0].desired.memory_limit or 0 for pod in cluster.held[0].pods) < 4 * GI
    assert isinstance(load.measured(cluster).requests, Measured)
