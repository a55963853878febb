"""List and watch, in finite layers: pages, one watch connection, one round; and an endless loop of three lines.

What a client must survive: expired continue tokens and resourceVersions (410 as a status or inside the stream), a peer
that dies without a word, a server that closes early or is away for minutes, objects larger than any buffer, one object
that can't be read among thousands that can.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import msgspec

from autoscaler.kube.client import KubeClient
from autoscaler.kube.errors import Expired, KubeError, NoRight, NotFound, Unreachable, read_refusal
from autoscaler.kube.pace import READ
from autoscaler.kube.store import Seen, Store
from autoscaler.kube.wire import Meta, Page, Wire

PAGE: Final = 500
SERVER_TIMEOUT_S: Final = (300.0, 600.0)
"""The server is asked to end a watch after a time drawn from this range, so that not all clients return at once."""
SILENCE_S: Final = 75.0
"""A watch silent for longer has lost its peer: bookmarks come about every minute."""
BACK_OFF_S: Final = (0.5, 30.0)
RIGHTLESS_S: Final = 120.0
"""How often a kind that may not be read, or doesn't exist here, is tried again."""
_PAGE_DEADLINE_S: Final = 30.0
_SERVED_S: Final = 30.0
_SHORTEST_S: Final = 1.0
_log = logging.getLogger(__name__)

T = TypeVar("T", bound=Seen)


class Silent(Unreachable):
    """A watch that said nothing for too long."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """What to watch: a collection's path, how one object is decoded, and extra query (selectors)."""

    name: str
    path: str
    decode: Callable[[msgspec.Raw], T]
    query: Mapping[str, str] = field(default_factory=dict)


class _Event(Wire):
    type: str = ""
    object: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class _AnyObject(Wire):
    metadata: Meta = msgspec.field(default_factory=Meta)


class _Error(Wire):
    code: int = 0


_PAGE_BODY: Final = msgspec.json.Decoder(Page)
_EVENT: Final = msgspec.json.Decoder(_Event)
_ANY: Final = msgspec.json.Decoder(_AnyObject)
_ERROR: Final = msgspec.json.Decoder(_Error)


async def pages(
    client: KubeClient, path: str, query: Mapping[str, str], size: int = PAGE
) -> AsyncGenerator[Page, None]:
    """The pages of one list; ``size`` 0 asks for all at once. A continue token that expired on the way raises Expired:
    the fresh token in such an answer goes on from *another* moment, so that a watch from there would miss what happened
    to the earlier pages; the caller starts anew instead."""
    token = ""
    while True:
        asked = dict(query) | ({"limit": str(size)} if size else {}) | ({"continue": token} if token else {})
        answer = await client.request("GET", path, asked, deadline=_PAGE_DEADLINE_S, priority=READ)
        answer.expect(f"list {path}")
        try:
            page = _PAGE_BODY.decode(answer.body)
        except msgspec.DecodeError as error:
            raise Unreachable(f"list {path}: the answer is no list ({error})") from None
        yield page
        token = page.metadata.continue_ or ""
        if not token:
            return


@dataclass(frozen=True, slots=True)
class Happened:
    """One watch event: ADDED, MODIFIED, DELETED or BOOKMARK, and its object, undecoded."""

    type: str
    object: msgspec.Raw


async def happenings(
    client: KubeClient, path: str, query: Mapping[str, str], since: str, *, silence_s: float = SILENCE_S
) -> AsyncGenerator[list[Happened], None]:
    """The events of one watch connection after resourceVersion ``since``, in batches as they arrive; the first batch is
    empty and says that the connection is open. Ends when the server ends it. Raises Expired (relist), Silent,
    Unreachable, or Refused."""
    asked = {
        **query,
        "watch": "1",
        "resourceVersion": since,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(round(random.uniform(*SERVER_TIMEOUT_S))),
    }
    async with client.stream(path, asked) as batches:
        yield []
        while True:
            try:
                async with asyncio.timeout(silence_s):
                    lines = await anext(batches)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise Silent(f"watch {path}: silent for {silence_s:g}s") from None
            yield [_happened(line, path) for line in lines]


def _happened(line: bytes, path: str) -> Happened:
    try:
        event = _EVENT.decode(line)
    except msgspec.DecodeError as error:  # cut off in the middle: what was before it is good
        raise Unreachable(f"watch {path}: a broken line ({error})") from None
    if event.type == "ERROR":
        try:
            code = _ERROR.decode(event.object).code
        except msgspec.DecodeError:
            code = 500
        raise read_refusal(code, bytes(event.object)).raised(f"watch {path}")
    return Happened(event.type, event.object)


class Reflector(Generic[T]):
    """Keeps a store like the server's collection. Times are the running loop's.

    ``synced``: a full list was read. ``settled``: that, or it is known that there will be none. ``heard_at``: when the
    server last said anything on this watch. ``watching``: a connection is open. ``trouble``: why it doesn't see, as a
    sentence; empty when it does. ``barred``: the kind may not be read, or doesn't exist here
    (``missing``).
    """

    def __init__(
        self, client: KubeClient, kind: Kind[T], store: Store[T], *, silence_s: float = SILENCE_S, page: int = PAGE
    ) -> None:
        self.kind = kind
        self.store = store
        self.synced = asyncio.Event()
        self.settled = asyncio.Event()
        self.heard_at: float | None = None
        self.watching = False
        self.trouble = ""
        self.barred = False
        self.missing = False
        self.lists = 0
        self.unreadable: dict[str, str] = {}
        """Objects that can't be read, by namespace/name, with the reason; they are left out."""
        self._client = client
        self._since: str | None = None
        self._silence_s = silence_s
        self._page = page
        self._wanted_now = asyncio.Event()
        self._whole = False  # a list in pages that expired on the way is read in one piece the next time

    async def run(self) -> None:
        """Until cancelled. Never raises for the server's sake."""
        failures = 0
        while True:
            failures = 0 if await self.round() else failures + 1
            await self._rest(self._pause(failures))

    def hurry(self) -> None:
        """The server is known to be back: end the pause. A kind that may not be read keeps its own."""
        if not self.barred:
            self._wanted_now.set()

    async def _rest(self, seconds: float) -> None:
        self._wanted_now.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wanted_now.wait()

    async def round(self) -> bool:
        """List if that is needed, then watch until the connection ends. False when something went wrong."""
        clock = asyncio.get_running_loop().time
        began, listed = clock(), self._since is None
        try:
            if self._since is None:
                await self._list()
            await self._watch()
        except Expired:
            self._since = None
            return not listed  # a version of long ago is no failure; one just given out is
        except (NoRight, NotFound) as error:
            if error.refusal.status == 401:  # a token that expired comes back; a missing right doesn't, by itself
                self._failed(str(error))
                return False
            self.barred, self.missing = True, isinstance(error, NotFound)
            self.settled.set()
            self._since = None
            self._failed(str(error))
            return False
        except KubeError as error:
            if not isinstance(error, Unreachable):
                self._since = None  # whatever the server dislikes, a list starts from firm ground
            self._failed(str(error))
            # A connection that served for a while was good: start again without back-off.
            return clock() - began > _SERVED_S and not isinstance(error, Silent)
        finally:
            self.watching = False
        return clock() - began > _SHORTEST_S  # a server that ends watches at once must not be asked in a circle

    def _failed(self, text: str) -> None:
        if text != self.trouble:
            _log.log(logging.DEBUG if self.missing else logging.INFO, "%s", text)
        self.trouble = text

    def _pause(self, failures: int) -> float:
        if self.barred:
            return RIGHTLESS_S * random.uniform(0.5, 1.0)
        if failures == 0:
            return random.uniform(0.0, 0.1)
        low, high = BACK_OFF_S
        return random.uniform(0.0, min(high, low * 2 ** min(failures, 10)))

    async def _list(self) -> None:
        self.lists += 1
        found: list[T] = []
        version = ""
        self.unreadable.clear()
        size, self._whole = (0 if self._whole else self._page), True
        async with aclosing(pages(self._client, self.kind.path, self.kind.query, size)) as read:
            async for page in read:
                self._heard()
                version = page.metadata.resource_version
                for raw in page.items or ():
                    item = self._decoded(raw)
                    if item is not None:
                        found.append(item)
                await asyncio.sleep(0)  # a long list must not hold up a lease renewal
        self._whole = False
        self.store.replace(found)
        self._since = version
        self.barred = self.missing = False
        self.trouble = ""
        self.synced.set()
        self.settled.set()

    async def _watch(self) -> None:
        assert self._since is not None
        stream = happenings(self._client, self.kind.path, self.kind.query, self._since, silence_s=self._silence_s)
        async with aclosing(stream) as batches:
            async for batch in batches:
                self.watching = True
                self.trouble = ""
                self._heard()
                for event in batch:
                    self._take(event)

    def _take(self, event: Happened) -> None:
        if event.type == "BOOKMARK":
            self._since = _ANY.decode(event.object).metadata.resource_version or self._since
            return
        item = self._decoded(event.object)
        if item is None:
            meta = _ANY.decode(event.object).metadata
            self._since = meta.resource_version or self._since
            if event.type == "DELETED":
                self.store.drop(meta.uid)
            return
        if event.type == "DELETED":
            self.store.drop(item.key)
        else:
            self.store.put(item)
        self._since = item.resource_version or self._since

    def _decoded(self, raw: msgspec.Raw) -> T | None:
        try:
            return self.kind.decode(raw)
        except ValueError as error:  # msgspec's and the quantities' errors are ValueErrors
            name = _named(raw)
            if name not in self.unreadable:
                _log.warning("%s %s can't be read and is left out: %s", self.kind.name, name, error)
            self.unreadable[name] = str(error)
            return None

    def _heard(self) -> None:
        self.heard_at = asyncio.get_running_loop().time()


def _named(raw: msgspec.Raw) -> str:
    try:
        meta = _ANY.decode(raw).metadata
    except msgspec.DecodeError:
        return "?"
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
