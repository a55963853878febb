"""More load never means less capacity, and a constant load comes to rest."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.decide.decision import decide
from autoscaler.model.plan import Resize, Scale
from autoscaler.model.signal import Measured, Signals
from tests.properties.cluster import Cluster, capacity, merged
from tests.properties.loads import LATENCY, METRIC, USE, changes, served
from tests.properties.runs import examples

objectives = st.sampled_from([LATENCY, LATENCY, USE, METRIC])
rates = st.floats(0.05, 120.0)
works = st.sampled_from([0.01, 0.06, 0.18, 0.6])


def wanted(cluster: Cluster, signals: Signals) -> int:
    """Millicores after what is decided now on these signals; the cluster stays as it is."""
    cluster.held[0].signals = signals
    plans, _ = decide(cluster.seen(), cluster.past)
    plan = plans[cluster.held[0].ref]
    total = capacity(cluster.held[0])
    for action in plan.actions:
        if isinstance(action, Resize):
            total += (merged(action.before, action.after).cpu or 0) - (action.before.cpu or 0)
        elif isinstance(action, Scale):
            each = cluster.held[0].template.cpu or 0 if action.after > action.before else total / action.before
            total += (action.after - action.before) * each
    return round(total)


def times(reading: Any, factor: float) -> Any:
    return Measured(
        reading.value * factor, reading.age_s, reading.window_s, reading.coverage, reading.weight * factor
    )  # fmt: skip


@given(objectives, rates, works, st.integers(1, 4), st.integers(0, 60), st.data())
@examples(120)
def test_more_of_everything_at_one_look(
    spec: dict[str, Any], rate: float, work: float, pods: int, ticks: int, data: st.DataObject
) -> None:
    """The same past and the same sizes; arrivals, requests in flight and CPU in use are higher by the same factor."""
    cluster, load = served(spec, pods=pods, size=data.draw(st.sampled_from([500, 1000, 3000])), rate=rate, work=work)
    for _ in range(ticks):
        load.tick(cluster)
    load.rate = data.draw(rates)
    signals = load.measured(cluster)
    least = 0
    for factor in (1.0, 1.05, 1.5, 4.0, 30.0):
        more = Signals(
            requests=times(signals.requests, factor), counts=signals.counts, misses=signals.misses,
            in_flight=times(signals.in_flight, factor), cpu=times(signals.cpu, factor), throttled=signals.throttled,
            working_set=signals.working_set, custom={"queue": times(signals.custom["queue"], factor)},
            pods=signals.pods,
        )  # fmt: skip
        now = wanted(cluster, more)
        assert now >= least, f"{now}m at {factor} times the load, {least}m at less"
        least = now


@given(rates, works, st.integers(1, 4), st.integers(30, 80), rates)
@examples(80)
def test_more_arrivals_alone(rate: float, work: float, pods: int, ticks: int, then: float) -> None:
    """The kubelet's CPU is older than the arrivals: a rise shows in them first. (What a request costs is known by then:
    at the very first look the same CPU for more requests makes them cheaper.)"""
    cluster, load = served(LATENCY, pods=pods, rate=rate, work=work)
    for _ in range(ticks):
        load.tick(cluster)
    load.rate = then
    signals = load.measured(cluster)
    least = 0
    for factor in (1.0, 1.2, 3.0, 10.0):
        more = copy.copy(cluster)
        kept = Signals(
            requests=times(signals.requests, factor), counts=signals.counts, misses=signals.misses,
            in_flight=times(signals.in_flight, factor),
            cpu=Measured(signals.cpu.value, 12.0, 15.0), throttled=signals.throttled, pods=signals.pods,  # type: ignore[union-attr]
        )  # fmt: skip
        now = wanted(more, kept)
        assert now >= least, f"{now}m at {factor} times the arrivals, {least}m at less"
        least = now


@given(
    objectives, rates, works, st.integers(1, 4), st.sampled_from([200, 1000, 4000]), st.floats(1.0, 3.0), st.booleans()
)
@examples(40)
def test_more_load_all_along(
    spec: dict[str, Any], rate: float, work: float, pods: int, size: int, factor: float, pinned: bool
) -> None:
    """Two clusters that differ in the load alone: the busier one has no less at rest, and with a fixed number of pods
    no less after each minute; but for one step a pod and what is too small a change to be worth a resize."""
    if pinned:
        spec = {**spec, "horizontal": {"minReplicas": pods, "maxReplicas": pods}}
    calm, light = served(spec, pods=pods, size=size, rate=rate, work=work)
    busy, heavy = served(spec, pods=pods, size=size, rate=rate * factor, work=work)
    for minute in range(12 if pinned else 40):
        for _ in range(12):
            light.tick(calm)
            heavy.tick(busy)
        if pinned or minute == 39:
            less, more = light.capacity(calm), heavy.capacity(busy)
            slack = 100 * len(calm.held[0].pods) + 0.1 * less
            assert more >= less - slack, f"minute {minute}: {more}m under {factor:.2f} times the load of {less}m"


@given(objectives, rates, works, st.integers(1, 4), st.sampled_from([200, 1000, 4000]))
@examples(50)
def test_a_constant_load_comes_to_rest(spec: dict[str, Any], rate: float, work: float, pods: int, size: int) -> None:
    cluster, load = served(spec, pods=pods, size=size, rate=rate, work=work)
    load.late = 0.001  # what head-room aims at: else ever less of it were tried, as nothing is missed by chance here
    turns, last, most = 0, 0, pods
    for tick in range(840):
        plan = load.tick(cluster)
        most = max(most, len(cluster.held[0].pods))
        if tick >= 720:
            assert not plan.actions, f"still changes after an hour: {plan.actions[0].reason}"
        for change in changes(plan)[:1]:
            turns += change != last and last == -1
            last = change
    # Down and up again: only where the pods that are left take over the load of one that goes.
    assert turns <= most - len(cluster.held[0].pods), f"{turns} reversals"
    assert load.queue == 0.0 or load.capacity(cluster) >= 40_000, "at rest in an overload"


@pytest.mark.parametrize("rate", [0.0, 1.0, 9.0, 60.0])
def test_at_rest_the_load_is_carried(rate: float) -> None:
    cluster, load = served(LATENCY, pods=2, size=500, rate=rate)
    for _ in range(240):
        load.tick(cluster)
    assert load.queue == 0.0
    assert load.missed == 0.0
    assert load.capacity(cluster) >= rate * load.work * 1000.0
    assert load.capacity(cluster) <= max(1500, 2.2 * rate * load.work * 1000.0)
