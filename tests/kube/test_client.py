"""The door to the API server, over the wire: deadlines, repeats, pace, tokens, words for errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from autoscaler import __version__
from autoscaler.kube.client import KubeClient, connect
from autoscaler.kube.connect import find_access
from autoscaler.kube.errors import Conflicted, KubeconfigError, NoRight, NotFound, NotLeading, Unreachable
from autoscaler.kube.pace import BACKGROUND, URGENT, Pace
from tests.kube.api_server import ApiServer, status

THINGS = "/api/v1/namespaces/x/things"


def fail(server: ApiServer, times: int, make: Callable[[], web.Response]) -> list[str]:
    """The next ``times`` requests are answered by ``make``."""
    hits: list[str] = []

    def fault(request: web.Request) -> web.Response | None:
        if len(hits) < times:
            hits.append(request.method)
            return make()
        return None

    server.faults.append(fault)
    return hits


def busy(seconds: str | None = "1") -> web.Response:
    headers = {"Retry-After": seconds} if seconds is not None else {}
    return web.json_response(status(429, "TooManyRequests", "too many requests"), status=429, headers=headers)


async def test_who_asks_is_told(server: ApiServer, client: KubeClient) -> None:
    await client.request("GET", "/livez")
    assert server.requests[0][3]["User-Agent"] == f"inference-autoscaler/{__version__}"


async def test_every_status_is_an_answer(server: ApiServer, client: KubeClient) -> None:
    answer = await client.request("PATCH", f"{THINGS}/none", None, {}, "application/merge-patch+json")
    assert (answer.status, answer.ok) == (404, False)
    assert answer.refusal is not None
    assert answer.refusal.word == "Gone"
    with pytest.raises(NotFound, match="do a thing: none not found"):
        answer.expect("do a thing")
    await server.put(THINGS, {"metadata": {"name": "a"}})
    stale = await client.request("PATCH", f"{THINGS}/a", None, {"metadata": {"resourceVersion": "1"}})
    with pytest.raises(Conflicted):
        stale.expect("patch")
    assert server.requests[-1][3]["Content-Type"] == "application/json"


@pytest.mark.looptime
async def test_a_read_is_repeated_and_a_write_that_may_have_arrived_is_not(server: ApiServer) -> None:
    async with KubeClient(find_access(server=server.url)) as client:
        hits = fail(server, 2, lambda: web.json_response(status(503, "", "starting"), status=503))
        assert (await client.request("GET", "/livez")).ok
        assert len(hits) == 2
        fail(server, 1, lambda: web.json_response(status(503, "", "starting"), status=503))
        answer = await client.request("PATCH", f"{THINGS}/a", None, {})
        assert answer.status == 503
        assert answer.refusal is not None
        assert answer.refusal.word == "Unavailable"
        fail(server, 1, lambda: web.json_response(status(503, "", "starting"), status=503))
        assert (await client.request("PATCH", f"{THINGS}/a", None, {}, repeatable=True)).status == 404


@pytest.mark.looptime
async def test_retry_after_is_obeyed_by_all_but_the_lease(server: ApiServer) -> None:
    async with KubeClient(find_access(server=server.url)) as client:
        clock = asyncio.get_running_loop().time
        fail(server, 1, lambda: busy("4"))
        began = clock()
        first = asyncio.create_task(client.request("PATCH", f"{THINGS}/a", None, {}))
        await asyncio.sleep(0.2)
        await client.request("GET", "/livez", priority=URGENT)
        assert clock() - began < 1
        other = asyncio.create_task(client.request("GET", "/livez"))
        assert (await first).status == 404  # not processed the first time: safe to send again
        await other
        assert clock() - began >= 4


@pytest.mark.looptime
async def test_a_disruption_budgets_429_is_an_answer_and_no_throttling(server: ApiServer, client: KubeClient) -> None:
    body = status(429, "TooManyRequests", "Cannot evict pod", causes=[{"reason": "DisruptionBudget", "message": "m"}])
    hits = fail(server, 9, lambda: web.json_response(body, status=429))
    answer = await client.request("POST", f"{THINGS}/a/eviction", None, {})
    assert answer.refusal is not None
    assert answer.refusal.word == "DisruptionBudget"
    assert len(hits) == 1


@pytest.mark.looptime
async def test_no_call_outlives_its_deadline(server: ApiServer, client: KubeClient) -> None:
    server.frozen.clear()
    clock = asyncio.get_running_loop().time
    began = clock()
    with pytest.raises(Unreachable, match="no answer within 3s"):
        await client.request("GET", "/livez", deadline=3)
    assert clock() - began == pytest.approx(3, abs=0.5)


async def test_nobody_there(server: ApiServer, client: KubeClient) -> None:
    await server.stop()
    with pytest.raises(Unreachable, match="GET /livez"):
        await client.request("GET", "/livez")


async def test_a_write_is_not_sent_without_the_leadership(server: ApiServer, client: KubeClient) -> None:
    client.fence = lambda: 0.0
    with pytest.raises(NotLeading):
        await client.request("PATCH", f"{THINGS}/a", None, {})
    assert (await client.request("GET", "/livez")).ok
    await client.request("PUT", f"{THINGS}/a", None, {}, priority=URGENT)
    assert [method for method, *_ in server.requests] == ["GET", "PUT"]


@pytest.mark.looptime
async def test_leadership_lost_between_the_decision_and_the_socket_keeps_the_write_here(server: ApiServer) -> None:
    """As in a process that was frozen there: allowed when it was asked for, no more when it is written."""
    await server.put("/api/v1/namespaces/a/pods", {"metadata": {"name": "x"}})
    async with KubeClient(find_access(server=server.url), jitter_s=0.01) as client:
        path = "/api/v1/namespaces/a/pods/x"
        for repeatable in (True, False):
            left = [5.0]
            client.fence = lambda left=left: left.pop() if left else 0.0
            with pytest.raises((NotLeading, Unreachable), match="doesn't lead"):
                await client.request("PATCH", path, None, {"spec": {}}, repeatable=repeatable)
        assert server.asked("PATCH") == 0
        assert (await client.request("GET", path)).ok, "reading needs no leadership"
        assert (await client.request("PATCH", path, None, {"spec": {}}, priority=URGENT)).ok, "nor does the Lease"
        client.fence = lambda: 5.0
        assert (await client.request("PATCH", path, None, {"spec": {}})).ok


async def test_the_largest_shortfall_goes_first() -> None:
    pace = Pace(qps=1, burst=1)
    order: list[float] = []

    async def send(priority: float) -> None:
        await pace.turn(priority)
        order.append(priority)

    await pace.turn()
    async with asyncio.TaskGroup() as tasks:
        for priority in (3.0, BACKGROUND, 900.0, 20.0):
            tasks.create_task(send(priority))
    assert order == [900.0, 20.0, 3.0, BACKGROUND]


@pytest.mark.looptime
async def test_the_pace_is_kept_and_a_burst_is_free() -> None:
    pace = Pace(qps=10, burst=20)
    clock = asyncio.get_running_loop().time
    began = clock()
    for _ in range(20):
        await pace.turn()
    assert clock() == began
    for _ in range(30):
        await pace.turn()
    assert clock() - began == pytest.approx(3.0, abs=0.1)


@pytest.mark.looptime
async def test_a_turn_given_up_is_given_to_the_next() -> None:
    pace = Pace(qps=1, burst=1)
    await pace.turn()
    gone = asyncio.create_task(pace.turn(5.0))
    stays = asyncio.create_task(pace.turn(1.0))
    await asyncio.sleep(0.1)
    gone.cancel()
    await stays
    assert asyncio.get_running_loop().time() == pytest.approx(1.0, abs=0.1)
    assert pace.waiting == 0


def kubeconfig(path: Path, server: str, **user: Any) -> Path:
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1", "kind": "Config", "current-context": "here",
                "clusters": [{"name": "c", "cluster": {"server": server}}],
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "mine"}}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )  # fmt: skip
    return path


async def test_a_kubeconfig_with_a_token(server: ApiServer, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", server.url, token="secret")
    before = path.read_text()
    client = await connect(path)
    try:
        await client.request("GET", "/livez")
        assert client.namespace == "mine"
    finally:
        await client.close()
    assert server.requests[0][3]["Authorization"] == "Bearer secret"
    assert path.read_text() == before


async def test_a_credential_plugin_is_asked_again_when_its_token_is_refused(server: ApiServer, tmp_path: Path) -> None:
    plugin, count = tmp_path / "plugin", tmp_path / "count"
    plugin.write_text(
        f"""#!/bin/sh
echo x >> {count}
n=$(wc -l < {count} | tr -d ' ')
echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"t'$n'"}}}}'
"""
    )
    plugin.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}

    def old(request: web.Request) -> web.Response | None:
        if request.headers.get("authorization") == "Bearer t1":
            return web.json_response(status(401, "Unauthorized", "Unauthorized"), status=401)
        return None

    server.faults.append(old)
    async with KubeClient(find_access(kubeconfig(tmp_path / "config", server.url, **user))) as client:
        assert (await client.request("PATCH", f"{THINGS}/a", None, {})).status == 404
        assert (await client.request("GET", "/livez")).ok
    assert count.read_text().count("x") == 2


async def test_a_token_file_that_is_rotated_is_read_again(server: ApiServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    def old(request: web.Request) -> web.Response | None:
        if request.headers.get("authorization") != "Bearer young":
            return web.json_response(status(401, "Unauthorized", "Unauthorized"), status=401)
        return None

    server.faults.append(old)
    async with KubeClient(find_access(kubeconfig(tmp_path / "config", server.url, tokenFile=str(token)))) as client:
        refused = await client.request("GET", "/livez")
        assert refused.status == 401
        with pytest.raises(NoRight):
            refused.expect("look")
        token.write_text("young")
        assert (await client.request("GET", "/livez")).ok


@pytest.mark.parametrize(
    ("text", "context", "expected"),
    [
        ("", None, "not a kubeconfig"),
        ("[1, 2", None, "while parsing"),
        ("clusters: []\ncontexts: []\nusers: []\ncurrent-context: gone\n", None, "gone"),
        ("clusters: []\ncontexts: [{name: a}]\nusers: []\n", None, r"no current-context: give --context \(there: a\)"),
        ("clusters: []\ncontexts: [{name: a}]\nusers: []\n", "b", r"no context 'b' \(there: a\)"),
        ("current-context: x\ncontexts: [{name: x, context: {cluster: none, user: u}}]\nclusters: []\n", None, "none"),
    ],
)
async def test_a_broken_kubeconfig_is_one_line(tmp_path: Path, text: str, context: str | None, expected: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(KubeconfigError, match=expected) as raised:
        await connect(path, context)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


async def test_no_kubeconfig_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KubeconfigError, match="doesn't exist"):
        find_access(tmp_path / "none")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(KubeconfigError, match="KUBECONFIG is"):
        find_access()
    monkeypatch.delenv("KUBECONFIG")
    with pytest.raises(KubeconfigError, match="give --kubeconfig FILE"):
        find_access()


async def test_a_credential_plugin_that_is_not_there_is_one_line(server: ApiServer, tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin-here"}}
    with pytest.raises(KubeconfigError, match="no-such-plugin-here"):
        await connect(kubeconfig(tmp_path / "config", server.url, **user))


async def test_an_answer_from_something_else_is_no_json(server: ApiServer, client: KubeClient) -> None:
    fail(server, 1, lambda: web.Response(text="<html>hello</html>"))
    answer = await client.request("GET", "/api")
    with pytest.raises(Unreachable, match="is this an API server"):
        answer.json()


def test_asking_for_help_needs_no_client_library() -> None:
    import subprocess
    import sys

    code = "import autoscaler.kube.client, autoscaler.observe.cluster, sys; print('kubernetes_asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
