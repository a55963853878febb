"""A daemon whose pods' pages break, in virtual time: nothing is taken away, the cause is told, and growing comes back
with the page."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from autoscaler.model.plan import Resize, Scale
from autoscaler.model.signal import Absent, Cause
from tests.scenarios.stage import POLICY, Stage, cluster_spec, staged

CALM = POLICY.replace("maxReplicas: 6}", "maxReplicas: 6, behavior: {scaleDown: {stabilizationWindowSeconds: 60}}}")
FAULTS = {
    "nan": Cause.NAN,
    "inf": Cause.INFINITE,
    "negative": Cause.NEGATIVE,
    "html": Cause.REFUSED,
    "missing": Cause.REFUSED,
    "refused": Cause.SOURCE_DOWN,
    "slow": Cause.SOURCE_DOWN,
    "huge": Cause.REFUSED,
}


def taken(stage: Stage, since: int) -> list[str]:
    """What was made smaller or fewer since that tick."""
    found = []
    for one in (one for tick in stage.ticks[since:] for one in tick.sent):
        match one.action:
            case Resize(before=before, after=after) if (after.cpu_limit or 9e9) < (before.cpu_limit or 0):
                found.append(str(one.action.reason))
            case Scale(before=before, after=after) if after < before:
                found.append(str(one.action.reason))
    return found


@pytest.mark.looptime
async def test_without_a_fault_the_same_fall_is_followed(tmp_path: Path) -> None:
    async with staged(cluster_spec(40.0), tmp_path, policy=CALM) as stage:
        await asyncio.sleep(60)
        since = len(stage.ticks)
        stage.load = 2.0
        await asyncio.sleep(150)
        assert taken(stage, since)


@pytest.mark.looptime
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_broken_page_takes_nothing_from_running_pods(fault: str, tmp_path: Path) -> None:
    async with staged(cluster_spec(40.0), tmp_path, policy=CALM) as stage:
        await asyncio.sleep(60)
        cores, since = stage.cores(), len(stage.ticks)
        stage.cluster.faults.pages["resnet-*"] = fault
        stage.load = 2.0
        await asyncio.sleep(150)
        assert not taken(stage, since)
        assert all(now >= then for now, then in zip(stage.cores(), cores, strict=True)) and stage.replicas() == 2
        last = stage.ticks[-1]
        misses = last.seen.subjects[0].view.signals.misses
        assert isinstance(misses, Absent) and misses.cause is FAULTS[fault], misses
        plan = next(iter(last.plans.values()))
        assert any(str(FAULTS[fault]) in str(reason) for reason in (plan.reason, *plan.holds)), plan
        stage.cluster.faults.pages.clear()
        stage.load = 120.0
        await asyncio.sleep(45)
        assert sum(stage.cores()) > sum(cores)
