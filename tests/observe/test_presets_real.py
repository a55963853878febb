"""Every preset on a real Prometheus that scrapes its server's page: the right kinds, no cause where there is data."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from autoscaler.model.signal import Absent, Cause, Measured, Reading, Signals
from autoscaler.observe.prometheus import Prometheus, PrometheusSettings
from autoscaler.observe.prometheus_source import PrometheusSource
from tests.observe.real import needs_prometheus, real_prometheus, until
from tests.observe.served import pages, pod, policy, watched
from tests.observe.test_presets import NO_FAILURES, NO_HISTOGRAM, NO_IN_FLIGHT, NO_REQUESTS, PAGES

pytestmark = needs_prometheus


def growing(name: str) -> Callable[[], str]:
    """At each scrape 100 more requests, 10 of them slow, and 20 failed ones that were fast."""
    turns = itertools.count()

    def page() -> str:
        turn = next(turns)
        return PAGES[name](200 + 100 * turn, 10 * turn, 5 + 20 * turn, 4)

    return page


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Signals]:
    """What one Prometheus tells of all presets, by preset."""
    return asyncio.run(_told(tmp_path_factory.mktemp("prometheus")))


async def _told(folder: Path) -> dict[str, Signals]:
    workloads = {
        name: watched(pod(f"{name}-5d8f7c9b6-aaaaa"), policy_=policy(name, signals={"preset": name})) for name in PAGES
    }
    async with (
        pages({name: growing(name) for name in PAGES}) as port,
        real_prometheus(folder, interval="1s") as server,
        Prometheus(PrometheusSettings(url=server.url)) as door,
    ):
        server.scrape([
            {"__address__": f"127.0.0.1:{port}", "__metrics_path__": f"/{name}",
             "namespace": "serving", "pod": f"{name}-5d8f7c9b6-aaaaa"}
            for name in PAGES
        ])  # fmt: skip
        await until(
            lambda: door.ask('sum(up{namespace="serving"})'),
            lambda answer: bool(answer.rows) and answer.rows[0].number == len(PAGES),
            within=20,
        )
        source = PrometheusSource(door, clock=time.monotonic)

        async def read() -> dict[str, Signals]:
            found = await source.read(list(workloads.values()), time.time())
            return {name: found[one.ref] for name, one in workloads.items()}

        def grew(found: dict[str, Signals]) -> bool:
            readings = [one for seen in found.values() for one in (seen.requests, seen.misses, seen.failures)]
            return not any(isinstance(one, Absent) and one.cause is Cause.TOO_SHORT for one in readings)

        await until(read, grew, within=10, pause=0.5)
        return await until(read, grew, within=10, pause=0.5)


def measured(reading: Reading) -> Measured:
    assert isinstance(reading, Measured), reading
    return reading


def not_configured(reading: Reading) -> bool:
    return isinstance(reading, Absent) and reading.cause is Cause.NOT_CONFIGURED


@pytest.mark.parametrize("name", PAGES)
def test_a_preset_is_read_through_a_real_prometheus(told: dict[str, Signals], name: str) -> None:
    seen = told[name]
    failed = 0 if name in NO_FAILURES else 20
    if name in NO_REQUESTS:
        assert not_configured(seen.requests)
    else:
        requests = measured(seen.requests)
        assert requests.value > 0 and requests.coverage == 1.0 and requests.window_s > 0.5
        if failed:
            apart = 100 if seen.failures_apart else 120
            assert measured(seen.failures).value * apart == pytest.approx(requests.value * 20)
    if not failed:
        assert not_configured(seen.failures)
    if name in NO_HISTOGRAM:
        assert not_configured(seen.misses)
    elif name == "triton":  # a summary only brackets the share, the wider the fewer turns it has seen
        assert failed / (100 + failed) <= measured(seen.misses).value <= 0.5
    else:
        assert measured(seen.misses).value == pytest.approx((10 + failed) / (100 + failed), abs=1e-6)
    if name in NO_IN_FLIGHT:
        assert not_configured(seen.in_flight)
    else:
        assert measured(seen.in_flight).value == 4
