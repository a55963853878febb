"""One scraped target's rows as a sample of its pod."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoscaler.model.signal import Absent, Cause
from autoscaler.model.workload import Pod
from autoscaler.observe.counters import PodSample, Role, Value, checked, summed
from autoscaler.observe.names import Selector, SignalNames
from autoscaler.observe.series import Target


@dataclass(frozen=True, slots=True)
class Wanted:
    """One selector's sum among a target's rows: under ``role`` where it selects by labels, else under its metric."""

    metric: str
    role: str
    labelled: bool
    scale: float
    written: str

    @classmethod
    def of(cls, role: str, selector: Selector) -> Wanted:
        return cls(selector.metric, role, bool(selector.labels), selector.scale, str(selector))

    def value(self, target: Target) -> float | None:
        """Zero where the metric is there and no series of it matches; None without the metric."""
        whole = target.numbers.get(self.metric)
        if self.labelled:
            whole = target.numbers.get(self.role, None if whole is None else 0.0)
        return None if whole is None else whole * self.scale


class PageSamples:
    """One target's rows as a sample, in the same words as a page that was scraped directly. Made once for the names."""

    def __init__(self, names: SignalNames) -> None:
        self._signals = [
            (role, gauge, all(selector.optional for selector in selectors),
             [Wanted.of(f"{kind} {place}", selector) for place, selector in enumerate(selectors)])
            for role, gauge, kind, selectors in (
                (Role.REQUESTS, False, "requests", names.requests),
                (Role.FAILURES, False, "failures", names.failures),
                (Role.LATENCY_SUM, False, "busy", names.busy_s),
                (Role.PROCESS_CPU, False, "process cpu", names.process_cpu),
                (Role.IN_FLIGHT, True, "in flight", names.in_flight),
                (Role.PROCESS_MEMORY, True, "process memory", names.process_memory),
            )
            if selectors
        ]  # fmt: skip
        shape = names.histogram or names.summary
        self._finished = self._spent = None
        if shape is not None:
            self._metric, self._unit = shape.metric, shape.unit
            self._finished = Wanted.of("finished", Selector(f"{shape.metric}_count", shape.labels))
            self._spent = Wanted.of("latency sum", Selector(f"{shape.metric}_sum", shape.labels, shape.unit))

    def read(self, target: Target, pod: Pod, container: str, before: PodSample | None) -> PodSample:
        counters: dict[Role, Value] = {}
        gauges: dict[Role, Value] = {}
        for role, gauge, optional, wanted in self._signals:
            value = _sum(target, wanted)
            if value is None:
                was_there = before is not None and role in (before.gauges if gauge else before.counters)
                if optional and not was_there:
                    continue
                value = Absent(Cause.NO_SUCH_METRIC, " + ".join(one.written for one in wanted))
            (gauges if gauge else counters)[role] = value
        sample = PodSample(target.of(pod, container), target.at, counters, gauges)
        if self._finished is not None and self._spent is not None:
            finished = _sum(target, [self._finished])
            if finished is None:
                finished = Absent(Cause.NO_SUCH_METRIC, self._finished.metric)
            counters[Role.FINISHED] = finished
            spent = _sum(target, [self._spent])
            if spent is not None:
                counters[Role.LATENCY_SUM] = spent
            if target.quantiles:
                sample.quantiles = {share: value * self._unit for share, value in target.quantiles.items()}
            for written, count in target.buckets.items():
                if 0.0 <= count < math.inf:
                    sample.buckets[bound_of(written, self._unit)] = count
                else:
                    counters[Role.FINISHED] = checked(count, f'{self._metric}_bucket{{le="{written}"}}')
        return sample


def _sum(target: Target, several: Sequence[Wanted]) -> Value | None:
    """The sum of those that are there; the cause where one is no number; None where none is there."""
    found: list[float] = []
    for wanted in several:
        value = wanted.value(target)
        if value is not None:
            if not 0.0 <= value < math.inf:
                return checked(value, wanted.written)
            found.append(value)
    if len(found) > 1:
        return checked(summed(found), " + ".join(one.written for one in several))
    return found[0] if found else None


@functools.lru_cache(maxsize=4096)
def bound_of(written: str, unit: float) -> float:
    """A bound in seconds; NaN for a label that is no number."""
    try:
        return float(written) * unit
    except ValueError:
        return math.nan
