"""A small API server for tests: collections with resourceVersions, paged lists, watches, and faults on demand."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from aiohttp import web

Object = dict[str, Any]


def status(code: int, reason: str, message: str, **details: Any) -> Object:
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "details": details, "code": code,
    }  # fmt: skip


class ApiServer:
    """``put``/``delete`` change what it holds; ``requests`` is its audit log of (method, path, query, headers)."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, dict[str, Object]] = {}
        self.journal: list[tuple[int, str, str, Object]] = []
        self.requests: list[tuple[str, str, dict[str, str], dict[str, str]]] = []
        self.bodies: list[Any] = []
        self.faults: list[Callable[[web.Request], web.StreamResponse | None]] = []
        self.delay: Callable[[web.Request], float] = lambda request: 0.0
        """Seconds that a request takes to arrive."""
        self.forbidden: set[str] = set()
        self.missing: set[str] = set()
        self.compacted = 0
        self.frozen = asyncio.Event()
        self.frozen.set()
        self.cut_watches = asyncio.Event()
        self.bookmark_every = 1.0
        self.watches = 0
        self._news = asyncio.Condition()
        self._runner: web.AppRunner | None = None
        self.port = 0
        self.tls: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> ApiServer:
        await self.start()
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.stop()

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self.tls)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]

    async def stop(self) -> None:
        if self._runner is not None:
            self.cut_watches.set()
            await self._runner.cleanup()
            self.cut_watches.clear()
            self._runner = None

    async def put(self, collection: str, item: Object) -> Object:
        """Add or replace an object of a collection path such as ``/api/v1/namespaces/x/pods``."""
        self.version += 1
        name = item["metadata"]["name"]
        held = self.objects.setdefault(collection, {})
        event = "MODIFIED" if name in held else "ADDED"
        meta = {"uid": f"uid-{name}", **item["metadata"], "resourceVersion": str(self.version)}
        item = {**item, "metadata": meta}
        held[name] = item
        await self._tell(event, collection, item)
        return item

    async def delete(self, collection: str, name: str) -> None:
        self.version += 1
        item = self.objects[collection].pop(name)
        gone = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}}
        await self._tell("DELETED", collection, gone)

    async def _tell(self, event: str, collection: str, item: Object) -> None:
        self.journal.append((self.version, event, collection, item))
        async with self._news:
            self._news.notify_all()

    def asked(self, method: str, part: str = "", watch: bool | None = None) -> int:
        return sum(
            1
            for verb, path, query, _ in self.requests
            if verb == method and part in path and (watch is None or ("watch" in query) == watch)
        )

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = unquote(request.path)
        self.requests.append((request.method, path, dict(request.query), dict(request.headers)))
        await self.frozen.wait()
        if (wait := self.delay(request)) > 0:
            await asyncio.sleep(wait)
        for fault in list(self.faults):
            answer = fault(request)
            if answer is not None:
                return answer
        if path in ("/livez", "/readyz"):
            return web.Response(text="ok")
        if any(path.endswith(part) for part in self.forbidden):
            message = f'x is forbidden: User "t" cannot list resource "{path.rsplit("/", 1)[-1]}" in API group ""'
            return web.json_response(status(403, "Forbidden", message, kind="x"), status=403)
        if any(path.endswith(part) for part in self.missing):
            return web.json_response(
                status(404, "NotFound", "the server could not find the requested resource"), status=404
            )
        if request.method == "GET" and "watch" in request.query:
            return await self._watch(request, path)
        if request.method == "GET":
            return self._get(request, path)
        return await self._write(request, path)

    def _inside(self, path: str) -> dict[str, Object]:
        """The objects of a collection; a cluster-wide path gathers every namespace."""
        if "/namespaces/" in path:
            return self.objects.get(path, {})
        return {
            f"{collection}/{name}": item
            for collection, held in self.objects.items()
            if collection == path or self._gathers(path, collection)
            for name, item in held.items()
        }

    @staticmethod
    def _gathers(path: str, collection: str) -> bool:
        """Whether a cluster-wide path covers a namespace's collection."""
        head, plural = path.rsplit("/", 1)
        return collection.startswith(f"{head}/namespaces/") and collection.endswith(f"/{plural}")

    def _get(self, request: web.Request, path: str) -> web.Response:
        collection, _, name = path.rpartition("/")
        if name in self.objects.get(collection, {}):
            return web.json_response(self.objects[collection][name])
        if len(path.partition("/namespaces/")[2].split("/")) > 2:  # NAMESPACE/PLURAL/NAME
            return web.json_response(status(404, "NotFound", f'"{name}" not found', name=name), status=404)
        items = [item for _, item in sorted(self._inside(path).items())]
        start, limit = 0, int(request.query.get("limit", "0"))
        if token := request.query.get("continue"):
            start, issued = (int(part) for part in token.split("-"))
            if issued < self.compacted:
                expired = status(410, "Expired", "The provided continue parameter is too old")
                return web.json_response({**expired, "metadata": {"continue": "x"}}, status=410)
        page = items[start : start + limit] if limit else items
        end = start + len(page)
        meta = {"resourceVersion": str(self.version)}
        if end < len(items):
            meta["continue"] = f"{end}-{self.version}"
        return web.json_response({"kind": "List", "apiVersion": "v1", "metadata": meta, "items": page})

    async def _watch(self, request: web.Request, path: str) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        self.watches += 1
        since = int(request.query["resourceVersion"])
        if since < self.compacted:
            error = {"type": "ERROR", "object": status(410, "Expired", f"too old resource version: {since}")}
            await answer.write(json.dumps(error).encode() + b"\n")
            return answer
        loop = asyncio.get_running_loop()
        ends = loop.time() + float(request.query.get("timeoutSeconds", "60"))
        told = since
        while loop.time() < ends and not self.cut_watches.is_set():
            for version, event, collection, item in self.journal:
                here = collection == path or self._gathers(path, collection)
                if version > told and here:
                    await answer.write(json.dumps({"type": event, "object": item}).encode() + b"\n")
            told = max(told, self.version)
            try:
                async with asyncio.timeout(self.bookmark_every), self._news:
                    await self._news.wait_for(lambda told=told: self.version > told or self.cut_watches.is_set())
            except TimeoutError:
                await self.frozen.wait()
                mark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}}
                await answer.write(json.dumps(mark).encode() + b"\n")
        return answer

    async def _write(self, request: web.Request, path: str) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        if request.method == "POST":
            name = body["metadata"].get("name")
            if name is None:
                name = body["metadata"]["generateName"] + str(self.version)
                body["metadata"]["name"] = name
            if name in self.objects.get(path, {}):
                return web.json_response(status(409, "AlreadyExists", f"{name} already exists", name=name), status=409)
            return web.json_response(await self.put(path, body), status=201)
        collection, _, name = path.rpartition("/")
        held = self.objects.get(collection, {}).get(name)
        if held is None:
            return web.json_response(status(404, "NotFound", f"{name} not found", name=name), status=404)
        if request.method == "DELETE":
            await self.delete(collection, name)
            return web.json_response({"kind": "Status", "status": "Success"})
        version = body.get("metadata", {}).get("resourceVersion")
        if version is not None and version != held["metadata"]["resourceVersion"]:
            return web.json_response(status(409, "Conflict", "the object has been modified", name=name), status=409)
        if request.method == "PUT":
            return web.json_response(await self.put(collection, body))
        return web.json_response(await self.put(collection, _merged(held, body)))


def _merged(held: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(held) if isinstance(held, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result
