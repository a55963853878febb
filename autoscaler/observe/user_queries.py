"""PromQL that users wrote: for a signal, or as an objective of its own. One query each, asked together.

The value's age is computed by Prometheus from the newest sample of each selector in it: the oldest of them counts. A
result that is no single number is no value; a query from a custom resource is confined to the policy's namespace.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import promql_parser

from autoscaler.model.signal import Absent, Cause, Measured, Reading, Signals
from autoscaler.model.workload import WorkloadRef
from autoscaler.observe import promql
from autoscaler.observe.answers import lasting
from autoscaler.observe.names import resolve
from autoscaler.observe.ports import Watched
from autoscaler.observe.prometheus import Answer, Prometheus, QueryRefused, Unavailable
from autoscaler.observe.queries import MARK
from autoscaler.observe.rows import Row

SOURCE = "prometheus"
SAME_S = 0.05
"""Ages are rounded on their way: times this near are of the same sample."""


@dataclass(frozen=True, slots=True)
class UserReadings:
    """Values by workload: of signals by field name of ``Signals``, of custom metrics by their name."""

    signals: Mapping[WorkloadRef, Mapping[str, Reading]]
    custom: Mapping[WorkloadRef, Mapping[str, Reading]]

    def over(self, watched: Watched, signals: Signals) -> Signals:
        """These values in the place of those found by name."""
        own = self.signals.get(watched.ref, {})
        return replace(
            signals,
            custom=self.custom.get(watched.ref, {}),
            misses=own.get("misses", signals.misses),
            requests=own.get("requests", signals.requests),
            failures=own.get("failures", signals.failures),
            in_flight=own.get("in_flight", signals.in_flight),
        )


class UserQueries:
    """``confine``: whether a workload's queries may only read its own namespace."""

    def __init__(self, prometheus: Prometheus, confine: Callable[[Watched], bool]) -> None:
        self._prometheus = prometheus
        self._confine = confine
        self._label = prometheus.settings.namespace_label
        self._written: dict[tuple[str, str], str | Absent] = {}
        self._paces: dict[tuple[WorkloadRef, str], Pace] = {}

    async def read(self, workloads: Sequence[Watched]) -> UserReadings:
        signals: dict[WorkloadRef, dict[str, Reading]] = {}
        custom: dict[WorkloadRef, dict[str, Reading]] = {}
        work = []
        for watched in workloads:
            asked = resolve(watched.policy).queries
            for name in ("misses", "requests", "failures", "in_flight"):
                if query := getattr(asked, name):
                    work.append((watched, name, query, signals))
            work += [(watched, metric.name, metric.query, custom) for metric in watched.policy.spec.objective.metrics]
        self._paces = {
            key: self._paces.get(key) or Pace() for key in ((watched.ref, query) for watched, _, query, _ in work)
        }
        answers = await asyncio.gather(*(self._ask(watched, query) for watched, _, query, _ in work))
        for (watched, name, _, into), reading in zip(work, answers, strict=True):
            into.setdefault(watched.ref, {})[name] = _fitted(watched, name, reading, into is custom)
        return UserReadings(signals, custom)

    async def _ask(self, watched: Watched, query: str) -> Reading:
        written = self._query(watched, query)
        if isinstance(written, Absent):
            return written
        try:
            answer = await self._prometheus.ask(written)
        except QueryRefused as refused:
            return Absent(Cause.REFUSED, str(refused)[:200], SOURCE)
        except Unavailable as down:
            return Absent(Cause.SOURCE_DOWN, str(down)[:200], SOURCE)
        signals, pace = watched.policy.spec.signals, self._paces.get((watched.ref, query)) or Pace()
        if answer.rows:
            pace.saw(answer.rows[0].value[0] - age_of(answer))
        return value_of(answer, lasting(signals.max_age, signals.max_age_set, pace.every_s))

    def _query(self, watched: Watched, query: str) -> str | Absent:
        namespace = watched.ref.namespace if self._confine(watched) else ""
        kept = self._written.get((namespace, query))
        if kept is None:
            try:
                promql.check(query)
                kept = with_ages(promql.confined(query, namespace, label=self._label) if namespace else query)
            except ValueError as wrong:
                kept = Absent(Cause.REFUSED, str(wrong), SOURCE)
            if len(self._written) > 4096:
                self._written.clear()
            self._written[namespace, query] = kept
        return kept


def with_ages(query: str) -> str:
    """The query's value and, marked, the age of the newest sample of each selector in it."""
    tree = promql_parser.parse(query)
    scalar = isinstance(tree, promql_parser.NumberLiteral) or _is_scalar(query)
    value = f"vector({query})" if scalar else f"({query}\n)"
    terms = [f'label_replace({value}, "{MARK}", "value", "", "")']
    # What is compared with another time is meant to be old.
    of_now = (selector for selector in promql.selectors(query) if promql.is_of_now(selector))
    shown = dict.fromkeys(promql.selector_text(selector) for selector in of_now)
    for place, text in enumerate(shown):
        age = f"time() - max(timestamp({text}))"
        terms.append(f'label_replace({age}, "{MARK}", "age {place}", "", "")')
    return "\nor ".join(terms)


@dataclass(slots=True)
class Pace:
    """How often there is a new sample behind a query: the shorter of the last two gaps, 0 as long as it isn't known."""

    at: float = -math.inf
    gap_s: float = 0.0
    every_s: float = 0.0

    def saw(self, at: float) -> None:
        """The newest sample's time, by the server's clock."""
        if at <= self.at + SAME_S:
            return
        gap = at - self.at if math.isfinite(self.at) else 0.0
        self.every_s = min(gap, self.gap_s) if self.gap_s else 0.0
        self.at, self.gap_s = at, gap


def age_of(answer: Answer[list[Row]]) -> float:
    """Seconds since the newest sample of the selector that is longest without one."""
    return max((row.number for row in answer.rows if row.metric.get(MARK, "").startswith("age")), default=0.0)


def value_of(answer: Answer[list[Row]], lasts_s: float) -> Reading:
    """The one number, or why there is none."""
    values = [row for row in answer.rows if row.metric.get(MARK) == "value"]
    if not values:
        return Absent(Cause.PARTIAL if answer.warnings else Cause.NO_SUCH_METRIC, "the result is empty", SOURCE)
    if len(values) > 1:
        return Absent(
            Cause.CONTRADICTORY, f"{len(values)} series instead of one: aggregate with sum() or max()", SOURCE
        )
    value, age = values[0].number, age_of(answer)
    if math.isnan(value):
        return Absent(Cause.NAN, "the result is NaN", SOURCE)
    if math.isinf(value):
        return Absent(Cause.INFINITE, f"the result is {value}", SOURCE)
    if age > lasts_s:
        return Absent(Cause.STALE, f"its newest sample is {age:.0f}s old", SOURCE)
    note = f"partial: {answer.warnings[0]}"[:160] if answer.warnings else ""
    coverage = 0.99 if answer.warnings else 1.0
    return Measured(value, max(0.0, age), coverage=coverage, source=SOURCE, note=note, lasts_s=lasts_s)


def _fitted(watched: Watched, name: str, reading: Reading, custom: bool) -> Reading:
    """Reduced to what the policy compares: an AverageValue is divided by the ready pods; a share is in [0, 1]."""
    if isinstance(reading, Absent):
        return reading
    if custom:
        metric = next(one for one in watched.policy.spec.objective.metrics if one.name == name)
        ready = sum(pod.active and pod.ready for pod in watched.pods)
        if metric.target.type == "Value":
            return reading
        if not ready:
            return Absent(Cause.NO_PODS, f"{name} can't be divided by the ready pods: there are none", SOURCE)
        return msgspec.structs.replace(reading, value=reading.value / ready)
    if reading.value < 0:
        return Absent(Cause.NEGATIVE, f"the result is {reading.value:g}", SOURCE)
    if name == "misses" and reading.value > 1.0:
        return Absent(Cause.CONTRADICTORY, f"a share of misses is in [0, 1], the result is {reading.value:g}", SOURCE)
    return reading


def _is_scalar(query: str) -> bool:
    """Whether the query's type is scalar: then ``vector()`` takes it and ``abs()`` doesn't."""
    try:
        promql_parser.parse(f"vector({query}\n)")
    except ValueError:
        return False
    return True
