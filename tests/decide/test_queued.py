"""A deferred resize whose room is on its way waits in the kubelet's queue: neither refused nor taken back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.decide.decision import decide
from autoscaler.decide.queued import PATIENCE, Queue
from autoscaler.model.plan import Revert
from autoscaler.model.seen import Seen, Subject
from autoscaler.model.workload import Attempt, Pod, ResizeState, Resources
from tests.decide import world

BOTH = Resources(2000, 2000)


def deferred(since: float = world.START - 2, wanted: Resources = BOTH) -> Pod:
    """Wants two cores, has one."""
    pod = world.pod("grows", attempt=Attempt(ResizeState.DEFERRED, wanted, since, before=Resources(1000, 1000)))
    container = replace(pod.containers[0], desired=replace(pod.containers[0].desired, cpu_request=2000, cpu_limit=2000))
    return replace(pod, containers=(container,), resize_pending="Deferred")


def shrinking(held: int = 3000, desired: int = 1500, pending: str = "") -> Pod:
    pod = world.pod("shrinks", held)
    container = pod.containers[0]
    container = replace(container, desired=replace(container.desired, cpu_request=desired, cpu_limit=desired))
    return replace(pod, containers=(container,), resize_pending=pending)


def seen(*pods: Pod, committed: int = 5000, cpu: int = 4000) -> Seen:
    subjects = tuple(
        Subject(world.view(pod, name=pod.name), world.policy(pod.name, vertical={"cpu": {"min": "100m", "max": "8"}}))
        for pod in pods
    )
    return Seen(world.START, subjects, world.ledger(cpu, committed))


def waits(*pods: Pod, **more: int) -> bool:
    return Queue(seen(*pods, **more)).waits(pods[0], pods[0].containers[0])


def test_it_waits_while_a_shrink_that_makes_its_room_is_in_progress() -> None:
    assert waits(deferred(), shrinking())


@pytest.mark.parametrize(
    "pods",
    [
        (deferred(),),
        (deferred(), shrinking(3000, 2900)),
        (deferred(), shrinking(pending="Deferred")),
        (deferred(world.START - PATIENCE - 1), shrinking()),
        (deferred(wanted=Resources(2000, 2000, 1 << 31, 1 << 31)), shrinking()),
        (world.pod("grows"), shrinking()),
    ],
    ids=["nothing shrinks", "too little", "the shrink waits itself", "too long", "memory is asked for", "not deferred"],
)
def test_it_is_a_refusal_otherwise(pods: tuple[Pod, ...]) -> None:
    assert not waits(*pods)


def test_what_waits_keeps_its_place_and_what_is_refused_goes_back() -> None:
    def reverts(*pods: Pod) -> list[str]:
        plans, _ = decide(seen(*pods), {})
        return [action.pod.name for plan in plans.values() for action in plan.actions if isinstance(action, Revert)]

    assert reverts(deferred(), shrinking()) == []
    assert reverts(deferred(), world.pod("shrinks", 3000)) == ["grows"]
