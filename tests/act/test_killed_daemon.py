"""Every end of a resize is reached though the daemon that sent it is killed on the way: two daemons, one cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from autoscaler.daemon import Daemon
from autoscaler.emulate.authorize import ADMIN_TOKEN
from autoscaler.emulate.cluster import ClusterSpec, NodeSpec
from autoscaler.loop import Tick
from autoscaler.model.plan import Resize, Revert
from autoscaler.model.workload import Attempt, ResizeState
from autoscaler.observe import policy_files
from autoscaler.parts import opened
from autoscaler.reload import Reloading
from tests.scenarios.stage import Stage, cluster_spec, staged

pytestmark = pytest.mark.looptime

State = ResizeState


@asynccontextmanager
async def second(stage: Stage) -> AsyncIterator[Stage]:
    """The first daemon dies as by kill -9; another life begins on the same cluster."""
    stage.running.cancel()
    await asyncio.wait({stage.running})
    settings = stage.daemon.settings
    file = Path(settings.policy[0])
    files = Reloading([file], lambda: policy_files.load([file]), policy_files.load([file]))
    ticks: list[Tick] = []
    async with opened(settings, epoch=stage.cluster.plane.timeline.wall()) as parts:
        daemon, stop = Daemon(settings, parts, files, on_tick=ticks.append), asyncio.Event()
        running = asyncio.create_task(daemon.run(stop))
        try:
            yield Stage(stage.cluster, daemon, stop, running, ticks)
        finally:
            stop.set()
            await asyncio.wait({running})
            running.result()


def attempts(tick: Tick) -> dict[str, Attempt]:
    pods = tick.seen.subjects[0].view.pods if tick.seen.subjects else ()
    return {pod.name: pod.attempt for pod in pods if pod.attempt is not None}


async def first_sent(stage: Stage) -> Resize:
    """The first growth that the server took."""
    async with asyncio.timeout(60):
        while True:
            for tick in stage.ticks:
                for one in tick.sent:
                    if isinstance(one.action, Resize) and one.outcome.status == 200:
                        return one.action
            await asyncio.sleep(0.5)


async def reached(stage: Stage, said: Callable[[Tick], bool], within: float = 150.0) -> None:
    async with asyncio.timeout(within):
        while not any(said(tick) for tick in stage.ticks):  # noqa: ASYNC110 — ticks are the point
            await asyncio.sleep(1.0)


def at_rest(stage: Stage) -> bool:
    """Desired, allocated and actual agree in every pod, and nothing is pending or in progress."""
    for pod in stage.pods():
        spec, status = pod["spec"]["containers"][0]["resources"], pod["status"]["containerStatuses"][0]
        kinds = {one["type"] for one in pod["status"]["conditions"] if one["status"] == "True"}
        if status["resources"] != spec or kinds & {"PodResizePending", "PodResizeInProgress"}:
            return False
    return True


async def as_admin(stage: Stage, method: str, path: str, body: Any = None) -> int:
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": "application/strategic-merge-patch+json"}
    async with aiohttp.ClientSession() as client:
        return (await client.request(method, stage.cluster.url + path, json=body, headers=headers)).status


async def test_complete(tmp_path: Path) -> None:
    """The kubelet stands still over the kill, and applies when nobody who sent it lives any more."""
    async with staged(cluster_spec(60.0), tmp_path) as stage:
        stage.cluster.plane.freeze_kubelet("node-1")
        await first_sent(stage)
        async with second(stage) as again:
            await asyncio.sleep(5)
            stage.cluster.plane.thaw_kubelet("node-1")
            await asyncio.sleep(60)
            assert at_rest(again)
            assert min(again.cores()) > 0.5
            assert not [one for one in attempts(again.ticks[-1]).values() if one.open]


async def test_timed_out_and_taken_back(tmp_path: Path) -> None:
    """A kubelet that stays away: the second daemon's own clock ends it and the size goes back."""
    async with staged(cluster_spec(60.0), tmp_path) as stage:
        stage.cluster.plane.freeze_kubelet("node-1")
        name = (await first_sent(stage)).pod.name
        async with second(stage) as again:
            await reached(again, lambda tick: getattr(attempts(tick).get(name), "state", None) is State.TIMED_OUT)
            await reached(again, lambda tick: any(isinstance(one.action, Revert) for one in tick.sent))


async def test_infeasible_and_taken_back(tmp_path: Path) -> None:
    base = cluster_spec(80.0)
    nodes = [NodeSpec("node-1", cpu="16", memory="64Gi", static_cpu=True)]
    async with staged(ClusterSpec(nodes=nodes, workloads=base.workloads), tmp_path) as stage:
        await first_sent(stage)
        async with second(stage) as again:
            await asyncio.sleep(90)
            assert at_rest(again)
            assert again.cores()[:2] == [0.5, 0.5]


async def test_superseded_and_left_to_them(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0, node_cpu="2"), tmp_path) as stage:
        stage.cluster.plane.freeze_kubelet("node-1")
        name = (await first_sent(stage)).pod.name
        size = {"cpu": "1600m"}
        body = {"spec": {"containers": [{"name": "server", "resources": {"requests": size, "limits": size}}]}}
        path = f"/api/v1/namespaces/serving/pods/{name}/resize?fieldManager=kubectl-patch"
        async with second(stage) as again:
            assert await as_admin(stage, "PATCH", path, body) == 200
            stage.cluster.plane.thaw_kubelet("node-1")
            await asyncio.sleep(60)
            assert not [one for tick in again.ticks for one in tick.sent if isinstance(one.action, Revert)]


async def test_gone_and_its_successor_sized(tmp_path: Path) -> None:
    async with staged(cluster_spec(60.0), tmp_path) as stage:
        stage.cluster.plane.freeze_kubelet("node-1")
        name = (await first_sent(stage)).pod.name
        async with second(stage) as again:
            assert (
                await as_admin(stage, "DELETE", f"/api/v1/namespaces/serving/pods/{name}?gracePeriodSeconds=0") == 200
            )
            stage.cluster.plane.thaw_kubelet("node-1")
            await asyncio.sleep(90)
            assert name not in attempts(again.ticks[-1])
            assert at_rest(again)
            assert min(again.cores()) > 0.5
