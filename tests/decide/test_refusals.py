"""A refused size is remembered for its pod and node, until there is reason to hope."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.decide import refusals
from autoscaler.decide.history import Sizes
from autoscaler.decide.standing import Member, ungranted
from autoscaler.model.plan import Ledger
from autoscaler.model.policy import Controls
from autoscaler.model.workload import Attempt, Container, Node, Pod, ResizeState, Resources

NOW = 1_000_000.0
SIZE = Resources(1000, 1000, 1, 1)
BIG = Resources(4000, 4000, None, None)
State = ResizeState


def member(attempt: Attempt | None = None, *, desired: Resources = SIZE, node: str = "n", uid: str = "u") -> Member:
    container = Container("c", desired, Resources(cpu_request=1000), SIZE)
    pod = Pod("ns", "p", uid, (container,), node=node, attempt=attempt)
    return Member(pod, container, 1000, 1000, desired.cpu_limit or 0)


def attempt(state: ResizeState, refusal: str = "", wanted: Resources = BIG, until: float | None = NOW) -> Attempt:
    return Attempt(state, wanted, NOW - 1, refusal, before=SIZE, until=until)


def ledger(free: int = 500) -> Ledger:
    return Ledger(nodes={"n": Node("n", 8000, 1)}, committed_cpu={"n": 8000 - free})


def learnt(*steps: tuple[float, Member, Ledger]) -> Sizes:
    sizes = Sizes()
    for after, one, books in steps:
        sizes = refusals.learn(sizes, (one,), books, Controls.BOTH, NOW + after)
    return sizes


REFUSED = member(attempt(State.REFUSED, "NodeCapacity"))


def test_the_middle_is_tried_next() -> None:
    sizes = learnt((0, REFUSED, ledger()))
    assert refusals.most(sizes, REFUSED, 100) == 2500
    assert "4000m was refused on n (NodeCapacity)" in refusals.why(sizes, REFUSED)


def test_the_largest_size_that_fits_is_found_in_a_few_steps() -> None:
    fits, size, asked = 2300, 1000, 0
    sizes = learnt((0, REFUSED, ledger()))
    for step in range(20):
        bound = refusals.most(sizes, replace_live(member(), size), 100)
        if bound is None or bound <= size:
            break
        asked += 1
        if bound <= fits:
            size = bound
        else:
            again = attempt(State.REFUSED, "NodeCapacity", Resources(bound, bound))
            one = replace_live(member(again), size)
            sizes = refusals.learn(sizes, (one,), ledger(), Controls.BOTH, NOW + step / 10)
    assert fits - 200 <= size <= fits
    assert asked <= 8


def replace_live(one: Member, size: int) -> Member:
    return Member(one.pod, one.container, size, size, size)


@pytest.mark.parametrize("word", ["Infeasible", "Unsupported", "Forbidden"])
def test_what_no_size_can_change_is_left_alone_for_long(word: str) -> None:
    state = State.INFEASIBLE if word == "Infeasible" else State.REFUSED
    tried = member(attempt(state, word))
    sizes = learnt((0, tried, ledger()), (600, member(), ledger(4000)))
    assert refusals.most(sizes, member(), 100) == 1000
    assert refusals.most(learnt((0, tried, ledger()), (901, member(), ledger())), member(), 100) is None


def test_siblings_on_a_hopeless_node_are_not_tried() -> None:
    sizes = learnt((0, member(attempt(State.INFEASIBLE, "Infeasible")), ledger()))
    assert refusals.most(sizes, member(uid="sibling"), 100) == 1000
    assert refusals.most(sizes, member(uid="sibling", node="elsewhere"), 100) is None
    assert "on n" in refusals.why(sizes, member(uid="sibling"))


def test_room_that_appears_is_reason_to_hope_and_time_alone_is_not() -> None:
    assert refusals.most(learnt((0, REFUSED, ledger(500)), (300, member(), ledger(500))), member(), 100) == 2500
    assert refusals.most(learnt((0, REFUSED, ledger(500)), (60, member(), ledger(900))), member(), 100) is None


def test_nothing_is_asked_again_at_once() -> None:
    assert refusals.most(learnt((0, REFUSED, ledger(500)), (10, member(), ledger(5000))), member(), 100) == 2500


def test_its_own_asking_and_taking_back_are_not_room() -> None:
    deferred = member(attempt(State.DEFERRED, "Deferred", until=None), desired=Resources(4000, 4000, 1, 1))
    sizes = learnt((0, deferred, ledger(-2500)), (60, member(), ledger(500)))
    assert refusals.most(sizes, member(), 100) == 2500


def test_a_quota_is_tried_again_after_a_while() -> None:
    tried = member(attempt(State.REFUSED, "Quota"))
    assert refusals.most(learnt((0, tried, ledger()), (40, member(), ledger())), member(), 100) == 2500
    assert refusals.most(learnt((0, tried, ledger()), (61, member(), ledger())), member(), 100) is None


def test_another_node_or_pod_starts_anew() -> None:
    sizes = learnt((0, REFUSED, ledger()))
    assert refusals.most(sizes, member(node="m"), 100) is None
    assert refusals.most(sizes, member(uid="v"), 100) is None
    assert learnt((0, REFUSED, ledger()), (1, member(uid="v"), ledger())).refused == {}


@pytest.mark.parametrize("word", ["Conflict", "Gone", "Lost", "Throttled", "Unavailable", "MemoryUnsafe"])
def test_what_says_nothing_about_the_size_is_not_remembered(word: str) -> None:
    assert learnt((0, member(attempt(State.REFUSED, word)), ledger())).refused == {}


def test_a_refused_shrink_is_not_remembered() -> None:
    smaller = member(attempt(State.REFUSED, "LimitRange", Resources(500, 500)))
    assert learnt((0, smaller, ledger())).refused == {}


def test_an_old_attempt_does_not_bring_back_what_was_forgotten() -> None:
    """The attempt is told for 15 minutes; hope came earlier."""
    old = member(attempt(State.REFUSED, "NodeCapacity"))
    sizes = learnt((0, old, ledger(500)), (60, old, ledger(5000)))
    assert refusals.most(sizes, old, 100) is None


def test_what_was_granted_or_is_a_revert_is_no_refusal() -> None:
    assert not ungranted(Attempt(State.TIMED_OUT, BIG, NOW, granted=True))
    assert not ungranted(Attempt(State.TIMED_OUT, BIG, NOW, reverts=BIG))
    assert ungranted(Attempt(State.DEFERRED, BIG, NOW))
    assert not refusals.refused(replace(attempt(State.REFUSED, "Quota"), granted=True))


def test_where_room_cannot_be_seen_it_is_tried_again_after_long() -> None:
    blind = Ledger(nodes_known=False)
    assert refusals.most(learnt((0, REFUSED, blind), (290, member(), blind)), member(), 100) == 2500
    assert refusals.most(learnt((0, REFUSED, blind), (301, member(), blind)), member(), 100) is None


def test_a_refusal_that_the_ledger_contradicts_is_tried_again_after_a_while() -> None:
    """The room was on its way, or the kubelet knows what the ledger doesn't: nothing will ever look like more room."""
    waiting = member(attempt(State.TIMED_OUT, ""), desired=BIG)
    sizes = learnt((0, waiting, ledger(free=5000)))
    assert sizes.refused
    calm = member()
    assert refusals.learn(sizes, (calm,), ledger(free=5000), Controls.BOTH, NOW + refusals.RETRY_S + 1).refused
    assert not refusals.learn(sizes, (calm,), ledger(free=5000), Controls.BOTH, NOW + refusals.QUOTA_S + 1).refused


def test_room_that_others_make_in_the_same_tick_lifts_a_refusal() -> None:
    sizes = learnt((0, REFUSED, ledger(free=500)))
    room = refusals.unless(sizes, member(), NOW + refusals.RETRY_S + 1)
    assert room == 1500, "what was free, and its own"
    assert refusals.unless(sizes, member(), NOW + 1) is None, "too early"
    assert refusals.unless(learnt((0, member(attempt(State.REFUSED, "Quota")), ledger())), member(), NOW + 999) is None
