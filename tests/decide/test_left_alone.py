"""What is not done: sizes that people set are kept, only pods aren't restarted for little, quotas aren't run into."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.model.plan import QuotaView, Resize, Scale
from autoscaler.model.reason import Code
from autoscaler.model.signal import Cause, Measured
from autoscaler.model.workload import Pod, ResizeRestart
from tests.decide.world import START, Clock, absent, ledger, pod, policy, signals

QUIET = signals(1.0, in_flight=0.2)


def codes(clock: Clock) -> set[Code]:
    return {hold.code for hold in clock.plan.holds}


def test_a_size_set_by_hand_is_kept_for_a_while_and_said() -> None:
    by_hand = pod(cpu=4000, resized_by="kubectl-patch", resized_at=START)
    clock = Clock(policy(), by_hand)
    clock.run(590.0, QUIET)
    assert clock.cpu == 4000
    [said] = [hold for hold in clock.plan.holds if hold.code is Code.BY_HAND]
    assert "kubectl-patch" in said.text
    assert "a keeps 4 cores" in said.text
    clock.run(120.0, QUIET)
    assert clock.cpu < 2000
    assert Code.BY_HAND not in codes(clock)


def test_so_is_a_small_one_though_the_objective_is_missed() -> None:
    clock = Clock(policy(), pod(cpu=300, resized_by="kubectl-edit", resized_at=START))
    busy = signals(10.0, misses=1.0, in_flight=50.0, used=0.3, throttled=0.9)
    clock.run(300.0, busy)
    assert clock.cpu == 300
    assert Code.BY_HAND in codes(clock)


@pytest.mark.parametrize(
    ("spec", "more"),
    [
        ({"vertical": {"keepManualSeconds": 0}}, {"resized_by": "kubectl-patch", "resized_at": START}),
        ({}, {"resized_by": "inference-autoscaler", "resized_at": START}),
        ({}, {"resized_by": "kubectl-patch", "resized_at": START - 700.0}),
    ],
    ids=["not asked for", "our own", "long ago"],
)
def test_otherwise_the_load_decides(spec: dict[str, Any], more: dict[str, Any]) -> None:
    clock = Clock(policy(**spec), pod(cpu=4000, **more))
    clock.run(180.0, QUIET)
    assert clock.cpu < 2000


def restarting(name: str, cpu: int = 1000) -> Pod:
    one = pod(name, cpu)
    return replace(one, containers=(replace(one.containers[0], cpu_restart=ResizeRestart.RESTART_CONTAINER),))


def test_the_only_pod_is_not_restarted_for_head_room() -> None:
    clock = Clock(policy(horizontal={"minReplicas": 1, "maxReplicas": 1}), restarting("a"))
    clock.run(120.0, signals(5.0, in_flight=0.9))
    assert clock.cpu == 1000
    assert any("restarts it" in hold.text for hold in clock.plan.holds)
    clock.run(60.0, signals(9.0, misses=0.5, in_flight=40.0, used=1.0, throttled=0.9))
    assert clock.cpu > 1000, "what a miss needs is worth it"


def test_with_another_beside_it_head_room_is_worth_it() -> None:
    clock = Clock(policy(horizontal={"minReplicas": 2, "maxReplicas": 2}), restarting("a"), restarting("b"))
    clock.run(120.0, signals(10.0, in_flight=1.8))
    assert clock.cpu > 2000


def test_our_own_restart_is_no_replica_that_does_not_come() -> None:
    clock = Clock(policy(horizontal={"minReplicas": 2, "maxReplicas": 3}), restarting("a"), restarting("b"))
    clock.run(60.0, signals(10.0, in_flight=1.8))
    a, b = clock.pods
    clock.pods = [replace(a, ready=False, containers=(replace(a.containers[0], running=False),),
                          resized_by="inference-autoscaler", resized_at=clock.now), b]  # fmt: skip
    clock.tick(signals(10.0, in_flight=1.8))
    assert Code.NOT_COMING not in codes(clock)


def full(free: int) -> Any:
    return ledger(quotas=(QuotaView("serving", "cpus", {"limits.cpu": 2000 + free}, {"limits.cpu": 2000}),), nodes=4)


OVERLOAD = signals(60.0, misses=0.9, in_flight=300.0, used=2.0, throttled=0.9)


@pytest.mark.parametrize(("free", "replicas"), [(0, 2), (999, 2), (1000, 3), (2500, 4)])
def test_replicas_are_not_asked_for_where_a_quota_has_no_room_for_their_pods(free: int, replicas: int) -> None:
    spec = policy(vertical={"cpu": {"max": "1"}}, horizontal={"minReplicas": 2, "maxReplicas": 6})
    clock = Clock(spec, pod("a"), pod("b"), room=full(free))
    clock.run(60.0, signals(8.0, in_flight=1.5))
    clock.tick(OVERLOAD)
    assert clock.replicas == replicas
    assert Code.QUOTA in codes(clock)
    assert "limits.cpu" in next(hold.text for hold in clock.plan.holds if hold.code is Code.QUOTA)


def test_without_a_quota_they_are() -> None:
    spec = policy(vertical={"cpu": {"max": "1"}}, horizontal={"minReplicas": 2, "maxReplicas": 6})
    clock = Clock(spec, pod("a"), pod("b"))
    clock.run(60.0, signals(8.0, in_flight=1.5))
    clock.tick(OVERLOAD)
    assert clock.replicas == 6


def test_replicas_for_which_no_pod_is_created_are_told() -> None:
    spec = policy(vertical={"cpu": {"max": "1"}}, horizontal={"minReplicas": 2, "maxReplicas": 4})
    clock = Clock(spec, pod("a"), pod("b"))
    clock.run(60.0, signals(8.0, in_flight=1.5))
    clock.run(60.0, OVERLOAD)
    assert clock.replicas == 4
    [said] = [hold for hold in clock.plan.holds if hold.code is Code.NOT_COMING]
    assert "2 replicas" in said.text
    assert "no pod was created" in said.text


def test_a_pod_below_the_minimum_is_said_to_be_so() -> None:
    clock = Clock(policy(vertical={"cpu": {"min": "2", "max": "8"}}), pod(cpu=1500))
    clock.tick(signals(0.2, in_flight=0.04))
    [resize] = [action for action in clock.plan.actions if isinstance(action, Resize)]
    assert resize.reason.text == "1.5 cores is less than the minimum 2 cores"


def test_a_minimum_that_no_node_can_give_is_told() -> None:
    clock = Clock(policy(vertical={"cpu": {"min": "64", "max": "128"}}), pod(cpu=1500))
    clock.run(30.0, signals(0.2, in_flight=0.04))
    [said] = [hold for hold in clock.plan.holds if hold.code is Code.MIN_BEYOND]
    assert said.text.startswith("vertical.cpu.min 64 cores is more than a pod can have")
    fits = Clock(policy(vertical={"cpu": {"min": "2", "max": "128"}}), pod(cpu=1500))
    fits.run(30.0, signals(0.2, in_flight=0.04))
    assert Code.MIN_BEYOND not in codes(fits)


def test_cpu_that_was_free_before_requests_were_late_proves_nothing() -> None:
    """The kubelet's sample is of before the step: what arrives by far needs more, and gets it in that tick."""
    clock = Clock(policy(), pod(cpu=1000))
    clock.run(300.0, signals(2.0, in_flight=0.4))
    step = signals(
        20.0, misses=0.7, in_flight=30.0, used=Measured(0.36, age_s=9.0, window_s=15.0),
        throttled=Measured(0.0, age_s=9.0, window_s=15.0),
    )  # fmt: skip
    clock.tick(step)
    assert Code.NOT_CPU_BOUND not in codes(clock)
    assert clock.cpu >= 3600
    assert not [action for action in clock.plan.actions if isinstance(action, Scale)]


def test_cpu_that_is_free_while_they_are_late_does() -> None:
    clock = Clock(policy(), pod(cpu=4000))
    clock.run(300.0, signals(2.0, in_flight=0.4))
    clock.run(60.0, signals(2.0, misses=0.9, in_flight=4.0))
    assert Code.NOT_CPU_BOUND in codes(clock)
    assert clock.cpu <= 4000


def test_a_backlog_is_named_beside_what_arrives() -> None:
    clock = Clock(policy(), pod(cpu=1000))
    clock.run(60.0, signals(2.0, in_flight=0.4))
    clock.tick(signals(5.0, misses=1.0, in_flight=60.0, used=1.0, throttled=0.9))
    [said] = [hold for hold in clock.plan.holds if hold.code is Code.BACKLOG]
    assert said.text.startswith("60 requests in flight: ")


def test_a_meter_that_shows_nothing_while_requests_are_answered_is_not_believed() -> None:
    clock = Clock(policy(), pod(cpu=1000))
    clock.run(15.0, signals(2.0, used=0.0))
    assert clock.plan.want is not None
    assert Code.NO_SIGNAL in codes(clock)
    clock.tick(signals(5.0, used=0.0, misses=1.0, in_flight=60.0, throttled=absent(Cause.TOO_SHORT)))
    assert clock.cpu >= 1200, "a miss grows it all the same"
