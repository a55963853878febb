"""Direct scrape: what a pod's own page tells, over real HTTP."""

from __future__ import annotations

import pytest

from autoscaler.model.signal import Absent, Cause, Measured, Signals
from autoscaler.observe.names import resolve
from autoscaler.observe.page_door import page_url
from autoscaler.observe.prometheus import Prometheus, PrometheusSettings
from autoscaler.observe.prometheus_source import PrometheusSource
from autoscaler.observe.scrape import ScrapeSource
from tests.observe.mock import mock_prometheus
from tests.observe.served import Server, pages, pod, policy, watched


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


async def test_a_step_shows_with_the_second_scrape_and_a_stall_as_what_waits() -> None:
    server, clock = Server(), Clock()
    async with pages({"one": server.page}) as port, ScrapeSource(clock=clock) as source:
        workload = watched(pod("one", port, path="/one"))
        rates = []
        for served in (10, 10, 100):
            server.serve(served, 0.1)
            clock.now += 1.0
            seen = (await source.read([workload], clock.now))[workload.ref]
            rates.append(seen.requests.value if isinstance(seen.requests, Measured) else None)
        assert rates == [None, 10.0, 100.0]
        server.in_flight = 40
        clock.now += 1.0
        stalled = (await source.read([workload], clock.now))[workload.ref]
    assert isinstance(stalled.requests, Measured) and stalled.requests.value == 0
    assert isinstance(stalled.in_flight, Measured) and stalled.in_flight.value == 40
    assert isinstance(stalled.misses, Absent) and stalled.misses.cause is Cause.NO_TRAFFIC
    assert "40 in flight" in stalled.misses.detail


async def test_fast_refusals_are_misses_and_a_full_top_bucket_is_all_of_them() -> None:
    server, clock = Server(), Clock()
    server.fail(1)
    async with pages({"one": server.page}) as port, ScrapeSource(clock=clock) as source:
        workload = watched(pod("one", port, path="/one"))
        await source.read([workload], clock.now)
        server.serve(10, 0.1)
        server.fail(90)
        clock.now += 1.0
        shed = (await source.read([workload], clock.now))[workload.ref].misses
        server.serve(10, 99.0)
        clock.now += 1.0
        full = (await source.read([workload], clock.now))[workload.ref]
    assert isinstance(shed, Measured) and shed.value == pytest.approx(0.9)
    assert isinstance(full.misses, Measured) and full.misses.value == 1.0
    assert isinstance(full.latency, Measured) and full.latency.value == 2.5 and "at least" in full.latency.note


@pytest.mark.parametrize(
    ("signals", "notes", "url"),
    [
        ({"preset": "triton"}, {}, "http://10.0.0.7:8002/metrics"),
        ({"preset": "envoy"}, {}, "http://10.0.0.7:9901/stats/prometheus"),
        ({"preset": "envoy"}, {"port": "15090"}, "http://10.0.0.7:15090/stats/prometheus"),
        ({"preset": "triton"}, {"port": "9100", "path": "/own", "scheme": "https"}, "https://10.0.0.7:9100/own"),
        ({"preset": "triton", "scrape": {"port": 7000}}, {"port": "9100", "path": "own"}, "http://10.0.0.7:7000/own"),
        ({"preset": "triton", "scrape": {"path": "/x"}}, {"port": "9100", "path": "own"}, "http://10.0.0.7:9100/x"),
        ({}, {}, "http://10.0.0.7:8000/metrics"),
        ({"preset": "triton", "scrape": {"port": 7000}}, {"scrape": "false"}, "http://10.0.0.7:7000/metrics"),
    ],
)
def test_the_policy_beats_the_annotation_which_beats_the_preset(
    signals: dict[str, object], notes: dict[str, str], url: str
) -> None:
    annotated = pod("one", ip="10.0.0.7", annotations={f"prometheus.io/{key}": value for key, value in notes.items()})
    assert page_url(annotated, resolve(policy(signals=signals))) == url


@pytest.mark.parametrize(
    ("notes", "said"),
    [
        ({"scrape": "false"}, "scrape: false"),
        ({"port": "http"}, "'http', not a number"),
        ({"port": "²"}, "not a number"),
        ({"port": "70000"}, "port 70000"),
        ({"scheme": "file"}, "file"),
    ],
)
def test_an_annotation_that_leads_nowhere_says_so(notes: dict[str, str], said: str) -> None:
    annotated = pod("one", annotations={f"prometheus.io/{key}": value for key, value in notes.items()})
    found = page_url(annotated, resolve(policy(signals={"preset": "triton"})))
    assert isinstance(found, Absent) and found.cause is Cause.NOT_CONFIGURED and said in found.detail


@pytest.mark.parametrize(
    ("every", "signals", "lasts"),
    [(1.0, {}, 30.0), (15.0, {}, 30.0), (30.0, {}, 60.0), (60.0, {}, 120.0), (80.0, {}, 120.0),
     (30.0, {"maxAge": "20s"}, 20.0), (1.0, {"maxAge": "2m"}, 120.0)],
)  # fmt: skip
async def test_a_value_lasts_for_two_scrapes_unless_the_policy_says_how_long(
    every: float, signals: dict[str, object], lasts: float
) -> None:
    """A Prometheus that scrapes every ``every`` seconds, asked each second until its samples are too old."""
    server, name = Server(), "p-5d8f7c9b6-aaaaa"
    async with mock_prometheus() as (mock, url), Prometheus(PrometheusSettings(url=url)) as door:
        mock.now = scraped = 1_000_000.0
        source = PrometheusSource(door, clock=lambda: mock.now)
        workload = watched(pod(name), policy_=policy(signals={"preset": "generic", **signals}))

        async def seen() -> Signals:
            return (await source.read([workload], mock.now))[workload.ref]

        for _ in range(4):
            server.serve(100, 0.1)
            scraped = mock.now
            mock.scrape(server.page(), namespace="serving", pod=name, instance="127.0.0.1:80", job="pods")
            told = await seen()
            mock.now += every
        assert isinstance(told.requests, Measured)
        mock.now = scraped + lasts - 0.5
        late = await seen()
        for reading in (late.requests, late.misses, late.in_flight):
            assert isinstance(reading, Measured) and reading.fresh(30.0 if "maxAge" not in signals else lasts)
        mock.now = scraped + lasts + 0.5
        old = await seen()
        for reading in (old.requests, old.misses, old.in_flight):
            assert isinstance(reading, Absent) and reading.cause is Cause.STALE, reading
            assert f"{lasts:.0f}s are allowed" in reading.detail


async def test_a_page_whose_own_times_stand_still_grows_stale() -> None:
    server, clock, stamp = Server(), Clock(), 5_000.0  # by the server's clock, whatever that is

    def page() -> str:
        return "".join(
            line + (f" {stamp * 1000:.0f}" if line[0] != "#" else "") + "\n" for line in server.page().splitlines()
        )

    async with pages({"one": page}) as port, ScrapeSource(clock=clock) as source:
        workload = watched(pod("one", port, path="/one"))
        for moving in (True, True, True, False, False):
            if moving:
                server.serve(10, 0.1)
                stamp += 1.0
            clock.now += 1.0
            seen = (await source.read([workload], clock.now))[workload.ref]
        assert isinstance(seen.requests, Measured) and seen.requests.value == 10.0 and seen.requests.age_s == 2.0
        clock.now += 30.0
        old = (await source.read([workload], clock.now))[workload.ref]
    for reading in (old.requests, old.misses, old.in_flight):
        assert isinstance(reading, Absent) and reading.cause is Cause.STALE


async def test_a_labelled_histogram_before_and_with_its_first_request() -> None:
    """Declared without a series is no traffic, not a missing bucket; and the first requests are all counted."""
    server, clock, born = Server(), Clock(), False

    def page() -> str:
        text = server.page()
        return (
            text if born else "\n".join(x for x in text.splitlines() if not x.startswith(("request_d", "requests_t")))
        )

    async with pages({"one": page}) as port, ScrapeSource(clock=clock) as source:
        workload = watched(pod("one", port, path="/one"))
        seen = []
        for served in (0, 0, 10, 10):
            server.serve(served, 0.1)
            born = bool(served)
            clock.now += 1.0
            seen.append((await source.read([workload], clock.now))[workload.ref])
    quiet, first, then = seen[1:]
    assert isinstance(quiet.misses, Absent) and quiet.misses.cause is Cause.NO_TRAFFIC
    assert isinstance(quiet.requests, Measured) and quiet.requests.value == 0.0
    for one in (first, then):
        assert isinstance(one.misses, Measured) and one.misses.value == 0.0 and one.misses.weight == 10
