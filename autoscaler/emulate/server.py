"""The API server's wire: HTTP on loopback around `api.py`, with the audit and the faults in between."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from autoscaler.emulate.api import Api
from autoscaler.emulate.audit import Audit, Entry
from autoscaler.emulate.faults import Trouble
from autoscaler.emulate.request import Answer, Call, Target
from autoscaler.emulate.status import Refused
from autoscaler.emulate.watching import Watch

HOST = "127.0.0.1"
LARGEST_BODY = 3 * 1024 * 1024  # the real server's limit
_TROUBLE_REASONS = {429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}


class ApiServer:
    """`start()` and `stop()`; the port stays the same over a stop and a start."""

    def __init__(self, api: Api, audit: Audit, *, port: int = 0) -> None:
        self._api = api
        self._audit = audit
        self._port = port
        self._runner: web.ServerRunner | None = None
        self._watches: set[Watch] = set()

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}"

    @property
    def running(self) -> bool:
        return self._runner is not None

    async def start(self) -> None:
        """Raises OSError when the port is taken."""
        listening = listen(self._port)
        self._port = int(listening.getsockname()[1])
        runner = web.ServerRunner(web.Server(self._serve), shutdown_timeout=0.5)
        await runner.setup()
        await web.SockSite(runner, listening, backlog=1024).start()
        self._runner = runner

    async def stop(self) -> None:
        """All connections end; nothing listens until the next start."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        self._api.plane.faults.cut_watches += 1
        self.look_at_faults()
        await runner.cleanup()

    def look_at_faults(self) -> None:
        """Wake the watches, so that a changed fault is felt at once."""
        for watch in tuple(self._watches):
            watch.nudge()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        plane = self._api.plane
        trouble = plane.faults.trouble_for(request.method, request.path_qs)
        if trouble is not None:
            await asyncio.sleep(trouble.delay)
            if trouble.code is not None:
                self._note(request, "", None, trouble.code)
                return self._troubled(request, trouble)
        user = ""
        target: Target | None = None
        answer: Answer | Watch
        try:
            user = self._api.users.who(request.headers.get("Authorization", ""))
            body = await request.read() if request.body_exists else b""
            if len(body) > LARGEST_BODY:
                raise Refused(413, "RequestEntityTooLarge", f"limit is {LARGEST_BODY}")
            call = Call(
                request.method,
                request.path,
                dict(request.query),
                request.headers.get("Content-Type", ""),
                request.headers.get("Accept", ""),
                body,
                user,
                request.headers.get("User-Agent", ""),
            )
            answer, target = self._api.handle(call)
        except Refused as refusal:
            answer = Answer.refused(refusal)
        if isinstance(answer, Watch):
            self._note(request, user, target, 200)
            return await self._stream(request, answer)
        self._note(request, user, target, answer.code)
        body = answer.body if isinstance(answer.body, bytes) else msgspec.json.encode(answer.body)
        headers = {**answer.headers, "Content-Type": answer.content_type}
        return web.Response(status=answer.code, body=body, headers=headers)

    async def _stream(self, request: web.BaseRequest, watch: Watch) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        self._watches.add(watch)
        try:
            await response.prepare(request)
            # The client learns from the headers that it watches, before anything happens.
            await response.write(b"")
            async for line in watch.lines():
                await response.write(line)
            await response.write_eof()
        except ConnectionError:
            pass  # the client went away, which is how watches end
        finally:
            self._watches.discard(watch)
        return response

    def _troubled(self, request: web.BaseRequest, trouble: Trouble) -> web.StreamResponse:
        if not trouble.code:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=500)
        headers = {"Retry-After": str(trouble.retry_after)} if trouble.retry_after is not None else {}
        if trouble.body is not None:
            headers["Content-Type"] = trouble.content_type
            return web.Response(status=trouble.code, body=trouble.body, headers=headers)
        reason = _TROUBLE_REASONS.get(trouble.code, "")
        refusal = Refused(trouble.code, reason, "the emulated server was told to answer this", headers=headers)
        headers["Content-Type"] = "application/json"
        return web.Response(status=trouble.code, body=msgspec.json.encode(refusal.body), headers=headers)

    def _note(self, request: web.BaseRequest, user: str, target: Target | None, code: int) -> None:
        self._audit.note(
            Entry(
                at=self._api.plane.timeline.now(),
                user=user,
                agent=request.headers.get("User-Agent", ""),
                verb=target.verb if target is not None else request.method.lower(),
                group=target.kind.group if target is not None else "",
                resource=target.kind.plural if target is not None else "",
                subresource=target.subresource if target is not None else "",
                namespace=(target.namespace or "") if target is not None else "",
                name=target.name if target is not None else "",
                code=code,
                dry_run=request.query.get("dryRun") == "All",
                path=request.path_qs,
            )
        )


def listen(port: int = 0) -> socket.socket:
    """A listening socket on loopback. Raises OSError when the port is taken."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen(1024)
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening


Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
