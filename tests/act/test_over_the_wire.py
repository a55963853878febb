"""The resize contract over real HTTP against the emulated cluster, in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from autoscaler.act.ports import Result
from autoscaler.emulate.faults import Trouble
from autoscaler.model.plan import AnnotatePod, Evict, Scale
from autoscaler.model.workload import ResizeState, Resources
from tests.act.made import GI, MI, REF, WHY, plan, resize, revert
from tests.act.stage import TARGET, NodeSpec, stage

pytestmark = pytest.mark.looptime

State = ResizeState
GROW = Resources(cpu_request=1000, cpu_limit=2000)


async def test_a_growth_is_granted_and_complete_without_a_restart() -> None:
    async with stage() as play:
        sending = await play.ask(GROW)
        assert [one.outcome.result for one in sending.sent] == [Result.ACCEPTED]
        attempt = await play.until(State.COMPLETE)
        assert attempt.granted
        assert attempt.generation == 2
        (body,) = play.cluster.pods("serving")
        assert body["spec"]["containers"][0]["resources"] == {
            "requests": {"cpu": "1", "memory": "1Gi"},
            "limits": {"cpu": "2", "memory": "2Gi"},
        }
        assert play.restarts() == 0


@pytest.mark.parametrize("kubernetes", ["1.33", "1.34", "1.35", "1.36"])
async def test_every_version_ends_complete(kubernetes: str) -> None:
    async with stage(kubernetes=kubernetes) as play:
        await play.ask(GROW)
        await play.until(State.COMPLETE)
        await play.ask(Resources(cpu_request=300, cpu_limit=600))
        assert (await play.until(State.COMPLETE)).wanted.cpu_limit == 600


async def test_a_size_above_the_node_is_refused_at_the_patch() -> None:
    async with stage() as play:
        sending = await play.ask(Resources(cpu_request=8000, cpu_limit=8000))
        assert sending.refused == {REF}
        assert sending.sent[0].outcome.result is Result.NODE_CAPACITY
        told = await play.attempt()
        assert (told.state, told.refusal) == (State.REFUSED, "NodeCapacity")
        fits = await play.ask(Resources(cpu_request=3000, cpu_limit=3000))
        assert fits.refused == frozenset()
        await play.until(State.COMPLETE)


@pytest.mark.parametrize("kubernetes", ["1.34", "1.35"])
async def test_before_that_it_is_infeasible_and_goes_back(kubernetes: str) -> None:
    async with stage(kubernetes=kubernetes) as play:
        await play.ask(Resources(cpu_request=8000, cpu_limit=8000))
        attempt = await play.until(State.INFEASIBLE)
        assert attempt.refusal == "Infeasible"
        await _back(play)
        assert (await play.until(State.REVERTED)).reverts == attempt.wanted


async def _back(play: object) -> None:
    seen = await play.see()  # type: ignore[attr-defined]
    one = seen.subjects[0].view.pods[0]
    allocated = one.containers[0].allocated
    after = Resources(cpu_request=allocated.cpu_request, cpu_limit=1000)
    await play.applier.send([plan(revert(one, after, one.attempt))], seen)  # type: ignore[attr-defined]


async def test_deferred_is_seen_at_once_and_granted_when_another_shrinks() -> None:
    async with stage(replicas=2, cpu="1500m", cpu_limit="1500m") as play:
        first, second = (one.name for one in await play.pods())
        await play.ask(Resources(cpu_request=2800, cpu_limit=2800))
        attempt = await play.until(State.DEFERRED, within=3, name=first)
        assert "cpu" in attempt.message
        await play.ask(Resources(cpu_request=1000, cpu_limit=1000), which=1)
        await play.until(State.COMPLETE, within=10, name=second)
        await play.until(State.COMPLETE, within=10, name=first)


async def test_deferred_too_long_goes_back_to_what_is_allocated() -> None:
    async with stage(replicas=2, cpu="1500m", cpu_limit="1500m") as play:
        name = (await play.pods())[0].name
        await play.ask(Resources(cpu_request=2800, cpu_limit=2800))
        attempt = await play.until(State.TIMED_OUT, within=70, name=name, each=1.0)
        assert not attempt.granted
        seen = await play.see()
        one = seen.subjects[0].view.pods[0]
        await play.applier.send([plan(revert(one, Resources(cpu_request=1500, cpu_limit=1500), one.attempt))], seen)
        await play.until(State.REVERTED, within=5, name=name)


async def test_a_smaller_size_that_fits_is_granted_while_deferred() -> None:
    async with stage(replicas=2, cpu="1500m", cpu_limit="1500m") as play:
        name = (await play.pods())[0].name
        await play.ask(Resources(cpu_request=2800, cpu_limit=2800))
        await play.until(State.DEFERRED, name=name)
        await play.ask(Resources(cpu_request=2300, cpu_limit=2300))
        assert (await play.until(State.COMPLETE, within=5, name=name)).wanted.cpu_limit == 2300


async def test_someone_elses_resize_is_not_fought() -> None:
    async with stage() as play:
        await play.ask(GROW)
        name = (await play.pods())[0].name
        body = {"spec": {"containers": [{"name": "server", "resources": {"limits": {"cpu": "1500m"}}}]}}
        await play.client.request(
            "PATCH", f"/api/v1/namespaces/serving/pods/{name}/resize", {"fieldManager": "kubectl-patch"}, body,
            "application/strategic-merge-patch+json",
        )  # fmt: skip
        assert (await play.until(State.SUPERSEDED)).granted is False
        sent = len(play.cluster.audit.of("patch", "pods", "resize"))
        for _ in range(5):
            await play.see()
        assert len(play.cluster.audit.of("patch", "pods", "resize")) == sent


async def test_a_pod_replaced_between_decision_and_patch_is_not_touched() -> None:
    async with stage() as play:
        seen = await play.see()
        one = seen.subjects[0].view.pods[0]
        stale = replace(one, uid="00000000-0000-0000-0000-000000000000")
        sending = await play.applier.send([plan(resize(stale, GROW))], seen)
        assert sending.sent[0].outcome.result is Result.GONE
        (body,) = play.cluster.pods("serving")
        assert body["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "1"


async def test_a_pod_deleted_under_way_is_gone_or_terminated() -> None:
    async with stage() as play:
        await play.ask(GROW)
        name = (await play.pods())[0].name
        await play.client.request("DELETE", f"/api/v1/namespaces/serving/pods/{name}")
        assert (await play.attempt(name)).state is State.TERMINATED
        await asyncio.sleep(10)
        await play.see()
        assert play.applier.follower.in_flight() == 0


async def test_a_frozen_kubelet_takes_the_patch_and_applies_it_when_it_is_back() -> None:
    async with stage() as play:
        play.cluster.plane.freeze_kubelet("node-1")
        sending = await play.ask(GROW)
        assert sending.sent[0].outcome.result is Result.ACCEPTED
        await asyncio.sleep(20)
        assert (await play.attempt()).state is State.SENT
        play.cluster.plane.thaw_kubelet("node-1")
        await play.until(State.COMPLETE, within=20)


async def test_a_kubelet_that_stays_away_ends_the_attempt_in_time() -> None:
    async with stage() as play:
        play.cluster.plane.freeze_kubelet("node-1")
        await play.ask(GROW)
        assert not (await play.until(State.TIMED_OUT, within=65, each=1.0)).granted


async def test_an_unobserved_error_of_a_memory_shrink_is_reported_and_undone() -> None:
    """The race: usage rose between the sample and the kubelet's look."""
    async with stage() as play:
        name = (await play.pods())[0].name
        play.cluster.set_memory(name, 1500 * MI, page_cache=100 * MI, seen=True)
        seen = await play.see()
        one = seen.subjects[0].view.pods[0]
        # A revert is not checked against usage, so it stands here for a shrink that has won the race.
        await play.applier.send([plan(revert(one, Resources(memory_limit=1200 * MI)))], seen)
        attempt = await play.until(State.ERROR, within=30)
        assert attempt.granted
        assert "below current usage" in attempt.message
        seen = await play.see()
        one = seen.subjects[0].view.pods[0]
        assert one.containers[0].actual is not None
        assert one.containers[0].actual.memory_limit == 2 * GI
        await play.applier.send([plan(revert(one, Resources(memory_limit=2 * GI), one.attempt))], seen)
        await play.until(State.REVERTED, within=5)


@pytest.mark.parametrize("kubernetes", ["1.33"])
async def test_a_memory_shrink_on_1_33_is_refused_by_the_server(kubernetes: str) -> None:
    async with stage(kubernetes=kubernetes) as play:
        seen = await play.see()
        one = seen.subjects[0].view.pods[0]
        sending = await play.applier.send([plan(revert(one, Resources(memory_limit=1500 * MI)))], seen)
        assert sending.sent[0].outcome.result is Result.INVALID


async def test_restart_container_is_done_when_restarted_and_ready() -> None:
    async with stage(resize_policy={"cpu": "RestartContainer"}) as play:
        await play.ask(GROW)
        attempt = await play.until(State.COMPLETE)
        assert attempt.restarts
        assert play.restarts() == 1
        again = await play.ask(Resources(cpu_request=1200, cpu_limit=2500))
        assert again.sent[0].outcome.result is Result.SKIPPED
        await asyncio.sleep(13)
        await play.ask(Resources(cpu_request=1200, cpu_limit=2500))
        await play.until(State.COMPLETE)
        assert play.restarts() == 2


async def test_a_lost_answer_is_not_sent_twice() -> None:
    async with stage() as play:
        play.cluster.faults.troubles.append(Trouble("PATCH .*/resize", code=0, times=10))
        sending = await play.ask(GROW)
        assert sending.sent[0].outcome.result is Result.UNAVAILABLE
        play.cluster.faults.troubles.clear()
        attempt = await play.until(State.REFUSED, within=15)
        assert attempt.refusal == "Lost"
        await play.ask(GROW)
        await play.until(State.COMPLETE)


async def test_a_throttled_patch_waits_as_told() -> None:
    async with stage() as play:
        play.cluster.faults.troubles.append(Trouble("PATCH .*/resize", code=429, retry_after=1, times=1))
        sending = await play.ask(GROW)
        assert sending.sent[0].outcome.result is Result.ACCEPTED


async def test_after_leadership_is_lost_nothing_leaves() -> None:
    async with stage() as play:
        play.leading = False
        sending = await play.ask(GROW)
        assert sending.sent[0].outcome.result is Result.SKIPPED
        assert play.cluster.audit.writes() == []


async def test_a_restarted_daemon_takes_over_what_is_under_way() -> None:
    async with stage(replicas=2, cpu="1500m", cpu_limit="1500m") as play:
        name = (await play.pods())[0].name
        await play.ask(Resources(cpu_request=2800, cpu_limit=2800))
        await play.until(State.DEFERRED, name=name)
        from autoscaler.act.apply import Applier

        play.applier = Applier(play.applier.sink, clock=play.cluster.plane.timeline.wall)
        taken = await play.attempt(name)
        assert taken.state is State.DEFERRED
        assert taken.wanted.cpu_request == 2800
        await play.until(State.TIMED_OUT, within=65, name=name, each=1.0)


async def test_replicas_follow_and_a_stale_version_is_a_conflict() -> None:
    async with stage() as play:
        assert (await play.scale(1, 3)).sent[0].outcome.result is Result.ACCEPTED
        await play.cluster.settled()
        assert len(await play.pods()) == 3
        assert (await play.scale(3, 4, version="1")).sent[0].outcome.result is Result.CONFLICT


async def test_scale_in_removes_the_marked_victim() -> None:
    async with stage(replicas=3) as play:
        seen = await play.see()
        victim = seen.subjects[0].view.pods[1]
        await play.applier.send([plan(Scale(REF, TARGET, "serving", 3, 2, WHY, victims=(victim,)))], seen)
        await play.cluster.settled()
        assert victim.name not in [one.name for one in await play.pods()]
        assert len(await play.pods()) == 2


async def test_an_eviction_recreates_within_the_disruption_budget() -> None:
    async with stage(replicas=2) as play:
        budget = {
            "metadata": {"name": "keep"},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "resnet"}}},
        }
        path = "/apis/policy/v1/namespaces/serving/poddisruptionbudgets"
        (await play.client.request("POST", path, None, budget)).expect("create")
        seen = await play.see()
        one = seen.subjects[0].view.pods[0]
        sending = await play.applier.send([plan(Evict(REF, one, WHY))], seen)
        assert sending.sent[0].outcome.result is Result.DISRUPTION_BUDGET
        (await play.client.request("DELETE", f"{path}/keep")).expect("delete")
        sending = await play.applier.send([plan(Evict(REF, one, WHY))], seen)
        assert sending.sent[0].outcome.result is Result.ACCEPTED
        await play.cluster.settled()
        assert one.uid not in [pod.uid for pod in await play.pods()]


async def test_an_annotation_is_set_and_removed() -> None:
    async with stage() as play:
        key = "inference-autoscaler.dev/draining"
        for value in ("yes", None):
            seen = await play.see()
            one = seen.subjects[0].view.pods[0]
            await play.applier.send([plan(AnnotatePod(REF, one, {key: value}, WHY))], seen)
            assert (await play.pods())[0].annotations.get(key) == value


async def test_one_container_of_two_with_a_gpu_and_hugepages_stays_byte_for_byte() -> None:
    other = {
        "name": "aaa", "image": "example.com/proxy:1",
        "resources": {"requests": {"cpu": "0.1", "memory": "0.5Gi"}, "limits": {"cpu": "100m", "memory": "512Mi"}},
    }  # fmt: skip
    nodes = (NodeSpec("node-1", cpu="4", memory="16Gi", extended={"nvidia.com/gpu": "1"}),)
    async with stage(nodes=nodes, sidecars=[other]) as play:
        before = play.cluster.pods("serving")[0]["spec"]
        await play.ask(GROW)
        await play.until(State.COMPLETE)
        after = play.cluster.pods("serving")[0]["spec"]
        assert after["containers"][1] == before["containers"][1]
        server = {key: value for key, value in after["containers"][0].items() if key != "resources"}
        assert server == {key: value for key, value in before["containers"][0].items() if key != "resources"}
        assert {key: value for key, value in after.items() if key != "containers"} == {
            key: value for key, value in before.items() if key != "containers"
        }
