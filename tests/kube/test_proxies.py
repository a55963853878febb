"""HTTPS_PROXY, HTTP_PROXY and NO_PROXY mean what they mean to kubectl."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from autoscaler.kube.client import KubeClient
from autoscaler.kube.connect import find_access
from autoscaler.kube.errors import KubeconfigError, Unreachable
from autoscaler.kube.proxies import proxy_for
from tests.kube.api_server import ApiServer
from tests.kube.test_tls import authority, kubeconfig, needs_openssl

P = "http://proxy:3128"


@pytest.mark.parametrize(
    ("url", "environ", "expected"),
    [
        ("https://10.96.0.1:443", {}, None),
        ("https://10.96.0.1:443", {"HTTPS_PROXY": P}, P),
        ("https://10.96.0.1", {"https_proxy": "proxy:3128"}, P),
        ("https://10.96.0.1", {"HTTP_PROXY": P}, None),
        ("http://api", {"HTTP_PROXY": P}, P),
        ("https://10.96.0.1", {"HTTPS_PROXY": P, "NO_PROXY": "localhost, 10.96.0.0/12"}, None),
        ("https://10.112.0.1", {"HTTPS_PROXY": P, "NO_PROXY": "10.96.0.0/12"}, P),
        ("https://10.96.0.1", {"HTTPS_PROXY": P, "no_proxy": "10.96.0.1"}, None),
        ("https://10.96.0.1", {"HTTPS_PROXY": P, "NO_PROXY": "10.96.0"}, P),
        ("https://[fd00::1]:6443", {"HTTPS_PROXY": P, "NO_PROXY": "fd00::/8"}, None),
        ("https://[fd00::1]:6443", {"HTTPS_PROXY": P, "NO_PROXY": "[fd00::1]:443"}, P),
        ("https://api.example.com", {"HTTPS_PROXY": P, "NO_PROXY": "example.com"}, None),
        ("https://example.com", {"HTTPS_PROXY": P, "NO_PROXY": "example.com"}, None),
        ("https://anexample.com", {"HTTPS_PROXY": P, "NO_PROXY": "example.com"}, P),
        ("https://example.com", {"HTTPS_PROXY": P, "NO_PROXY": ".example.com"}, P),
        ("https://api.example.com", {"HTTPS_PROXY": P, "NO_PROXY": "*.Example.com"}, None),
        ("https://api.example.com:6443", {"HTTPS_PROXY": P, "NO_PROXY": "example.com:443"}, P),
        ("https://api.example.com", {"HTTPS_PROXY": P, "NO_PROXY": "example.com:443"}, None),
        ("https://api.example.com", {"HTTPS_PROXY": P, "NO_PROXY": "*"}, None),
        ("https://api.example.com", {"HTTPS_PROXY": P, "NO_PROXY": ",, 10.0.0.0/99"}, P),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": P}, None),
        ("https://localhost:6443", {"HTTPS_PROXY": P}, None),
    ],
)
def test_which_proxy(url: str, environ: dict[str, str], expected: str | None) -> None:
    assert proxy_for(url, environ) == expected


@pytest.mark.parametrize("proxy", ["socks5://proxy:1080", "http://", "http://proxy:many"])
async def test_a_proxy_that_cant_be_used_is_one_line(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(KubeconfigError, match=r"HTTPS_PROXY: .* write http://HOST:PORT"):
        await find_access(server="https://api.invalid").open("test")


async def test_through_the_proxy_of_the_environment_and_past_it(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with KubeClient(find_access(server="http://192.0.2.1")) as client:
        assert (await client.request("GET", "/livez")).ok
    assert server.requests[0][3]["Host"] == "192.0.2.1"
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "192.0.2.0/24")
    async with KubeClient(find_access(server="http://192.0.2.1:9")) as client:
        with pytest.raises(Unreachable) as raised:
            await client.request("GET", "/livez", deadline=0.3)
    assert "127.0.0.1" not in str(raised.value), "not by the proxy"


@asynccontextmanager
async def tunnel(port: int) -> AsyncIterator[tuple[str, list[str]]]:
    """A proxy that joins each CONNECT to 127.0.0.1:``port``, and what it was asked for."""
    asked: list[str] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head.split(b"\r\n")[0].decode())
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer), return_exceptions=True)

    proxy = await asyncio.start_server(join, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}", asked
    finally:
        proxy.close()


@needs_openssl
async def test_tls_through_a_tunnel_is_with_the_server_itself(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca, context = authority(tmp_path, "real")
    await server.stop()
    server.tls = context
    await server.start()
    async with tunnel(server.port) as (proxy, asked):
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        monkeypatch.delenv("NO_PROXY", raising=False)
        config = kubeconfig(
            tmp_path / "config", server="https://api.invalid:6443", **{"certificate-authority": str(ca)}
        )
        async with KubeClient(find_access(config)) as client:
            for _ in range(3):
                assert (await client.request("GET", "/livez")).ok
        assert asked == ["CONNECT api.invalid:6443 HTTP/1.1"], "one tunnel, kept"
    assert server.requests[0][3]["Authorization"] == "Bearer t"
