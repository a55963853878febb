"""The API server away and back, an end in the middle, a dry run, a pause: what the cluster looks like afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from autoscaler.model.reason import Code
from autoscaler.pause import set_all, set_one
from tests.scenarios.stage import NAMESPACE, POLICY, Stage, cluster_spec, staged


async def ready(stage: Stage) -> tuple[int, dict[str, dict[str, object]]]:
    async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{stage.daemon.port}/readyz") as answer:
        return answer.status, (await answer.json())["checks"]


def reasons(stage: Stage) -> set[Code]:
    plan = next(iter(stage.ticks[-1].plans.values()))
    return {reason.code for reason in (plan.reason, *plan.holds) if reason is not None}


@pytest.mark.looptime
async def test_an_api_server_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path) as stage:
        await asyncio.sleep(20)
        assert (await ready(stage))[0] == 200
        await stage.cluster.server_down()
        before = stage.cores()
        stage.load = 80.0
        await asyncio.sleep(120)
        assert Code.BLIND in reasons(stage)
        status, checks = await ready(stage)
        assert status == 503
        assert "seen" in str(checks["cluster"]["detail"])
        assert stage.cores() == before
        await stage.cluster.server_up()
        await asyncio.sleep(60)
        assert (await ready(stage))[0] == 200
        assert all(cores > 0.8 for cores in stage.cores())
        assert stage.actual_cores() == stage.cores()


@pytest.mark.looptime
async def test_an_end_in_the_middle_of_a_resize_follows_it(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path) as stage:
        await asyncio.sleep(20)
        stage.load = 80.0
        in_flight = stage.daemon.loop.applier.follower.in_flight
        async with asyncio.timeout(60):
            while not in_flight():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        stage.stop.set()
        async with asyncio.timeout(30):
            await stage.running
        assert in_flight() == 0
        assert stage.actual_cores() == stage.cores()
        before, ticks = len(stage.cluster.audit), len(stage.ticks)
        await asyncio.sleep(30)
        assert (len(stage.cluster.audit), len(stage.ticks)) == (before, ticks)


@pytest.mark.looptime
async def test_a_resize_that_cannot_end_is_handed_over_within_the_bound(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with staged(cluster_spec(20.0), tmp_path, shutdown=5.0) as stage:
        await asyncio.sleep(20)
        stage.cluster.plane.freeze_kubelet("node-1")
        stage.load = 80.0
        async with asyncio.timeout(60):
            while not stage.daemon.loop.applier.follower.in_flight():  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        stage.stop.set()
        async with asyncio.timeout(8):
            await stage.running
        assert any("handed over unfinished" in record.message for record in caplog.records)


@pytest.mark.looptime
async def test_a_dry_run_reads_and_nothing_else(tmp_path: Path) -> None:
    async with staged(cluster_spec(80.0), tmp_path, dry_run=True) as stage:
        await asyncio.sleep(40)
        sent = [one for tick in stage.ticks for one in tick.sent]
        assert sent
        assert stage.cluster.audit.writes() == []
        assert stage.cores() == [0.5, 0.5]


@pytest.mark.looptime
async def test_mode_dry_run_of_one_policy_is_the_same_for_it(tmp_path: Path) -> None:
    policy = POLICY.replace("spec:\n", "spec:\n  mode: DryRun\n", 1)
    async with staged(cluster_spec(80.0), tmp_path, policy=policy) as stage:
        await asyncio.sleep(40)
        assert [one for tick in stage.ticks for one in tick.sent]
        assert stage.cluster.audit.writes() == []


@pytest.mark.looptime
@pytest.mark.parametrize("everything", [True, False])
async def test_a_pause_is_obeyed_within_a_tick_and_so_is_its_end(tmp_path: Path, everything: bool) -> None:
    async with staged(cluster_spec(20.0), tmp_path) as stage:
        await asyncio.sleep(20)
        client, parts = stage.daemon.parts.client, stage.daemon.parts
        target = stage.ticks[-1].seen.subjects[0].view.target

        async def turn(paused: bool) -> None:
            if everything:
                await set_all(client, parts.namespace, paused)
            else:
                await set_one(client, NAMESPACE, target, paused)

        await turn(True)
        await asyncio.sleep(2.1)
        before = stage.cores()
        stage.load = 80.0
        await asyncio.sleep(2.1)
        assert Code.PAUSED in reasons(stage)
        await asyncio.sleep(30)
        assert stage.cores() == before
        await turn(False)
        await asyncio.sleep(20)
        assert max(stage.cores()) > 0.8
        await turn(False)  # twice is as good as once


@pytest.mark.looptime
async def test_ticks_are_aligned_and_what_an_overrun_leaves_out_is_counted(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, interval=2.0) as stage:
        await asyncio.sleep(11)
        assert all(tick.seen.at % 2.0 < 0.2 for tick in stage.ticks)
        slow = stage.daemon.loop.source

        class Slow:
            name = "slow"

            async def read(self, workloads: object, at: float) -> object:
                await asyncio.sleep(5.0)
                return await slow.read(workloads, at)  # type: ignore[arg-type]

        stage.daemon.loop.source = Slow()  # type: ignore[assignment]
        await asyncio.sleep(12)
        stage.daemon.loop.source = slow
        skipped = stage.daemon.metrics.skipped._value.get()
        assert skipped >= 2
        await asyncio.sleep(6)
        assert stage.ticks[-1].seen.at % 2.0 < 0.2


@pytest.mark.looptime
async def test_a_target_that_is_not_there_is_held_and_the_others_go_on(tmp_path: Path) -> None:
    other = POLICY.replace("name: resnet", "name: gone").replace("{name: gone, namespace", "{name: gone, namespace")
    async with staged(cluster_spec(80.0), tmp_path, policy=POLICY + "---\n" + other) as stage:
        await asyncio.sleep(40)
        plans = {ref.name: plan for ref, plan in stage.ticks[-1].plans.items()}
        assert "gone" in str(plans["gone"].reason)
        assert all(cores > 0.8 for cores in stage.cores())
