"""Memory over the wire: an OOM is answered and proven, a shrink below usage is refused before anything is sent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from autoscaler.model.quantity import parse_memory
from autoscaler.model.reason import Code
from tests.scenarios.stage import NAMESPACE, POLICY, Stage, cluster_spec, staged

GI, MI = 2**30, 2**20
EVERY_SOURCE = POLICY.replace(", sources: [scrape]", "")
"""Usage with page cache is the kubelet's to tell."""
GROW = EVERY_SOURCE.replace('max: "2"}}', 'max: "2"}, memory: {min: 512Mi, max: 2Gi}}')
SHRINK = EVERY_SOURCE.replace('max: "2"}}', 'max: "2"}, memory: {min: 256Mi, max: 2Gi, shrink: WhenSafe}}')


def limits(stage: Stage) -> list[int]:
    return [parse_memory(pod["spec"]["containers"][0]["resources"]["limits"]["memory"]) for pod in stage.pods()]


def names(stage: Stage) -> list[str]:
    return [pod["metadata"]["name"] for pod in stage.pods()]


@pytest.mark.looptime
async def test_an_oom_kill_is_answered_with_more_memory_for_all(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, policy=GROW, interval=5.0) as stage:
        await asyncio.sleep(30)
        assert set(limits(stage)) == {GI}
        stage.cluster.oom_kill(NAMESPACE, names(stage)[0])
        await asyncio.sleep(90)
        assert min(limits(stage)) >= int(1.2 * GI) - MI
        assert max(limits(stage)) <= 2 * GI
        statuses = [pod["status"]["containerStatuses"][0] for pod in stage.pods()]
        assert all(status["ready"] for status in statuses)
        assert stage.restarts() == 1, "the kill itself"


@pytest.mark.looptime
async def test_a_shrink_below_usage_is_refused_and_nothing_is_sent(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, policy=SHRINK, interval=5.0) as stage:
        for name in names(stage):
            stage.cluster.set_memory(name, 300 * MI, page_cache=700 * MI)
        await asyncio.sleep(400)
        assert set(limits(stage)) == {GI}
        held = [hold for tick in stage.ticks for plan in tick.plans.values() for hold in plan.holds]
        refused = [hold for hold in held if hold.code is Code.MEMORY_UNSAFE]
        assert refused
        assert refused[-1].numbers["usage"] >= 1000 * MI, "page cache included"


@pytest.mark.looptime
async def test_what_is_not_used_is_taken_back_in_steps_without_a_restart(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, policy=SHRINK, interval=5.0) as stage:
        for name in names(stage):
            stage.cluster.set_memory(name, 300 * MI)
        await asyncio.sleep(1500)
        assert max(limits(stage)) < GI
        assert min(limits(stage)) >= 400 * MI
        assert stage.restarts() == 0
        patches = [e for e in stage.cluster.audit.of("patch", "pods", "resize") if e.code == 200]
        assert patches
        assert NAMESPACE in {entry.namespace for entry in patches}
