"""What a whole tick costs at 1,000 workloads with 10,000 pods where the signals come through a real Prometheus.

    python benches/prometheus_tick.py [--workloads 1000] [--pods 10] [--ticks 6] [--profile FILE]

Prometheus (the ``prometheus`` binary) scrapes the pages of made-up servers and of their kubelet from a process of its
own; this process is the daemon's half alone: answers off the wire, signals, deciding, checking. Patches are accepted
at once. Every second tick the kubelet's figures are asked for, too, so ticks are averaged by pairs.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import multiprocessing
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from aiohttp import web

from autoscaler import collector
from autoscaler.act.apply import Applier
from autoscaler.kube.client import KubeClient
from autoscaler.kube.connect import find_access
from autoscaler.loop import Clock, ControlLoop
from autoscaler.model.policy import Policy, PolicySpec
from autoscaler.model.signal import Measured, Signals
from autoscaler.model.workload import WorkloadRef
from autoscaler.observe.cluster import ClusterObserver
from autoscaler.observe.fallback import Fallback
from autoscaler.observe.policy_files import Policies
from autoscaler.observe.ports import Watched
from autoscaler.observe.prometheus import Prometheus, PrometheusSettings
from autoscaler.observe.prometheus_source import PrometheusSource
from queries import INTERVAL_S, cpu_seconds, page, until_there, workloads
from tick import Accepting, fill


def serve(count: int, pods: int, told: Connection) -> None:
    """In a process of its own: the page of all pods, its counters growing with the time."""

    async def forever() -> None:
        watched, began = workloads(count, pods), time.monotonic()

        async def metrics(_: web.BaseRequest) -> web.StreamResponse:
            return web.Response(text=page(watched, 100 + int((time.monotonic() - began) * 10)))

        runner = web.ServerRunner(web.Server(metrics))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        told.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(forever())


class Timed:
    """A source that notes the CPU seconds of its reads (the threads' included) and how many readings came."""

    name = "timed"

    def __init__(self, source: Fallback) -> None:
        self._source = source
        self.cpu: list[float] = []
        self.known = 0

    async def read(self, workloads: Sequence[Watched], at: float) -> Mapping[WorkloadRef, Signals]:
        used = cpu_seconds()
        answer = await self._source.read(workloads, at)
        self.cpu.append(cpu_seconds() - used)
        self.known = sum(
            isinstance(signals.misses, Measured) and isinstance(signals.cpu, Measured) for signals in answer.values()
        )
        return answer


def resident() -> float:
    """MiB now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def policies(count: int, pods: int) -> Policies:
    spec = {
        "objective": {"latency": {"target": "500ms", "within": "99%"}}, "signals": {"preset": "generic"},
        "vertical": {"cpu": {"min": "1", "max": "4"}}, "horizontal": {"maxReplicas": pods + 5},
    }  # fmt: skip
    return Policies(tuple(
        Policy(ref=WorkloadRef("serving", f"model-{number:04d}"), origin="bench", spec=PolicySpec.model_validate(
            spec | {"scaleTargetRef": {"name": f"model-{number:04d}"}}
        ))
        for number in range(count)
    ))  # fmt: skip


async def measure(count: int, pods: int, ticks: int, url: str, profile: Path | None) -> None:
    async with Prometheus(PrometheusSettings(url=url, query_s=20.0)) as prometheus:
        await until_there(prometheus, count * pods)
        client = KubeClient(find_access(server="http://127.0.0.1:1"))
        observer = ClusterObserver(client)
        fill(observer, count, pods)
        clock = Clock()
        source = Timed(Fallback([PrometheusSource(prometheus, clock=time.monotonic)], read_lasts_s=60.0))
        loop = ControlLoop(observer, source, Applier(Accepting(), clock=clock.now), clock, policies(count, pods))
        collector.seldom()
        print(f"{count} workloads, {count * pods} pods; before the first tick {resident():.0f} MiB", flush=True)
        whole, deciding, took = [], [], []
        watched = cProfile.Profile() if profile else None
        for number in range(ticks + 2):
            began, used = time.monotonic(), cpu_seconds()
            if watched and number >= 2:
                watched.enable()
            tick = await loop.tick()
            if watched:
                watched.disable()
            whole.append(cpu_seconds() - used)
            deciding.append(tick.decided_s)
            took.append(time.monotonic() - began)
            await asyncio.sleep(max(0.0, INTERVAL_S - took[-1]))
        if watched:
            watched.dump_stats(profile or "")
        steady = slice(2, None)  # the first two ticks learn bounds and baselines

        def mean(of: list[float]) -> float:
            return sum(of[steady]) / ticks

        print(f"signals known                     {source.known:6d} workloads")
        print(f"CPU a tick                        {mean(whole) * 1000:6.0f} ms: {mean(whole) / 5:.1%} of a core at 5 s")
        shown = ", ".join(f"{one * 1000:.0f}" for one in source.cpu)
        print(f"  of it reading                   {mean(source.cpu) * 1000:6.0f} ms ({shown})")
        print(f"  of it deciding                  {mean(deciding) * 1000:6.0f} ms")
        print(f"a tick takes                      {mean(took) * 1000:6.0f} ms, Prometheus' part included")
        print(f"memory: now, and at its peak      {resident():6.0f} MiB, "
              f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")  # fmt: skip
        await client.close()


async def with_prometheus(asked: argparse.Namespace, folder: Path) -> None:
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=serve, args=(asked.workloads, asked.pods, theirs), daemon=True
    )
    server.start()
    target = ours.recv()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "prometheus.yml"
    config.write_text(
        f"global: {{scrape_interval: {INTERVAL_S}s, scrape_timeout: {INTERVAL_S}s}}\nscrape_configs:\n"
        f'- {{job_name: pods, honor_labels: true, static_configs: [{{targets: ["127.0.0.1:{target}"]}}]}}\n'
    )
    prometheus = await asyncio.create_subprocess_exec(
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
    )  # fmt: skip
    try:
        await measure(asked.workloads, asked.pods, asked.ticks, f"http://127.0.0.1:{port}", asked.profile)
    finally:
        prometheus.terminate()
        await prometheus.wait()
        server.terminate()
        server.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10)
    parser.add_argument("--ticks", type=int, default=6)
    parser.add_argument("--profile", type=Path, help="write cProfile's figures of this thread there")
    asked = parser.parse_args()
    try:
        subprocess.run(["prometheus", "--version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        sys.exit("needs the `prometheus` binary (Debian: apt-get install prometheus)")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(with_prometheus(asked, Path(folder)))


if __name__ == "__main__":
    main()
