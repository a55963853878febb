"""What a reflector has seen of one kind: objects by key, never older than what is already known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar


class Seen(Protocol):
    """A decoded object: its identity in the store, and the server's version of it."""

    @property
    def key(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


T = TypeVar("T", bound=Seen)
OnChange = Callable[[T | None, T | None], None]
"""Called with (before, after) for every change; None where there is nothing."""


class Store(Generic[T]):
    """Objects by key. ``changes`` counts changes, so that a reader knows cheaply whether to look again."""

    def __init__(self, on_change: OnChange[T] | None = None) -> None:
        self.items: dict[str, T] = {}
        self.changes = 0
        self._on_change = on_change

    def __len__(self) -> int:
        return len(self.items)

    def put(self, item: T) -> bool:
        """Keep an object; False when a newer version of it is already here (an answer to a patch can overtake the
        watch)."""
        before = self.items.get(item.key)
        if before is not None and _older(item.resource_version, before.resource_version):
            return False
        self.items[item.key] = item
        self._changed(before, item)
        return True

    def drop(self, key: str) -> None:
        before = self.items.pop(key, None)
        if before is not None:
            self._changed(before, None)

    def replace(self, items: Iterable[T]) -> None:
        """All there is, by a consistent list: what isn't in it is gone."""
        fresh = {item.key: item for item in items}
        for key in [key for key in self.items if key not in fresh]:
            self.drop(key)
        for item in fresh.values():
            before = self.items.get(item.key)
            if before is None or before.resource_version != item.resource_version or not item.resource_version:
                self.items[item.key] = item
                self._changed(before, item)

    def _changed(self, before: T | None, after: T | None) -> None:
        self.changes += 1
        if self._on_change is not None:
            self._on_change(before, after)


def _older(version: str, than: str) -> bool:
    """Whether one resourceVersion is older. They are decimal and comparable on every server since 1.35 by promise and
    before by fact; anything else is never older."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)
