"""A size that a person sets is kept for a while, and said; then the load decides again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from autoscaler.emulate.authorize import ADMIN_TOKEN
from autoscaler.model.reason import Code
from tests.scenarios.stage import NAMESPACE, POLICY, Stage, cluster_spec, staged

HEADERS = {
    "Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": "application/strategic-merge-patch+json",
    "User-Agent": "kubectl/v1.36.2",
}  # fmt: skip


async def resize(stage: Stage, pod: str, cpu: str) -> None:
    """As ``kubectl patch pod … --subresource resize`` does."""
    sizes = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
    body = {"spec": {"containers": [{"name": "server", "resources": sizes}]}}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/resize?fieldManager=kubectl-patch"
    async with (
        aiohttp.ClientSession(stage.cluster.url, headers=HEADERS) as session,
        session.patch(path, json=body) as answer,
    ):
        assert answer.status == 200, await answer.text()


def sizes(stage: Stage) -> dict[str, float]:
    return dict(zip((pod["metadata"]["name"] for pod in stage.pods()), stage.cores(), strict=True))


@pytest.mark.looptime
async def test_a_resize_by_hand_is_kept_and_then_given_back(tmp_path: Path) -> None:
    policy = POLICY.replace('max: "2"}', 'max: "2"}, keepManualSeconds: 120')
    async with staged(cluster_spec(20.0), tmp_path, policy=policy) as stage:
        await asyncio.sleep(90)
        mine = next(iter(sizes(stage)))
        await resize(stage, mine, "1800m")
        await asyncio.sleep(100)
        after = sizes(stage)
        assert after[mine] == 1.8
        assert max(size for name, size in after.items() if name != mine) < 1.0
        said = [hold for plan in stage.ticks[-1].plans.values() for hold in plan.holds if hold.code is Code.BY_HAND]
        assert [hold.text for hold in said if "kubectl-patch" in hold.text]
        await asyncio.sleep(150)
        assert sizes(stage)[mine] < 1.0
        assert stage.restarts() == 0
