"""Which sources answer: by what they said to the last read, told in the log when it lasts and when it is over."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from autoscaler.model.signal import Absent, Cause, Reading, Signals

LASTS_READS: Final = 3
"""A source that gives nothing in so many reads on end is told as down; pods that start refuse a read or two."""
MAY_BE_CLOSED: Final = frozenset({"kubelet", "metrics.k8s.io"})
_LOG = logging.getLogger(__name__)
_NO_ANSWER: Final = frozenset({Cause.SOURCE_DOWN, Cause.REFUSED})


class SourceHealth:
    """``down``: why a source gave nothing to the last read, empty where it did; only those that were asked."""

    def __init__(self) -> None:
        self.down: dict[str, str] = {}
        self._reads_down: dict[str, int] = {}
        self._told: set[str] = set()

    def begin(self) -> None:
        """A new read: what is not asked in it is not known."""
        self.down = {}

    def answered(self, name: str, answers: Iterable[Signals]) -> None:
        why = why_down(answers)
        if why is None:
            return
        self.down[name] = why
        if not why:
            self._reads_down.pop(name, None)
            if name in self._told:
                self._told.discard(name)
                _LOG.info("a source answers again", extra={"fields": {"source": name}})
            return
        self._reads_down[name] = self._reads_down.get(name, 0) + 1
        if self._reads_down[name] == LASTS_READS:
            self._told.add(name)
            _LOG.warning("a source doesn't answer", extra={"fields": {"source": name, "why": why}})


def why_down(answers: Iterable[Signals]) -> str | None:
    """The cause where nothing but refusals and silence came; empty where anything else did; None where nobody was
    asked for anything."""
    why: str | None = None
    for signals in answers:
        for reading in _readings(signals):
            if not isinstance(reading, Absent):
                return ""
            if reading.cause in _NO_ANSWER:
                why = why or reading.told
            elif reading.cause not in (Cause.NOT_CONFIGURED, Cause.NO_PODS):
                return ""
    return why


def _readings(signals: Signals) -> Iterator[Reading]:
    yield from (signals.requests, signals.misses, signals.in_flight, signals.cpu, signals.working_set)
    yield from signals.custom.values()


def missed(down: Mapping[str, str]) -> list[str]:
    """Who doesn't answer and should: the kubelets may be closed to this process for good, as most clusters want it."""
    return [name for name, why in down.items() if why and not (name in MAY_BE_CLOSED and why.startswith(Cause.REFUSED))]


def who_answers(down: Mapping[str, str]) -> str:
    """One line for a person: who answers and who doesn't."""
    return "; ".join(f"{name}: {why or 'answers'}" for name, why in sorted(down.items())) or "none was asked"
