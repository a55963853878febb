"""Every request that was made, so that a test can ask what a program really did."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

_READS = frozenset({"get", "list", "watch"})


@dataclass(frozen=True, slots=True)
class Entry:
    """`at` in loop seconds; `resource` with group (`pods.`, `deployments.apps`) and subresource apart."""

    at: float
    user: str
    agent: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    dry_run: bool = False
    path: str = ""

    @property
    def writes(self) -> bool:
        return bool(self.resource) and self.verb not in _READS and not self.resource.startswith("selfsubject")


class Audit:
    """In memory, and with a path also as JSON lines."""

    def __init__(self, path: Path | None = None, *, keep: int = 200_000) -> None:
        self._entries: list[Entry] = []
        self._keep = keep
        self._file: TextIO | None = path.open("a", encoding="utf-8") if path is not None else None

    def note(self, entry: Entry) -> None:
        self._entries.append(entry)
        if len(self._entries) > self._keep:
            del self._entries[: self._keep // 10]
        if self._file is not None:
            self._file.write(json.dumps(asdict(entry), separators=(",", ":")) + "\n")
            self._file.flush()

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def of(
        self,
        verb: str | None = None,
        resource: str | None = None,
        subresource: str | None = None,
        *,
        name: str | None = None,
        code: int | None = None,
    ) -> list[Entry]:
        """The entries that match all that is given."""
        return [
            entry
            for entry in self._entries
            if (verb is None or entry.verb == verb)
            and (resource is None or entry.resource == resource)
            and (subresource is None or entry.subresource == subresource)
            and (name is None or entry.name == name)
            and (code is None or entry.code == code)
        ]

    def writes(self) -> list[Entry]:
        """All that could have changed something, dry runs included."""
        return [entry for entry in self._entries if entry.writes]

    def clear(self) -> None:
        self._entries.clear()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
