"""Changed files are picked up while running; an invalid change keeps the last good one and says so.

Files are compared by content, so a ConfigMap's symlink swap, an editor's rename and a plain write are one and the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from autoscaler.observe.policy_files import SUFFIXES

T = TypeVar("T")


def fingerprint(paths: Sequence[str | Path]) -> str:
    """A digest of all that ``paths`` (files and directories) hold now; what can't be read counts as absent."""
    digest = hashlib.sha256()
    for given in paths:
        path = Path(given)
        try:
            inside = sorted(
                entry for entry in path.iterdir() if entry.suffix in SUFFIXES and not entry.name.startswith(".")
            ) if path.is_dir() else [path]  # fmt: skip
        except OSError:
            inside = []
        for file in inside:
            try:
                content = file.read_bytes()
            except OSError:
                content = b"\0absent"
            for part in (str(file).encode(), content):
                digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


class Reloading(Generic[T]):
    """The last good value of some files. ``load`` raises ValueError with ``lines`` when they are wrong."""

    def __init__(self, paths: Sequence[str | Path], load: Callable[[], T], value: T) -> None:
        self.paths, self.value = tuple(paths), value
        self.problems: tuple[str, ...] = ()
        """Why the files' present content is not used; empty when it is."""
        self._load = load
        self._seen = fingerprint(self.paths)

    def look(self) -> bool:
        """Read again what changed; True when something was (``value`` or ``problems`` is new). Blocking, but short."""
        now = fingerprint(self.paths)
        if now == self._seen:
            return False
        self._seen = now
        try:
            self.value = self._load()
        except ValueError as error:
            self.problems = tuple(getattr(error, "lines", (str(error),)))
        else:
            self.problems = ()
        return True
