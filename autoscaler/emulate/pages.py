"""Where the pods listen: a loopback port for each (or one for all), and its /metrics."""

import asyncio
import socket
from collections.abc import Callable

from aiohttp import web

from autoscaler.emulate.faults import Faults
from autoscaler.emulate.metrics_page import CONTENT_TYPE, HUGE, SLOW
from autoscaler.emulate.server import HOST, listen
from autoscaler.emulate.serving import Process

Read = Callable[[Process, str], str | None]


class PodPages:
    """Listening sockets by pod. A restarted container keeps its port, a new pod gets a new one."""

    def __init__(self, faults: Faults, read: Read, *, shared: bool = False) -> None:
        self._faults = faults
        self._read = read
        self._shared = shared
        self._web = web.Server(self._serve)
        self._ports: dict[str, int] = {}  # uid -> port
        self._by_port: dict[int, Process] = {}
        self._by_path: dict[str, Process] = {}
        self._sockets: dict[int, socket.socket] = {}
        self._servers: dict[int, asyncio.Server] = {}
        self._starting: set[asyncio.Task[None]] = set()
        self._stale: dict[str, str] = {}

    def open(self, process: Process) -> tuple[int, str]:
        """Returns (port, path) of the process's page."""
        if self._shared:
            path = f"/pods/{process.namespace}/{process.name}/metrics"
            self._by_path[path] = process
            return self._listen(0), path
        known = self._ports.get(process.uid, 0)
        port = self._listen(known)
        self._ports[process.uid] = port
        self._by_port[port] = process
        return port, "/metrics"

    def _listen(self, port: int) -> int:
        if self._shared and self._sockets:
            return next(iter(self._sockets))
        if port in self._sockets:
            return port
        listening = listen(port)
        number = int(listening.getsockname()[1])
        self._sockets[number] = listening
        task = asyncio.get_running_loop().create_task(self._accept(number, listening))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        return number

    async def _accept(self, port: int, listening: socket.socket) -> None:
        server = await asyncio.get_running_loop().create_server(self._web, sock=listening)
        if self._sockets.get(port) is not listening:
            server.close()
            return
        self._servers[port] = server

    def close(self, process: Process) -> None:
        """Nothing answers any more."""
        if self._shared:
            path = f"/pods/{process.namespace}/{process.name}/metrics"
            if self._by_path.get(path) is process:
                del self._by_path[path]
            return
        port = self._ports.get(process.uid)
        if port is None or self._by_port.get(port) is not process:
            return
        del self._by_port[port]
        self._shut(port)

    def _shut(self, port: int) -> None:
        listening = self._sockets.pop(port, None)
        if (server := self._servers.pop(port, None)) is not None:
            server.close()
        elif listening is not None:
            listening.close()

    async def stop(self) -> None:
        for port in list(self._sockets):
            self._shut(port)
        await asyncio.gather(*self._starting, return_exceptions=True)
        await self._web.shutdown(0.1)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        process = self._asked(request)
        fault = self._faults.page_fault(process.name) if process is not None else None
        if process is None or (not self._shared and request.path not in ("/metrics", "/healthz")):
            return web.Response(status=404, text="404 page not found\n")
        match fault:
            case "refused":
                if request.transport is not None:
                    request.transport.abort()
                return web.Response(status=500)
            case "missing":
                return web.Response(status=404, text="404 page not found\n")
            case "html":
                return web.Response(text="<html><body>Please log in</body></html>", content_type="text/html")
            case "slow":
                await asyncio.sleep(SLOW)
            case "huge":
                return await self._huge(request)
            case "stale" if process.uid in self._stale:
                return web.Response(text=self._stale[process.uid], headers={"Content-Type": CONTENT_TYPE})
        text = self._read(process, fault or "")
        if text is None:
            return web.Response(status=503, text="starting\n")
        if fault == "stale":
            self._stale[process.uid] = text
        else:
            self._stale.pop(process.uid, None)
        return web.Response(text=text, headers={"Content-Type": CONTENT_TYPE})

    def _asked(self, request: web.BaseRequest) -> Process | None:
        if self._shared:
            return self._by_path.get(request.path)
        if request.transport is None:
            return None
        return self._by_port.get(request.transport.get_extra_info("sockname")[1])

    async def _huge(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE})
        try:
            await response.prepare(request)
            block = b"".join(b'padding_total{series="%d"} 1\n' % number for number in range(4000))
            for _ in range(HUGE // len(block)):
                await response.write(block)
        except ConnectionError:
            pass  # the reader had enough, as it should
        return response


__all__ = ["HOST", "PodPages"]
