"""CPU and memory from ``metrics.k8s.io`` (metrics-server), where there is nothing else.

``fetch`` is the door to the API server. The API gives a mean over a window that it names, and no throttling: enough for
a CPU objective and for memory, too slow for a latency objective alone. Its timestamps are the metrics-server's own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import msgspec

from autoscaler.model import quantity
from autoscaler.model.signal import Absent, Cause, Measured, PodSignals, Reading, Signals
from autoscaler.model.workload import WorkloadRef
from autoscaler.observe.answers import expected_pods, lasting
from autoscaler.observe.counters import checked
from autoscaler.observe.kubelet import Fetch, ForeignClock
from autoscaler.observe.ports import Watched

EVERY_S = 10.0
ANSWER_S = 3.0


class _Usage(msgspec.Struct):
    cpu: str = "0"
    memory: str = "0"


class _Container(msgspec.Struct):
    name: str
    usage: _Usage = msgspec.field(default_factory=_Usage)


class _Meta(msgspec.Struct):
    name: str = ""


class _PodMetrics(msgspec.Struct):
    metadata: _Meta
    timestamp: str = ""
    window: str = "0s"
    containers: list[_Container] = msgspec.field(default_factory=list)


class _List(msgspec.Struct):
    items: list[_PodMetrics]


_DECODER = msgspec.json.Decoder(_List)


class MetricsApiSource:
    """One list a namespace, every ten seconds at most."""

    name = "metrics.k8s.io"

    def __init__(self, fetch: Fetch, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._clock = clock
        self._told: dict[str, tuple[float, dict[str, _PodMetrics] | Absent]] = {}
        self._stamps = ForeignClock()

    def again(self) -> MetricsApiSource:
        return MetricsApiSource(self._fetch, clock=self._clock)

    async def read(self, workloads: Sequence[Watched], at: float) -> Mapping[WorkloadRef, Signals]:
        namespaces = {watched.ref.namespace for watched in workloads}
        due = [name for name in sorted(namespaces) if self._clock() - self._asked_at(name) >= EVERY_S]
        await asyncio.gather(*(self._ask(name, at) for name in due))
        self._told = {name: told for name, told in self._told.items() if name in namespaces}
        return {watched.ref: self._signals(watched, at) for watched in workloads}

    def _asked_at(self, namespace: str) -> float:
        told = self._told.get(namespace)
        return told[0] if told is not None and not isinstance(told[1], Absent) else float("-inf")

    async def _ask(self, namespace: str, at: float) -> None:
        asked_at = self._clock()
        try:
            async with asyncio.timeout(ANSWER_S):
                body = await self._fetch(f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods")
            pods = {item.metadata.name: item for item in _DECODER.decode(body).items}
            if pods:
                self._stamps.saw(max(_seconds(item.timestamp) for item in pods.values()), at)
            self._told[namespace] = (asked_at, pods)
        except TimeoutError:
            self._down(namespace, asked_at, f"no answer in {ANSWER_S:g}s")
        except Exception as error:
            # whichever way the door says no, or the body can't be read: this namespace has told nothing
            self._down(namespace, asked_at, str(error)[:120] or type(error).__name__)

    def _down(self, namespace: str, asked_at: float, why: str) -> None:
        self._told[namespace] = (asked_at, Absent(Cause.SOURCE_DOWN, f"metrics.k8s.io: {why}", self.name))

    def _signals(self, watched: Watched, at: float) -> Signals:
        _, pods = self._told[watched.ref.namespace]
        if isinstance(pods, Absent):
            return Signals(cpu=pods, working_set=pods)
        expected = {pod.uid for pod in expected_pods(watched.pods)}
        found: dict[str, PodSignals] = {}
        for pod in watched.pods:
            told = pods.get(pod.name)
            started = pod.created_at
            if told is None or not pod.active or (started and _seconds(told.timestamp) < started):
                continue
            age = self._stamps.age(_seconds(told.timestamp), at)
            window = _window(told.window)
            name = watched.container or (pod.containers[0].name if pod.containers else "")
            usage = next((one.usage for one in told.containers if one.name == name), None)
            signals = watched.policy.spec.signals
            # there is a new mean about as often as it is taken over
            lasts = lasting(signals.max_age, signals.max_age_set, window)
            if usage is None or age > lasts:
                continue
            found[pod.uid] = PodSignals(
                cpu=self._reading(float(quantity.parse_quantity(usage.cpu)), age, window, lasts, "cpu"),
                working_set=self._reading(float(quantity.parse_quantity(usage.memory)), age, 0.0, lasts, "memory"),
            )
        return Signals(
            cpu=self._over([one.cpu for one in found.values()], expected, found, sum),
            working_set=self._over([one.working_set for one in found.values()], expected, found, max),
            pods=found,
        )

    def _reading(self, value: float, age: float, window: float, lasts: float, what: str) -> Reading:
        number = checked(value, what)
        if isinstance(number, Absent):
            return number
        return Measured(number, age, window, source=self.name, lasts_s=lasts)

    def _over(
        self, readings: Sequence[Reading], expected: set[str], found: Mapping[str, object], fold: Callable[..., float]
    ) -> Reading:
        measured = [reading for reading in readings if isinstance(reading, Measured)]
        if not measured:
            cause = Cause.NO_SUCH_METRIC if expected else Cause.NO_PODS
            return Absent(cause, "metrics.k8s.io has no fresh figures of these pods", self.name)
        covered = sum(uid in found for uid in expected) / len(expected) if expected else 1.0
        return Measured(
            fold(reading.value for reading in measured),
            age_s=max(reading.age_s for reading in measured),
            window_s=max(reading.window_s for reading in measured),
            coverage=covered or 0.5 / len(expected),
            source=self.name,
            lasts_s=max(reading.lasts_s for reading in measured),
        )


def _window(written: str) -> float:
    """The window in seconds; 0 for what can't be read."""
    try:
        return quantity.parse_duration(written)
    except ValueError:
        return 0.0


def _seconds(stamp: str) -> float:
    """RFC 3339 as unix seconds; 0 for what can't be read."""
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return 0.0
