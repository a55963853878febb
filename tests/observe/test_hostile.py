"""Pages that mean harm, and pages that are merely odd."""

from __future__ import annotations

import asyncio
import math

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.model.signal import Absent, Cause, Measured, Signals
from autoscaler.observe.exposition import PageRefused, PageScanner, read_page, total
from autoscaler.observe.scrape import ScrapeLimits, ScrapeSource
from tests.observe.served import Server, pod, serving, watched

LIMITS = ScrapeLimits(page_s=0.4, read_s=1.0, page_bytes=2 * 2**20)


async def _scraped(answer, times: int = 1) -> Signals:  # type: ignore[no-untyped-def]
    async with serving(answer) as port, ScrapeSource(limits=LIMITS) as source:
        workload = watched(pod("one", port))
        for at in range(times):
            seen = (await source.read([workload], float(at)))[workload.ref]
        return seen


async def _endless(request: web.BaseRequest, chunk: bytes, pause: float) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    try:
        while True:
            await response.write(chunk)
            await asyncio.sleep(pause)
    except (ConnectionError, asyncio.CancelledError):
        return response


@pytest.mark.parametrize(
    ("chunk", "pause", "cause", "said"),
    [
        (b"# padding\n" * 10_000, 0, Cause.REFUSED, "larger than"),
        (b'requests_total{a="' + b"x" * 50_000, 0, Cause.REFUSED, "line longer"),
        (b"requests_total 1\n", 0.05, Cause.SOURCE_DOWN, "no page in"),
        (b"", 0.05, Cause.SOURCE_DOWN, "no page in"),
    ],
    ids=["gigabytes", "one endless line", "dripping", "silent"],
)
async def test_a_page_without_end_is_refused(chunk: bytes, pause: float, cause: Cause, said: str) -> None:
    seen = await _scraped(lambda request: _endless(request, chunk, pause))
    assert isinstance(seen.requests, Absent) and seen.requests.cause is cause and said in seen.requests.detail


async def test_endless_label_values_are_refused() -> None:
    text = "".join(f'requests_total{{path="/{n}"}} 1\n' for n in range(30_000))

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=text)

    seen = await _scraped(answer)
    assert isinstance(seen.requests, Absent) and "more than 20000 series" in seen.requests.detail


async def test_a_page_that_redirects_or_is_compressed_is_refused() -> None:
    async def redirect(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "http://169.254.169.254/"})

    async def zipped(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})

    for answer, said in ((redirect, "HTTP 302"), (zipped, "compressed")):
        seen = await _scraped(answer)
        assert isinstance(seen.requests, Absent) and said in seen.requests.detail


async def test_one_hostile_pod_costs_only_its_own_coverage() -> None:
    good = Server()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        good.serve(10, 0.1)
        if request.path == "/bad":
            return await _endless(request, b"x" * 60_000, 0)
        return web.Response(text=good.page())

    async with serving(answer) as port, ScrapeSource(limits=LIMITS) as source:
        workload = watched(pod("good", port, path="/good"), pod("bad", port, path="/bad"))
        for at in range(2):
            seen = (await source.read([workload], float(at)))[workload.ref]
    assert isinstance(seen.requests, Measured) and seen.requests.coverage == 0.5


async def test_a_restart_is_told_from_a_reset() -> None:
    server = Server()
    server.serve(100, 0.1)

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=server.page())

    async with serving(answer) as port, ScrapeSource(limits=LIMITS) as source:
        before, after = watched(pod("one", port)), watched(pod("one", port, started_at=9.0))
        await source.read([before], 0.0)
        server.latencies.clear()
        reset = (await source.read([before], 1.0))[before.ref].requests
        server.serve(5, 0.1)
        restarted = (await source.read([after], 2.0))[before.ref].requests
        server.serve(5, 0.1)
        again = (await source.read([after], 3.0))[before.ref].requests
    assert isinstance(reset, Absent) and reset.cause is Cause.COUNTER_RESET and "fell from 100 to 0" in reset.detail
    assert isinstance(restarted, Absent) and "restarted" in restarted.detail
    assert isinstance(again, Measured) and again.weight == 5


def test_openmetrics_needs_its_end_and_may_have_exemplars() -> None:
    page = '# TYPE a counter\na_total{x="1"} 3.0 1700000000.5 # {trace="a"} 1.0 1700000000\n'
    read = read_page(page + "# EOF\n", ["a_total"], openmetrics=True)
    assert total(read, "a_total") == 3.0 and read.series["a_total"][0].at == 1700000000.5
    with pytest.raises(PageRefused, match="cut short"):
        read_page(page, ["a_total"], openmetrics=True)


def test_odd_pages_are_read_as_prometheus_reads_them() -> None:
    page = read_page('a{x="}\\"\\\\\\n{",} 1 1700000000000\r\na 2\n  \nab 7\na{y="é"} +Inf\na_b NaN', ["a", "a_b"])
    assert [one.value for one in page.series["a"]] == [1, 2, math.inf]
    assert page.series["a"][0].labels == {"x": '}"\\\n{'} and page.series["a"][0].at == 1700000000
    assert math.isnan(page.series["a_b"][0].value)


@pytest.mark.parametrize("line", ['a{x="1" 2', "a{x=1} 2", "a one", 'a{x="1"}', "a 1 2 3 4 5x"])
def test_a_garbled_line_refuses_the_page(line: str) -> None:
    with pytest.raises(PageRefused, match="can't read"):
        read_page(line + "\n", ["a"])


LABEL = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=12)


@given(st.lists(st.tuples(LABEL, st.floats(0, 1e12)), max_size=8, unique_by=lambda one: one[0]), st.integers(1, 40))
def test_any_label_value_survives_in_whatever_chunks(series: list[tuple[str, float]], size: int) -> None:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    page = "".join(f'm_total{{l="{escaped(label)}"}} {value!r}\n' for label, value in series).encode()
    scanner = PageScanner(["m_total"])
    for start in range(0, len(page), size):
        scanner.feed(page[start : start + size])
    read = scanner.finish()
    assert [(one.labels["l"], one.value) for one in read.series.get("m_total", [])] == series
