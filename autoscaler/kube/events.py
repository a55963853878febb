"""Events of events.k8s.io/v1: few, deduplicated as series, never in anyone's way.

An Event's note can't be changed, so a repetition with other numbers becomes a new Event at most once a minute and is
counted in the series of the last one otherwise. What can't be written is dropped: Events are news, not records.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from autoscaler.kube.client import MERGE, KubeClient
from autoscaler.kube.discovery import collection_path, object_path
from autoscaler.kube.errors import KubeError, NoRight
from autoscaler.kube.lease import micro_time
from autoscaler.kube.pace import BACKGROUND

CONTROLLER: Final = "inference-autoscaler.dev/autoscaler"
NOTE_MAX: Final = 1024
WORD_MAX: Final = 128
NEW_NUMBERS_S: Final = 60.0
"""A repetition whose note differs makes a new Event after this time."""
SERIES_S: Final = 360.0
"""A series that paused for longer is over."""
_QUEUE: Final = 512
_SERIES: Final = 4096
_API: Final = "events.k8s.io/v1"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""

    def body(self) -> dict[str, str]:
        known = {"apiVersion": self.api_version, "kind": self.kind, "namespace": self.namespace, "name": self.name}
        return known | ({"uid": self.uid} if self.uid else {})


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something a person may want to know. ``reason`` and ``action`` are CamelCase words, ``note`` a sentence."""

    regarding: Regarding
    reason: str
    action: str
    note: str
    type: Literal["Normal", "Warning"] = "Normal"
    related: Regarding | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.regarding, self.reason, self.action, self.type, self.related)


@dataclass(slots=True)
class _Series:
    name: str
    note: str
    began: float
    last: float
    count: int = 1
    written: int = 1
    written_at: float = 0.0


class EventWriter:
    """``tell`` never waits and never fails; ``run`` writes. ``instance`` is the name of this process (its pod)."""

    def __init__(
        self, client: KubeClient, instance: str, *, wall: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.dropped = 0
        self._client = client
        self._instance = clipped(instance, WORD_MAX) or "autoscaler"
        self._wall = wall
        self._queue: asyncio.Queue[Occurrence] = asyncio.Queue(_QUEUE)
        self._series: OrderedDict[tuple[Any, ...], _Series] = OrderedDict()
        self._barred_until = 0.0

    def tell(self, occurrence: Occurrence) -> None:
        """Have it written soon; dropped when too many wait."""
        try:
            self._queue.put_nowait(occurrence)
        except asyncio.QueueFull:
            self.dropped += 1

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self.write(await self._queue.get())

    async def flush(self) -> None:
        """Write what waits now, at a shutdown."""
        while not self._queue.empty():
            await self.write(self._queue.get_nowait())

    async def write(self, occurrence: Occurrence) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._barred_until:
            self.dropped += 1
            return
        try:
            await self._write(occurrence, now)
        except NoRight as error:
            _log.warning("events are not written: %s", error)
            self._barred_until = now + 600.0
        except KubeError as error:
            self.dropped += 1
            _log.info("event not written: %s", error)

    async def _write(self, occurrence: Occurrence, now: float) -> None:
        series = self._series.get(occurrence.key)
        if series is not None and now - series.last <= SERIES_S:
            same = series.note == clipped(occurrence.note, NOTE_MAX)
            if same or now - series.began < NEW_NUMBERS_S:
                await self._again(occurrence, series, now)
                return
        await self._first(occurrence, now)

    async def _first(self, occurrence: Occurrence, now: float) -> None:
        about = occurrence.regarding
        namespace = about.namespace or "default"
        name = f"{about.name[:200]}.{secrets.token_hex(8)}"
        note = clipped(occurrence.note, NOTE_MAX)
        body = {
            "apiVersion": _API, "kind": "Event", "metadata": {"name": name, "namespace": namespace},
            "eventTime": micro_time(self._wall()), "type": occurrence.type,
            "reportingController": CONTROLLER, "reportingInstance": self._instance,
            "action": clipped(occurrence.action, WORD_MAX), "reason": clipped(occurrence.reason, WORD_MAX),
            "regarding": about.body(), "note": note,
        } | ({"related": occurrence.related.body()} if occurrence.related else {})  # fmt: skip
        path = collection_path(_API, "events", namespace)
        answer = await self._client.request("POST", path, None, body, priority=BACKGROUND)
        answer.expect(f"write event {occurrence.reason}")
        self._series[occurrence.key] = _Series(name, note, now, now)
        self._series.move_to_end(occurrence.key)
        while len(self._series) > _SERIES:
            self._series.popitem(last=False)

    async def _again(self, occurrence: Occurrence, series: _Series, now: float) -> None:
        """Count a repetition. The server hears of it at the 2nd, then when the count has doubled or a minute passed:
        a thousand repetitions are a dozen requests."""
        series.count += 1
        series.last = now
        due = series.count == 2 or series.count >= 2 * series.written or now - series.written_at >= NEW_NUMBERS_S
        if not due:
            return
        namespace = occurrence.regarding.namespace or "default"
        body = {"series": {"count": series.count, "lastObservedTime": micro_time(self._wall())}}
        path = object_path(_API, "events", namespace, series.name)
        answer = await self._client.request("PATCH", path, None, body, MERGE, priority=BACKGROUND, repeatable=True)
        if answer.status == 404:  # events live for an hour
            await self._first(occurrence, now)
            return
        answer.expect(f"count event {occurrence.reason}")
        series.written, series.written_at = series.count, now


def clipped(text: str, limit: int) -> str:
    """At most ``limit`` characters, counted as the server does (bytes of UTF-8), with an ellipsis where cut."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    return raw[: limit - 3].decode("utf-8", "ignore") + "…"
