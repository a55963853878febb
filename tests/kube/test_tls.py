"""TLS, certificate rotation and proxies, with real certificates."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.kube.client import KubeClient
from autoscaler.kube.connect import find_access
from autoscaler.kube.errors import Unreachable
from tests.kube.api_server import ApiServer

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates with openssl")


def authority(folder: Path, name: str) -> tuple[Path, ssl.SSLContext]:
    """A CA of that name, and a server's context with a certificate of it for 127.0.0.1."""
    ca, ca_key, key, csr, cert = (folder / f"{name}.{end}" for end in ("ca", "ca.key", "key", "csr", "crt"))
    extensions = folder / f"{name}.ext"
    extensions.write_text(
        "subjectAltName=IP:127.0.0.1,DNS:api.invalid\nextendedKeyUsage=serverAuth,clientAuth\n"
        "authorityKeyIdentifier=keyid\n"
    )
    new = ["openssl", "req", "-newkey", "rsa:2048", "-nodes"]
    for command in (
        [*new, "-x509", "-days", "2", "-subj", f"/CN={name}", "-keyout", ca_key, "-out", ca,
         "-addext", "keyUsage=critical,keyCertSign,cRLSign"],
        [*new, "-subj", "/CN=api", "-keyout", key, "-out", csr],
        ["openssl", "x509", "-req", "-days", "2", "-in", csr, "-CA", ca, "-CAkey", ca_key, "-set_serial", "1",
         "-extfile", extensions, "-out", cert],
    ):  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    return ca, context


def kubeconfig(path: Path, **cluster: Any) -> Path:
    document = {
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


@needs_openssl
async def test_a_rotated_ca_is_read_again(server: ApiServer, tmp_path: Path) -> None:
    old_ca, old = authority(tmp_path, "old")
    new_ca, new = authority(tmp_path, "new")
    trusted = tmp_path / "ca.crt"
    trusted.write_text(old_ca.read_text())
    await server.stop()
    server.tls = old
    await server.start()
    config = kubeconfig(tmp_path / "config", server=server.url, **{"certificate-authority": str(trusted)})
    async with KubeClient(find_access(config), jitter_s=0.01) as client:
        assert (await client.request("GET", "/livez")).ok
        await server.stop()
        server.tls = new
        await server.start()
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await client.request("GET", "/livez")
        trusted.write_text(new_ca.read_text())
        answer = await client.request("PATCH", "/api/v1/namespaces/x/things/a", None, {})
        assert answer.status == 404


@needs_openssl
async def test_a_server_with_another_name_or_a_stranger_as_ca_is_not_trusted(server: ApiServer, tmp_path: Path) -> None:
    ca, context = authority(tmp_path, "real")
    stranger, _ = authority(tmp_path, "stranger")
    await server.stop()
    server.tls = context
    await server.start()
    for trusted, url in ((stranger, server.url), (ca, server.url.replace("127.0.0.1", "localhost"))):
        config = kubeconfig(tmp_path / "config", server=url, **{"certificate-authority": str(trusted)})
        async with KubeClient(find_access(config), jitter_s=0.01) as client:
            with pytest.raises(Unreachable, match="ertificate"):
                await client.request("GET", "/livez")
    assert server.requests == []


async def test_through_the_proxy_of_the_kubeconfig(server: ApiServer, tmp_path: Path) -> None:
    config = kubeconfig(tmp_path / "config", **{"server": "http://api.invalid", "proxy-url": server.url})
    async with KubeClient(find_access(config), jitter_s=0.01) as client:
        assert (await client.request("GET", "/livez")).ok
    assert server.requests[0][3]["Host"] == "api.invalid"


async def test_connections_are_kept(server: ApiServer, client: KubeClient) -> None:
    ports: set[int] = set()

    def note(request: Any) -> None:
        ports.add(request.transport.get_extra_info("peername")[1])

    server.faults.append(note)
    for _ in range(20):
        await client.request("GET", "/livez")
    assert len(ports) == 1
