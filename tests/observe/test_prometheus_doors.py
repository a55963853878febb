"""The way to Prometheus and its relatives: certificates, credentials, tenants, prefixes, partial answers, hanging."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from autoscaler.observe.prometheus import Prometheus, PrometheusSettings, QueryRefused, Unavailable
from autoscaler.observe.queries import Scope
from autoscaler.observe.rows import FEWEST_KEPT, BareRow
from autoscaler.observe.series import TargetRows
from tests.kube.test_tls import authority, needs_openssl
from tests.observe.served import serving


@dataclass
class Door:
    """A query API on loopback that lets in who ``allows`` says, and notes the headers and paths of who asked."""

    url: str = ""
    prefix: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    allowed: str = ""
    """The Authorization that is let in; empty: everybody."""
    tenant: str = ""
    seen: list[web.Request] = field(default_factory=list)
    hold: asyncio.Event | None = None

    async def answer(self, request: web.Request) -> web.Response:
        self.seen.append(request)
        if self.hold is not None:
            await self.hold.wait()
        if self.allowed and request.headers.get("Authorization") != self.allowed:
            return web.json_response({"status": "error", "error": "no"}, status=401)
        if self.tenant and request.headers.get("X-Scope-OrgID") != self.tenant:
            return web.Response(text="no org id", status=401)
        data = {"resultType": "vector", "result": [{"metric": {}, "value": [1.0, "2"]}]}
        return web.json_response({"status": "success", "data": data, **self.extra})


@asynccontextmanager
async def door(context: ssl.SSLContext | None = None, prefix: str = "") -> AsyncIterator[Door]:
    opened = Door(prefix=prefix)
    app = web.Application()
    app.router.add_route("*", f"{prefix}/api/v1/query", opened.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    opened.url = f"{'https' if context else 'http'}://127.0.0.1:{port}{prefix}"
    try:
        yield opened
    finally:
        if opened.hold is not None:
            opened.hold.set()
        await runner.cleanup()


async def value(settings: PrometheusSettings) -> float:
    async with Prometheus(settings) as prometheus:
        return (await prometheus.ask("up")).rows[0].number


@needs_openssl
async def test_the_ca_file_is_believed_and_no_other(tmp_path: Path) -> None:
    ours, context = await asyncio.to_thread(authority, tmp_path, "ours")
    others, _ = await asyncio.to_thread(authority, tmp_path, "others")
    async with door(context) as there:
        assert await value(PrometheusSettings(url=there.url, ca_file=ours)) == 2.0
        assert await value(PrometheusSettings(url=there.url, insecure_skip_verify=True)) == 2.0
        for wrong in (PrometheusSettings(url=there.url, ca_file=others), PrometheusSettings(url=there.url)):
            with pytest.raises(Unavailable, match=r"TLS: .*certificate") as refused:
                await value(wrong)
            assert "\n" not in str(refused.value) and len(str(refused.value)) < 300


@needs_openssl
async def test_plain_http_where_tls_is_spoken_and_the_other_way_round_are_told(tmp_path: Path) -> None:
    ours, context = await asyncio.to_thread(authority, tmp_path, "ours")
    async with door(context) as there:
        with pytest.raises(Unavailable):
            await value(PrometheusSettings(url=there.url.replace("https", "http")))
    async with door() as there:
        with pytest.raises(Unavailable, match="TLS"):
            await value(PrometheusSettings(url=there.url.replace("http", "https"), ca_file=ours))


async def test_basic_authentication_reads_the_password_from_its_file(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("swörd\n")
    async with door() as there:
        there.allowed = "Basic " + base64.b64encode("me:swörd".encode()).decode()
        settings = PrometheusSettings(url=there.url, username="me", password_file=secret)
        async with Prometheus(settings) as prometheus:
            assert (await prometheus.ask("up")).rows
            secret.write_text("old")
            with pytest.raises(QueryRefused, match="refuses the credentials"):
                await prometheus.ask("up")
            secret.unlink()
            with pytest.raises(Unavailable, match="can't read password"):
                await prometheus.ask("up")


async def test_a_rotated_token_is_taken_up(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    async with door() as there, Prometheus(PrometheusSettings(url=there.url, bearer_token_file=token)) as prometheus:
        there.allowed = "Bearer one"
        assert (await prometheus.ask("up")).rows
        there.allowed = "Bearer two"
        with pytest.raises(QueryRefused):
            await prometheus.ask("up")
        token.write_text("two, longer"[:3])
        assert (await prometheus.ask("up")).rows


async def test_a_tenant_is_named_by_a_header_and_asked_for_where_it_is_missing() -> None:
    async with door() as there:
        there.tenant = "team"
        assert await value(PrometheusSettings(url=there.url, headers={"X-Scope-OrgID": "team"})) == 2.0
        with pytest.raises(QueryRefused, match="401"):
            await value(PrometheusSettings(url=there.url))


@pytest.mark.parametrize("prefix", ["/prometheus", "/select/0/prometheus"])
@pytest.mark.parametrize("slash", ["", "/"])
async def test_a_path_prefix_is_kept(prefix: str, slash: str) -> None:
    async with door(prefix=prefix) as there:
        assert await value(PrometheusSettings(url=there.url + slash)) == 2.0
        assert there.seen[0].path == f"{prefix}/api/v1/query"


@pytest.mark.parametrize(
    "extra",
    [{"warnings": ["store s1 did not answer"]}, {"isPartial": True}, {"isPartial": True, "warnings": []}],
    ids=["a warning", "isPartial", "isPartial without a warning"],
)
async def test_a_partial_answer_is_known_as_one(extra: dict[str, Any]) -> None:
    async with door() as there, Prometheus(PrometheusSettings(url=there.url)) as prometheus:
        there.extra = {"isPartial": False, "infos": ["fine"]}
        assert (await prometheus.ask("up")).warnings == ()
        there.extra = extra
        assert (await prometheus.ask("up")).warnings


async def test_queries_behind_hanging_ones_end_with_their_own_deadline_and_threads_stay_few() -> None:
    settings = PrometheusSettings(url="http://placeholder", query_s=0.3, threads=2)
    async with door() as there:
        there.hold = asyncio.Event()
        async with Prometheus(PrometheusSettings(url=there.url, query_s=0.3, threads=2)) as prometheus:
            for _ in range(3):
                asked = [asyncio.ensure_future(prometheus.ask("up")) for _ in range(8)]
                ended, late = await asyncio.wait(asked, timeout=30.0)
                assert not late
                assert {type(one.exception()) for one in ended} == {Unavailable}
            assert len(prometheus._threads._threads) <= settings.threads
            there.hold.set()
            there.hold = None
            assert (await prometheus.ask("up")).rows


@needs_openssl
async def test_an_unchecked_certificate_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _, context = await asyncio.to_thread(authority, tmp_path, "ours")
    with warnings.catch_warnings(record=True) as spoken, caplog.at_level("WARNING"):
        warnings.simplefilter("always")
        async with door(context) as there:
            settings = PrometheusSettings(url=there.url, insecure_skip_verify=True)
            async with Prometheus(settings) as prometheus:
                for _ in range(3):
                    assert (await prometheus.ask("up")).rows
    assert not spoken, [str(one.message) for one in spoken]
    assert [record.message for record in caplog.records] == ["the certificate of Prometheus is not checked"]


async def test_a_proxy_is_used_where_it_is_named_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def proxy(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.raw_path if isinstance(request.raw_path, str) else "")
        data = {"resultType": "vector", "result": [{"metric": {}, "value": [1.0, "2"]}]}
        return web.json_response({"status": "success", "data": data})

    async with serving(proxy) as port:
        far = "http://prometheus.example:9090/prometheus"
        assert await value(PrometheusSettings(url=far, proxy=f"http://127.0.0.1:{port}")) == 2.0
        assert asked == ["http://prometheus.example:9090/prometheus/api/v1/query"]
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        async with door() as there:
            assert await value(PrometheusSettings(url=there.url)) == 2.0
        assert len(asked) == 1


def shaped(status: int, body: dict[str, Any] | str) -> Callable[[], web.Response]:
    if isinstance(body, str):
        return lambda: web.Response(text=body, status=status)
    return lambda: web.json_response(body, status=status)


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (shaped(400, {"status": "error", "errorType": "bad_data", "error": "parse error"}), QueryRefused, "parse err"),
        (shaped(422, {"status": "error", "errorType": "execution", "error": "the query exceeded the maximum number of "
                      "chunks (limit: 2000000 chunks) (err-mimir-max-chunks-per-query)"}), QueryRefused, "err-mimir"),
        (shaped(429, {"status": "error", "errorType": "too_many_requests", "error": "too many outstanding requests"}),
         Unavailable, "too many outstanding"),
        (shaped(500, {"status": "error", "errorType": "internal", "error": "expanding series: rpc error"}),
         Unavailable, "rpc error"),
        (shaped(503, {"status": "error", "errorType": "unavailable", "error": "no healthy upstream"}),
         Unavailable, "no healthy upstream"),
        (shaped(500, {"code": 500, "message": "context canceled"}), Unavailable, "HTTP 500"),
        (shaped(502, "<html>Bad Gateway</html>"), Unavailable, "HTTP 502"),
        (shaped(413, "rpc error: code = Code(413) desc = too large"), Unavailable, "HTTP 413"),
        (shaped(401, "no org id\n"), QueryRefused, "refuses the credentials"),
        (shaped(200, {"status": "error", "errorType": "timeout", "error": "query timed out"}), Unavailable, "timed"),
        (shaped(200, {"status": "success", "data": {"resultType": "matrix", "result": []}}), Unavailable, "a matrix"),
        (shaped(200, {"status": "success"}), Unavailable, "not a vector"),
        (shaped(200, ""), Unavailable, "not a query result"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("in_pieces", [False, True])
async def test_what_query_frontends_say_instead_of_an_answer(
    answer: Callable[[], web.Response], error: type[Exception], said: str, in_pieces: bool
) -> None:
    async def handle(_: web.BaseRequest) -> web.StreamResponse:
        return answer()

    async with (
        serving(handle) as port,
        Prometheus(PrometheusSettings(url=f"http://127.0.0.1:{port}", query_s=1.0)) as prometheus,
    ):
        with pytest.raises(error, match=said) as told:
            await (prometheus.read("up", gathering()) if in_pieces else prometheus.ask("up"))
    assert "\n" not in str(told.value)


# ---------------------------------------------------------------------- answers of many rows


def gathering() -> TargetRows:
    return TargetRows(Scope(("serving",)))


def many(rows: int, spoil: str = "") -> list[dict[str, Any]]:
    """Rows of pods, with a label value that looks like the border between two rows."""
    found = []
    for number in range(rows):
        labels = {"namespace": "serving", "pod": f"p-{number}", "job": '},{"metric":{"', "__name__": "requests_total"}
        found.append({"metric": labels, "value": [5.0, str(number)]})
    if spoil:
        found[rows // 2]["value"] = spoil
    return found


def standard(rows: list[dict[str, Any]]) -> bytes:
    body = {"status": "success", "data": {"resultType": "vector", "result": rows}, "warnings": ["a store is down"]}
    return json.dumps(body, separators=(",", ":")).encode()


def spaced(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps(json.loads(standard(rows)), indent=1).encode()


def turned(rows: list[dict[str, Any]]) -> bytes:
    """Warnings first, the type after the rows, values before labels."""
    swapped = [{"value": row["value"], "metric": row["metric"]} for row in rows]
    body = {"warnings": ["a store is down"], "data": {"result": swapped, "resultType": "vector"}, "status": "success"}
    return json.dumps(body, separators=(",", ":")).encode()


@asynccontextmanager
async def answering(body: bytes, *, length: int | None = None) -> AsyncIterator[Prometheus]:
    """A server that writes the body in odd parts, and ends the connection where it said there was more."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.content_length = length if length is not None else len(body)
        await response.prepare(request)
        for start in range(0, len(body), 77_777):
            await response.write(body[start : start + 77_777])
        if length is not None and request.transport is not None:
            request.transport.close()
        return response

    async with (
        serving(handle) as port,
        Prometheus(PrometheusSettings(url=f"http://127.0.0.1:{port}", query_s=5.0)) as prometheus,
    ):
        yield prometheus


@pytest.mark.parametrize("rows", [0, 1, 2, 12_000])
@pytest.mark.parametrize("shape", [standard, spaced, turned])
async def test_an_answer_in_pieces_is_the_same_as_the_whole(
    shape: Callable[[list[dict[str, Any]]], bytes], rows: int
) -> None:
    gather = gathering()
    async with answering(shape(many(rows))) as prometheus:
        for _ in range(2):  # the second time with labels that are known
            answer = await prometheus.read("up", gather)
            assert answer.warnings == ("a store is down",)
            found = {pod: target.numbers for (_, pod, _), target in answer.rows.found.items()}
            assert found == {f"p-{number}": {"requests_total": float(number)} for number in range(rows)}
            assert answer.rows.rows == rows and answer.rows.at == (5.0 if rows else 0.0)
        whole = await prometheus.ask("up")
        assert len(whole.rows) == rows and whole.warnings == answer.warnings


@pytest.mark.parametrize("in_pieces", [False, True])
async def test_an_answer_that_is_cut_off_or_holds_no_numbers_is_none(in_pieces: bool) -> None:
    body = standard(many(6_000))
    for sent, length in ((body[: len(body) // 2], len(body)), (standard(many(6_000, spoil="no pair")), None)):
        async with answering(sent, length=length) as prometheus:
            with pytest.raises(Unavailable):
                await (prometheus.read("up", gathering()) if in_pieces else prometheus.ask("up"))


async def test_an_answer_in_pieces_is_bounded_too() -> None:
    async with answering(standard(many(6_000))) as there:
        settings = PrometheusSettings(url=there.settings.url, answer_bytes=300_000)
        async with Prometheus(settings) as prometheus:
            with pytest.raises(Unavailable, match="larger than"):
                await prometheus.read("up", gathering())


def test_labels_of_pods_that_are_gone_are_forgotten() -> None:
    gather = gathering()
    for turn in range(8):
        rows = [
            BareRow(msgspec.Raw(json.dumps({"pod": f"p-{turn}-{number}", "role": "time"}).encode()), (1.0, "1"))
            for number in range(5_000)
        ]
        assert len(gather(iter([rows])).found) == 5_000
        assert len(gather._known[0]) <= 2 * 5_000 + FEWEST_KEPT
