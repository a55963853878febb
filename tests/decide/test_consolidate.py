"""Fewer, well-used pods when the load is gone: one at a time, after a drain, never at the cost of the objective."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.decide.consolidate import REST, WAIT
from autoscaler.decide.victims import DELETION_COST, DRAINING
from autoscaler.model.plan import AnnotatePod, Plan, Resize, Scale
from autoscaler.model.reason import Code
from autoscaler.model.signal import Measured, PodSignals, Signals
from autoscaler.model.workload import Node, Pod, TargetRef
from tests.decide.world import START, Clock, absent, ledger, pod, policy, signals

WINDOW = {"scaleDown": {"stabilizationWindowSeconds": 30}}


class Cluster(Clock):
    """A clock whose pods go when the replicas fall, in a ReplicaSet's order, and come when they rise."""

    marks: dict[str, dict[str, str]]

    def tick(self, seen: Signals, **more: Any) -> Plan:
        plan = super().tick(seen, **more)
        for action in plan.actions:
            if isinstance(action, AnnotatePod):
                self.pods = [self._marked(one, action) for one in self.pods]
            elif isinstance(action, Scale):
                self._replicas(action)
        return plan

    def _marked(self, one: Pod, action: AnnotatePod) -> Pod:
        if one.uid != action.pod.uid:
            return one
        notes = {**one.annotations, **action.annotations}
        kept = {key: value for key, value in notes.items() if value is not None}
        return replace(one, annotations=kept, deletion_cost=int(kept[DELETION_COST]) if DELETION_COST in kept else None)

    def _replicas(self, action: Scale) -> None:
        order = sorted(self.pods, key=lambda one: (one.ready, one.deletion_cost or 0, -one.created_at))
        gone = order[: max(0, len(order) - action.after)]
        self.pods = [one for one in self.pods if one not in gone]
        for number in range(len(self.pods), action.after):
            self.pods.append(pod(f"new-{number}-{self.now:.0f}", 1000, created_at=self.now - 40.0))

    def scales(self) -> list[Scale]:
        return [one for _, plan in self.changes for one in plan.actions if isinstance(one, Scale)]


def many(count: int, cpu: int = 1000, nodes: int = 1) -> list[Pod]:
    return [pod(f"p{n}", cpu, node=f"n{n % nodes + 1}", created_at=START - 600 - n) for n in range(count)]


def cluster(count: int = 4, cpu: int = 1000, room: Any = None, **spec: Any) -> Cluster:
    horizontal = {"minReplicas": 1, "maxReplicas": 8, "behavior": WINDOW, **spec.pop("horizontal", {})}
    vertical = spec.pop("vertical", {"cpu": {"min": "100m", "max": "2"}})
    spec.setdefault("objective", {"latency": {"target": "2s", "within": "99%"}})
    chosen = policy(horizontal=horizontal, vertical=vertical, **spec)
    return Cluster(chosen, *many(count, cpu), room=room or ledger(committed=count * cpu))


def codes(plan: Plan) -> set[Code]:
    return {hold.code for hold in plan.holds}


def test_load_gone_means_fewer_pods_one_at_a_time_down_to_the_minimum() -> None:
    world = cluster(4)
    world.run(900, signals(1.0))
    assert len(world.pods) == world.replicas == 1
    assert [(one.before, one.after) for one in world.scales()] == [(4, 3), (3, 2), (2, 1)]


def test_the_default_minimum_is_what_was_found() -> None:
    world = cluster(4)
    world.policy = policy(horizontal={"maxReplicas": 8, "behavior": WINDOW})
    world.run(900, signals(1.0))
    assert len(world.pods) == 4


@pytest.mark.parametrize(
    ("pdb", "left"), [({"pdb_floor": 2, "pdb_min_available": 2}, 3), ({"pdb_min_available": 3}, 2)]
)
def test_a_disruption_budget_keeps_one_more_unless_it_follows_the_replicas(pdb: dict[str, int], left: int) -> None:
    world = cluster(2)
    world.policy = policy(horizontal={"maxReplicas": 8, "behavior": WINDOW})
    world.tick(signals(1.0), **pdb)
    world.pods, world.replicas = many(4), 4
    world.run(1500, signals(1.0), **pdb)
    assert world.replicas == left


def test_a_pod_is_marked_then_drains_for_the_latency_and_goes_as_the_victim() -> None:
    world = cluster(2)
    slow = signals(1.0, latency=Measured(12.0))
    marked = taken = None
    while taken is None and world.now < START + 600:
        plan = world.tick(slow)
        for action in plan.actions:
            if isinstance(action, AnnotatePod):
                marked = (world.now, action.pod.uid)
                assert action.annotations[DELETION_COST] == "-1000"
                assert DRAINING in action.annotations
                assert action.reason.code is Code.CONSOLIDATE
            elif isinstance(action, Scale):
                taken = (world.now, action.victims[0].uid)
                assert action.reason.code is Code.SCALE_IN
    assert marked is not None
    assert taken is not None
    assert taken[1] == marked[1]
    assert taken[0] - marked[0] >= 12.0


def test_the_others_grow_and_have_it_granted_before_one_goes() -> None:
    world = cluster(2, cpu=1000, vertical={"cpu": {"min": "100m", "max": "8"}})
    world.run(200, signals(6.0, used=1.1))  # need about 1.8 cores: each has less than that
    assert len(world.pods) == 1
    order = [type(one) for _, plan in world.changes for one in plan.actions]
    grown = [one for _, plan in world.changes for one in plan.actions if isinstance(one, Resize)]
    assert any((one.after.cpu or 0) > (one.before.cpu or 0) for one in grown)
    last_grow = max(n for n, kind in enumerate(order) if kind is Resize)
    assert order.index(AnnotatePod) <= order.index(Scale)
    assert order.index(Resize) < order.index(Scale)
    assert last_grow >= 0


def test_without_room_the_pod_stays_and_says_so() -> None:
    full = ledger(cpu=2000, committed=2000)
    world = cluster(2, room=full)
    plan = world.run(600, signals(6.0, used=1.1))
    assert len(world.pods) == 2
    held = [hold for hold in plan.holds if hold.code is Code.NO_ROOM_TO_CONSOLIDATE]
    assert held
    assert held[0].numbers["pods"] == 1
    assert not any(isinstance(one, AnnotatePod) for _, p in world.changes for one in p.actions)


def test_where_growth_is_not_granted_the_pod_is_kept_and_unmarked() -> None:
    world = cluster(2)
    seen = signals(6.0, used=1.1)
    while not any(isinstance(one, AnnotatePod) for one in world.tick(seen).actions):
        assert world.now < START + 600
    sizes = {one.uid: one for one in world.pods}
    until = world.now + WAIT * 1.5 + 5
    while world.now < until:
        plan = world.tick(seen)
        world.pods = [replace(one, containers=sizes[one.uid].containers) for one in world.pods]  # nothing is granted
    assert len(world.pods) == 2
    assert all(DRAINING not in one.annotations and DELETION_COST not in one.annotations for one in world.pods)
    assert not any(isinstance(one, AnnotatePod) for one in plan.actions)
    assert REST > WAIT


@pytest.mark.parametrize("bad", [{"misses": absent()}, {"misses": 0.5, "throttled": 0.5}, {"in_flight": absent()}])
def test_missing_data_and_misses_never_take_a_pod(bad: dict[str, Any]) -> None:
    world, control = cluster(4), cluster(4)
    world.run(900, signals(1.0, **bad))
    control.run(900, signals(1.0))
    assert len(world.pods) >= 4 > len(control.pods)


def test_load_that_comes_back_keeps_the_chosen_pod() -> None:
    world = cluster(2, vertical={"cpu": {"min": "100m", "max": "1"}})
    quiet, busy = signals(1.0, latency=Measured(30.0)), signals(14.0, used=1.99, throttled=0.6, misses=0.3)
    while not any(isinstance(one, AnnotatePod) for one in world.tick(quiet).actions):
        assert world.now < START + 600
    world.run(30, busy)
    assert world.replicas >= 2
    assert all(DRAINING not in one.annotations for one in world.pods)


def test_marks_that_another_process_left_are_taken_away() -> None:
    marked = pod("b", annotations={DRAINING: "true", DELETION_COST: "-1000"}, deletion_cost=-1000)
    world = Cluster(policy(horizontal={"minReplicas": 1, "maxReplicas": 4}), pod("a"), marked)
    plan = world.tick(signals(1.0))
    assert [dict(one.annotations) for one in plan.actions if isinstance(one, AnnotatePod)] == [
        {DRAINING: None, DELETION_COST: None}
    ]


def test_a_pod_that_never_served_goes_first_and_needs_no_drain() -> None:
    world = cluster(2)
    world.pods.append(pod("late", ready=False, created_at=START - 20))
    world.replicas = 3
    while not world.scales():
        world.tick(signals(1.0))
        assert world.now < START + 600
    assert world.scales()[0].victims[0].name == "late"


def test_the_fullest_zone_gives_first_then_the_least_loaded() -> None:
    nodes = {f"n{n}": Node(f"n{n}", 32_000, 2**36, zone=zone) for n, zone in enumerate(("a", "a", "b"))}
    pods = [pod(f"p{n}", node=f"n{n}") for n in range(3)]
    loads = {f"uid-p{n}": PodSignals(in_flight=Measured(load)) for n, load in enumerate((3.0, 1.0, 0.0))}
    room = replace(ledger(), nodes=nodes, committed_cpu=dict.fromkeys(nodes, 1000))
    world = Cluster(policy(horizontal={"minReplicas": 2, "maxReplicas": 4, "behavior": WINDOW}), *pods, room=room)
    while not world.scales():
        world.tick(signals(1.0, pods=loads))
        assert world.now < START + 600
    assert world.scales()[0].victims[0].name == "p1"


def test_a_statefulset_loses_its_highest_ordinal() -> None:
    pods = [pod(f"db-{n}", created_at=START - 600 + n) for n in (0, 10, 9)]
    world = Cluster(policy(horizontal={"minReplicas": 1, "maxReplicas": 4, "behavior": WINDOW}), *pods)
    world.policy = policy(horizontal={"minReplicas": 1, "maxReplicas": 4, "behavior": WINDOW})
    marked: list[str] = []
    for _ in range(60):
        plan = world.tick(signals(1.0), target=TargetRef("apps/v1", "StatefulSet", "resnet"))
        marked += [one.pod.name for one in plan.actions if isinstance(one, AnnotatePod) and one.annotations[DRAINING]]
        if world.scales():
            break
    assert marked == ["db-10"]
    assert world.scales()[0].victims == ()


def test_too_short_a_grace_period_is_said() -> None:
    world = cluster(2)
    world.pods = [replace(one, termination_grace_s=5.0) for one in world.pods]
    said = set()
    while not world.scales():
        said |= codes(world.tick(signals(1.0, latency=Measured(8.0))))
        assert world.now < START + 600
    assert Code.GRACE_SHORT in said


def test_what_was_not_enough_is_not_tried_again_at_the_same_load() -> None:
    world = cluster(2, vertical={"cpu": {"min": "100m", "max": "1"}}, horizontal={"minReplicas": 1})
    world.run(60, signals(12.0, throttled=0.5, misses=0.05))
    assert world.replicas > 2
    before = len(world.scales())
    world.run(3600, signals(12.0))
    assert world.replicas > 2
    assert all(scale.after < scale.before for scale in world.scales()[before:])
