"""Direct scrape: what a pod's own page tells, over real HTTP."""

from __future__ import annotations

import pytest

from autoscaler.model.signal import Absent, Cause, Measured
from autoscaler.observe.scrape import ScrapeSource
from tests.observe.served import Server, pages, pod, watched


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_two_scrapes_tell_rate_misses_failures_and_in_flight() -> None:
    one, two, clock = Server(), Server(), Clock()
    async with pages({"one": one.page, "two": two.page}) as port, ScrapeSource(clock=clock) as source:
        workload = watched(pod("one", port, path="/one"), pod("two", port, path="/two"))
        first = (await source.read([workload], 0.0))[workload.ref]
        assert isinstance(first.requests, Absent) and first.requests.cause is Cause.TOO_SHORT
        one.serve(80, 0.1)
        one.serve(10, 0.7)
        two.serve(90, 0.2)
        two.fail(20)
        one.in_flight, two.in_flight, one.cpu_s = 3, 4, 1.5
        clock.now += 2.0
        seen = (await source.read([workload], 2.0))[workload.ref]
    assert isinstance(seen.requests, Measured) and seen.requests.value == pytest.approx(100.0)
    assert seen.requests.window_s == 2.0 and seen.requests.coverage == 1.0 and seen.requests.source == "scrape"
    assert isinstance(seen.failures, Measured) and seen.failures.value == pytest.approx(10.0)
    assert isinstance(seen.misses, Measured)
    assert seen.misses.value == pytest.approx(30 / 200) and seen.misses.weight == 200
    assert isinstance(seen.in_flight, Measured) and seen.in_flight.value == 7
    assert isinstance(seen.cpu, Measured) and seen.cpu.value == pytest.approx(0.75) and "process" in seen.cpu.source
    assert isinstance(seen.pods["uid-one"].requests, Measured) and seen.pods["uid-one"].requests.value == 45
