"""A Prometheus beside the emulated cluster: it scrapes the live pages, answers over HTTP, and can be broken."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from autoscaler.emulate.cluster import ClusterSpec, EmulatedCluster
from autoscaler.emulate.serving import Process
from autoscaler.model.plan import Resize, Scale
from autoscaler.model.signal import Signals
from tests.observe.mock import LOOKBACK_S, MockPrometheus
from tests.scenarios.stage import Stage, staged

SCRAPE_S = 5.0
HOST = "127.0.0.1"
EMPTY = {"status": "success", "data": {"resultType": "vector", "result": []}}


@dataclass
class LivePrometheus(MockPrometheus):
    """``text`` spoils a page before it is taken in, ``scraping`` says of which pods pages are taken at all."""

    text: Callable[[str, str], str] = lambda pod, page: page
    scraping: Callable[[str], bool] = lambda pod: True
    every_s: float = SCRAPE_S
    url: str = ""
    cluster: EmulatedCluster | None = None
    seen: set[tuple[str, str]] = field(default_factory=set)
    runner: web.ServerRunner | None = None
    port: int = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        assert self.cluster is not None
        self.now = self.cluster.plane.timeline.wall()
        return await super().handle(request)

    # ------------------------------------------------------------------ the server's side

    async def up(self) -> None:
        """Listen; at the port of the first time, when that was before."""
        self.runner = web.ServerRunner(web.Server(self.handle), shutdown_timeout=0.01)
        await self.runner.setup()
        await web.TCPSite(self.runner, HOST, self.port).start()
        self.port = self.runner.addresses[0][1]
        self.url = f"http://{HOST}:{self.port}"

    async def down(self) -> None:
        """Nobody listens any more."""
        if self.runner is not None:
            await self.runner.cleanup()
        self.runner = None

    # ------------------------------------------------------------------ what it scrapes

    async def scrape_for_ever(self) -> None:
        while True:
            self.take_in()
            await asyncio.sleep(self.every_s)

    def take_in(self) -> None:
        """One scrape of all pods and of the kubelets."""
        assert self.cluster is not None
        plane = self.cluster.plane
        self.now = plane.timeline.wall()
        there = set()
        for _, process in list(self.cluster.serving.processes()):
            pod = plane.pod(process.namespace, process.name) or {}
            port = pod.get("metadata", {}).get("annotations", {}).get("prometheus.io/port")
            page = self.cluster.page(process) if port else None
            if page is None:
                continue
            there.add((process.namespace, process.name))
            if self.scraping(process.name):
                self.scrape(self.text(process.name, page), **_labels(process), instance=f"{HOST}:{port}")
        for namespace, name in self.seen - there:
            self.gone(namespace=namespace, pod=name, job="pods")
        self.seen = there
        for node in self.cluster.spec.nodes:
            self.scrape(self.cluster.measurements.cadvisor(node.name), job="kubelet", node=node.name)
        for key, values in list(self.samples.items()):
            self.samples[key] = [one for one in values if one[0] > self.now - LOOKBACK_S]
            if not self.samples[key]:
                del self.samples[key]


def _labels(process: Process) -> dict[str, str]:
    return {"namespace": process.namespace, "pod": process.name, "job": "pods"}


@asynccontextmanager
async def through_prometheus(
    spec: ClusterSpec, tmp_path: Path, *, timeout: float = 4.0, every_s: float = SCRAPE_S, **settings: Any
) -> AsyncIterator[tuple[Stage, LivePrometheus]]:
    """As ``staged``, beside a Prometheus that scrapes the cluster. ``timeout``: a query's, in real seconds."""
    prometheus = LivePrometheus(every_s=every_s)
    await prometheus.up()
    scraping: asyncio.Task[None] | None = None
    reached = {"prometheus": {"url": prometheus.url, "timeout": timeout}, "interval": every_s}
    try:
        async with staged(spec, tmp_path, **reached | settings) as stage:  # type: ignore[arg-type]
            prometheus.cluster = stage.cluster
            scraping = asyncio.create_task(prometheus.scrape_for_ever())
            try:
                yield stage, prometheus
            finally:
                scraping.cancel()
    finally:
        await prometheus.down()


# ---------------------------------------------------------------------- what can be wrong with a page


def values(pattern: str, value: str) -> Callable[[str, str], str]:
    """All samples whose names match show ``value``."""
    return lambda pod, page: re.sub(rf"(?m)^({pattern}\S*) \S+$", rf"\1 {value}", page)


def without(pattern: str) -> Callable[[str, str], str]:
    return lambda pod, page: re.sub(rf"(?m)^(# \w+ )?{pattern}.*\n", "", page)


@dataclass
class FallingCounters:
    """Each scrape's counters are smaller than those of the scrape before: a reset every time, as of two processes that
    answer in turns for one pod."""

    scrapes: dict[str, int] = field(default_factory=dict)

    def __call__(self, pod: str, page: str) -> str:
        scrapes = self.scrapes[pod] = self.scrapes.get(pod, 0) + 1

        def less(found: re.Match[str]) -> str:
            return f"{found[1]} {1e9 - 10 * scrapes - float(found[2]):.3f}"

        return re.sub(r"(?m)^(request(?:s_total|_duration_seconds)\S*) (\S+)$", less, page)


@dataclass
class CountersAnew:
    """Counters that have started from zero, as of a process that was replaced in its container; ``start.clear()`` makes
    them do so again."""

    start: dict[tuple[str, str], float] = field(default_factory=dict)

    def __call__(self, pod: str, page: str) -> str:
        def since(found: re.Match[str]) -> str:
            value = float(found[2])
            return f"{found[1]} {value - self.start.setdefault((pod, found[1]), value):.3f}"

        return re.sub(r"(?m)^(request(?:s_total|_duration_seconds)\S*) (\S+)$", since, page)


# ---------------------------------------------------------------------- what a test asks


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


def signals(stage: Stage, tick: int = -1) -> Signals:
    return stage.ticks[tick].seen.subjects[0].view.signals


def said(stage: Stage, tick: int = -1) -> list[str]:
    """The reasons of a tick, as people read them."""
    (plan,) = stage.ticks[tick].plans.values()
    return [str(reason) for reason in (plan.reason, *plan.holds)]
