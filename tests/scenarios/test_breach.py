"""The main job: a breach becomes CPU in the running pods, then replicas; when the load is gone both go back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from autoscaler.emulate.authorize import ADMIN_TOKEN
from autoscaler.model.plan import Resize, Scale
from autoscaler.model.workload import ResizeState
from tests.scenarios.stage import POLICY, Stage, cluster_spec, staged

ADMIN = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
CALM = POLICY.replace("maxReplicas: 6}", "maxReplicas: 6, behavior: {scaleDown: {stabilizationWindowSeconds: 60}}}")


def no_room_is_spent_twice(stage: Stage) -> None:
    assert sum(stage.cores()) <= 16


@pytest.mark.looptime
async def test_a_breach_is_met_in_place_then_with_replicas_and_sizes_go_back(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, policy=CALM) as stage:
        await asyncio.sleep(30)
        assert all(cores <= 0.6 for cores in stage.cores())  # a step of head-room at most
        born = {pod["metadata"]["uid"] for pod in stage.pods()}

        stage.load = 80.0  # 1.6 cores of work: more than the two pods have, less than they may get
        await asyncio.sleep(30)
        assert {pod["metadata"]["uid"] for pod in stage.pods()} == born
        assert all(0.8 < cores <= 2.0 for cores in stage.cores())
        assert stage.actual_cores() == stage.cores()
        resizes = [one.action for tick in stage.ticks for one in tick.sent if isinstance(one.action, Resize)]
        assert resizes
        records = stage.daemon.loop.applier.follower.records.values()
        assert {record.state for record in records} == {ResizeState.COMPLETE}
        assert stage.replicas() == 2

        stage.load = 260.0  # 5.2 cores: more than two pods of 2 cores
        await asyncio.sleep(90)
        assert stage.replicas() >= 3
        assert stage.misses() is not None
        assert stage.misses() <= 0.01
        assert sum(stage.cores()) > 5.2
        no_room_is_spent_twice(stage)

        stage.load = 10.0
        await asyncio.sleep(240)  # the window, then one pod after the other
        assert stage.replicas() == 2
        assert len(stage.pods()) == 2
        assert sum(stage.cores()) <= 2
        assert stage.restarts() == 0
        assert stage.misses() == 0.0
        scales = [one.action for tick in stage.ticks for one in tick.sent if isinstance(one.action, Scale)]
        fewer = [scale for scale in scales if scale.after < scale.before]
        assert all(scale.after == scale.before - 1 for scale in fewer)
        gone = {victim.uid for scale in fewer for victim in scale.victims}
        assert not gone & {pod["metadata"]["uid"] for pod in stage.pods()}
        assert len(gone) == len(fewer) == max(scale.after for scale in scales) - 2


@pytest.mark.looptime
async def test_new_pods_get_the_learned_size(tmp_path: Path) -> None:
    async with staged(cluster_spec(80.0), tmp_path) as stage:
        await asyncio.sleep(40)
        learned = min(stage.cores())
        assert learned > 0.5
        born = {pod["metadata"]["uid"] for pod in stage.pods()}
        gone = stage.pods()[0]["metadata"]["name"]
        async with aiohttp.ClientSession() as client:
            await client.delete(f"{stage.cluster.url}/api/v1/namespaces/serving/pods/{gone}", headers=ADMIN)
        await asyncio.sleep(40)
        assert {pod["metadata"]["uid"] for pod in stage.pods()} != born
        assert min(stage.cores()) > 0.5
