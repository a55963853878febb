"""Latencies that are shown and never controlled: the objective's percentile and the mean, from whole histograms.

One query in half a minute for all workloads of a group, summed by what their pods' names have in common.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from autoscaler.model.signal import Absent, Cause, Measured, Reading
from autoscaler.observe import latency, queries
from autoscaler.observe.names import SignalNames
from autoscaler.observe.page_samples import bound_of
from autoscaler.observe.ports import Watched
from autoscaler.observe.prometheus import Prometheus
from autoscaler.observe.queries import Scope
from autoscaler.observe.told import SOURCE, tell

EVERY_S = 30.0
AGAIN_S = 10.0
"""After an empty answer."""
WINDOW_S = 60.0
MOST_PODS = 2000
"""With more, summing whole histograms would take Prometheus longer than a tick: nothing is shown."""

NOT_YET = Absent(Cause.TOO_SHORT, "not asked for yet", SOURCE)
TOO_MANY = Absent(Cause.NOT_CONFIGURED, f"not shown for more than {MOST_PODS} pods", SOURCE)


class ShownLatency:
    """``clock``: monotonic seconds."""

    def __init__(self, prometheus: Prometheus, clock: Callable[[], float], names: SignalNames) -> None:
        self._prometheus = prometheus
        self._clock = clock
        self._names = names
        self._buckets: dict[tuple[str, str], dict[float, float]] = {}
        self._sums: dict[tuple[str, str], float] = {}
        self._asked_at = -math.inf
        self._window_s = WINDOW_S
        self._nothing = NOT_YET

    async def refresh(self, scope: Scope, pods: int, usual_window_s: float) -> None:
        """Ask again when it is time; the window is a minute, or as long as it takes for two scrapes and a half."""
        now = self._clock()
        self._nothing = TOO_MANY if pods > MOST_PODS else NOT_YET
        if self._names.histogram is None or now - self._asked_at < EVERY_S or pods > MOST_PODS:
            return
        self._window_s = max(WINDOW_S, 2.5 * usual_window_s)
        answer, told = await tell(self._prometheus, self._clock, queries.show_query(self._names, scope, self._window_s))
        self._asked_at = now if answer.rows else now - EVERY_S + AGAIN_S
        if told.why is not None:
            return
        self._buckets, self._sums = {}, {}
        unit = self._names.histogram.unit
        for row in answer.rows:
            key = (row.metric.get(scope.namespace, ""), row.metric.get("stem", ""))
            if not math.isfinite(row.number):
                continue
            if "le" not in row.metric:
                self._sums[key] = row.number * unit
            elif not math.isnan(bound := bound_of(row.metric["le"], unit)):
                self._buckets.setdefault(key, {})[bound] = row.number

    def of(self, watched: Watched) -> tuple[Reading, Reading]:
        """The percentile at the objective, and the mean."""
        objective = watched.policy.spec.objective.latency
        stems = {queries.stem(pod.name) for pod in watched.pods}
        key = (watched.ref.namespace, next(iter(stems), ""))
        buckets = self._buckets.get(key)
        if objective is None or len(stems) != 1 or not buckets:
            return self._nothing, self._nothing
        age = max(0.0, self._clock() - self._asked_at)
        value, note = latency.percentile([buckets], objective.within)
        if isinstance(value, Absent):
            absent = Absent(value.cause, value.detail, SOURCE)
            return absent, absent
        shown = Measured(value, age, self._window_s, source=SOURCE, note=note)
        rate, spent = buckets.get(math.inf, 0.0), self._sums.get(key)
        if spent is None or rate <= 0.0:
            return shown, Absent(Cause.NO_SUCH_METRIC, "the histogram has no sum", SOURCE)
        return shown, Measured(spent / rate, age, self._window_s, source=SOURCE)
