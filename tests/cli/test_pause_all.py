"""``pause --all`` is never said where nobody obeys it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from autoscaler.cli import main
from autoscaler.emulate.cluster import ClusterSpec, EmulatedCluster
from autoscaler.emulate.kinds import CONFIG_MAP, LEASE
from autoscaler.pause import SWITCH


def leads(cluster: EmulatedCluster, namespace: str) -> None:
    cluster.plane.add_namespace(namespace)
    meta = {"name": "inference-autoscaler", "namespace": namespace}
    cluster.plane.create_object(LEASE, {"metadata": meta, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 10}})


def switched(cluster: EmulatedCluster) -> list[str]:
    return [one.namespace for one in cluster.plane.store.all(CONFIG_MAP.storage) if one.name == SWITCH]


async def pause(config: str, *words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = await asyncio.to_thread(main, ["pause", "--all", *words, "--kubeconfig", config])
    told = capsys.readouterr()
    return code, told.out, told.err


async def test_where_the_program_runs_elsewhere_it_names_the_namespace_and_pauses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with EmulatedCluster(ClusterSpec()) as cluster:
        leads(cluster, "autoscaling")
        config = str(cluster.kubeconfig(tmp_path / "config"))
        code, out, err = await pause(config, capsys=capsys)
        assert (code, out) == (1, "")
        [line] = err.splitlines()
        assert "nothing in namespace default obeys it: the program runs in autoscaling; give -n autoscaling" in line
        assert switched(cluster) == []
        code, out, err = await pause(config, "-n", "autoscaling", capsys=capsys)
        assert (code, err) == (0, "")
        assert switched(cluster) == ["autoscaling"]


async def test_where_it_is_seen_nowhere_that_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with EmulatedCluster(ClusterSpec()) as cluster:
        config = str(cluster.kubeconfig(tmp_path / "config"))
        code, out, err = await pause(config, capsys=capsys)
        assert code == 0
        assert out.startswith("paused everything")
        assert err.startswith("warning: no Lease inference-autoscaler was seen")
        assert switched(cluster) == ["default"]
