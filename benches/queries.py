"""Queries a tick, counted by Prometheus' own counters, and what a tick costs: 10, 100 and 1,000 workloads.

    python benches/queries.py [--workloads 10 100 1000] [--pods 10] [--ticks 4]

Starts a real Prometheus (the ``prometheus`` binary) on loopback, fills it with the pages of made-up servers and of
their kubelet, and reads all signals once a tick as the daemon does.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from aiohttp import web

from autoscaler.model.policy import Policy, PolicySpec
from autoscaler.model.signal import Measured
from autoscaler.model.workload import Container, Pod, Resources, WorkloadRef
from autoscaler.observe.ports import Watched
from autoscaler.observe.prometheus import Prometheus, PrometheusSettings, Unavailable
from autoscaler.observe.prometheus_source import PrometheusSource

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0)
INTERVAL_S = 5


def workloads(count: int, pods: int) -> list[Watched]:
    found = []
    for number in range(count):
        name = f"model-{number:04d}"
        spec = {
            "scaleTargetRef": {"name": name},
            "objective": {"latency": {"target": "500ms" if number % 2 else "1s", "within": "99%"}},
            "signals": {"preset": "generic"},
        }
        policy = Policy(ref=WorkloadRef("serving", name), spec=PolicySpec.model_validate(spec))
        containers = (Container("server", Resources(cpu_limit=1000), started_at=1.0),)
        live = tuple(
            Pod("serving", f"{name}-5d8f7c9b6-{place:05d}", f"uid-{number}-{place}", containers, ready_at=2.0)
            for place in range(pods)
        )
        found.append(Watched(policy.ref, policy, live, "server"))
    return found


def page(watched: list[Watched], served: int) -> str:
    """All pods' pages as one, with honoured labels."""
    lines: list[str] = []
    for workload in watched:
        for pod in workload.pods:
            own = f'namespace="serving",pod="{pod.name}",instance="10.0.0.1:80"'
            lines += [f'request_duration_seconds_bucket{{{own},code="200",le="{bound}"}} {served}' for bound in BOUNDS]
            lines.append(f'request_duration_seconds_bucket{{{own},code="200",le="+Inf"}} {served}')
            lines.append(f'request_duration_seconds_count{{{own},code="200"}} {served}')
            lines.append(f'request_duration_seconds_sum{{{own},code="200"}} {served * 0.004}')
            lines.append(f'requests_total{{{own},code="200"}} {served}')
            lines.append(f"requests_in_flight{{{own}}} 2")
            lines.append(f"process_cpu_seconds_total{{{own}}} {served * 0.02}")
            lines.append(f"process_resident_memory_bytes{{{own}}} 1e8")
            group = f'{own},container="server",id="/kubepods/burstable/pod{pod.uid}/0123456789abcdef0123456789abcdef"'
            lines.append(f'container_cpu_usage_seconds_total{{{group},cpu="total"}} {served * 0.02}')
            lines.append(f"container_cpu_cfs_periods_total{{{group}}} {served}")
            lines.append(f"container_cpu_cfs_throttled_periods_total{{{group}}} 0")
            lines.append(f"container_memory_working_set_bytes{{{group}}} 1e8")
            lines.append(f"container_memory_usage_bytes{{{group}}} 2e8")
    return "\n".join(lines) + "\n"


async def answered(prometheus: Prometheus) -> float:
    """Instant queries the server has answered, by its own counter."""
    rows = (await prometheus.ask('prometheus_http_requests_total{handler="/api/v1/query"}')).rows
    return sum(row.number for row in rows)


async def measure(count: int, pods: int, ticks: int, folder: Path) -> None:
    watched = workloads(count, pods)
    began = time.monotonic()

    async def metrics(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=page(watched, 100 + int((time.monotonic() - began) * 10)))

    runner = web.ServerRunner(web.Server(metrics))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    target = runner.addresses[0][1]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "prometheus.yml"
    config.write_text(
        f"global: {{scrape_interval: {INTERVAL_S}s, scrape_timeout: {INTERVAL_S}s}}\nscrape_configs:\n"
        f'- {{job_name: pods, honor_labels: true, static_configs: [{{targets: ["127.0.0.1:{target}"]}}]}}\n'
        f"- {{job_name: self, scrape_interval: 1s, scrape_timeout: 1s, "
        f'static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}\n'
    )
    server = await asyncio.create_subprocess_exec(
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
    )  # fmt: skip
    try:
        settings = PrometheusSettings(url=f"http://127.0.0.1:{port}", query_s=20.0)
        async with Prometheus(settings) as prometheus:
            source = PrometheusSource(prometheus, clock=time.monotonic)
            await until_there(prometheus, count * pods)
            await source.read(watched, time.time())
            lines = []
            for _ in range(ticks):
                await asyncio.sleep(INTERVAL_S)
                before, cpu, start = prometheus.queries, cpu_seconds(), time.monotonic()
                seen = await source.read(watched, time.time())
                lines.append((prometheus.queries - before, cpu_seconds() - cpu, time.monotonic() - start))
            misses = sum(isinstance(signals.misses, Measured) for signals in seen.values())
            sent, counted = prometheus.queries, 0.0
            for _ in range(10):  # the server's count of itself is as old as its last scrape of itself
                await asyncio.sleep(1)
                counted = await answered(prometheus)
                if counted >= sent:
                    break
            print(
                f"{count:>5} workloads, {count * pods:>6} pods: {max(n for n, _, _ in lines)} queries a tick at most "
                f"({', '.join(str(n) for n, _, _ in lines)}); {counted:.0f} answered by the server's own count, "
                f"{sent} sent; "
                f"{sum(c for _, c, _ in lines) / ticks * 1000:.0f} ms CPU and "
                f"{sum(t for _, _, t in lines) / ticks * 1000:.0f} ms a tick; miss ratio known for {misses} workloads; "
                f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB peak",
                flush=True,
            )
    finally:
        server.terminate()
        await server.wait()
        await runner.cleanup()


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def until_there(prometheus: Prometheus, pods: int) -> None:
    for _ in range(120):
        try:
            rows = (await prometheus.ask("count(requests_in_flight)")).rows
            if rows and rows[0].number == pods:
                return
        except Unavailable:
            pass
        await asyncio.sleep(0.5)
    raise SystemExit("the pages never came into Prometheus")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--pods", type=int, default=10)
    parser.add_argument("--ticks", type=int, default=4)
    asked = parser.parse_args()
    try:
        subprocess.run(["prometheus", "--version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        sys.exit("needs the `prometheus` binary (Debian: apt-get install prometheus)")
    for count in asked.workloads:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(measure(count, asked.pods, asked.ticks, Path(folder)))


if __name__ == "__main__":
    main()
