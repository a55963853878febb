"""Pods that don't serve yet get the learned size at once, and those no node has room for one that fits."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from autoscaler.decide.decision import decide
from autoscaler.decide.history import Cost, History, Sizes
from autoscaler.model.plan import Ledger, Plan, Resize, Revert
from autoscaler.model.reason import Code
from autoscaler.model.seen import Seen, Subject
from autoscaler.model.workload import Attempt, Node, Pod, ResizeRestart, ResizeState, Resources
from tests.decide.world import GI, REF, START, ledger, pod, policy, signals, view

LEARNED = History(
    at=START - 5, since=START - 900, sizes=Sizes(learned=2000, changed_at=START - 300),
    cost=Cost(work=0.18, own=0.18, cpu=50.0, done=300.0, template="t1"),
)  # fmt: skip
PEER = pod("a", 2000)


def planned(*pods: Pod, past: History = LEARNED, room: Ledger | None = None, **spec: object) -> Plan:
    seen = Seen(START, (Subject(view(*pods, seen=signals(2.0)), policy(**spec)),), room or ledger())
    plans, _ = decide(seen, {REF: past})
    return plans[REF]


def sizes(plan: Plan) -> dict[str, int | None]:
    return {
        one.pod.name: one.after.cpu_limit for one in plan.actions if isinstance(one, Resize) and one.pod.name != "a"
    }


def newborn(name: str = "new", cpu: int = 1000, **more: object) -> Pod:
    return pod(name, cpu, ready=False, created_at=START - 3, **more)  # type: ignore[arg-type]


def unplaced(name: str = "new", cpu: int = 4000, **more: object) -> Pod:
    return newborn(name, cpu, node="", phase="Pending", unschedulable=True, **more)


def test_a_starting_pod_gets_what_its_peers_have_before_it_serves() -> None:
    plan = planned(PEER, newborn())
    assert sizes(plan) == {"new": 2000}
    assert [one.reason.code for one in plan.actions if one.pod.name == "new"] == [Code.NEW_POD]


def test_the_only_pod_recreated_gets_what_was_learned() -> None:
    assert sizes(planned(newborn())) == {"new": 2000}


def test_after_a_restart_without_memory_the_peers_tell_the_size() -> None:
    assert sizes(planned(PEER, newborn(), past=History(at=START - 5, since=START - 20))) == {"new": 2000}


def test_a_new_template_is_learned_anew() -> None:
    assert sizes(planned(PEER, newborn(template_hash="t2"))) == {}
    fresh = msgspec.structs.replace(LEARNED, cost=Cost(work=0.18, template="t2"))
    assert sizes(planned(newborn(template_hash="t2"), past=fresh)) == {}


def test_what_was_asked_for_or_refused_is_not_asked_for_again() -> None:
    for state in (ResizeState.SENT, ResizeState.REFUSED, ResizeState.DEFERRED, ResizeState.INFEASIBLE):
        asked = Attempt(state, Resources(cpu_limit=2000), START - 1)
        assert sizes(planned(PEER, newborn(attempt=asked))) == {}


def test_a_size_that_a_pod_out_of_service_was_not_granted_is_taken_back_and_stays_so() -> None:
    size, have = Resources(2000, 2000, GI, 2 * GI), Resources(1000, 1000, GI, 2 * GI)
    late = Attempt(ResizeState.TIMED_OUT, Resources(cpu_request=2000, cpu_limit=2000), START - 60, until=START - 1)
    born = newborn(attempt=late)
    asked = replace(born, containers=(replace(born.containers[0], desired=size, allocated=have, actual=have),))
    (back,) = [one for one in planned(PEER, asked).actions if isinstance(one, Revert)]
    assert (back.after.cpu_request, back.after.cpu_limit) == (1000, 1000)
    done = Attempt(ResizeState.REVERTED, back.after, START - 1, reverts=late.wanted, until=START - 1)
    plan = planned(PEER, newborn(attempt=done))
    assert sizes(plan) == {}
    assert not [one for one in plan.actions if isinstance(one, Revert)]


def test_a_server_that_loads_its_model_is_not_restarted_for_it() -> None:
    born = newborn()
    (container,) = born.containers
    restarts = replace(container, cpu_restart=ResizeRestart.RESTART_CONTAINER)
    loading = replace(born, containers=(replace(restarts, running=True),))
    assert sizes(planned(PEER, loading)) == {}
    assert sizes(planned(PEER, replace(born, containers=(restarts,)))) == {"new": 2000}


def test_it_takes_no_more_than_the_node_has() -> None:
    plan = planned(PEER, newborn(), room=ledger(8000, 7500))
    assert sizes(plan) == {"new": 1500}
    assert Code.NODE_FULL in [one.code for one in plan.holds]


def test_an_unschedulable_pod_is_lowered_to_the_learned_size() -> None:
    plan = planned(PEER, unplaced(), room=ledger(8000, 5000))
    assert sizes(plan) == {"new": 2000}
    assert [one.reason.code for one in plan.actions if one.pod.name == "new"] == [Code.FITS]


def test_or_to_what_the_best_node_has_free_and_two_don_t_take_the_same_room() -> None:
    assert sizes(planned(PEER, unplaced(), room=ledger(8000, 6500))) == {"new": 1500}
    plan = planned(PEER, unplaced("b"), unplaced("c"), room=ledger(8000, 6500))
    assert sizes(plan) == {"b": 1500}
    assert [one.code for one in plan.holds].count(Code.UNPLACED) == 1


def test_other_containers_of_the_pod_are_counted() -> None:
    waiting = unplaced()
    (server,) = waiting.containers
    beside = replace(server, name="proxy", desired=Resources(500, 500, GI, GI))
    assert sizes(planned(PEER, replace(waiting, containers=(server, beside)), room=ledger(8000, 6500))) == {"new": 1000}


@pytest.mark.parametrize(
    ("room", "word"),
    [
        (ledger(8000, 7950), "its smallest size takes 100m"),
        (ledger(8000, 1000), "not for want of CPU"),
        (ledger(8000, 6500, committed_memory={"n1": 64 * GI}), "memory"),
        (Ledger(nodes={"n1": Node("n1", 8000, 64 * GI, unschedulable=True)}), "memory"),
    ],
)
def test_where_no_smaller_size_helps_the_reason_says_why(room: Ledger, word: str) -> None:
    plan = planned(PEER, unplaced(), room=room)
    assert sizes(plan) == {}
    assert [word in one.text for one in plan.holds if one.code is Code.UNPLACED] == [True]


def test_where_nodes_can_t_be_seen_only_the_learned_size_is_tried() -> None:
    assert sizes(planned(PEER, unplaced(), room=Ledger(nodes_known=False))) == {"new": 2000}
    assert sizes(planned(PEER, unplaced(cpu=2000), room=Ledger(nodes_known=False))) == {}


def test_sizes_that_are_switched_off_stay() -> None:
    vertical = {"cpu": {"min": "100m", "max": "8"}, "enabled": False}
    assert sizes(planned(PEER, newborn(), vertical=vertical)) == {}
