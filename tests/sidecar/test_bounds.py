"""The bounds that a leader publishes, and what a sidecar makes of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.model.plan import Grant, Plan, Want
from autoscaler.model.policy import Policy, PolicySpec
from autoscaler.model.reason import Code, because
from autoscaler.model.workload import Pod, WorkloadRef
from autoscaler.sidecar.bounds import Bound, bounds_of, within

REF = WorkloadRef("serving", "resnet")
PODS = tuple(Pod("serving", f"resnet-{n}", f"uid-{n}", ()) for n in range(2))


def policy(low: str = "200m", high: str | None = "2", budget: str | None = None) -> Policy:
    cpu = {"min": low} | ({"max": high} if high else {})
    spec = {
        "scaleTargetRef": {"name": "resnet"}, "objective": {"latency": {"target": "1s"}}, "vertical": {"cpu": cpu},
        "budget": budget,
    }  # fmt: skip
    return Policy(ref=REF, spec=PolicySpec.model_validate({k: v for k, v in spec.items() if v is not None}))


def plan(sizes: dict[str, int], *, replicas: int | None = None, short: float = 0.0) -> Plan:
    reason = because(Code.OFF)
    want = Want(REF, float(sum(sizes.values())), 0.0, sizes, replicas, reason)
    return Plan(REF, want=want, grant=Grant(REF, sizes, short=short))


def test_in_calm_the_pods_move_between_the_bounds_of_the_policy() -> None:
    assert bounds_of(plan({"uid-0": 700, "uid-1": 700}, replicas=2), policy(), PODS) == {
        "resnet-0": Bound(200, 2000), "resnet-1": Bound(200, 2000),
    }  # fmt: skip
    assert bounds_of(plan({"uid-0": 700}), policy(high=None), PODS) == {"resnet-0": Bound(200, None)}


def test_what_is_short_is_shared_as_granted() -> None:
    found = bounds_of(plan({"uid-0": 700, "uid-1": 500}, short=800.0), policy(), PODS)
    assert found == {"resnet-0": Bound(200, 700), "resnet-1": Bound(200, 500)}


def test_who_stays_when_pods_go_keeps_what_it_needs_for_the_rest() -> None:
    found = bounds_of(plan({"uid-0": 1400, "uid-1": 1400}, replicas=1), policy(), PODS)
    assert found == {"resnet-0": Bound(1400, 2000), "resnet-1": Bound(1400, 2000)}


def test_without_a_decision_nothing_is_published() -> None:
    assert bounds_of(Plan(REF), policy(), PODS) == {}


@given(st.integers(10, 64_000), st.one_of(st.none(), st.integers(0, 64_000)))
def test_a_bound_is_read_back_as_it_was_written(low: int, more: int | None) -> None:
    bound = Bound(low, None if more is None else low + more)
    assert Bound.parse(str(bound)) == bound


@pytest.mark.parametrize("text", ["", "1", "2..1", "a..b", "..", "-1..2"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        Bound.parse(text)


@given(st.integers(10, 8000), st.one_of(st.none(), st.integers(10, 8000)))
def test_a_bound_never_leads_out_of_the_policy(low: int, high: int | None) -> None:
    if high is not None and high < low:
        low, high = high, low
    narrow = within(policy("200m", "2", budget="vision"), Bound(low, high)).spec
    assert 200 <= narrow.vertical.cpu.min <= (narrow.vertical.cpu.max or 0) <= 2000
    assert not narrow.horizontal.enabled
    assert narrow.budget is None, "the leader shares the budget, through the bounds"
