"""The rows of an answer, cut into pieces: tens of thousands of them are never in memory at once.

A row's labels are the same at every tick. So they are kept as written, and read only when they are new: a steady tick
costs a look-up for each row.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

PIECE_BYTES: Final = 256 * 1024
"""How much is decoded at a time: a millisecond's work, so that the event loop is not held up."""
HEAD_BYTES: Final = 64 * 1024
"""Within these the rows begin; where they don't, the answer is taken as a whole."""
BEFORE_ROWS: Final = b'"data":{"resultType":"vector","result":['
FEWEST_KEPT: Final = 10_000
BETWEEN_ROWS: Final = b'},{"metric":'
"""Where an answer may be cut: inside a JSON string each quote would have a backslash before it."""

K = TypeVar("K")
T = TypeVar("T")


class Row(msgspec.Struct, gc=False):
    """One element of a vector: its labels, the server's evaluation time in unix seconds, the value as written."""

    metric: dict[str, str]
    value: tuple[float, str]

    @property
    def number(self) -> float:
        return float(self.value[1])


class BareRow(msgspec.Struct, gc=False):
    """One element of a vector with its labels still as JSON."""

    metric: msgspec.Raw
    value: tuple[float, str]


Pieces = Iterator[list[BareRow]]
Reading = Callable[[Pieces], T]
"""Makes something of an answer's rows. Runs in the query's thread, and once more if the query is tried again."""

_ROWS = msgspec.json.Decoder(list[Row])
_BARE = msgspec.json.Decoder(list[BareRow])
_LABELS = msgspec.json.Decoder(dict[str, str])


def all_rows(result: msgspec.Raw) -> list[Row]:
    """A vector as rows. Raises msgspec.MsgspecError for what is none."""
    return _ROWS.decode(result)


def pieces(chunks: Iterable[bytes], rest: bytearray) -> Pieces:
    """A vector's rows as they arrive, some at a time.

    What is no row of theirs, and the last of them, is left in ``rest``: a whole answer, just with fewer rows.
    Raises msgspec.MsgspecError for what can't be rows.
    """
    head = 0
    for chunk in chunks:
        rest += chunk
        if not head:
            begin = rest.find(BEFORE_ROWS, 0, HEAD_BYTES)
            head = begin + len(BEFORE_ROWS) if begin >= 0 else 0
        if head and len(rest) - head >= PIECE_BYTES and (cut := rest.rfind(BETWEEN_ROWS, head)) >= 0:
            yield _BARE.decode(b"[" + rest[head : cut + 1] + b"]")
            del rest[head : cut + 2]


def bare_rows(result: msgspec.Raw) -> list[BareRow]:
    """A vector as rows whose labels nobody has read. Raises msgspec.MsgspecError for what is none."""
    return _BARE.decode(result)


class Place(Generic[K]):
    """Where rows gather. Compared by identity: there is one object for each ``name`` in a reader's memory."""

    __slots__ = ("name",)

    def __init__(self, name: K) -> None:
        self.name = name


@dataclass(slots=True)
class Gathered(Generic[K, T]):
    """``at``: the server's time of evaluation in unix seconds; ``rows``: how many there were."""

    found: dict[K, T]
    at: float = 0.0
    rows: int = 0


class Gathering(Generic[K, T]):
    """Reads one kind of query tick after tick, each row's number put where its labels say.

    Subclasses say what labels mean, and what the numbers of a place are put into. Queries that overlap may be read at
    the same time.
    """

    def __init__(self) -> None:
        self._known: tuple[dict[bytes, tuple[Place[K], int, str]], dict[K, Place[K]]] = ({}, {})

    def place(self, labels: dict[str, str]) -> tuple[K, int, str]:
        """The place a row belongs to, the kind of its number (one of the subclass's), and the number's name."""
        raise NotImplementedError

    def new(self, name: K) -> T:
        """What a place's numbers are put into."""
        raise NotImplementedError

    def put(self, into: T, kind: int, name: str, number: float) -> None:
        raise NotImplementedError

    def __call__(self, several: Pieces) -> Gathered[K, T]:
        known, places = self._known
        found: dict[Place[K], T] = {}
        rows, at, put, new = 0, 0.0, self.put, self.new
        for piece in several:
            rows += len(piece)
            for row in piece:
                labels = bytes(row.metric)
                where = known.get(labels)
                if where is None:
                    of, kind, name = self.place(_LABELS.decode(labels))
                    where = known[labels] = (places.setdefault(of, Place(of)), kind, sys.intern(name))
                place, kind, name = where
                into = found.get(place)
                if into is None:
                    into = found[place] = new(place.name)
                at, written = row.value
                put(into, kind, name, float(written))
        if len(known) > 2 * rows + FEWEST_KEPT:
            self._known = ({}, {})  # most of them are of pods that are gone
        return Gathered({place.name: into for place, into in found.items()}, at, rows)
