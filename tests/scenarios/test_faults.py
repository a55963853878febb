"""Sources that break for a part of the pods, in turns, or while the load rises: what the cluster looks like then."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from autoscaler.model.signal import Absent, Cause, Measured
from tests.scenarios.stage import POLICY, Stage, cluster_spec, staged

CALM = POLICY.replace("maxReplicas: 6}", "maxReplicas: 6, behavior: {scaleDown: {stabilizationWindowSeconds: 30}}}")
WITH_KUBELET = CALM.replace("sources: [scrape]", "sources: [scrape, kubelet]")


def broken(stage: Stage, fault: str, pods: int) -> None:
    """The pages of so many pods break."""
    for pod in stage.pods()[:pods]:
        stage.cluster.faults.pages[pod["metadata"]["name"]] = fault


@pytest.mark.looptime
@pytest.mark.parametrize("fault", ["nan", "html", "refused"])
async def test_half_of_the_pages_broken_takes_nothing_away_and_lets_growing_go_on(fault: str, tmp_path: Path) -> None:
    async with staged(cluster_spec(40.0), tmp_path, policy=CALM) as stage:
        await asyncio.sleep(60)
        before = stage.cores()
        broken(stage, fault, 1)
        stage.load = 2.0
        await asyncio.sleep(120)
        assert all(now >= then for now, then in zip(stage.cores(), before, strict=True))
        assert stage.replicas() == 2
        reading = stage.ticks[-1].seen.subjects[0].view.signals.requests
        assert isinstance(reading, Absent) or reading.coverage < 1.0
        stage.load = 110.0
        await asyncio.sleep(60)
        assert sum(stage.cores()) > sum(before), "what is still seen lets it grow"
        stage.cluster.faults.pages.clear()
        stage.load = 4.0
        await asyncio.sleep(400)
        assert sum(stage.cores()) < sum(before), "and whole again it shrinks"
        assert stage.restarts() == 0


@pytest.mark.looptime
async def test_with_every_page_gone_the_kubelets_cpu_is_enough_to_grow(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, policy=WITH_KUBELET) as stage:
        await asyncio.sleep(60)
        before = stage.cores()
        stage.cluster.faults.pages["resnet-*"] = "refused"
        stage.load = 110.0
        await asyncio.sleep(90)
        signals = stage.ticks[-1].seen.subjects[0].view.signals
        assert isinstance(signals.requests, Absent)
        assert signals.requests.cause is Cause.SOURCE_DOWN
        assert isinstance(signals.cpu, Measured)
        assert sum(stage.cores()) > sum(before)


@pytest.mark.looptime
async def test_pages_that_come_and_go_never_look_like_a_load_that_falls_or_jumps(tmp_path: Path) -> None:
    async with staged(cluster_spec(40.0), tmp_path, policy=CALM) as stage:
        await asyncio.sleep(150)
        before = stage.cores()
        for turn in range(20):
            stage.cluster.faults.pages.clear()
            if turn % 2:
                broken(stage, ("refused", "nan", "html", "missing")[turn // 2 % 4], 1 + turn % 2)
            await asyncio.sleep(6)
        assert all(now >= then for now, then in zip(stage.cores(), before, strict=True))
        assert sum(stage.cores()) <= 1.5 * sum(before)
        assert stage.replicas() == 2
