"""Each way Prometheus can fail, while load rises and while it falls, with the whole daemon behind it: nothing is taken
away, growing goes on with what is still valid, the reason names the fault, and all of it is over when the fault is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web

from autoscaler.model.signal import Absent, Cause, Measured, Reading
from tests.observe.real import needs_prometheus, real_prometheus
from tests.scenarios.prometheus_stage import (
    EMPTY,
    CountersAnew,
    FallingCounters,
    LivePrometheus,
    said,
    signals,
    taken,
    through_prometheus,
    values,
    without,
)
from tests.scenarios.stage import POLICY, Stage, cluster_spec, staged

CALM = (
    POLICY.replace("maxReplicas: 6}", "maxReplicas: 6, behavior: {scaleDown: {stabilizationWindowSeconds: 30}}}")
    .replace('max: "2"}', 'max: "1400m"}, behavior: {shrink: {stabilizationWindowSeconds: 30}}')
    .replace("[scrape]", "[prometheus, kubelet]")
)
"""At its busiest it needs both larger pods and more of them."""
STEADY, RISEN, FALLEN = 20.0, 110.0, 2.0
SERVED = r"request(s_total|_duration_seconds)"

Break = Callable[[LivePrometheus], Awaitable[None] | None]


@dataclass(frozen=True)
class Fault:
    """``word``: what tells it apart from others of the same cause. ``shows_s``: until it is noticed, seconds: a sample
    counts as long as signals.maxAge says. ``queries_s``: a query's deadline."""

    cause: Cause
    word: str
    inject: Break
    queries_s: float = 4.0
    shows_s: float = 10.0


def answering(answer: Callable[[web.BaseRequest], object]) -> Break:
    return lambda prometheus: setattr(prometheus, "answer", answer)


def showing(text: Callable[[], Callable[[str, str], str]]) -> Break:
    return lambda prometheus: setattr(prometheus, "text", text())


async def never(_: web.BaseRequest) -> web.Response:
    await asyncio.sleep(3600)
    return web.Response()


def half_of_the_pods(prometheus: LivePrometheus) -> None:
    """As Thanos tells of a store that doesn't answer: a warning, and what that store had is missing."""
    assert prometheus.cluster is not None
    first = min(pod["metadata"]["name"] for pod in prometheus.cluster.pods("serving", workload="resnet"))
    prometheus.warnings = ["store s1 did not answer"]
    prometheus.scraping = lambda pod: pod == first
    for key in [key for key in prometheus.samples if ("pod", first) not in key[1] and ("job", "pods") in key[1]]:
        del prometheus.samples[key]


def failing(status: int, **body: object) -> Break:
    return answering(lambda _: web.json_response({"status": "error", **body}, status=status))


FAULTS = {
    "down": Fault(Cause.SOURCE_DOWN, "refused", LivePrometheus.down),
    "slow": Fault(Cause.SOURCE_DOWN, "no answer in", answering(never), queries_s=0.3),
    "HTML": Fault(
        Cause.SOURCE_DOWN, "text/html", answering(lambda _: web.Response(text="<p>", content_type="text/html"))
    ),
    "5xx": Fault(Cause.SOURCE_DOWN, "HTTP 502", answering(lambda _: web.Response(status=502))),
    "error": Fault(Cause.SOURCE_DOWN, "timed out", failing(503, errorType="timeout", error="query timed out")),
    "error with 200": Fault(Cause.SOURCE_DOWN, "expired", failing(200, errorType="internal", error="expired")),
    "refused": Fault(Cause.REFUSED, "too many", failing(422, errorType="execution", error="too many samples")),
    "NaN": Fault(Cause.NAN, "request", showing(lambda: values(SERVED, "NaN"))),
    "+Inf": Fault(Cause.INFINITE, "request", showing(lambda: values(SERVED, "+Inf"))),
    "-Inf": Fault(Cause.INFINITE, "request", showing(lambda: values(SERVED, "-Inf"))),
    "empty": Fault(Cause.STALE, "any more", answering(lambda _: EMPTY)),
    "partial": Fault(Cause.PARTIAL, "store s1", half_of_the_pods),
    "metric gone": Fault(Cause.NO_SUCH_METRIC, "request", showing(lambda: without(SERVED))),
    "stale": Fault(
        Cause.STALE, "old", lambda prometheus: setattr(prometheus, "scraping", lambda pod: False), shows_s=40.0
    ),
    "counters fall": Fault(Cause.COUNTER_RESET, "request", showing(FallingCounters)),
}


async def inject(prometheus: LivePrometheus, fault: Fault) -> None:
    if (done := fault.inject(prometheus)) is not None:
        await done


async def lift(prometheus: LivePrometheus) -> None:
    prometheus.answer, prometheus.warnings = None, []
    prometheus.text, prometheus.scraping = (lambda pod, page: page), (lambda pod: True)
    if prometheus.runner is None:
        await prometheus.up()


def size(stage: Stage) -> tuple[float, int]:
    return sum(stage.cores()), stage.replicas()


def whole(reading: Reading) -> bool:
    return isinstance(reading, Measured) and reading.coverage == 1.0


def cause_of(reading: Reading | None) -> Cause | None:
    return reading.cause if isinstance(reading, Absent) else None


def named(stage: Stage, fault: Fault) -> None:
    """The reading and what people are told both say which fault it is."""
    misses = signals(stage).misses
    if isinstance(misses, Absent):
        assert misses.cause is fault.cause, misses
        assert fault.word in misses.detail, misses
    else:
        assert fault.cause is Cause.PARTIAL and misses.coverage < 1.0 and fault.word in misses.note, misses


def told(stage: Stage, fault: Fault) -> None:
    """So do the reasons."""
    lines = said(stage)
    assert any(str(fault.cause) in line for line in lines), lines


@pytest.mark.looptime
async def test_without_a_fault_the_load_is_followed_up_and_down(tmp_path: Path) -> None:
    """The story itself: each row below would fail if its fault went unnoticed."""
    async with through_prometheus(cluster_spec(STEADY), tmp_path, policy=CALM, interval=10.0) as (stage, _):
        await asyncio.sleep(60)
        calm = size(stage)
        stage.load = RISEN
        await asyncio.sleep(60)
        risen, since = size(stage), len(stage.ticks)
        assert risen[0] > calm[0] and risen[1] > calm[1]
        stage.load = FALLEN
        await asyncio.sleep(90)
        assert taken(stage, since)
        assert sum(stage.cores()) < risen[0] / 2
        assert stage.replicas() < risen[1]
        assert stage.restarts() == 0


@pytest.mark.looptime
@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_takes_nothing_away_lets_growing_go_on_and_is_named(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    async with through_prometheus(
        cluster_spec(STEADY), tmp_path, policy=CALM, interval=10.0, timeout=fault.queries_s
    ) as (stage, prometheus):
        await asyncio.sleep(60)
        calm, since = size(stage), len(stage.ticks)
        assert whole(signals(stage).misses)
        await inject(prometheus, fault)
        await asyncio.sleep(fault.shows_s)
        stage.load = RISEN
        await asyncio.sleep(60)
        named(stage, fault)
        assert not taken(stage, since)
        assert size(stage)[0] > calm[0], "the kubelet's CPU is enough to grow on"

        await lift(prometheus)
        await asyncio.sleep(60)
        assert whole(signals(stage).misses)
        assert signals(stage).misses.value <= 0.01

        await inject(prometheus, fault)
        await asyncio.sleep(fault.shows_s)
        risen, since = size(stage), len(stage.ticks)
        assert risen[1] > calm[1]
        stage.load = FALLEN
        await asyncio.sleep(90)
        named(stage, fault)
        told(stage, fault)
        assert not taken(stage, since)
        assert size(stage)[0] >= risen[0] and stage.replicas() >= risen[1]

        await lift(prometheus)
        await asyncio.sleep(200)
        assert whole(signals(stage).misses)
        assert sum(stage.cores()) < risen[0] / 2
        assert stage.replicas() < risen[1]
        assert stage.restarts() == 0


@pytest.mark.looptime
@pytest.mark.parametrize("name", ["down", "HTML", "NaN", "empty", "metric gone", "counters fall"])
async def test_the_next_source_stands_in_for_a_broken_prometheus(name: str, tmp_path: Path) -> None:
    """Whole answers of the pods' own pages: it grows on the misses that they show, and says who answered."""
    fault = FAULTS[name]
    policy = CALM.replace("[prometheus, kubelet]", "[prometheus, scrape, kubelet]")
    async with through_prometheus(cluster_spec(STEADY), tmp_path, policy=policy) as (stage, prometheus):
        await asyncio.sleep(30)
        calm = size(stage)
        assert isinstance(shown := signals(stage).misses, Measured)
        assert shown.source == "prometheus"
        await inject(prometheus, fault)
        await asyncio.sleep(15)
        stage.load = RISEN
        await asyncio.sleep(45)
        assert size(stage)[0] > calm[0]
        shown = signals(stage).misses
        assert isinstance(shown, Measured), shown
        assert (shown.source, shown.coverage) == ("scrape", 1.0)
        assert shown.value <= 0.01
        await lift(prometheus)
        await asyncio.sleep(20)
        assert isinstance(shown := signals(stage).misses, Measured)
        assert shown.source == "prometheus"


@pytest.mark.looptime
@pytest.mark.parametrize("load", [RISEN, FALLEN])
async def test_a_metric_that_never_existed_is_no_zero_and_no_stale_one(load: float, tmp_path: Path) -> None:
    """The histogram of the policy is not on the pages: until the policy names the right one."""
    wrong = CALM.replace("preset: generic,", "preset: generic, latency: {histogram: no_such_seconds},")
    async with through_prometheus(cluster_spec(STEADY), tmp_path, policy=wrong, interval=10.0) as (stage, _):
        await asyncio.sleep(60)
        calm, since = size(stage), len(stage.ticks)
        stage.load = load
        await asyncio.sleep(90)
        misses = signals(stage).misses
        assert isinstance(misses, Absent)
        assert misses.cause is Cause.NO_SUCH_METRIC
        assert "no_such_seconds" in misses.detail
        assert not taken(stage, since)
        if load == RISEN:
            assert size(stage)[0] > calm[0]
        else:
            assert size(stage)[0] <= 1.5 * calm[0], "nothing is bought for it either"
            assert any("NoSuchMetric: " in line and "no_such_seconds" in line for line in said(stage)), said(stage)
        held = size(stage)
        (tmp_path / "policy.yaml").write_text(CALM)
        stage.load = FALLEN
        await asyncio.sleep(200)
        assert whole(signals(stage).misses)
        assert sum(stage.cores()) < held[0]


@pytest.mark.looptime
async def test_counters_that_start_anew_are_neither_a_spike_nor_an_idle_moment(tmp_path: Path) -> None:
    """Under a steady load: nothing changes at all."""
    async with through_prometheus(cluster_spec(STEADY), tmp_path, policy=CALM) as (stage, prometheus):
        await asyncio.sleep(200)
        before, since = size(stage), len(stage.ticks)
        prometheus.text = anew = CountersAnew()
        for _ in range(3):
            anew.start.clear()
            await asyncio.sleep(40)
        causes = [misses.cause for tick in range(since, len(stage.ticks))
                  if isinstance(misses := signals(stage, tick).misses, Absent)]  # fmt: skip
        assert Cause.COUNTER_RESET in causes
        assert size(stage) == before
        rates = [reading.value for tick in range(since, len(stage.ticks))
                 if isinstance(reading := signals(stage, tick).requests, Measured)]  # fmt: skip
        assert max(rates) < 2 * STEADY
        assert min(rates) > STEADY / 2
        assert not [one for tick in stage.ticks[since:] for one in tick.sent]


@needs_prometheus
async def test_through_the_real_server_it_grows_and_tells_broken_pages_apart(tmp_path: Path) -> None:
    """In real time: the binary scrapes the emulated pods' own pages."""
    (tmp_path / "daemon").mkdir()
    policy = CALM.replace("[prometheus, kubelet]", "[prometheus]")
    async with real_prometheus(tmp_path) as server:
        reached = {"prometheus": {"url": server.url}, "interval": 0.5}
        async with staged(cluster_spec(STEADY, startup=0.1), tmp_path / "daemon", policy=policy, **reached) as stage:

            def scraped() -> list[dict[str, str]]:
                ports = {
                    pod["metadata"]["name"]: pod["metadata"]["annotations"]["prometheus.io/port"]
                    for pod in stage.pods()
                }
                return [
                    {"__address__": f"127.0.0.1:{port}", "namespace": "serving", "pod": name}
                    for name, port in ports.items()
                ]

            def misses() -> Reading | None:
                return signals(stage).misses if stage.ticks else None

            server.scrape(scraped())
            await stage.cluster.until(lambda: isinstance(misses(), Measured), within=20, what="a share of misses")
            calm = sum(stage.cores())
            stage.load = RISEN
            await stage.cluster.until(lambda: sum(stage.cores()) > calm, within=20, what="growing")
            grown, since = sum(stage.cores()), len(stage.ticks)
            stage.load = FALLEN
            for page, cause in (("nan", Cause.NAN), ("missing", Cause.STALE), ("inf", Cause.INFINITE)):
                stage.cluster.faults.pages["resnet-*"] = page
                await stage.cluster.until(lambda: cause_of(misses()) is cause, within=20, what=str(cause))  # noqa: B023
                assert any(f"{cause}: " in line for line in said(stage)), said(stage)
                assert not taken(stage, since)
                assert sum(stage.cores()) >= grown
            stage.cluster.faults.pages.clear()
            await stage.cluster.until(lambda: isinstance(misses(), Measured), within=20, what="misses again")
