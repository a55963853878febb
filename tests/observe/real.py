"""A real Prometheus (the ``prometheus`` binary, as Debian packages it) on loopback, scraping what a test serves."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from autoscaler.observe.prometheus import Prometheus, PrometheusSettings, Unavailable

BINARY = shutil.which("prometheus")
needs_prometheus = pytest.mark.skipif(
    BINARY is None, reason="no `prometheus` binary here (Debian: apt-get install prometheus): real server not tested"
)

CONFIG = """
global: {{scrape_interval: {interval}, scrape_timeout: {interval}}}
scrape_configs:
- job_name: pods
  honor_labels: true
  honor_timestamps: true
  file_sd_configs: [{{files: [{targets}], refresh_interval: 1s}}]
"""

T = TypeVar("T")


@dataclass
class RealPrometheus:
    url: str
    targets: Path

    def scrape(self, targets: Sequence[dict[str, str]]) -> None:
        """Each target: ``__address__``, ``__metrics_path__`` and the labels its series get."""
        written = [{"targets": [one["__address__"]], "labels": dict(one)} for one in targets]
        fresh = self.targets.with_suffix(".new")
        fresh.write_text(json.dumps(written))
        fresh.replace(self.targets)


@asynccontextmanager
async def real_prometheus(folder: Path, *, interval: str = "200ms") -> AsyncIterator[RealPrometheus]:
    assert BINARY is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    targets = folder / "targets.json"
    targets.write_text("[]")
    config = folder / "prometheus.yml"
    config.write_text(CONFIG.format(targets=targets, interval=interval))
    server = await asyncio.create_subprocess_exec(
        BINARY, f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        async with Prometheus(PrometheusSettings(url=url, threads=1)) as asked:

            async def up() -> bool:
                try:
                    return bool((await asked.ask("vector(1)")).rows)
                except Unavailable:
                    return False

            await until(up, bool, within=20)
        yield RealPrometheus(url, targets)
    finally:
        server.terminate()
        await asyncio.wait_for(server.wait(), 10)


async def until(
    ask: Callable[[], Awaitable[T]], good: Callable[[T], bool], *, within: float = 10, pause: float = 0.1
) -> T:
    """Ask again until the answer is good; fails with the last answer."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    while True:
        answer = await ask()
        if good(answer):
            return answer
        if loop.time() > end:
            raise AssertionError(f"not within {within}s; last: {answer}")
        await asyncio.sleep(pause)
