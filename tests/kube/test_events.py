"""Events over the wire: series, limits, and silence where there is no right."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from autoscaler.kube.client import KubeClient
from autoscaler.kube.events import EventWriter, Occurrence, Regarding, clipped
from tests.kube.api_server import ApiServer

EVENTS = "/apis/events.k8s.io/v1/namespaces/serving/events"
WEB = Regarding("apps/v1", "Deployment", "serving", "web", "uid-web")


def resized(note: str = "cpu 1 → 2") -> Occurrence:
    return Occurrence(WEB, "ObjectiveMissed", "Resize", note)


@pytest.mark.looptime
async def test_repetitions_become_one_series(server: ApiServer, client: KubeClient) -> None:
    events = EventWriter(client, "autoscaler-0")
    for _ in range(100):
        await events.write(resized())
    (event,) = server.objects[EVENTS].values()
    assert event["series"]["count"] >= 64
    assert len(server.bodies) < 10
    assert event["regarding"]["name"] == "web"
    assert event["reportingController"]
    assert event["reportingInstance"] == "autoscaler-0"
    assert event["eventTime"].endswith("Z") and len(event["eventTime"]) == len("2026-12-01T00:00:00.000000Z")


@pytest.mark.looptime
async def test_other_numbers_make_a_new_event_at_most_once_a_minute(server: ApiServer, client: KubeClient) -> None:
    events = EventWriter(client, "a")
    for second in range(150):
        await events.write(resized(f"cpu {second} → {second + 1}"))
        await asyncio.sleep(1)
    assert [e["note"] for e in server.objects[EVENTS].values()] == ["cpu 0 → 1", "cpu 60 → 61", "cpu 120 → 121"]


@pytest.mark.looptime
async def test_a_series_that_paused_is_over(server: ApiServer, client: KubeClient) -> None:
    events = EventWriter(client, "a")
    await events.write(resized())
    await asyncio.sleep(400)
    await events.write(resized())
    assert len(server.objects[EVENTS]) == 2


async def test_an_event_that_expired_on_the_server_is_written_anew(server: ApiServer, client: KubeClient) -> None:
    events = EventWriter(client, "a")
    await events.write(resized())
    server.objects[EVENTS].clear()
    await events.write(resized())
    assert len(server.objects[EVENTS]) == 1


async def test_the_servers_limits_are_kept(server: ApiServer, client: KubeClient) -> None:
    events = EventWriter(client, "i" * 300)
    await events.write(Occurrence(WEB, "R" * 300, "A" * 300, "ü" * 2000))
    (event,) = server.objects[EVENTS].values()
    assert len(event["note"].encode()) <= 1024
    assert {len(event[key]) <= 128 for key in ("reason", "action", "reportingInstance")} == {True}


@pytest.mark.parametrize("limit", range(4, 12))
def test_cutting_never_breaks_a_character(limit: int) -> None:
    assert len(clipped("aüöä→xyz", limit).encode()) <= limit


@pytest.mark.looptime
async def test_without_the_right_it_asks_rarely_and_disturbs_nobody(server: ApiServer, client: KubeClient) -> None:
    def forbid(request: web.Request) -> web.Response | None:
        if request.path.endswith("/events"):
            message = 'events is forbidden: User "x" cannot create resource "events" in API group "events.k8s.io"'
            return web.json_response({"kind": "Status", "message": message, "reason": "Forbidden"}, status=403)
        return None

    server.faults.append(forbid)
    events = EventWriter(client, "a")
    for _ in range(1200):
        events.tell(resized())
        await events.flush()
        await asyncio.sleep(1)
    assert server.asked("POST") <= 3
    assert events.dropped > 1000
