"""The play: three equal clusters with the same load, ours with the real daemon over HTTP, and what was measured."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec

from autoscaler.demo import scene
from autoscaler.demo.hpa import run_hpa
from autoscaler.demo.meter import Meter, Score
from autoscaler.emulate.cluster import EmulatedCluster, Load
from autoscaler.loop import Tick

OURS, HPA, STATIC = "Inference Autoscaler", f"HPA at {scene.HPA_TARGET:.0%} CPU", "no autoscaling"
STEP_S = 0.25


@dataclass(frozen=True, slots=True)
class Now:
    """One moment for the audience. ``meters`` by who scales; ``ticks``: ours since the last moment."""

    seconds: float
    phase: scene.Phase
    meters: dict[str, Meter]
    ticks: tuple[Tick, ...]


async def play(show: Callable[[Now], None], *, length: float = scene.LENGTH_S) -> dict[str, Score]:
    """Play to the end, calling ``show`` four times a second; returns the scores by who scales."""
    from autoscaler import settings as tree
    from autoscaler.daemon import Daemon
    from autoscaler.observe import policy_files
    from autoscaler.observe.policy_files import Policies
    from autoscaler.parts import opened
    from autoscaler.reload import Reloading

    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="autoscaler-demo-")))
        clusters = {
            who: await stack.enter_async_context(EmulatedCluster(scene.cluster_spec())) for who in (OURS, HPA, STATIC)
        }
        for cluster in clusters.values():
            await cluster.settled()
            fleet = cluster.workload(scene.NAME).fleet  # only pods that come later have to load their model
            fleet.service = msgspec.structs.replace(fleet.service, startup=scene.START_UP_S)
        policy = folder / "policy.yaml"
        policy.write_text(scene.POLICY)
        config = clusters[OURS].kubeconfig(folder / "config")
        settings, _ = tree.load(
            None, {}, kubeconfig=str(config), policy=(str(policy),), interval=scene.INTERVAL_S,
            http={"listen": "127.0.0.1:0"}, log={"level": "warning"}, shutdown=0.0,
            leader={"elect": False},
        )  # fmt: skip
        files: Reloading[Policies] = Reloading(
            [policy], lambda: policy_files.load([policy]), policy_files.load([policy])
        )
        parts = await stack.enter_async_context(opened(settings, epoch=clusters[OURS].plane.timeline.wall()))
        heard: list[Tick] = []
        stop = asyncio.Event()
        daemon = Daemon(settings, parts, files, on_tick=heard.append)
        workloads = {who: cluster.workload(scene.NAME) for who, cluster in clusters.items()}
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(daemon.run(stop), name="daemon")
            rival = tasks.create_task(run_hpa(clusters[HPA], workloads[HPA]), name="HPA")
            meters = {who: Meter(cluster, workloads[who]) for who, cluster in clusters.items()}
            for workload in workloads.values():
                workload.load = Load([(phase.at, phase.rate) for phase in scene.PHASES])
            loop = asyncio.get_running_loop()
            begun, looks = loop.time(), 0
            while (seconds := loop.time() - begun) < length:
                for meter in meters.values():
                    meter.look()
                ticks, heard[:] = tuple(heard), []
                show(Now(seconds, scene.phase_at(seconds), meters, ticks))
                looks += 1
                await asyncio.sleep(max(0.0, begun + looks * STEP_S - loop.time()))
            for meter in meters.values():
                meter.look()
            scores = {who: meter.score() for who, meter in meters.items()}
            stop.set()
            rival.cancel()
        logging.getLogger("autoscaler").debug("the play is over")
        return scores
