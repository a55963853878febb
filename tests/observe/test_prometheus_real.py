"""The Prometheus source on a real Prometheus."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from autoscaler.model.signal import Measured
from autoscaler.observe.prometheus import Prometheus, PrometheusSettings
from autoscaler.observe.prometheus_source import PrometheusSource
from tests.observe.real import needs_prometheus, real_prometheus, until
from tests.observe.served import Server, pages, pod, watched


@needs_prometheus
async def test_smoke(tmp_path: Path) -> None:
    one, two = Server(), Server()
    one.fail(1)
    async with pages({"one": one.page, "two": two.page}) as port, real_prometheus(tmp_path) as server:
        server.scrape(
            [
                {
                    "__address__": f"127.0.0.1:{port}",
                    "__metrics_path__": f"/{name}",
                    "namespace": "serving",
                    "pod": name,
                }
                for name in ("one", "two")
            ]
        )
        workload = watched(pod("one"), pod("two"))
        async with Prometheus(PrometheusSettings(url=server.url)) as prometheus:
            source = PrometheusSource(prometheus, clock=time.monotonic)

            async def read():
                s = (await source.read([workload], 0.0))[workload.ref]
                print(s.requests, s.misses, s.in_flight, s.latency)
                return s

            await until(read, lambda seen: isinstance(seen.requests, Measured) and seen.requests.coverage == 1)
            one.serve(80, 0.1)
            one.serve(10, 0.7)
            two.serve(90, 0.2)
            two.fail(20)
            one.in_flight = 3
            seen = await until(
                read, lambda seen: isinstance(seen.misses, Measured) and seen.misses.weight == 200, pause=0.05
            )
            print(seen)
            assert seen.misses.value == pytest.approx(0.15)
