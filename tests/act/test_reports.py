"""What people who run in-place resizes have reported, each as the behaviour that must not happen here."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.act.ports import Result
from autoscaler.act.preflight import preflight
from autoscaler.act.scene import Scene
from autoscaler.model.plan import Evict, QuotaView
from autoscaler.model.reason import Code
from autoscaler.model.signal import Measured, PodSignals, Signals
from autoscaler.model.workload import Node, ResizeState, Resources
from tests.act.made import GI, MI, NOW, REF, WHY, container, ledger, plan, pod, resize, resized, revert, watch
from tests.act.made import record as begun
from tests.act.stage import NodeSpec, Stage, nodes_of, stage

pytestmark = pytest.mark.looptime

State = ResizeState
GROW = Resources(cpu_request=1000, cpu_limit=2000)


def patches_of(play: Any) -> int:
    return len(play.cluster.audit.of("patch", "pods", "resize"))


async def test_waiting_for_a_complete_that_never_comes() -> None:
    """kubernetes#123441"""
    async with stage() as play:
        play.cluster.plane.freeze_kubelet("node-1")
        await play.ask(GROW)
        assert (await play.until(State.TIMED_OUT, within=61, each=1.0)).until is not None


async def test_requests_without_limits_are_resized() -> None:
    """kubernetes#126388"""
    async with stage(cpu_limit="", memory_limit="") as play:
        assert (await play.pods())[0].containers[0].desired.cpu_limit is None
        await play.ask(Resources(cpu_request=900))
        await play.until(State.COMPLETE)
        (body,) = play.cluster.pods("serving")
        resources = body["spec"]["containers"][0]["resources"]
        assert (resources["requests"], resources.get("limits") or {}) == ({"cpu": "900m", "memory": "1Gi"}, {})


async def test_a_memory_request_alone_is_resized() -> None:
    """kubernetes#125559"""
    async with stage() as play:
        await play.ask(Resources(memory_request=1536 * MI))
        attempt = await play.until(State.COMPLETE)
        assert attempt.wanted == Resources(memory_request=1536 * MI)
        assert play.restarts() == 0


async def test_an_infeasible_spec_is_taken_back_before_a_restart_applies_it() -> None:
    """kubernetes#126033"""
    async with stage(kubernetes="1.35") as play:
        name = (await play.pods())[0].name
        await play.ask(Resources(cpu_request=8000, cpu_limit=8000))
        await play.until(State.INFEASIBLE)
        seen = await play.see()
        one = seen.subjects[0].view.pods[0]
        await play.applier.send([plan(revert(one, Resources(cpu_request=500, cpu_limit=1000), one.attempt))], seen)
        await play.until(State.REVERTED)
        play.cluster.crash("serving", name)
        await asyncio.sleep(20)
        after = (await play.pods())[0].containers[0]
        assert after.restart_count == 1
        assert after.actual is not None
        assert (after.desired.cpu_limit, after.actual.cpu_limit) == (1000, 1000)


async def test_a_quota_that_is_freed_late_is_waited_for() -> None:
    """kubernetes#127132"""
    async with stage() as play:
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "700m"}}}
        (await play.client.request("POST", "/api/v1/namespaces/serving/resourcequotas", None, quota)).expect("create")
        play.ledger = nodes_of(
            nodes_known=False, quotas=(QuotaView("serving", "q", {"requests.cpu": 700}, {"requests.cpu": 650}),)
        )
        await play.ask(Resources(cpu_request=600))
        told = await play.attempt()
        assert (told.state, told.refusal) == (State.REFUSED, "Quota")
        assert patches_of(play) == 0
        play.ledger = nodes_of(
            nodes_known=False, quotas=(QuotaView("serving", "q", {"requests.cpu": 700}, {"requests.cpu": 500}),)
        )
        await play.ask(Resources(cpu_request=600))
        await play.until(State.COMPLETE)


async def test_403_at_the_patch_is_the_infeasible_of_today() -> None:
    """strimzi-kafka-operator#12689"""
    async with stage() as play:
        sending = await play.ask(Resources(cpu_request=8000, cpu_limit=8000))
        assert sending.refused == {REF}
        assert (await play.attempt()).refusal == "NodeCapacity"


def test_clocks_are_our_own_and_a_new_condition_does_not_restart_them() -> None:
    """datadog-agent#49674: lastTransitionTime restarts or freezes, so nothing here reads it"""
    grown = Resources(1000, 2000, GI, 2 * GI)
    deferred = resized(pod(), desired=grown, generation=2, observed_generation=2, resize_pending="Deferred")
    sights = [(float(at), replace(deferred, resize_pending_message=f"again at {at}")) for at in range(1, 62, 5)]
    assert watch(begun(pod(), GROW), *sights).state is State.TIMED_OUT


def test_missing_usage_is_a_passing_error_and_not_remembered_as_impossible() -> None:
    """autoscaler#10093"""
    shrink = Resources(memory_limit=1536 * MI)
    small = Resources(500, 1000, GI, 1536 * MI)
    seen = resized(pod(), desired=small, generation=2, observed_generation=2, resizing=True)
    missing = replace(seen, resize_error="Error", resize_error_message="missing pod memory usage")
    done = resized(seen, allocated=Resources(cpu_request=500, memory_request=GI), actual=small, resizing=False)
    now = watch(begun(pod(), shrink), (12, missing))
    assert (now.state, now.attempt.open, now.refusal) == (State.ERROR, True, "")
    assert watch(now, (30, done)).state is State.COMPLETE


async def test_a_gpu_is_never_dropped() -> None:
    """attune#800"""
    nodes = (NodeSpec("node-1", cpu="4", memory="16Gi", extended={"nvidia.com/gpu": "1"}),)
    async with stage(nodes=nodes) as play:
        size = {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"}
        spec = {"containers": [{"name": "server", "image": "x", "resources": {"requests": size, "limits": size}}]}
        play.cluster.add_pod({"metadata": {"name": "gpu", "namespace": "serving"}, "spec": spec})
        await play.cluster.settled()
        which = [one.name for one in await play.pods()].index("gpu")
        sending = await play.ask(Resources(cpu_request=900, cpu_limit=900), which=which)
        assert sending.sent[0].outcome.result is Result.ACCEPTED
        body = next(one for one in play.cluster.pods("serving") if one["metadata"]["name"] == "gpu")
        wanted = {"cpu": "900m", "memory": "1Gi", "nvidia.com/gpu": "1"}
        assert body["spec"]["containers"][0]["resources"] == {"requests": wanted, "limits": wanted}


def test_a_request_above_a_leftover_limit_is_refused_here_with_its_numbers() -> None:
    """attune#721"""
    action = resize(pod(), Resources(cpu_request=1500))
    reason = preflight(Scene(action, action.pod, ledger(), NOW))
    assert reason is not None
    assert reason.code is Code.REFUSED
    assert "1500m" in reason.text
    both = resize(pod(), Resources(cpu_request=1500, cpu_limit=3000))
    assert preflight(Scene(both, both.pod, ledger(), NOW)) is None


def test_a_shrink_is_not_repeated_right_after_the_oom_it_caused() -> None:
    """attune#777"""
    fresh = pod(container(started_at=NOW - 5, oom_at=NOW - 6, restart_count=1))
    action = resize(fresh, Resources(memory_limit=1536 * MI))
    usage = PodSignals(memory_usage=Measured(200 * MI, age_s=3))
    reason = preflight(Scene(action, fresh, ledger(), NOW, usage, NOW))
    assert reason is not None
    assert reason.code is Code.MEMORY_UNSAFE


async def test_an_error_that_lasts_is_told_once_and_sends_nothing_again() -> None:
    """otaru#3135"""
    async with stage() as play:
        name = (await play.pods())[0].name
        play.cluster.set_memory(name, 1500 * MI, seen=True)
        seen = await play.see()
        one = seen.subjects[0].view.pods[0]
        await play.applier.send([plan(revert(one, Resources(memory_limit=1200 * MI)))], seen)
        await play.until(State.ERROR, within=30)
        sent = patches_of(play)
        changes = 0
        last = (await play.attempt()).state
        for _ in range(30):
            await asyncio.sleep(1)
            state = (await play.attempt()).state
            changes, last = changes + (state is not last), state
        assert patches_of(play) == sent
        assert changes == 0


async def test_a_single_replica_is_resized_like_any_other() -> None:
    """autoscaler#8609"""
    async with stage(replicas=1) as play:
        await play.ask(GROW)
        await play.until(State.COMPLETE)
        assert play.restarts() == 0


async def test_restarts_stay_within_the_disruption_budget() -> None:
    """autoscaler#10136"""
    async with stage(replicas=4, cpu="200m", cpu_limit="400m", resize_policy={"cpu": "RestartContainer"}) as play:
        most = 0
        for _ in range(400):
            seen = await play.see()
            pods = seen.subjects[0].view.pods
            todo = [one for one in pods if one.containers[0].desired.cpu_limit == 400]
            if play.restarts() == 4 and all(one.ready for one in pods):
                break
            await play.applier.send([plan(*(resize(one, Resources(cpu_limit=600)) for one in todo))], seen)
            await asyncio.sleep(0.05)
            most = max(most, sum(1 for one in await play.pods() if not one.ready))
        assert play.restarts() == 4
        assert most <= 1


async def test_node_room_is_known_and_never_overdrawn() -> None:
    """autoscaler#9726"""
    async with stage(replicas=3) as play:
        play.ledger = nodes_of(Node("node-1", 4000, 16 * GI), committed_cpu={"node-1": 1500})
        seen = await play.see()
        pods = seen.subjects[0].view.pods
        sending = await play.applier.send(
            [plan(*(resize(one, Resources(cpu_request=1600, cpu_limit=1600)) for one in pods))], seen
        )
        results = sorted(one.outcome.result for one in sending.sent)
        assert results == [Result.ACCEPTED, Result.ACCEPTED, Result.NODE_CAPACITY]


async def test_an_oom_growth_that_does_not_help_is_told_apart() -> None:
    """kubernetes#138760: the pod's cgroup may keep the old limit"""
    async with stage() as play:
        name = (await play.pods())[0].name
        play.cluster.oom_kill("serving", name)
        await asyncio.sleep(3)
        from autoscaler.model.reason import because

        why = because(Code.OOM, limit=2 * GI)
        await play.ask(Resources(memory_request=2 * GI, memory_limit=4 * GI), why=why)
        await asyncio.sleep(2)
        assert (await play.attempt()).state is State.GRANTED
        play.cluster.oom_kill("serving", name)
        attempt = await play.until(State.TIMED_OUT, within=30)
        assert (attempt.refusal, attempt.granted) == ("OomAgain", True)
        seen = await play.see()
        one = seen.subjects[0].view.pods[0]
        sending = await play.applier.send([plan(Evict(REF, one, WHY))], seen)
        assert sending.sent[0].outcome.result is Result.ACCEPTED


async def test_an_oom_growth_that_helps_is_proved() -> None:
    async with stage() as play:
        name = (await play.pods())[0].name
        play.cluster.oom_kill("serving", name)
        await asyncio.sleep(3)
        from autoscaler.model.reason import because

        await play.ask(Resources(memory_request=2 * GI, memory_limit=4 * GI), why=because(Code.OOM, limit=2 * GI))
        attempt = await play.until(State.COMPLETE, within=60)
        assert "no further" in attempt.message


async def test_an_unschedulable_pod_sized_down_is_placed() -> None:
    async with stage(replicas=1, cpu="6", cpu_limit="6", nodes=(NodeSpec("node-1", cpu="8", memory="16Gi"),)) as play:
        await play.scale(1, 2)
        await asyncio.sleep(1)
        waiting = next(one for one in await play.pods() if one.unschedulable)
        which = [one.name for one in await play.pods()].index(waiting.name)
        await play.ask(Resources(cpu_request=1500, cpu_limit=1500), which=which)
        assert (await play.attempt(waiting.name)).state is State.GRANTED
        await play.cluster.settled()
        assert (await play.until(State.COMPLETE, name=waiting.name)).wanted.cpu_limit == 1500


async def test_memory_below_usage_never_leaves_by_policy_or_by_race() -> None:
    async with stage() as play:
        name = (await play.pods())[0].name
        (one,) = await play.pods()
        play.cluster.set_memory(name, 1500 * MI, page_cache=200 * MI, seen=True)
        for usage, age in ((1700.0 * MI, 3.0), (300.0 * MI, 25.0)):
            play.signals = Signals(pods={one.uid: PodSignals(memory_usage=Measured(usage, age_s=age))})
            sending = await play.ask(Resources(memory_limit=1600 * MI))
            assert sending.sent[0].outcome.result is Result.MEMORY_UNSAFE
        assert patches_of(play) == 0
        assert isinstance(play, Stage)
