"""A watch: replay what was missed, then follow, with bookmarks, until its time is up."""

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec

from autoscaler.emulate import events
from autoscaler.emulate.request import Call, Target, truthy
from autoscaler.emulate.selectors import Matcher
from autoscaler.emulate.status import Refused, expired
from autoscaler.emulate.store import Change, Json, Stored
from autoscaler.emulate.table import as_table, wants_table

if TYPE_CHECKING:
    from autoscaler.emulate.api import Api

BOOKMARK_EVERY = 60.0
NEAR_THE_END = 2.0  # a last bookmark comes that long before the end
BACKLOG = 20_000  # a client that far behind is cut off


class Watch:
    """Made by the API when the request is accepted; `lines()` is its body. Raises Refused for a garbage revision."""

    def __init__(self, api: "Api", call: Call, target: Target, matches: Matcher | None) -> None:
        self._api = api
        self._call = call
        self._target = target
        self._matches = matches
        self._bookmarks = truthy(call.query.get("allowWatchBookmarks"))
        self._table = wants_table(call.accept)
        self._columns_sent = False
        text = call.query.get("resourceVersion", "")
        if text and not text.isdigit():
            complaint = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
            raise Refused(500, "", complaint)
        self._since = int(text) if text not in ("", "0") else None
        self._initial = truthy(call.query.get("sendInitialEvents"))
        seconds = call.query.get("timeoutSeconds", "")
        self._seconds = float(seconds) if seconds.isdigit() and int(seconds) else random.uniform(1800.0, 3600.0)
        self._waiting: deque[Change] = deque()
        self._wake = asyncio.Event()
        self._lost = False

    def _listen(self, change: Change) -> None:
        if len(self._waiting) >= BACKLOG:
            self._lost = True
        else:
            self._waiting.append(change)
        self._wake.set()

    async def lines(self) -> AsyncIterator[bytes]:
        """The encoded events. Ends at the timeout, when the client is too slow, and when watches are cut."""
        plane = self._api.plane
        loop = asyncio.get_running_loop()
        start, cut = loop.time(), plane.faults.cut_watches
        stop = plane.store.subscribe(self._target.kind.storage, self._listen)
        try:
            revision = plane.store.revision
            missed = self._missed()
            if missed is None:
                oldest = plane.store.oldest_known(self._target.kind.storage)
                yield self._line("ERROR", expired(f"too old resource version: {self._since} ({oldest})").body)
                return
            for line in missed:
                yield line
            if self._initial and self._bookmarks:
                yield self._bookmark(revision, initial=True)
            said = loop.time()
            near = start + max(0.0, self._seconds - NEAR_THE_END)
            while True:
                now = loop.time()
                if now >= start + self._seconds or self._lost or cut != plane.faults.cut_watches:
                    return
                if plane.faults.silent_watches:
                    await self._sleep(0.25)
                    continue
                while self._waiting:
                    change = self._waiting.popleft()
                    revision = max(revision, change.stored.revision)
                    if (encoded := self._event(change)) is not None:
                        yield encoded
                if self._bookmarks and (now >= said + BOOKMARK_EVERY or (now >= near and said < near)):
                    said = now
                    yield self._bookmark(max(revision, plane.store.revision))
                due = min(start + self._seconds, said + BOOKMARK_EVERY if self._bookmarks else float("inf"))
                if said < near:
                    due = min(due, near)
                if not self._waiting:
                    await self._sleep(due - loop.time())
        finally:
            stop()

    async def _sleep(self, seconds: float) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(max(0.001, seconds)):
                await self._wake.wait()
        except TimeoutError:
            return

    def nudge(self) -> None:
        """Look at the faults again."""
        self._wake.set()

    def _missed(self) -> list[bytes] | None:
        store, storage = self._api.plane.store, self._target.kind.storage
        if self._since is None or self._initial:
            found = [one for one in store.all(storage, self._target.namespace) if self._selects(one)]
            found.sort(key=lambda one: (one.namespace, one.name))
            return [self._object("ADDED", one) for one in found]
        changes = store.since(storage, self._since)
        if changes is None:
            return None
        return [line for change in changes if (line := self._event(change)) is not None]

    def _selects(self, stored: Stored | None) -> bool:
        return stored is not None and (self._matches is None or self._matches(stored.body))

    def _event(self, change: Change) -> bytes | None:
        target = self._target
        if target.namespace is not None and change.stored.namespace != target.namespace:
            return None
        if self._since is not None and change.stored.revision <= self._since:
            return None
        if change.type == "DELETED":
            return self._object("DELETED", change.stored) if self._selects(change.before) else None
        selected, was = self._selects(change.stored), self._selects(change.before)
        if selected:
            return self._object("MODIFIED" if was else "ADDED", change.stored)
        if was and change.before is not None:
            # It left the selection: for this watch it is gone, in its last selected state.
            body = change.before.thaw()
            body["metadata"]["resourceVersion"] = str(change.stored.revision)
            return self._object("DELETED", Stored(body, change.stored.revision))
        return None

    def _object(self, kind: str, stored: Stored) -> bytes:
        target = self._target
        if self._table:
            table = as_table(target.kind, [stored], self._api.plane, str(stored.revision), self._call)
            if self._columns_sent:
                table["columnDefinitions"] = None
            self._columns_sent = True
            return self._line(kind, table)
        if target.kind.group == "events.k8s.io":
            encoded = msgspec.json.encode(events.from_core(stored.body))
        else:
            encoded = stored.encoded
        head = f'{{"type":"{kind}","object":{{"kind":"{target.kind.kind}","apiVersion":"{target.kind.api_version}",'
        return head.encode() + encoded[1:] + b"}\n"

    def _bookmark(self, revision: int, *, initial: bool = False) -> bytes:
        metadata: Json = {"resourceVersion": str(revision)}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        kind = self._target.kind
        return self._line("BOOKMARK", {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata})

    def _line(self, kind: str, body: Any) -> bytes:
        return msgspec.json.encode({"type": kind, "object": body}) + b"\n"
