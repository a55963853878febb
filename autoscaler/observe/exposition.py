"""Reading a metrics page: the Prometheus text format and OpenMetrics, bounded for pages that mean harm.

``PageScanner`` takes a page in chunks and keeps only the lines of the families asked for, so that a gigabyte costs no
memory; every bound that is passed ends the page with ``PageRefused``, because a page cut short must not look like a
small one. ``Page`` then answers sums, buckets and quantiles over the series that match.

Formats: prometheus.io/docs/instrumenting/exposition_formats and the OpenMetrics 1.0 text (exemplars and ``# EOF``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from autoscaler.observe.counters import summed
from autoscaler.observe.names import Matcher

MAX_PAGE_BYTES = 16 * 2**20
MAX_LINE_BYTES = 64 * 2**10
MAX_SERIES = 20_000

_SUFFIXES = ("", "_total", "_bucket", "_count", "_sum")
_LABEL = re.compile(
    rb'[ \t]*(?:([a-zA-Z_][a-zA-Z0-9_]*)|"([^"\\]*(?:\\.[^"\\]*)*)")[ \t]*=[ \t]*'
    rb'"([^"\\]*(?:\\.[^"\\]*)*)"[ \t]*(?:,|(?=\}))'
)
_TAIL = re.compile(rb"[ \t]*([^ \t#]+)(?:[ \t]+(-?[0-9][0-9.eE+]*))?[ \t]*(?:#.*)?$")
_ESCAPE = re.compile(rb'\\([\\"n])')
_FAMILY = re.compile(r"^(?:# TYPE )?([a-zA-Z_:][a-zA-Z0-9_:]*)", re.MULTILINE)


class PageRefused(Exception):
    """The page is not one, or it passes a bound; the message says which."""


class PageTooLarge(PageRefused):
    """It passes a bound: reading so far was wasted, and will be again."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line. ``at``: the page's own timestamp in unix seconds, None where it has none."""

    name: str
    labels: Mapping[str, str]
    value: float
    at: float | None = None


@dataclass(slots=True)
class Page:
    """The series kept from one page, by metric name.

    ``declared``: families with a ``# TYPE`` line, with or without series. ``doubled``: names with two lines of the same
    labels and different values: nobody can tell which is true.
    """

    series: dict[str, list[Series]] = field(default_factory=dict)
    declared: set[str] = field(default_factory=set)
    doubled: set[str] = field(default_factory=set)

    def matching(self, name: str, matchers: Iterable[Matcher] = ()) -> list[Series]:
        wanted = tuple(matchers)
        found = self.series.get(name, [])
        return [s for s in found if all(m.matches(s.labels) for m in wanted)] if wanted else found

    def has(self, name: str) -> bool:
        """Whether the metric is on the page, be it without series (a labelled counter before its first event). A
        histogram that shows its sum and no count has no count: it has had events."""
        return name in self.series or any(
            (family := name.removesuffix(suffix)) in self.declared
            and not any(family + part in self.series for part in _SUFFIXES)
            for suffix in _SUFFIXES
            if name.endswith(suffix)
        )


class PageScanner:
    """Takes a page in chunks, keeps the lines of the wanted metrics. ``wanted`` are full names (``x_bucket``)."""

    def __init__(
        self,
        wanted: Iterable[str],
        *,
        max_bytes: int = MAX_PAGE_BYTES,
        max_series: int = MAX_SERIES,
        openmetrics: bool = False,
    ) -> None:
        self.max_bytes = max_bytes
        self.max_series = max_series
        self._openmetrics = openmetrics
        self._needles = [b"\n" + name.encode() for name in sorted(set(wanted))]
        families = {name.removesuffix(suffix) for name in wanted for suffix in _SUFFIXES if name.endswith(suffix)}
        self._types = {b"\n# TYPE " + family.encode(): family for family in families}
        self._rest = b"\n"
        self._size = 0
        self._kept = 0
        self._lines: list[bytes] = []
        self._declared: set[str] = set()
        self._ended = False

    def feed(self, chunk: bytes) -> None:
        """Raises PageRefused when the page passes a bound."""
        self._size += len(chunk)
        if self._size > self.max_bytes:
            raise PageTooLarge(f"page larger than {self.max_bytes / 2**20:.3g} MiB")
        block = self._rest + chunk
        cut = block.rfind(b"\n")
        self._rest = block[cut:]
        if len(self._rest) > MAX_LINE_BYTES:
            raise PageTooLarge(f"line longer than {MAX_LINE_BYTES // 1024} KiB")
        if cut > 0:
            self._scan(block[: cut + 1])

    def _scan(self, block: bytes) -> None:
        if block.find(b"\r") >= 0:
            block = block.replace(b"\r\n", b"\n")
        for needle in self._needles:
            length = len(needle)
            found = block.find(needle)
            while found >= 0:
                end = block.find(b"\n", found + length)
                after = block[found + length : found + length + 1]
                if after in (b"{", b" ", b"\t"):
                    self._lines.append(block[found + 1 : end])
                    if len(self._lines) > self.max_series:
                        raise PageTooLarge(f"more than {self.max_series} series of the metrics in use")
                found = block.find(needle, end)
        for needle, family in self._types.items():
            found = block.find(needle)
            if found >= 0 and block[found + len(needle) : found + len(needle) + 1] in (b" ", b"\t"):
                self._declared.add(family)
        if self._openmetrics and block.find(b"\n# EOF") >= 0:
            self._ended = True

    def finish(self) -> Page:
        """The page. Raises PageRefused for a line that can't be read and for an OpenMetrics page without its end."""
        self._scan(self._rest + b"\n")
        if self._openmetrics and not self._ended:
            raise PageRefused("page cut short: no # EOF")
        page = Page(declared=self._declared)
        seen: dict[tuple[str, frozenset[tuple[str, str]]], Series] = {}
        for line in self._lines:
            series = _series(line, in_ms=not self._openmetrics)
            first = seen.setdefault((series.name, frozenset(series.labels.items())), series)
            if first is not series:
                if first.value != series.value:
                    page.doubled.add(series.name)
                continue
            page.series.setdefault(series.name, []).append(series)
        return page


def _series(line: bytes, *, in_ms: bool) -> Series:
    """One sample line."""
    brace = line.find(b"{")
    space = _first_blank(line)
    labels: dict[str, str] = {}
    if brace >= 0 and (space < 0 or brace < space or not line[space:brace].strip()):
        name, place = line[:brace].rstrip(), brace + 1
        while found := _LABEL.match(line, place):
            labels[_text(found[1] or found[2])] = _text(found[3])
            place = found.end()
        while line[place : place + 1] in (b" ", b"\t", b","):
            place += 1
        if line[place : place + 1] != b"}":
            raise PageRefused(f"can't read {_shown(line)}")
        rest = line[place + 1 :]
    else:
        name, rest = line[:space], line[space:]
    tail = _TAIL.match(rest)
    try:
        value = float(tail[1]) if tail else None
        stamp = float(tail[2]) if tail and tail[2] else None
    except ValueError:
        value = None
    if value is None:
        raise PageRefused(f"can't read {_shown(line)}")
    if stamp is not None and in_ms:
        stamp /= 1000
    return Series(name.decode(), labels, value, stamp)


def _first_blank(line: bytes) -> int:
    space, tab = line.find(b" "), line.find(b"\t")
    return min(space, tab) if space >= 0 and tab >= 0 else max(space, tab)


def _text(raw: bytes) -> str:
    if b"\\" in raw:
        raw = _ESCAPE.sub(lambda found: b"\n" if found[1] == b"n" else found[1], raw)
    return raw.decode("utf-8", "replace")


def _shown(line: bytes) -> str:
    return repr(line[:60].decode("utf-8", "replace"))


def family_names(page: str | bytes) -> set[str]:
    """All names on a page, with the family names of histograms and counters (``x`` for ``x_bucket``, ``x_total``)."""
    text = page.decode("utf-8", "replace") if isinstance(page, bytes) else page
    names = set(_FAMILY.findall(text))
    return names | {name.removesuffix(suffix) for name in names for suffix in _SUFFIXES if name.endswith(suffix)}


def read_page(page: str | bytes, wanted: Iterable[str], *, openmetrics: bool = False) -> Page:
    """A page that is already here, read as the scanner reads one that comes in chunks."""
    scanner = PageScanner(wanted, openmetrics=openmetrics)
    scanner.feed(page.encode() if isinstance(page, str) else page)
    return scanner.finish()


def total(page: Page, name: str, matchers: Iterable[Matcher] = ()) -> float:
    """Sum of the series that match (0.0 for a family that is there without such a series)."""
    return summed(series.value for series in page.matching(name, matchers))
