"""Files that change while running: a ConfigMap's symlink swap, an invalid change, settings."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import aiohttp
import pytest

from autoscaler.model.workload import WorkloadRef
from autoscaler.observe import policy_files
from autoscaler.reload import Reloading, fingerprint
from tests.scenarios.stage import POLICY, Stage, cluster_spec, staged


async def detail(stage: Stage, name: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{stage.daemon.port}/readyz") as answer:
        checks = (await answer.json())["checks"]
        return answer.status, str(checks[name]["detail"])


async def metric(stage: Stage, line: str) -> bool:
    async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{stage.daemon.port}/metrics") as answer:
        return line in (await answer.text()).splitlines()


@pytest.mark.looptime
async def test_a_changed_policy_is_obeyed_and_an_invalid_one_is_told_while_the_last_good_one_stays(
    tmp_path: Path,
) -> None:
    fixed = POLICY.replace("maxReplicas: 6", "maxReplicas: 2")  # only size can answer
    async with staged(cluster_spec(80.0), tmp_path, policy=fixed.replace('max: "2"', 'max: "500m"')) as stage:
        await asyncio.sleep(15)
        assert max(stage.cores()) <= 0.5
        file = tmp_path / "policy.yaml"
        file.write_text(fixed.replace('max: "2"', "max: 100m"))
        await asyncio.sleep(3)
        status, told = await detail(stage, "policies")
        assert status == 200  # it goes on with the last good one, and says so
        assert "spec.vertical.cpu.min: 200m is above max 100m" in told
        assert "last good" in told
        assert await metric(stage, 'autoscaler_reload_ok{what="policies"} 0.0')
        assert stage.daemon.loop.policies.policies[0].spec.vertical.cpu.max == 500
        file.write_text(fixed)
        await asyncio.sleep(20)
        assert (await detail(stage, "policies"))[1] == "1 loaded from files"
        assert await metric(stage, 'autoscaler_reload_ok{what="policies"} 1.0')
        assert await metric(stage, 'autoscaler_reloads_total{result="invalid",what="policies"} 1.0')
        assert max(stage.cores()) > 0.5


@pytest.mark.looptime
async def test_a_policy_that_goes_away_leaves_the_pods_alone(tmp_path: Path) -> None:
    other = POLICY.replace("name: resnet", "name: other")
    async with staged(cluster_spec(80.0), tmp_path, policy=POLICY + "---\n" + other) as stage:
        await asyncio.sleep(20)
        sizes = stage.cores()
        (tmp_path / "policy.yaml").write_text(other)
        await asyncio.sleep(5)
        stage.load = 5.0
        await asyncio.sleep(120)
        assert stage.cores() == sizes
        assert set(stage.ticks[-1].plans) == {WorkloadRef("serving", "other")}
        assert not await metric(stage, 'autoscaler_replicas{namespace="serving",workload="resnet"} 2.0')


def mounted(folder: Path, version: str, text: str) -> None:
    """What the kubelet does to a mounted ConfigMap: a new folder, and one symlink swapped by a rename."""
    inside = folder / f"..{version}"
    inside.mkdir(parents=True)
    (inside / "policy.yaml").write_text(text)
    fresh = folder / "..data_tmp"
    fresh.symlink_to(inside.name)
    os.replace(fresh, folder / "..data")  # noqa: PTH105
    if not (folder / "policy.yaml").is_symlink():
        (folder / "policy.yaml").symlink_to("..data/policy.yaml")


def test_a_configmap_swap_is_one_change(tmp_path: Path) -> None:
    folder = tmp_path / "mount"
    mounted(folder, "2024_1", POLICY)
    files = Reloading([folder], lambda: policy_files.load([folder]), policy_files.load([folder]))
    assert not files.look()
    mounted(folder, "2024_2", POLICY.replace("maxReplicas: 6", "maxReplicas: 7"))
    assert files.look()
    assert files.value.policies[0].spec.horizontal.max_replicas == 7
    assert not files.look()
    mounted(folder, "2024_3", POLICY.replace("maxReplicas: 6", "maxReplicas: seven"))
    assert files.look()
    assert files.problems
    assert files.value.policies[0].spec.horizontal.max_replicas == 7
    assert not files.look()


def test_the_fingerprint_sees_content_names_and_absence(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    seen = {fingerprint([tmp_path]), fingerprint([file])}
    file.write_text("1")
    seen |= {fingerprint([tmp_path]), fingerprint([file])}
    (tmp_path / "b.yaml").write_text("1")
    seen.add(fingerprint([tmp_path]))
    (tmp_path / "notes.txt").write_text("1")
    assert fingerprint([tmp_path]) in seen
    assert len(seen) == 4  # a folder with one file is that file
