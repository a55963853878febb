"""Memory is shared as CPU is: no byte is granted twice in a tick, and the refusal says what was short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.decide.decision import decide
from autoscaler.model.plan import BudgetView, Ledger, LimitRangeView, Plan, QuotaView, Resize
from autoscaler.model.policy import Policy
from autoscaler.model.reason import Code
from autoscaler.model.seen import Seen, Subject
from autoscaler.model.signal import Measured, PodSignals
from autoscaler.model.workload import Attempt, Node, Pod, ResizeState, Resources, WorkloadRef
from tests.decide import world
from tests.decide.world import GI, START, ledger, policy, signals, view

MI = 2**20


def pod(name: str, memory: int) -> Pod:
    """CPU is enough: a pod whose CPU changes keeps its memory for that tick."""
    return world.pod(name, cpu=4000, memory=memory)


def wants(name: str, priority: int = 0, top: str = "16Gi") -> Policy:
    memory = {"min": "512Mi", "max": top}
    return policy(name, priority=priority, vertical={"cpu": {"min": "100m", "max": "8"}, "memory": memory})


def near(one: Pod, share: float = 0.95) -> PodSignals:
    used = share * (one.containers[0].desired.memory_limit or 0)
    return PodSignals(working_set=Measured(used, age_s=2.0), memory_usage=Measured(used, age_s=2.0))


def killed(one: Pod) -> Pod:
    return replace(one, containers=(replace(one.containers[0], oom_at=START - 2.0),))


def tick(room: Ledger, *workloads: tuple[Policy, Sequence[Pod]]) -> dict[str, Plan]:
    subjects = tuple(
        Subject(view(*pods, seen=signals(pods={one.uid: near(one) for one in pods}), name=chosen.ref.name), chosen)
        for chosen, pods in workloads
    )
    plans, _ = decide(Seen(START, subjects, room), {})
    return {ref.name: plan for ref, plan in plans.items()}


def grown(plan: Plan) -> dict[str, tuple[int, int]]:
    """Limit and request added, by pod."""
    found = {}
    for one in plan.actions:
        if isinstance(one, Resize) and one.after.memory_limit is not None:
            request = (one.after.memory_request or 0) - (one.before.memory_request or 0)
            found[one.pod.name] = (one.after.memory_limit - (one.before.memory_limit or 0), request)
    return found


def room(memory: int, **more: Any) -> Ledger:
    return ledger(**{"nodes": 1, "committed_memory": {"n1": 64 * GI - memory}, **more})


def test_two_workloads_share_what_a_node_has_left_and_priority_goes_first() -> None:
    left = 400 * MI
    plans = tick(room(left), (wants("low"), [pod("a", memory=4 * GI)]), (wants("high", 5), [pod("b", memory=4 * GI)]))
    first, second = grown(plans["high"]), grown(plans["low"])
    assert sum(request for _, request in (*first.values(), *second.values())) <= left
    assert first["b"][0] >= first["b"][1] > 0
    assert not second or second["a"][0] < first["b"][0]
    (full,) = [hold for hold in plans["low"].holds if hold.code is Code.NODE_FULL]
    assert full.numbers["node"] == "n1"
    assert "Mi more memory wanted" in full.text and "free on n1" in full.text


def test_who_was_killed_goes_before_who_may_be() -> None:
    plans = tick(
        room(500 * MI), (wants("a"), [pod("a", memory=4 * GI)]), (wants("b"), [killed(pod("b", memory=4 * GI))])
    )
    assert grown(plans["b"])["b"][0] >= 0.2 * 4 * GI, "all that it asked for"
    assert sum(r for name in "ab" for _, r in grown(plans[name]).values()) <= 500 * MI


@pytest.mark.parametrize(
    ("more", "code", "word"),
    [
        ({"quotas": (QuotaView("serving", "team", {"limits.memory": 10 * GI}, {"limits.memory": 10 * GI - 200 * MI}),)},
         Code.QUOTA, "team (limits.memory)"),
        ({"quotas": (QuotaView("serving", "team", {"memory": 10 * GI}, {"memory": 10 * GI - 100 * MI}),)},
         Code.QUOTA, "team (memory)"),
        ({"quotas": (QuotaView("serving", "team", {"requests.memory": 10 * GI}, {"requests.memory": 10 * GI}),)},
         Code.QUOTA, "0 left in quota"),
        ({"budgets": (BudgetView(WorkloadRef("serving", "vision"), None, 4 * GI + 200 * MI,
                                 (WorkloadRef("serving", "resnet"),)),)},
         Code.BUDGET, "serving/vision"),
        ({"limit_ranges": {"serving": LimitRangeView(memory_max=4 * GI + 200 * MI)}},
         Code.LIMIT_RANGE, "at most 4296Mi"),
        ({"limit_ranges": {"serving": LimitRangeView(pod_memory_max=4 * GI)}}, Code.LIMIT_RANGE, "at most 4Gi"),
    ],
)  # fmt: skip
def test_quota_budget_and_limit_range_bound_it_and_are_named(more: dict[str, Any], code: Code, word: str) -> None:
    plan = tick(room(60 * GI, **more), (wants("resnet"), [pod("a", memory=4 * GI)]))["resnet"]
    assert all(limit <= 200 * MI for limit, _ in grown(plan).values())
    (said,) = [hold for hold in plan.holds if hold.code is code]
    assert word in said.text


def test_another_namespaces_quota_and_a_spacious_one_hold_nothing() -> None:
    quotas = (
        QuotaView("other", "team", {"limits.memory": GI}, {"limits.memory": GI}),
        QuotaView("serving", "team", {"limits.memory": 64 * GI}, {"limits.memory": 8 * GI}),
    )
    plan = tick(room(60 * GI, quotas=quotas), (wants("resnet"), [pod("a", memory=4 * GI)]))["resnet"]
    assert grown(plan)["a"][0] > 500 * MI


@given(
    left=st.integers(0, 3000), quota=st.integers(0, 3000), budget=st.integers(0, 3000),
    sizes=st.lists(st.tuples(st.integers(300, 6000), st.integers(0, 2), st.booleans()), min_size=1, max_size=4),
)  # fmt: skip
def test_together_they_never_get_more_than_there_is(
    left: int, quota: int, budget: int, sizes: list[tuple[int, int, bool]]
) -> None:
    names = [f"w{place}" for place in range(len(sizes))]
    total = sum(size for size, _, _ in sizes) * MI
    refs = tuple(WorkloadRef("serving", name) for name in names)
    here = room(
        left * MI,
        quotas=(QuotaView("serving", "team", {"limits.memory": total + quota * MI}, {"limits.memory": total}),),
        budgets=(BudgetView(WorkloadRef("serving", "all"), None, total + budget * MI, refs),),
    )
    pods = [pod(name, memory=size * MI) for name, (size, _, _) in zip(names, sizes, strict=True)]
    pods = [killed(one) if dead else one for one, (_, _, dead) in zip(pods, sizes, strict=True)]
    cases = [(wants(n, p), [one]) for n, one, (_, p, _) in zip(names, pods, sizes, strict=True)]
    plans = tick(here, *cases)
    added = [amount for plan in plans.values() for amount in grown(plan).values()]
    assert all(limit > 0 for limit, _ in added)
    assert sum(request for _, request in added) <= left * MI
    assert sum(limit for limit, _ in added) <= min(quota, budget) * MI
    for name, plan in plans.items():
        if not grown(plan):
            assert plan.holds, f"{name} got nothing and wasn't told why"


def test_a_limit_that_was_refused_is_halved_and_not_asked_for_again() -> None:
    unseen = Ledger(nodes_known=False)
    asked = Resources(memory_request=3 * GI, memory_limit=6 * GI)
    one = pod("a", memory=4 * GI)
    before = one.containers[0].desired
    late = replace(one, attempt=Attempt(ResizeState.REFUSED, asked, START - 5, "Quota", before=before, until=START - 5))
    plan = tick(unseen, (wants("resnet"), [late]))["resnet"]
    assert grown(plan)["a"][0] <= GI
    near_miss = replace(asked, memory_limit=4 * GI + 40 * MI)
    late = replace(late, attempt=replace(late.attempt, wanted=near_miss))  # type: ignore[type-var]
    plan = tick(unseen, (wants("resnet"), [late]))["resnet"]
    assert not grown(plan)
    (said,) = [hold for hold in plan.holds if hold.code is Code.REFUSED]
    assert "4136Mi was refused on n1 (Quota)" in said.text
    never = replace(late, attempt=replace(late.attempt, wanted=asked, refusal="Infeasible"))  # type: ignore[type-var]
    assert not grown(tick(unseen, (wants("resnet"), [never]))["resnet"])


def test_the_node_of_an_unseen_cluster_is_the_kubelets_to_judge() -> None:
    plan = tick(Ledger(nodes={"n1": Node("n1", 1, 1)}, nodes_known=False), (wants("resnet"), [pod("a", memory=4 * GI)]))
    assert grown(plan["resnet"])
