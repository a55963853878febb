"""Leadership: never two that act, takeover in time, over real HTTP in virtual time."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from aiohttp import web

from autoscaler.kube.client import KubeClient
from autoscaler.kube.connect import find_access
from autoscaler.kube.errors import NotLeading
from autoscaler.kube.lease import Leadership, micro_time
from tests.kube.api_server import ApiServer

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube/leases"
PODS = "/api/v1/namespaces/serving/pods"


class Process:
    """One replica of the program: leads, and writes once a second while it thinks it may."""

    def __init__(self, client: KubeClient, identity: str) -> None:
        self.client = client
        self.lead = Leadership(client, "kube", "ia", identity)
        client.fence = self.lead.remaining
        self.wrote: list[float] = []
        self.began: list[float] = []
        self.refused = 0
        self.task = asyncio.create_task(self.lead.run(self.work))

    async def work(self) -> None:
        clock = asyncio.get_running_loop().time
        self.began.append(clock())
        while True:
            await self.write()
            await asyncio.sleep(1)

    async def write(self) -> None:
        path = f"{PODS}/{self.lead.identity}"
        try:
            answer = await self.client.request("PATCH", path, None, {"spec": {}}, repeatable=True)
        except NotLeading:
            self.refused += 1
            return
        if answer.ok:
            self.wrote.append(asyncio.get_running_loop().time())

    def kill(self) -> None:
        """kill -9: no release, no goodbye."""

        async def nothing() -> None:
            return None

        self.lead.release = nothing  # type: ignore[method-assign]
        self.task.cancel()

    async def terminate(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def process(server: ApiServer, identity: str) -> AsyncIterator[Process]:
    await server.put(PODS, {"metadata": {"name": identity}})
    async with KubeClient(find_access(server=server.url), jitter_s=0.01) as client:
        (await client._session.ready()).set_default_header("X-Process", identity)
        one = Process(client, identity)
        try:
            yield one
        finally:
            await one.terminate()


@pytest.mark.looptime
async def test_one_leads_and_the_other_waits(server: ApiServer) -> None:
    async with process(server, "a") as a, process(server, "b") as b:
        await asyncio.sleep(60)
        leaders = [p for p in (a, b) if p.wrote]
        assert len(leaders) == 1
        assert len(leaders[0].wrote) > 50
        assert {a.lead.holder, b.lead.holder} == {leaders[0].lead.identity}
        assert server.objects[LEASES]["ia"]["spec"]["leaseTransitions"] == 0


@pytest.mark.looptime
async def test_takeover_within_15_seconds_of_a_crash(server: ApiServer) -> None:
    async with process(server, "a") as a:
        await asyncio.sleep(5)
        async with process(server, "b") as b:
            await asyncio.sleep(20)
            assert a.wrote
            assert not b.wrote
            a.kill()
            crashed = asyncio.get_running_loop().time()
            await asyncio.sleep(20)
            assert b.began
            assert b.began[0] - crashed < 15
            assert server.objects[LEASES]["ia"]["spec"]["leaseTransitions"] == 1


@pytest.mark.looptime
async def test_takeover_at_once_when_the_leader_is_terminated(server: ApiServer) -> None:
    async with process(server, "a") as a:
        await asyncio.sleep(5)
        async with process(server, "b") as b:
            await asyncio.sleep(5)
            await a.terminate()
            ended = asyncio.get_running_loop().time()
            assert server.objects[LEASES]["ia"]["spec"]["holderIdentity"] == ""
            await asyncio.sleep(5)
            assert b.began
            assert b.began[0] - ended < 2
            assert max(a.wrote) <= b.began[0]


@pytest.mark.looptime
async def test_a_leader_that_is_cut_off_stops_writing_before_another_begins(server: ApiServer) -> None:
    async with process(server, "a") as a:
        await asyncio.sleep(5)
        async with process(server, "b") as b:
            await asyncio.sleep(5)
            lost = asyncio.get_running_loop().time()
            server.faults.append(lambda r: web.json_response({}, status=503) if _renewal_of_a(r) else None)
            await asyncio.sleep(30)
            assert b.began
            assert max(a.wrote) < b.began[0]
            assert b.began[0] - lost < 15


def _renewal_of_a(request: web.Request) -> bool:
    """The old leader's leases get no answer; everything else of it still arrives."""
    return request.path.startswith(LEASES) and request.headers["X-Process"] == "a"


PAUSED = """
import asyncio, itertools, os, signal, sys
from autoscaler.kube.client import KubeClient
from autoscaler.kube.connect import find_access
from autoscaler.kube.errors import Unreachable
from autoscaler.kube.lease import Leadership

async def main():
    async with KubeClient(find_access(server=sys.argv[1])) as client:
        (await client._session.ready()).set_default_header("X-Process", "old")
        lead = Leadership(client, "kube", "ia", "old", lease_s=2, write_s=1.2, renew_s=0.3, look_s=30)
        client.fence = lead.remaining
        async def work():
            for turn in itertools.count():
                if turn == 20:  # the worst moment: about to write
                    os.kill(os.getpid(), signal.SIGSTOP)
                try:
                    await client.request("PATCH", sys.argv[2], None, {"spec": {}})
                except Unreachable:
                    pass
                await asyncio.sleep(0.001)
        await lead.run(work)

asyncio.run(main())
"""


async def test_a_leader_that_was_paused_wakes_up_and_sends_nothing(server: ApiServer) -> None:
    """A real process, really stopped when it was about to write."""
    await server.put(PODS, {"metadata": {"name": "old"}})
    path = f"{PODS}/old"

    def writes() -> int:
        return sum(1 for method, at, _, who in server.requests if at == path and who.get("X-Process") == "old")

    old = await asyncio.create_subprocess_exec(sys.executable, "-c", PAUSED, server.url, path)
    try:
        async with asyncio.timeout(20):
            while writes() < 20:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        async with KubeClient(find_access(server=server.url), jitter_s=0.01) as client:
            young = Leadership(client, "kube", "ia", "young", lease_s=2, write_s=1.2, renew_s=0.3, look_s=0.1)
            async with asyncio.timeout(20):
                await young.acquire()
            assert young.valid()
            old.send_signal(signal.SIGCONT)
            for _ in range(5):
                await asyncio.sleep(0.1)
                await young._renew()
            assert writes() == 20
            assert server.objects[LEASES]["ia"]["spec"]["holderIdentity"] == "young"
    finally:
        old.kill()
        await old.wait()


@pytest.mark.looptime
@pytest.mark.parametrize("seed", range(6))
async def test_never_two_that_write_whatever_the_network_does(server: ApiServer, seed: int) -> None:
    """Three processes; renewals are lost, late or refused at random; every write that arrives is the holder's."""
    rng = random.Random(seed)
    troubled: dict[str, float] = {}
    cut_off: set[str] = set()
    clock = asyncio.get_running_loop().time
    strangers: list[tuple[float, str, str]] = []
    taken: list[str] = []

    def holder() -> str:
        held = server.objects.get(LEASES, {}).get("ia")
        return str(held["spec"]["holderIdentity"]) if held else ""

    def delay(request: web.Request) -> float:
        who = request.headers.get("X-Process", "")
        if request.path.startswith(LEASES):
            return rng.uniform(0, 4) if clock() < troubled.get(who, 0.0) else rng.uniform(0, 0.2)
        return rng.uniform(0, 1.5)  # a write may be on its way for a while

    def look(request: web.Request) -> web.Response | None:
        who = request.headers.get("X-Process", "")
        if request.path.startswith(PODS) and holder() not in (who, ""):
            strangers.append((clock(), who, holder()))
        lossy = clock() < troubled.get(who, 0.0) and rng.random() < 0.7
        if request.path.startswith(LEASES) and (lossy or who in cut_off):
            return web.json_response({}, status=rng.choice((500, 503, 409)))
        return None

    server.delay, server.faults = delay, [look]
    async with process(server, "a") as a, process(server, "b") as b, process(server, "c") as c:
        for turn in range(40):
            troubled[rng.choice("abc")] = clock() + rng.uniform(1, 25)
            if turn % 10 == 5:  # now and then, surely the one that leads
                cut_off.add(holder())
            await asyncio.sleep(rng.uniform(1, 15))
            taken.append(holder())
            if turn % 10 == 9:
                cut_off.clear()
        assert strangers == []
        assert len(set(taken) - {""}) > 1
        assert len(a.wrote) + len(b.wrote) + len(c.wrote) > 60


@pytest.mark.looptime
async def test_the_end_of_the_work_and_its_errors_come_out(server: ApiServer) -> None:
    async with KubeClient(find_access(server=server.url), jitter_s=0.01) as client:

        async def fails() -> None:
            raise LookupError("broken")

        lead = Leadership(client, "kube", "ia", "x")
        with pytest.raises(LookupError, match="broken"):
            await lead.run(fails)
        assert server.objects[LEASES]["ia"]["spec"]["holderIdentity"] == ""

        async def ends() -> None:
            return None

        await lead.run(ends)
        assert not lead.valid()


@pytest.mark.looptime
async def test_a_claim_whose_answer_was_lost_is_not_waited_out(server: ApiServer) -> None:
    """The server took the claim but the answer never came: the claimant must not wait for itself."""
    lost = [True]

    def lose(request: web.Request) -> web.Response | None:
        if request.method == "POST" and lost:
            lost.pop()
            spec = {"holderIdentity": "x", "leaseDurationSeconds": 10, "renewTime": "2026-12-01T03:00:12.000000Z"}
            server.version += 1
            meta = {"name": "ia", "uid": "u", "resourceVersion": str(server.version)}
            server.objects[LEASES] = {"ia": {"metadata": meta, "spec": spec}}
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        return None

    server.faults.append(lose)
    async with KubeClient(find_access(server=server.url), jitter_s=0.01) as client:
        lead = Leadership(client, "kube", "ia", "x")
        began = asyncio.get_running_loop().time()
        await lead.acquire()
        assert lead.valid()
        assert asyncio.get_running_loop().time() - began < 5


async def test_micro_time_always_has_six_digits() -> None:
    assert micro_time(datetime(2026, 12, 1, 3, 0, 12, 0, tzinfo=UTC)) == "2026-12-01T03:00:12.000000Z"
