"""The program's own HTTP server: /healthz, /readyz, /metrics."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client.aiohttp import make_aiohttp_handler

from autoscaler.serve.health import Health
from autoscaler.serve.metrics import OwnMetrics


def app(health: Health, metrics: OwnMetrics) -> web.Application:
    async def healthz(_: web.Request) -> web.Response:
        alive = health.alive()
        return web.json_response({"alive": alive}, status=200 if alive else 503)

    async def readyz(_: web.Request) -> web.Response:
        return web.json_response(
            {"ready": health.ready, "checks": health.detail()}, status=200 if health.ready else 503
        )

    made = web.Application()
    made.router.add_get("/healthz", healthz)
    made.router.add_get("/readyz", readyz)
    made.router.add_get("/metrics", make_aiohttp_handler(metrics.registry))
    return made


class AddressTaken(OSError):
    """Can't listen there; as text it names the flag."""

    def __init__(self, listen: str, error: OSError) -> None:
        why = os.strerror(error.errno) if error.errno else str(error)
        super().__init__(error.errno, why)
        self._listen = listen

    def __str__(self) -> str:
        return f"--http-listen {self._listen}: {self.strerror}"


@asynccontextmanager
async def serving(listen: str, health: Health, metrics: OwnMetrics) -> AsyncIterator[int | None]:
    """Serve while the block runs; yields the port, None when ``listen`` is ``off``. Raises AddressTaken."""
    if listen == "off":
        yield None
        return
    host, _, port = listen.rpartition(":")
    runner = web.AppRunner(app(health, metrics), access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host.strip("[]") or None, int(port))
        try:
            await site.start()
        except OSError as error:
            raise AddressTaken(listen, error) from None
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
