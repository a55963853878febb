"""Two daemons beside one cluster: one acts, the other stands by with warm caches and takes over."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from autoscaler.daemon import Daemon
from autoscaler.loop import Tick
from autoscaler.observe import policy_files
from autoscaler.parts import opened
from autoscaler.reload import Reloading
from tests.scenarios.stage import cluster_spec, staged


@pytest.mark.looptime
async def test_one_leads_and_the_other_takes_over_at_once_when_it_ends(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, leader={"elect": True, "namespace": "serving"}) as stage:
        await asyncio.sleep(10)
        settings = stage.daemon.settings
        file = Path(settings.policy[0])
        files = Reloading([file], lambda: policy_files.load([file]), policy_files.load([file]))
        second_ticks: list[Tick] = []
        async with opened(settings, epoch=stage.cluster.plane.timeline.wall()) as parts:
            second = Daemon(settings, parts, files, on_tick=second_ticks.append)
            stop = asyncio.Event()
            running = asyncio.create_task(second.run(stop))
            await asyncio.sleep(15)
            assert second_ticks == []
            assert second.health.ready
            assert "standby" in second.health.checks["leader"].detail
            assert stage.daemon.health.checks["leader"].detail == "leading"
            stage.load = 80.0
            await asyncio.sleep(20)
            grown = stage.cores()
            assert max(grown) > 0.5
            assert second_ticks == []
            stage.stop.set()
            await stage.running
            ended = len(stage.ticks)
            await asyncio.sleep(4)
            assert second_ticks
            assert second.health.checks["leader"].detail == "leading"
            stage.load = 200.0
            await asyncio.sleep(20)
            assert sum(stage.cores()) > sum(grown)
            assert len(stage.ticks) == ended
            stop.set()
            await running


@pytest.mark.looptime
async def test_two_that_act_without_leadership_notice_each_other(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path) as stage:
        await asyncio.sleep(30)
        settings = stage.daemon.settings
        file = Path(settings.policy[0])
        files = Reloading([file], lambda: policy_files.load([file]), policy_files.load([file]))
        stage.load = 60.0
        await asyncio.sleep(60)
        assert stage.daemon.health.checks["alone"].ok, "its own resizes are no rival's"
        async with opened(settings, epoch=stage.cluster.plane.timeline.wall()) as parts:
            second, stop = Daemon(settings, parts, files), asyncio.Event()
            running = asyncio.create_task(second.run(stop))
            for turn in range(8):
                stage.load = (160.0, 20.0)[turn % 2]
                await asyncio.sleep(45)
            crowded = [one for one in (stage.daemon, second) if not one.health.checks["alone"].ok]
            assert crowded, "whoever was second to act says so"
            for daemon in crowded:
                told = daemon.health.checks["alone"].detail
                assert "another process resizes in the name of inference-autoscaler" in told
                assert daemon.metrics.registry.get_sample_value("autoscaler_rival") == 1.0
                assert daemon.health.ready, "it is told, and no reason to restart"
            stop.set()
            await running
        await asyncio.sleep(700)
        assert stage.daemon.health.checks["alone"].ok
