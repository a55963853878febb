"""Each way a signal can fail, injected at the source, with the real decisions behind it: nothing shrinks, scales in, or
counts as zero."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from aiohttp import web

from autoscaler.decide.decision import decide
from autoscaler.decide.history import History
from autoscaler.model.plan import Ledger, Resize, Scale
from autoscaler.model.seen import Seen, Subject
from autoscaler.model.signal import Absent, Cause, Measured, Signals
from autoscaler.model.workload import Container, Node, Pod, Resources, ScaleView, WorkloadRef, WorkloadView
from autoscaler.observe.fallback import Fallback
from autoscaler.observe.honesty import MEANINGS
from autoscaler.observe.kubelet import KubeletSource
from autoscaler.observe.page_door import ScrapeLimits
from autoscaler.observe.ports import MetricSource
from autoscaler.observe.prometheus import Prometheus, PrometheusSettings
from autoscaler.observe.prometheus_source import PrometheusSource
from autoscaler.observe.scrape import ScrapeSource
from tests.observe.mock import MockPrometheus, mock_prometheus
from tests.observe.served import Server, policy, serving, watched

GI = 2**30
NAMES = ("resnet-5d8f7c9b6-aaaaa", "resnet-5d8f7c9b6-bbbbb")
TICK_S = 15.0
HEALTHY, LONG, RISING = 12, 16, 6
FALLEN, STEADY, RISEN = 30, 1050, 3500
"""Requests in each tick and pod: what two pods of 1.6 cores can shed, have, and can't carry."""
START = 1_000_000.0


@dataclass
class Story:
    """Two pods of 1.6 cores each, busy until the load falls and the source breaks; and what is decided about them."""

    source: MetricSource
    servers: dict[str, Server]
    pods: list[Pod]
    scrape: Callable[[], None] = lambda: None
    now: float = START
    past: dict[WorkloadRef, History] = field(default_factory=dict)
    signals: Signals = field(default_factory=Signals)
    taken: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    grown: int = 0
    frozen: bool = False
    load: int = STEADY
    every_s: float = TICK_S

    async def tick(self) -> None:
        self.now += self.every_s
        share = self.every_s / TICK_S
        if not self.frozen:
            for server in self.servers.values():
                server.serve(round(self.load * share), 0.1)
                server.cpu_s += min(self.load * 0.02, 1.6 * TICK_S) * share
                server.periods += round(150 * share)
                server.throttled += round(150 * share) if self.load * 0.02 > 1.6 * TICK_S else 0
            self.scrape()
        spec = policy(vertical={"cpu": {"min": "100m", "max": "4"}}, horizontal={"minReplicas": 1, "maxReplicas": 4})
        workload = watched(*self.pods, policy_=spec)
        self.signals = (await self.source.read([workload], self.now))[workload.ref]
        count = len(self.pods)
        view = WorkloadView(
            ref=spec.ref, target=spec.target, scale=ScaleView(count, count), pods=tuple(self.pods),
            signals=self.signals, container="server", template=Resources(1600, 1600, GI, GI),
        )  # fmt: skip
        ledger = Ledger({"n1": Node("n1", 64_000, 64 * GI)}, {"n1": 4000}, {"n1": 4 * GI})
        plans, self.past = decide(Seen(self.now, (Subject(view, spec),), ledger), self.past)
        self.said = [str(reason) for reason in (plans[spec.ref].reason, *plans[spec.ref].holds)]
        for action in plans[spec.ref].actions:
            if isinstance(action, Scale) and action.after < action.before:
                self.taken.append(f"scale-in: {action.reason}")
            elif isinstance(action, Resize):
                if (action.after.cpu_limit or 9e9) < (action.before.cpu_limit or 0):
                    self.taken.append(f"shrink: {action.reason}")
                else:
                    self.grown += 1


def _pod(name: str, port: int = 80) -> Pod:
    sizes = Resources(1600, 1600, GI, GI)
    container = Container("server", sizes, sizes, sizes, started_at=START - 3600)
    return Pod(
        "serving", name, f"uid-{name}", (container,), node="n1", created_at=START - 3600, ready_at=START - 3500,
        ip="127.0.0.1", annotations={"prometheus.io/port": str(port), "prometheus.io/path": f"/{name}"},
        template_hash="t1",
    )  # fmt: skip


def _cadvisor(servers: dict[str, Server], now: float) -> bytes:
    lines = []
    for name, server in servers.items():
        labels = f'{{container="server",id="/kubepods/poduid-{name}/c",namespace="serving",pod="{name}"}}'
        for metric, value in (
            ("container_cpu_usage_seconds_total", server.cpu_s),
            ("container_cpu_cfs_periods_total", server.periods),
            ("container_cpu_cfs_throttled_periods_total", server.throttled),
            ("container_memory_working_set_bytes", server.memory),
        ):
            lines.append(f"{metric}{labels} {value} {int(now * 1000)}")
    return ("\n".join(lines) + "\n").encode()


@dataclass
class Broken:
    """How the pages are spoilt: ``text`` changes them, ``respond`` replaces them, ``only`` spares all other pods."""

    text: Callable[[str], str] = lambda page: page
    respond: Callable[[], web.Response] | None = None
    closed: bool = False
    only: str = ""


@asynccontextmanager
async def scraping(broken: Broken) -> AsyncIterator[Story]:
    servers = {name: Server() for name in NAMES}

    async def page(request: web.BaseRequest) -> web.StreamResponse:
        if broken.only and request.path.strip("/") == broken.only:
            return web.Response(status=500)
        if broken.closed and request.transport is not None:
            request.transport.abort()
        if broken.respond is not None:
            return broken.respond()
        return web.Response(text=broken.text(servers[request.path.strip("/")].page()))

    async with serving(page) as port:
        story: Story

        async def fetch(path: str) -> bytes:
            return _cadvisor(servers, story.now)

        limits = ScrapeLimits(page_bytes=100_000)
        async with ScrapeSource(limits=limits, clock=lambda: story.now) as scraper:
            source = Fallback([scraper, KubeletSource(fetch, clock=lambda: story.now)])
            story = Story(source, servers, [_pod(name, port) for name in NAMES])
            yield story


@asynccontextmanager
async def through_prometheus(broken: Broken) -> AsyncIterator[tuple[Story, MockPrometheus]]:
    servers = {name: Server() for name in NAMES}
    settings = PrometheusSettings
    async with mock_prometheus() as (mock, url), Prometheus(settings(url=url, query_s=1.0)) as prometheus:
        story: Story

        def scrape() -> None:
            mock.now = story.now
            for name, server in servers.items():
                labels = {"namespace": "serving", "pod": name, "instance": "127.0.0.1:80", "job": "pods"}
                mock.scrape(broken.text(server.page()), **labels)
            mock.scrape(_cadvisor(servers, story.now).decode(), job="kubelet")

        source = Fallback([PrometheusSource(prometheus, clock=lambda: story.now)])
        story = Story(source, servers, [_pod(name) for name in NAMES], scrape)
        yield story, mock


def _values(pattern: str, value: str) -> Callable[[str], str]:
    return lambda page: re.sub(rf"(?m)^({pattern}\S*) \S+$", rf"\1 {value}", page)


def _without(pattern: str) -> Callable[[str], str]:
    return lambda page: re.sub(rf"(?m)^(# \w+ )?{pattern}.*\n", "", page)


def _doubled(page: str) -> str:
    return page + 'requests_total{code="200"} 1\nrequest_duration_seconds_count{code="200"} 1\n'


PAGE_FAULTS: dict[str, tuple[Callable[[str], str], Cause]] = {
    "NaN": (_values("requests_total|request_duration_seconds", "NaN"), Cause.NAN),
    "+Inf": (_values("requests_total|request_duration_seconds", "+Inf"), Cause.INFINITE),
    "-Inf": (_values("requests_total|request_duration_seconds", "-Inf"), Cause.INFINITE),
    "negative": (_values("requests_total|request_duration_seconds", "-5"), Cause.NEGATIVE),
    "no such metric": (_without("request(s_total|_duration_seconds)"), Cause.NO_SUCH_METRIC),
    "no bucket": (_without(r'request_duration_seconds_bucket\{[^}]*le="0\.(1|25|5)"'), Cause.NO_BUCKET),
}
SCRAPE_FAULTS: dict[str, tuple[Broken, Cause]] = {
    **{name: (Broken(text), cause) for name, (text, cause) in PAGE_FAULTS.items()},
    "series twice": (Broken(_doubled), Cause.CONTRADICTORY),
    "HTML": (Broken(respond=lambda: web.Response(text="<html>", content_type="text/html")), Cause.REFUSED),
    "server error": (Broken(respond=lambda: web.Response(status=500)), Cause.SOURCE_DOWN),
    "garbled": (Broken(lambda page: page + 'requests_total{code="2\n'), Cause.REFUSED),
    "too large": (Broken(lambda page: page + "x" * 200_000), Cause.REFUSED),
    "closed": (Broken(closed=True), Cause.SOURCE_DOWN),
    "empty": (Broken(lambda page: ""), Cause.NO_SUCH_METRIC),
    "declared only": (
        Broken(lambda page: re.sub(r"(?m)^request_duration_seconds.*\n", "", page)),
        Cause.NO_SUCH_METRIC,
    ),
    "gone": (Broken(respond=lambda: web.Response(status=404)), Cause.REFUSED),
    "forbidden": (Broken(respond=lambda: web.Response(status=403)), Cause.REFUSED),
    "compressed": (
        Broken(respond=lambda: web.Response(body=b"x", headers={"Content-Encoding": "gzip"})),
        Cause.REFUSED,
    ),
    "led elsewhere": (
        Broken(respond=lambda: web.Response(status=302, headers={"Location": "http://localhost:1/"})),
        Cause.REFUSED,
    ),
}
ANSWER_FAULTS: dict[str, tuple[Callable[[web.BaseRequest], object], Cause]] = {
    "down": (lambda _: web.Response(status=503), Cause.SOURCE_DOWN),
    "HTML": (lambda _: web.Response(text="<html>", content_type="text/html"), Cause.SOURCE_DOWN),
    "refused": (
        lambda _: web.json_response({"status": "error", "errorType": "bad_data", "error": "no"}, status=400),
        Cause.REFUSED,
    ),
    "forbidden": (lambda _: web.Response(status=403), Cause.REFUSED),
    "empty": (lambda _: {"status": "success", "data": {"resultType": "vector", "result": []}}, Cause.STALE),
    "partial": (
        lambda _: {"status": "success", "warnings": ["s1 down"], "data": {"resultType": "vector", "result": []}},
        Cause.PARTIAL,
    ),
    "garbled": (lambda _: web.Response(text='{"status":"succ'), Cause.SOURCE_DOWN),
}


async def _live_with(
    story: Story, break_it: Callable[[], None], cause: Cause | None, *, load: int = FALLEN, cpu_known: bool = True
) -> None:
    """Health, then the fault and another load. ``cpu_known``: whether the kubelet's figures outlive the fault."""
    for _ in range(HEALTHY):
        await story.tick()
    assert isinstance(story.signals.misses, Measured) and isinstance(story.signals.cpu, Measured)
    assert not story.taken and not story.grown, "too early to tell a fault from health"
    break_it()
    story.load = load
    for _ in range(LONG if load == FALLEN else RISING):
        await story.tick()
    if cause is None:
        return
    assert isinstance(story.signals.misses, Absent), story.signals.misses
    assert story.signals.misses.cause is cause, story.signals.misses
    assert not story.taken
    if load == RISEN and cpu_known:
        assert story.grown, "what is still valid is enough to grow on"
    if load == FALLEN:
        assert not story.grown, "nothing is bought for a fault"
        assert any(f"({cause}" in line or f": {cause}" in line for line in story.said), story.said


@pytest.mark.parametrize("load", [FALLEN, RISEN])
async def test_without_a_fault_the_load_is_followed(load: int) -> None:
    """The story itself: each row below would fail if its fault went unnoticed."""
    for opened in (scraping(Broken()), _prometheus_alone()):
        async with opened as story:
            await _live_with(story, lambda: None, None, load=load)
            assert bool(story.taken) == (load == FALLEN) and bool(story.grown) == (load == RISEN)


@asynccontextmanager
async def _prometheus_alone() -> AsyncIterator[Story]:
    async with through_prometheus(Broken()) as (story, _):
        yield story


@pytest.mark.parametrize("load", [FALLEN, RISEN])
@pytest.mark.parametrize("fault", SCRAPE_FAULTS)
async def test_a_broken_page_takes_nothing_away_and_growing_goes_on(fault: str, load: int) -> None:
    spoilt, cause = SCRAPE_FAULTS[fault]
    broken = Broken()

    def break_it() -> None:
        broken.text, broken.respond, broken.closed = spoilt.text, spoilt.respond, spoilt.closed

    async with scraping(broken) as story:
        await _live_with(story, break_it, cause, load=load)


@pytest.mark.parametrize("load", [FALLEN, RISEN])
@pytest.mark.parametrize("fault", PAGE_FAULTS)
async def test_broken_series_in_prometheus_take_nothing_away_and_growing_goes_on(fault: str, load: int) -> None:
    text, cause = PAGE_FAULTS[fault]
    broken = Broken()
    async with through_prometheus(broken) as (story, _):
        await _live_with(story, lambda: setattr(broken, "text", text), cause, load=load)


@pytest.mark.parametrize("fault", ANSWER_FAULTS)
async def test_a_broken_prometheus_takes_nothing_away(fault: str) -> None:
    """With all its answers gone there is nothing to grow on either; the next source is asked, where there is one."""
    answer, cause = ANSWER_FAULTS[fault]
    async with through_prometheus(Broken()) as (story, mock):
        await _live_with(story, lambda: setattr(mock, "answer", answer), cause, cpu_known=False)


@pytest.mark.parametrize("load", [FALLEN, RISEN])
async def test_half_of_the_pods_are_not_taken_for_all(load: int) -> None:
    """One of two pods shows nothing more. What the other says is used to grow and never to take away, and a share of
    the misses is not told as the whole."""
    broken = Broken()
    async with scraping(broken) as story:
        await _live_with(story, lambda: setattr(broken, "only", NAMES[0]), None, load=load)
        assert isinstance(story.signals.misses, Absent | Measured)
        misses = story.signals.misses
        assert isinstance(misses, Measured) and misses.coverage == 0.5 and misses.value == 0.0
        if load == FALLEN:
            assert any("Partial: known for 50% of the pods" in line for line in story.said), story.said
        assert not any("WithinObjective" in line for line in story.said), story.said
        assert not story.taken and bool(story.grown) == (load == RISEN)


async def test_requests_that_wait_while_none_is_answered_are_no_idleness() -> None:
    async with scraping(Broken()) as story:

        def stall() -> None:
            for server in story.servers.values():
                server.in_flight = 200

        await _live_with(story, stall, None, load=0)
        assert isinstance(story.signals.misses, Absent) and story.signals.misses.cause is Cause.NO_TRAFFIC
        assert isinstance(story.signals.requests, Measured) and story.signals.requests.value == 0.0
        assert not story.taken


async def test_a_step_is_in_the_decision_with_the_second_scrape() -> None:
    """A scrape and a tick a second: the load rises between two of them, and the second one after it has grown."""
    async with scraping(Broken()) as story:
        story.every_s, story.load = 1.0, STEADY * 2 // 3
        for _ in range(60):
            await story.tick()
        assert not story.grown
        story.load = RISEN
        for _ in range(2):
            await story.tick()
        assert story.grown, story.said


async def test_series_that_stop_are_stale_not_zero() -> None:
    async with through_prometheus(Broken()) as (story, mock):

        def freeze() -> None:
            story.scrape = lambda: setattr(mock, "now", story.now)

        await _live_with(story, freeze, Cause.STALE)


async def test_counters_that_fall_every_tick_take_nothing_away() -> None:
    async with scraping(Broken()) as story:
        for _ in range(HEALTHY):
            await story.tick()
        for _ in range(LONG):
            for server in story.servers.values():
                server.latencies.clear()
                story.load = max(1, story.load - 25)
            await story.tick()
            assert isinstance(story.signals.requests, Absent | Measured)
        assert not story.taken


async def test_growing_goes_on_with_what_is_valid() -> None:
    """The histogram is garbage, the rate is not: ten times the load is answered with larger pods."""
    broken = Broken()
    async with scraping(broken) as story:
        for _ in range(HEALTHY):
            await story.tick()
        broken.text = _values("request_duration_seconds", "NaN")
        story.load = 3500
        for _ in range(8):
            await story.tick()
        assert isinstance(story.signals.misses, Absent) and story.signals.misses.cause is Cause.NAN
        assert story.grown and not story.taken


def test_every_cause_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Cause)
    for cause, meaning in MEANINGS.items():
        assert meaning.when and meaning.growing
        if cause not in (Cause.NO_TRAFFIC, Cause.NOT_CONFIGURED):
            assert meaning.shrinking == meaning.scale_in == "blocked", cause


@pytest.mark.parametrize("cause", [cause for cause in Cause if cause is not Cause.NO_TRAFFIC])
async def test_the_table_is_what_the_decisions_do(cause: Cause) -> None:
    """A reading with each cause in place of the misses, with all else healthy."""

    class Spoilt:
        name = "scrape"
        spoil = False

        def __init__(self, inner: MetricSource) -> None:
            self.inner = inner

        async def read(self, workloads, at):  # type: ignore[no-untyped-def]
            found = await self.inner.read(workloads, at)
            return {r: replace(s, misses=Absent(cause)) if self.spoil else s for r, s in found.items()}

    async with scraping(Broken()) as story:
        story.source = spoilt = Spoilt(story.source)
        await _live_with(story, lambda: setattr(spoilt, "spoil", True), cause)
