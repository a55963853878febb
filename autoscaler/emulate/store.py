"""Objects, one revision counter for all of them, and what a watch can be replayed from.

Objects are never changed in place: a change is a new object under a new revision, so a list page, a watch event and a
handler may keep a reference. `Stored.thaw()` gives a private copy to edit.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

Json = dict[str, Any]
Key = tuple[str, str]  # (namespace, name)
Storage = tuple[str, str]  # (group, plural)


class Stored:
    """One version of one object. `encoded` is its JSON without kind and apiVersion (as list items are)."""

    __slots__ = ("__dict__", "body", "revision")

    def __init__(self, body: Json, revision: int) -> None:
        self.body = body
        self.revision = revision

    @cached_property
    def encoded(self) -> bytes:
        return msgspec.json.encode(self.body)

    def thaw(self) -> Json:
        copied: Json = msgspec.json.decode(self.encoded)
        return copied

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.body["metadata"].get("namespace", ""))

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])


class Change(NamedTuple):
    """ADDED, MODIFIED or DELETED, and the object before (None when added)."""

    type: str
    stored: Stored
    before: Stored | None


class _Shelf:
    """The objects of one kind."""

    def __init__(self, depth: int) -> None:
        self.objects: dict[Key, Stored] = {}
        self.history: deque[Change] = deque(maxlen=depth)
        self.forgotten = 0  # revision of the newest change no longer in the history
        self.listeners: list[Callable[[Change], None]] = []

    def record(self, change: Change) -> None:
        if self.history.maxlen is not None and len(self.history) == self.history.maxlen and self.history:
            self.forgotten = self.history[0].stored.revision
        self.history.append(change)


class Store:
    """All shelves. Listeners are called synchronously, in the order they subscribed."""

    def __init__(self, *, first_revision: int = 100, history: int = 2000, pages: int = 64) -> None:
        self.revision = first_revision
        self._depth = history
        self._shelves: dict[Storage, _Shelf] = {}
        self._snapshots: OrderedDict[tuple[int, Storage, str], list[Stored]] = OrderedDict()
        self._pages = pages

    def _shelf(self, storage: Storage) -> _Shelf:
        shelf = self._shelves.get(storage)
        if shelf is None:
            shelf = self._shelves[storage] = _Shelf(self._depth)
            shelf.forgotten = self.revision
        return shelf

    def get(self, storage: Storage, namespace: str, name: str) -> Stored | None:
        return self._shelf(storage).objects.get((namespace, name))

    def all(self, storage: Storage, namespace: str | None = None) -> list[Stored]:
        """In no particular order; `None` is every namespace."""
        objects = self._shelf(storage).objects
        if namespace is None:
            return list(objects.values())
        return [stored for (where, _), stored in objects.items() if where == namespace]

    def put(self, storage: Storage, body: Json) -> Stored:
        """Create or replace; sets metadata.resourceVersion. The caller gives the object away."""
        shelf = self._shelf(storage)
        metadata = body["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        self.revision += 1
        metadata["resourceVersion"] = str(self.revision)
        stored = Stored(body, self.revision)
        before = shelf.objects.get(key)
        shelf.objects[key] = stored
        self._announce(shelf, Change("MODIFIED" if before else "ADDED", stored, before))
        return stored

    def remove(self, storage: Storage, namespace: str, name: str) -> Stored | None:
        shelf = self._shelf(storage)
        before = shelf.objects.pop((namespace, name), None)
        if before is None:
            return None
        self.revision += 1
        # A deletion's event carries the object's last state under the revision of the deletion.
        body = before.thaw()
        body["metadata"]["resourceVersion"] = str(self.revision)
        gone = Stored(body, self.revision)
        self._announce(shelf, Change("DELETED", gone, before))
        return gone

    def _announce(self, shelf: _Shelf, change: Change) -> None:
        shelf.record(change)
        for listener in tuple(shelf.listeners):
            listener(change)

    def subscribe(self, storage: Storage, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Returns the way to stop."""
        listeners = self._shelf(storage).listeners
        listeners.append(listener)
        return lambda: listeners.remove(listener) if listener in listeners else None

    def since(self, storage: Storage, revision: int) -> Iterable[Change] | None:
        """The changes after `revision`, or None when it is too old to tell."""
        shelf = self._shelf(storage)
        if revision < shelf.forgotten:
            return None
        return [change for change in shelf.history if change.stored.revision > revision]

    def oldest_known(self, storage: Storage) -> int:
        return self._shelf(storage).forgotten

    def compact(self) -> None:
        """Forget all history and all list snapshots: older resourceVersions and continue tokens are now 410."""
        for shelf in self._shelves.values():
            shelf.history.clear()
            shelf.forgotten = self.revision
        self._snapshots.clear()

    def keep_snapshot(self, revision: int, storage: Storage, scope: str, items: list[Stored]) -> None:
        """For the following pages of a list, which show the same moment as the first."""
        self._snapshots[revision, storage, scope] = items
        while len(self._snapshots) > self._pages:
            self._snapshots.popitem(last=False)

    def snapshot(self, revision: int, storage: Storage, scope: str) -> list[Stored] | None:
        return self._snapshots.get((revision, storage, scope))
