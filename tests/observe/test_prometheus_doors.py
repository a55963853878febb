"""The way to Prometheus and its relatives: certificates, credentials, tenants, prefixes, partial answers, hanging."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from autoscaler.observe.prometheus import Prometheus, PrometheusSettings, QueryRefused, Unavailable
from tests.kube.test_tls import authority, needs_openssl


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
