"""Credentials that change under a running client: certificates of plugins and files, and the pod's own token and CA."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from autoscaler.kube import connect
from autoscaler.kube.client import KubeClient
from autoscaler.kube.connect import find_access
from autoscaler.kube.errors import KubeconfigError
from tests.kube.api_server import ApiServer, status
from tests.kube.test_tls import authority, needs_openssl

pytestmark = needs_openssl
THINGS = "/api/v1/namespaces/x/things"
API = "client.authentication.k8s.io/v1"
PAST, FUTURE = "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"


class Place:
    """A TLS server that wants client certificates, and a CA that makes them."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.ca, context = authority(folder, "ca")
        context.load_verify_locations(self.ca)
        context.verify_mode = ssl.CERT_REQUIRED
        server.tls = context
        self.seen: list[str] = []
        self.refused: set[str] = set()
        server.faults.append(self._note)

    def _note(self, request: web.Request) -> web.Response | None:
        assert request.transport is not None
        certificate = request.transport.get_extra_info("peercert")
        name = dict(pair for part in certificate["subject"] for pair in part)["commonName"]
        self.seen.append(name)
        if name in self.refused:
            return web.json_response(status(401, "Unauthorized", "Unauthorized"), status=401)
        return None

    def certificate(self, name: str) -> tuple[Path, Path]:
        key, csr, cert = (self.folder / f"{name}.{end}" for end in ("key", "csr", "crt"))
        for command in (
            ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", csr],
            ["openssl", "x509", "-req", "-days", "2", "-in", csr, "-CA", self.ca, "-CAkey", self.folder / "ca.ca.key",
             "-set_serial", "7", "-extfile", self.folder / "ca.ext", "-out", cert],
        ):  # fmt: skip
            subprocess.run(command, check=True, capture_output=True)
        return cert, key

    def kubeconfig(self, **user: Any) -> Path:
        path = self.folder / "config"
        cluster = {"server": self.server.url, "certificate-authority": str(self.ca)}
        document = {
            "current-context": "x",
            "clusters": [{"name": "c", "cluster": cluster}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": user}],
        }
        path.write_text(yaml.safe_dump(document))
        return path

    def plugin(self, ends: str, *names: str) -> tuple[Path, Path]:
        """A credential plugin that gives one certificate after another, then fails; and the file that counts runs."""
        command, count = self.folder / "plugin", self.folder / "count"
        for number, name in enumerate(names, 1):
            cert, key = self.certificate(name)
            said = {"clientCertificateData": cert.read_text(), "clientKeyData": key.read_text()}
            if ends:
                said["expirationTimestamp"] = ends
            whole = {"apiVersion": API, "kind": "ExecCredential", "status": said}
            (self.folder / f"said.{number}").write_text(json.dumps(whole))
        command.write_text(f'#!/bin/sh\necho x >> {count}\ncat {self.folder}/said.$(wc -l < {count} | tr -d " ")\n')
        command.chmod(0o755)
        return self.kubeconfig(exec={"apiVersion": API, "command": str(command)}), count


@pytest.fixture
async def place(server: ApiServer, tmp_path: Path) -> Place:
    await server.stop()
    made = Place(server, tmp_path)
    await server.start()
    return made


async def ask(client: KubeClient, times: int = 1) -> None:
    for _ in range(times):
        assert (await client.request("GET", "/livez")).ok


async def test_a_plugins_certificate_is_had_anew_when_it_ends(place: Place) -> None:
    config, count = place.plugin(PAST, "one", "two", "three")
    async with KubeClient(find_access(config), check_s=0.0) as client:
        await ask(client, 2)
        assert place.seen == ["two", "three"], "the first had ended before it was used"
        assert count.read_text().count("x") == 3


@pytest.mark.parametrize("ends", [FUTURE, ""])
async def test_a_plugin_is_not_asked_before_its_certificate_ends(place: Place, ends: str) -> None:
    config, count = place.plugin(ends, "one", "two")
    async with KubeClient(find_access(config), check_s=0.0) as client:
        await ask(client, 3)
        assert (place.seen, count.read_text().count("x")) == (["one"] * 3, 1)
        place.refused.add("one")
        assert (await client.request("PATCH", f"{THINGS}/a", None, {})).status == 404
        assert place.seen[3:] == ["one", "two"], "refused: the plugin is asked again, and the request repeated once"


async def test_a_plugin_that_fails_later_leaves_the_old_certificate_in_use(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    config, _ = place.plugin(PAST, "one")
    async with KubeClient(find_access(config), check_s=0.0) as client:
        await ask(client, 2)
        assert place.seen == ["one"] * 2
    assert "credentials have ended and can't be had anew" in caplog.text


async def test_a_certificate_file_that_is_rotated_is_read_again_and_watches_go_on(place: Place) -> None:
    (old, old_key), (new, new_key) = place.certificate("old"), place.certificate("new")
    cert, key = place.folder / "client.crt", place.folder / "client.key"
    cert.write_text(old.read_text()), key.write_text(old_key.read_text())
    config = place.kubeconfig(**{"client-certificate": str(cert), "client-key": str(key)})
    async with KubeClient(find_access(config), check_s=0.0) as client:
        await ask(client)
        async with client.stream(THINGS, {"watch": "1", "resourceVersion": "100"}) as lines:
            cert.write_text(new.read_text()), key.write_text(new_key.read_text())
            await ask(client)
            assert place.seen[0] == "old" and place.seen[-1] == "new"
            await place.server.put(THINGS, {"metadata": {"name": "a"}})
            async with asyncio.timeout(10):
                batch = await anext(lines)
            assert b'"ADDED"' in batch[0]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, "neither a token nor a client certificate"),
        ({"clientCertificateData": "x"}, "a client certificate without clientKeyData"),
        ({"token": "t", "expirationTimestamp": "soon"}, "expirationTimestamp 'soon' is no time"),
    ],
)
async def test_a_plugin_that_gives_nothing_to_log_in_with_is_one_line(
    place: Place, said: dict[str, str], expected: str
) -> None:
    config, _ = place.plugin("")
    whole = {"apiVersion": API, "kind": "ExecCredential", "status": said}
    (place.folder / "said.1").write_text(json.dumps(whole))
    with pytest.raises(KubeconfigError, match=expected) as raised:
        await connect.find_access(config).open("test")
    assert "\n" not in str(raised.value)


async def test_the_pods_token_and_ca_are_read_again(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Projected tokens live for an hour, and a cluster's CA may be replaced; both files change in place."""
    (old_ca, old), (new_ca, new) = authority(tmp_path, "old"), authority(tmp_path, "new")
    mounted = tmp_path / "serviceaccount"
    mounted.mkdir()
    for name, text in {"token": "old", "namespace": "serving\n", "ca.crt": old_ca.read_text()}.items():
        (mounted / name).write_text(text)
    valid = "old"

    def check(request: web.Request) -> web.Response | None:
        if request.headers.get("Authorization", "").lower() == f"bearer {valid}":
            return None
        return web.json_response(status(401, "Unauthorized", "Unauthorized"), status=401)

    server.faults.append(check)
    await server.stop()
    server.tls = old
    await server.start()
    monkeypatch.setattr(connect, "_SERVICE_ACCOUNT", mounted)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    async with KubeClient(find_access(), jitter_s=0.01) as client:
        assert client.namespace == "serving"
        await ask(client)
        valid = "young"
        (mounted / "token").write_text("young")
        await ask(client)
        await server.stop()
        server.tls = new
        await server.start()
        (mounted / "ca.crt").write_text(new_ca.read_text())
        await ask(client)
