"""Pages that mean harm, and pages that are merely odd."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.model.signal import Absent, Cause, Measured, Signals
from autoscaler.observe.exposition import PageRefused, PageScanner, read_page, total
from autoscaler.observe.page_door import ScrapeLimits
from autoscaler.observe.scrape import ScrapeSource
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


async def test_a_page_past_its_bounds_is_asked_ever_more_seldom() -> None:
    """Sixty reads a second apart: at 0, 5, 15, 35 s, and again at 65 when it has healed."""
    server, asked, healed, now = Server(), [], False, 100.0

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(now - 100.0)
        return web.Response(text=server.page()) if healed else await _endless(request, b"# padding\n" * 10_000, 0)

    async with serving(answer) as port, ScrapeSource(limits=LIMITS, clock=lambda: now) as source:
        workload = watched(pod("one", port))
        for _ in range(60):
            refused = (await source.read([workload], now))[workload.ref].requests
            assert isinstance(refused, Absent) and refused.cause is Cause.REFUSED and "left alone" in refused.detail
            now += 1.0
        assert asked == [0.0, 5.0, 15.0, 35.0]
        healed, now = True, 165.0
        await source.read([workload], now)
        now += 1.0
        seen = (await source.read([workload], now))[workload.ref]
        assert isinstance(seen.requests, Measured)


async def test_endless_label_values_are_refused() -> None:
    text = "".join(f'requests_total{{path="/{n}"}} 1\n' for n in range(30_000))

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=text)

    seen = await _scraped(answer)
    assert isinstance(seen.requests, Absent) and "more than 20000 series" in seen.requests.detail


@pytest.mark.parametrize(
    "elsewhere",
    [
        "http://169.254.169.254/latest/meta-data/",
        "//169.254.169.254/metrics/",
        "https://127.0.0.1/metrics/",
        "/other/",
        "/metrics/?x=1",
        "file:///etc/passwd",
        "http://[broken",
        "",
    ],
)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(elsewhere: str, status: int) -> None:
    asked: list[str] = []

    async def redirect(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response(status=status, headers={"Location": elsewhere})

    seen = await _scraped(redirect)
    assert isinstance(seen.requests, Absent) and seen.requests.cause is Cause.REFUSED
    assert f"HTTP {status}" in seen.requests.detail and asked == ["/metrics"]


async def test_the_same_page_with_a_slash_is_read_and_leads_no_further() -> None:
    server, further = Server(), False

    async def mounted(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/metrics" or further:
            return web.Response(status=307, headers={"Location": f"http://{request.host}{request.path}/"})
        server.serve(10, 0.1)
        return web.Response(text=server.page())

    seen = await _scraped(mounted, times=2)
    assert isinstance(seen.requests, Measured)
    further = True
    seen = await _scraped(mounted)
    assert isinstance(seen.requests, Absent) and seen.requests.cause is Cause.REFUSED


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"body": b"\x1f\x8b" + b"\0" * 1000, "headers": {"Content-Encoding": "gzip"}}, "compressed"),
        ({"body": b"requests_total 1\n", "headers": {"Content-Encoding": "br"}}, "compressed"),
        ({"text": "requests_total 1\n", "content_type": "text/html"}, "HTML"),
        ({"body": b"\x10\x0a", "content_type": "application/vnd.google.protobuf"}, "protobuf"),
        ({"status": 401}, "HTTP 401"),
        ({"status": 204}, "HTTP 204"),
    ],
)
async def test_what_is_no_page_is_refused_with_the_reason(answer: dict[str, Any], said: str) -> None:
    async def give(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(**answer)

    seen = await _scraped(give)
    assert isinstance(seen.requests, Absent) and seen.requests.cause is Cause.REFUSED and said in seen.requests.detail


@pytest.mark.parametrize("spelling", ["+Inf", "Inf", "inf", "+inf", "Infinity", "1e999"])
async def test_the_last_bucket_may_be_spelt_in_any_way(spelling: str) -> None:
    seen = await _told(lambda page: page.replace("+Inf", spelling))
    assert isinstance(seen.misses, Measured) and seen.misses.value == pytest.approx(0.1)
    assert isinstance(seen.latency, Measured)


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (lambda page: re.sub(r'(?m)^.*le="\+Inf".*\n', "", page), None),
        (lambda page: re.sub(r'(le="0.5"\}) \d+', r"\1 999", page), Cause.CONTRADICTORY),
        (lambda page: re.sub(r'(le="0.5"\}) \d+', r"\1 -3", page), Cause.NEGATIVE),
        (lambda page: re.sub(r'(le="0.5"\}) \d+', r"\1 NaN", page), Cause.NAN),
        (lambda page: re.sub(r'(_count\{.*\}) \d+', r"\1 -Inf", page), Cause.INFINITE),
        (lambda page: re.sub(r"(?m)^request_duration_seconds_(bucket|count).*\n", "", page), Cause.NO_SUCH_METRIC),
        (lambda page: re.sub(r'le="[^+"]*"', 'le="oops"', page), Cause.CONTRADICTORY),
        (lambda page: re.sub(r'(?m)^.*le="\d.*\n', "", page), Cause.NO_BUCKET),
        (lambda page: page + 'request_duration_seconds_bucket{code="200",le="0.5"} 1\n', Cause.CONTRADICTORY),
        (lambda page: page + 'request_duration_seconds_bucket{code="200",le="0.50"} 1\n', Cause.CONTRADICTORY),
        (lambda page: page.replace('code="200",le="0.1"', 'code="\udcff\udcfe",le="0.1"'), None),
    ],
    ids=["no +Inf", "not monotone", "negative", "NaN", "-Inf", "sum only", "bounds unreadable", "native", "twice",
         "twice, spelt otherwise", "not UTF-8"],
)  # fmt: skip
async def test_an_odd_histogram_is_told_or_left_alone(spoil: Callable[[str], str], cause: Cause | None) -> None:
    seen = await _told(spoil)
    if cause is None:
        assert isinstance(seen.misses, Measured) and seen.misses.value == pytest.approx(0.1)
    else:
        assert isinstance(seen.misses, Absent) and seen.misses.cause is cause, seen.misses
    assert isinstance(seen.requests, Measured), "what is not spoilt is still told"


async def _told(spoil: Callable[[str], str]) -> Signals:
    """A hundred requests, ten of them slow, from a page that is spoilt."""
    server = Server()

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        server.serve(90, 0.1)
        server.serve(10, 0.7)
        return web.Response(body=spoil(server.page()).encode("utf-8", "surrogateescape"), content_type="text/plain")

    return await _scraped(answer, times=2)


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
