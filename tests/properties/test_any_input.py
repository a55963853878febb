"""Whatever is seen, tick after tick: no exception, no bound broken, no core granted twice, a reason for everything."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.decide.decision import decide
from autoscaler.decide.history import compact, restore
from autoscaler.model.plan import Plan
from autoscaler.model.seen import Seen
from tests.properties import rules, worlds
from tests.properties.cluster import Cluster
from tests.properties.runs import examples


@given(st.data())
@examples(150)
def test_every_plan_keeps_every_rule(data: st.DataObject) -> None:
    cluster: Cluster = data.draw(worlds.clusters())
    for signals in data.draw(worlds.courses(cluster, 4)):
        for one, seen in zip(cluster.held, signals, strict=True):
            one.signals = seen
        # The same signals for a while, so that windows pass and what was asked for is refused, deferred or done.
        for _ in range(data.draw(st.sampled_from([1, 3, 30]))):
            rules.all_hold(*cluster.tick())


def turned(seen: Seen, order: random.Random) -> Seen:
    """The same sight with workloads, pods and maps in another order."""

    def other(values: Any) -> Any:
        values = list(values)
        order.shuffle(values)
        return values

    def view(subject: Any) -> Any:
        signals = subject.view.signals
        signals = replace(signals, pods=dict(other(signals.pods.items())), custom=dict(other(signals.custom.items())))
        return replace(subject, view=replace(subject.view, pods=tuple(other(subject.view.pods)), signals=signals))

    ledger = replace(
        seen.ledger, nodes=dict(other(seen.ledger.nodes.items())),
        committed_cpu=dict(other(seen.ledger.committed_cpu.items())),
        budgets=tuple(replace(one, members=tuple(other(one.members))) for one in other(seen.ledger.budgets)),
        quotas=tuple(replace(one, hard=dict(other(one.hard.items()))) for one in other(seen.ledger.quotas)),
    )  # fmt: skip
    return replace(seen, subjects=tuple(other(map(view, seen.subjects))), ledger=ledger)


def shape(plan: Plan) -> Any:
    """A plan without the order of what is sent together."""
    return sorted(repr(action) for action in plan.actions), plan.reason, sorted(map(str, plan.holds))


@given(st.data(), st.integers(0, 9))
@examples(80)
def test_the_order_of_workloads_pods_and_maps_decides_nothing(data: st.DataObject, seed: int) -> None:
    cluster: Cluster = data.draw(worlds.clusters())
    order = random.Random(seed)
    for signals in data.draw(worlds.courses(cluster, 3)):
        for one, measured in zip(cluster.held, signals, strict=True):
            one.signals = measured
        for _ in range(3):
            seen, past = cluster.seen(), cluster.past
            plans, histories = decide(seen, past)
            assert decide(seen, past) == (plans, histories)
            others, _ = decide(turned(seen, order), dict(reversed(past.items())))
            assert {ref: shape(plan) for ref, plan in plans.items()} == {ref: shape(others[ref]) for ref in plans}
            cluster.tick()


@given(st.data(), st.booleans())
@examples(60)
def test_a_restart_shrinks_nothing_for_a_minute(data: st.DataObject, kept: bool) -> None:
    """Whether the memory is lost or what was written of it is read back."""
    cluster: Cluster = data.draw(worlds.clusters())
    for signals in data.draw(worlds.courses(cluster, 3)):
        for one, measured in zip(cluster.held, signals, strict=True):
            one.signals = measured
        for _ in range(data.draw(st.integers(1, 20))):
            cluster.tick()
    cluster.past = {ref: restore(compact(history)) for ref, history in cluster.past.items()} if kept else {}
    for one, measured in zip(cluster.held, data.draw(worlds.courses(cluster, 1))[0], strict=True):
        one.signals = measured
    for _ in range(12):
        seen, plans = cluster.tick()
        rules.all_hold(seen, plans)
        for subject in seen.subjects:
            assert rules.lost(seen, subject, plans[subject.view.ref]) == []
