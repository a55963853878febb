"""One contract for all sources: the same servers, the same story, the same signals."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import pytest

from autoscaler.model.signal import Absent, Cause, Measured, Signals
from autoscaler.model.workload import Pod
from autoscaler.observe.kubelet import KubeletSource
from autoscaler.observe.metrics_api import MetricsApiSource
from autoscaler.observe.ports import MetricSource
from autoscaler.observe.prometheus import Prometheus, PrometheusSettings
from autoscaler.observe.prometheus_source import PrometheusSource
from autoscaler.observe.scrape import ScrapeSource
from tests.observe.mock import mock_prometheus
from tests.observe.real import needs_prometheus, real_prometheus, until
from tests.observe.served import Server, pages, pod, watched

NAMES = ("resnet-5d8f7c9b6-aaaaa", "resnet-5d8f7c9b6-bbbbb")
STEP_S = 15.0


@dataclass
class World:
    """Two servers, their kubelet, and the time that passes."""

    servers: dict[str, Server] = field(default_factory=lambda: {name: Server() for name in NAMES})
    now: float = 1_000_000.0
    alive: set[str] = field(default_factory=lambda: set(NAMES))

    def cadvisor(self) -> str:
        lines = []
        for name in sorted(self.alive):
            server, stamp = self.servers[name], int(self.now * 1000)
            labels = f'container="server",id="/kubepods/burstable/poduid-{name}/c1",namespace="serving",pod="{name}"'
            for metric, value in (
                ("container_cpu_usage_seconds_total", server.cpu_s),
                ("container_cpu_cfs_periods_total", server.periods),
                ("container_cpu_cfs_throttled_periods_total", server.throttled),
                ("container_memory_working_set_bytes", server.memory),
                ("container_memory_usage_bytes", server.memory * 1.5),
            ):
                more = ',cpu="total"' if metric.startswith("container_cpu_usage") else ""
                lines.append(f"{metric}{{{labels}{more}}} {value} {stamp}")
        return "\n".join(lines) + "\n"

    def metrics_api(self) -> bytes:
        stamp = datetime.fromtimestamp(self.now, UTC).isoformat().replace("+00:00", "Z")
        items = [
            {
                "metadata": {"name": name},
                "timestamp": stamp,
                "window": "15.0s",
                "containers": [{"name": "server", "usage": {"cpu": "500m", "memory": "100000000"}}],
            }
            for name in sorted(self.alive)
        ]
        return json.dumps({"items": items}).encode()


class Rig(Protocol):
    source: MetricSource
    knows: frozenset[str]
    pods: tuple[Pod, ...]

    async def step(self) -> None: ...
    async def read(self) -> Signals: ...


@dataclass
class Stepped:
    """A source under a clock that the test moves."""

    world: World
    source: MetricSource
    knows: frozenset[str]
    pods: tuple[Pod, ...]
    on_step: Callable[[], None] = lambda: None

    async def step(self) -> None:
        self.world.now += STEP_S
        self.on_step()

    async def read(self) -> Signals:
        workload = watched(*self.pods)
        return (await self.source.read([workload], self.world.now))[workload.ref]


PAGE = frozenset({"requests", "misses", "failures", "in_flight"})
KUBELET = frozenset({"cpu", "throttled", "working_set"})


@asynccontextmanager
async def scraped(world: World, folder: Path) -> AsyncIterator[Rig]:
    texts = {name: server.page for name, server in world.servers.items()}
    async with pages(texts) as port, ScrapeSource(clock=lambda: world.now) as source:
        pods = tuple(pod(name, port, path=f"/{name}", node="n1") for name in NAMES)
        yield Stepped(world, source, PAGE, pods)


@asynccontextmanager
async def mocked(world: World, folder: Path) -> AsyncIterator[Rig]:
    async with mock_prometheus() as (mock, url), Prometheus(PrometheusSettings(url=url)) as prometheus:

        def scrape() -> None:
            mock.now = world.now
            for name in sorted(world.alive):
                page = world.servers[name].page()
                mock.scrape(page, namespace="serving", pod=name, instance="127.0.0.1:80", job="pods")
            mock.scrape(world.cadvisor(), job="kubelet")

        scrape()
        source = PrometheusSource(prometheus, clock=lambda: world.now)
        yield Stepped(world, source, PAGE | KUBELET, tuple(pod(name) for name in NAMES), scrape)


@asynccontextmanager
async def through_kubelet(world: World, folder: Path) -> AsyncIterator[Rig]:
    async def fetch(path: str) -> bytes:
        assert path == "/api/v1/nodes/n1/proxy/metrics/cadvisor"
        return world.cadvisor().encode()

    pods = tuple(pod(name, node="n1") for name in NAMES)
    yield Stepped(world, KubeletSource(fetch, clock=lambda: world.now), KUBELET, pods)


@asynccontextmanager
async def through_metrics_api(world: World, folder: Path) -> AsyncIterator[Rig]:
    async def fetch(path: str) -> bytes:
        assert path == "/apis/metrics.k8s.io/v1beta1/namespaces/serving/pods"
        return world.metrics_api()

    source = MetricsApiSource(fetch, clock=lambda: world.now)
    yield Stepped(world, source, KUBELET - {"throttled"}, tuple(pod(name, node="n1") for name in NAMES))


@dataclass
class Live:
    """The real server, in real time: a step is a scrape that has been seen."""

    world: World
    source: PrometheusSource
    prometheus: Prometheus
    pods: tuple[Pod, ...]
    knows: frozenset[str] = PAGE | KUBELET
    read_before: bool = False

    async def step(self) -> None:
        moved = time.time()
        pages = 2 * len(self.pods)  # each pod's own, and its part of the kubelet's

        async def scraped() -> float:
            ask = "timestamp(requests_in_flight) or timestamp(container_memory_usage_bytes)"
            rows = (await self.prometheus.ask(ask)).rows
            return min(row.number for row in rows) - moved if len(rows) == pages else -1.0

        # the counters have been moved before this step: wait for a scrape that began after it
        await until(scraped, lambda lead: lead > 0.05, within=15, pause=0.05)

    async def read(self) -> Signals:
        workload = watched(*self.pods)
        return (await self.source.read([workload], time.time()))[workload.ref]


@asynccontextmanager
async def real(world: World, folder: Path) -> AsyncIterator[Rig]:
    texts: dict[str, Callable[[], str]] = {name: server.page for name, server in world.servers.items()}

    def cadvisor() -> str:
        world.now = time.time()
        return world.cadvisor()

    async with (
        pages(texts | {"cadvisor": cadvisor}) as port,
        real_prometheus(folder, interval="500ms") as server,
        Prometheus(PrometheusSettings(url=server.url)) as prometheus,
    ):
        address = f"127.0.0.1:{port}"
        server.scrape(
            [{"__address__": address, "__metrics_path__": "/cadvisor"}]
            + [{"__address__": address, "__metrics_path__": f"/{n}", "namespace": "serving", "pod": n} for n in NAMES]
        )
        source = PrometheusSource(prometheus, clock=time.monotonic, kubelet_every_s=0.0)
        rig = Live(world, source, prometheus, tuple(pod(name) for name in NAMES))
        await rig.step()
        yield rig


RIGS = [
    pytest.param(scraped, id="scrape"),
    pytest.param(mocked, id="prometheus-mock"),
    pytest.param(real, id="prometheus-real", marks=needs_prometheus),
    pytest.param(through_kubelet, id="kubelet"),
    pytest.param(through_metrics_api, id="metrics.k8s.io"),
]


@pytest.mark.parametrize("rig_of", RIGS)
async def test_every_source_tells_the_same_story(rig_of: Callable[..., object], tmp_path: Path) -> None:
    world = World()
    async with rig_of(world, tmp_path) as rig:  # type: ignore[attr-defined]
        first = await rig.read()
        assert not isinstance(first.requests, Measured) or first.requests.value == 0
        one, two = world.servers.values()
        one.serve(80, 0.1)
        one.serve(10, 0.7)
        two.serve(90, 0.2)
        two.fail(20)
        one.in_flight, two.in_flight, one.memory = 3, 4, 250e6
        for server in (one, two):
            server.cpu_s, server.periods, server.throttled = server.cpu_s + 7.5, 150, 30
        await rig.step()
        seen = await rig.read()
        _told(seen, rig)
        if rig.source.name != "prometheus" or not isinstance(rig, Live):
            _values(seen, rig)
        world.alive.discard(NAMES[1])
        await _one_pod_gone(rig, world)


def _told(seen: Signals, rig: Rig) -> None:
    """What is true of every source: who answered, for whom, how fresh; the rest says it isn't asked."""
    for name in PAGE | KUBELET:
        reading = getattr(seen, name)
        if name in rig.knows:
            assert isinstance(reading, Measured), f"{name}: {reading}"
            assert rig.source.name in reading.source
            assert reading.coverage == 1.0 and 0 <= reading.age_s <= 15
        elif name in PAGE and not (rig.knows & PAGE):
            assert isinstance(reading, Absent) and reading.cause is Cause.NOT_CONFIGURED, f"{name}: {reading}"
    if isinstance(rig, Live):
        assert isinstance(seen.misses, Measured) and seen.misses.value == pytest.approx(0.15)
        assert isinstance(seen.misses, Measured) and seen.misses.weight == 200
        assert isinstance(seen.in_flight, Measured) and seen.in_flight.value == 7
        assert isinstance(seen.throttled, Measured) and seen.throttled.value == pytest.approx(0.2)
        assert isinstance(seen.working_set, Measured) and seen.working_set.value == 250e6


def _values(seen: Signals, rig: Rig) -> None:
    if rig.knows & PAGE:
        assert isinstance(seen.requests, Measured) and seen.requests.value == pytest.approx(200 / STEP_S)
        assert isinstance(seen.failures, Measured) and seen.failures.value == pytest.approx(20 / STEP_S)
        assert isinstance(seen.misses, Measured) and seen.misses.value == pytest.approx(30 / 200)
        assert seen.misses.weight == 200 and seen.misses.window_s == pytest.approx(STEP_S)
        assert isinstance(seen.in_flight, Measured) and seen.in_flight.value == 7
    if rig.knows & KUBELET:
        assert isinstance(seen.cpu, Measured) and seen.cpu.value == pytest.approx(1.0)
    if "throttled" in rig.knows:
        assert isinstance(seen.throttled, Measured) and seen.throttled.value == pytest.approx(0.2)
        assert isinstance(seen.working_set, Measured) and seen.working_set.value == 250e6


async def _one_pod_gone(rig: Rig, world: World) -> None:
    """A pod that should answer and doesn't lowers the coverage, and nothing is made up for it."""
    if isinstance(rig, Live) or rig.source.name == "scrape":
        return
    for _ in range(3):
        await rig.step()
        seen = await rig.read()
    assert isinstance(seen.cpu, Measured) and seen.cpu.coverage == 0.5
