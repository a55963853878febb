"""Two daemons beside one cluster: one acts, the other stands by with warm caches and takes over."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from itertools import groupby
from pathlib import Path

import pytest

from autoscaler.daemon import Daemon
from autoscaler.emulate.audit import Entry
from autoscaler.emulate.authorize import Rule
from autoscaler.emulate.cluster import EmulatedCluster
from autoscaler.loop import Tick
from autoscaler.observe import policy_files
from autoscaler.parts import opened
from autoscaler.reload import Reloading
from tests.daemon.test_process import CLEAN
from tests.scenarios.stage import POLICY, cluster_spec, staged


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
            apart = settings.model_copy(update={"interval": 1.7})  # in lockstep the second would find all done
            second, stop = Daemon(apart, parts, files), asyncio.Event()
            running = asyncio.create_task(second.run(stop))
            for turn in range(8):
                stage.load = (160.0, 20.0)[turn % 2]
                await asyncio.sleep(100)  # long enough to shrink again
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


async def test_a_frozen_leader_wakes_up_and_sends_nothing_and_a_killed_one_is_replaced(tmp_path: Path) -> None:
    """Three real processes under a load that keeps them busy; the audit log tells who acted when."""
    (tmp_path / "policy.yaml").write_text(POLICY)
    async with EmulatedCluster(cluster_spec(20.0, startup=0.2)) as cluster, asyncio.TaskGroup() as tasks:
        await cluster.settled()
        clock = asyncio.get_running_loop().time
        lease = ("coordination.k8s.io", "leases")

        rates = [30.0, 40.0]

        async def swing() -> None:
            while True:
                for rate in rates:
                    cluster.workload("resnet").load = rate  # type: ignore[assignment]
                    await asyncio.sleep(2)

        def acts(who: str, since: float = 0.0) -> list[Entry]:
            return [e for e in cluster.audit.writes() if e.user == who and e.resource != "leases" and e.at >= since]

        def holder() -> str:
            stored = cluster.plane.store.get(lease, "serving", "inference-autoscaler")
            return str(stored.body["spec"]["holderIdentity"]).partition("_")[0] if stored is not None else ""

        async def start(who: str) -> Process:
            cluster.add_user(who, token=who, rules=[Rule(("*",), ("*",), ("*",))])
            config = cluster.kubeconfig(tmp_path / who, token=who, namespace="serving")
            return await asyncio.create_subprocess_exec(
                sys.executable, "-m", "autoscaler", "run", "--policy", str(tmp_path / "policy.yaml"),
                "--interval", "1s", "--http-listen", "off", "--kubeconfig", str(config), env={**CLEAN, "POD_NAME": who},
                stdout=DEVNULL, stderr=DEVNULL,
            )  # fmt: skip

        swinging = tasks.create_task(swing())
        processes = {who: await start(who) for who in ("first", "second")}
        try:
            await cluster.until(lambda: bool(acts("first") or acts("second")), within=20, what="somebody acts")
            leader = holder()
            (standby,) = processes.keys() - {leader}
            processes[leader].send_signal(signal.SIGSTOP)
            frozen = clock()
            rates[:] = 90.0, 120.0
            await cluster.until(lambda: bool(acts(standby)), within=20, what="the other takes over")
            assert clock() - frozen < 17  # fifteen seconds, and two machines' worth of work on one
            processes[leader].send_signal(signal.SIGCONT)
            awake = clock()
            rates[:] = 170.0, 220.0
            await asyncio.sleep(4)
            assert [e.at - awake for e in acts(leader, frozen + 0.5)] == [], (
                "not a word, though it was in the middle of its work"
            )
            assert acts(standby, awake), "the load keeps the other busy"
            processes[standby].kill()
            killed = clock()
            rates[:] = 400.0, 450.0
            await cluster.until(lambda: bool(acts(leader, killed)), within=20, what="the first takes over again")
            writers = [e.user for e in cluster.audit.writes() if e.user in processes and e.resource != "leases"]
            assert [who for who, _ in groupby(writers)] == [leader, standby, leader]
            assert "a resize" in {f"a {e.subresource}" for e in acts(leader)}
        finally:
            swinging.cancel()
            for process in processes.values():
                if process.returncode is None:
                    process.send_signal(signal.SIGCONT)
                    process.kill()
                await process.wait()
