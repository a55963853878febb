"""List and watch against a real HTTP server that pages, compacts, falls silent, breaks off and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from autoscaler.kube.client import KubeClient
from autoscaler.kube.decode import PodSeen, decode_pod
from autoscaler.kube.store import Store
from autoscaler.kube.watch import Kind, Reflector
from tests.kube import objects
from tests.kube.api_server import ApiServer

PODS = "/api/v1/namespaces/serving/pods"


@asynccontextmanager
async def reflecting(client: KubeClient, page: int = 500, silence_s: float = 75.0) -> AsyncIterator[Reflector[PodSeen]]:
    store: Store[PodSeen] = Store()
    reflector = Reflector(client, Kind("pods", PODS, decode_pod), store, page=page, silence_s=silence_s)
    task = asyncio.create_task(reflector.run())
    try:
        yield reflector
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], bool], within: float = 30.0) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def names(reflector: Reflector[PodSeen]) -> set[str]:
    return {seen.pod.name for seen in reflector.store.items.values()}


async def test_reads_all_pages_then_follows_changes(server: ApiServer, client: KubeClient) -> None:
    for number in range(7):
        await server.put(PODS, objects.pod(f"p{number}"))
    async with reflecting(client, page=3) as reflector:
        await reflector.synced.wait()
        assert len(names(reflector)) == 7
        assert server.asked("GET", "/pods", watch=False) == 3
        await server.put(PODS, objects.pod("new"))
        await server.put(PODS, objects.pod("p0", phase="Failed"))
        await server.delete(PODS, "p1")
        await until(lambda: "p1" not in names(reflector))
        assert names(reflector) == {"p0", "p2", "p3", "p4", "p5", "p6", "new"}
        assert reflector.store.items["uid-p0"].pod.phase == "Failed"
        assert server.asked("GET", "/pods", watch=False) == 3


async def test_a_version_that_expired_leads_to_a_fresh_list(server: ApiServer, client: KubeClient) -> None:
    await server.put(PODS, objects.pod("old"))
    async with reflecting(client) as reflector:
        await reflector.synced.wait()
        await until(lambda: server.watches == 1)
        server.compacted = 10**6
        server.version = 10**6 + 1
        server.objects[PODS].clear()  # its deletion is beyond the journal: only a list can tell
        await server.put(PODS, objects.pod("young"))
        server.journal.clear()
        server.cut_watches.set()
        await until(lambda: server.watches >= 2)
        server.cut_watches.clear()
        await until(lambda: names(reflector) == {"young"})
        assert reflector.lists >= 2


async def test_a_list_whose_continue_token_expires_is_read_anew_in_one_piece(
    server: ApiServer, client: KubeClient
) -> None:
    for number in range(5):
        await server.put(PODS, objects.pod(f"p{number}"))

    def compact(request: web.Request) -> None:
        if "continue" in request.query and server.compacted == 0:
            server.compacted = server.version + 1
            server.version += 2

    server.faults.append(compact)
    async with reflecting(client, page=2) as reflector:
        await reflector.synced.wait()
        assert len(names(reflector)) == 5
    whole = [q for method, path, q, _ in server.requests if path == PODS and "watch" not in q and "limit" not in q]
    assert len(whole) == 1


async def test_one_pod_that_cannot_be_read_does_not_hide_the_others(server: ApiServer, client: KubeClient) -> None:
    await server.put(PODS, objects.pod("good"))
    await server.put(PODS, objects.pod("odd", requests={"cpu": "three"}))
    async with reflecting(client) as reflector:
        await reflector.synced.wait()
        assert names(reflector) == {"good"}
        assert "three" in reflector.unreadable["serving/odd"]
        await server.put(PODS, objects.pod("odd", requests={"cpu": "3"}))
        await until(lambda: names(reflector) == {"good", "odd"})


async def test_lines_far_beyond_any_buffer(server: ApiServer, client: KubeClient) -> None:
    async with reflecting(client) as reflector:
        await reflector.synced.wait()
        await until(lambda: reflector.watching)
        await server.put(PODS, objects.pod("fat", annotations={"note": "x" * 9_000_000}))
        await until(lambda: names(reflector) == {"fat"})


@pytest.mark.looptime
async def test_a_silent_peer_is_left_and_another_watch_begun(server: ApiServer, client: KubeClient) -> None:
    server.bookmark_every = 1e6
    await server.put(PODS, objects.pod("p"))
    async with reflecting(client) as reflector:
        await reflector.synced.wait()
        await until(lambda: server.watches == 1)
        await until(lambda: server.watches == 2, within=200)
        assert reflector.lists == 1  # what was known is still good: the watch goes on from there


@pytest.mark.looptime
async def test_a_watch_that_has_nothing_to_say_is_not_given_up(server: ApiServer, client: KubeClient) -> None:
    server.bookmark_every = 60.0
    await server.put(PODS, objects.pod("p"))
    async with reflecting(client) as reflector:
        await reflector.synced.wait()
        await asyncio.sleep(290)
        assert server.watches == 1


async def test_a_server_that_goes_away_and_comes_back(server: ApiServer, client: KubeClient) -> None:
    await server.put(PODS, objects.pod("before"))
    async with reflecting(client) as reflector:
        await reflector.synced.wait()
        await until(lambda: reflector.watching)
        await server.stop()
        await until(lambda: bool(reflector.trouble))
        assert not reflector.watching
        assert names(reflector) == {"before"}
        await server.start()
        await server.put(PODS, objects.pod("after"))
        await until(lambda: names(reflector) == {"before", "after"})
        assert reflector.trouble == ""


@pytest.mark.looptime
async def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_circle(
    server: ApiServer, client: KubeClient
) -> None:
    server.cut_watches.set()
    async with reflecting(client) as reflector:
        await reflector.synced.wait()
        await asyncio.sleep(60)
        assert server.watches < 40


@pytest.mark.looptime
async def test_without_the_right_it_settles_and_says_why(server: ApiServer, client: KubeClient) -> None:
    server.forbidden.add("/pods")
    async with reflecting(client) as reflector:
        await reflector.settled.wait()
        assert reflector.barred
        assert not reflector.synced.is_set()
        assert "cannot list" in reflector.trouble
        await asyncio.sleep(600)
        assert server.asked("GET", "/pods") < 15
        server.forbidden.clear()
        await until(reflector.synced.is_set, within=200)
        assert not reflector.barred
