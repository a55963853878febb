"""Two sources' signals of one workload as one."""

from __future__ import annotations

from dataclasses import replace

from autoscaler.model.signal import NOT_CONFIGURED, Absent, Cause, Measured, PodSignals, Reading, Signals
from autoscaler.observe.readings import PROCESS

_READINGS = (
    "requests", "misses", "latency", "mean_latency", "failures", "in_flight", "cpu", "throttled", "pressure",
    "working_set",
)  # fmt: skip


def settled(reading: Reading) -> bool:
    """No other source can say it better: a value (of the container, not just of its process), or that nothing came."""
    if isinstance(reading, Measured):
        return not reading.source.endswith(f"({PROCESS})")
    return reading.cause is Cause.NO_TRAFFIC


def merged(first: Signals | None, then: Signals) -> Signals:
    """Signal by signal, the first where it says something, else the second."""
    if first is None:
        return then
    merged = {name: _better(getattr(first, name), getattr(then, name)) for name in _READINGS}
    counted = first if isinstance(first.requests, Measured) else then
    custom = {name: _better(first.custom.get(name), then.custom.get(name)) for name in {*first.custom, *then.custom}}
    pods = {}
    for uid in {*first.pods, *then.pods}:
        mine, other = first.pods.get(uid), then.pods.get(uid)
        if mine is None or other is None:
            pods[uid] = mine or other or PodSignals()
        else:
            pods[uid] = PodSignals(
                _better(mine.requests, other.requests),
                _better(mine.in_flight, other.in_flight),
                _better(mine.cpu, other.cpu),
                _better(mine.throttled, other.throttled),
                _better(mine.working_set, other.working_set),
                _better(mine.memory_usage, other.memory_usage),
                _better(mine.peak_memory, other.peak_memory),
            )
    return replace(
        then, counts=counted.counts, failures_apart=counted.failures_apart, custom=custom, pods=pods, **merged
    )


def _better(first: Reading | None, then: Reading | None) -> Reading:
    if first is None or then is None:
        return first or then or NOT_CONFIGURED
    if first is NOT_CONFIGURED:
        return then
    if settled(first):
        return first
    if isinstance(then, Measured):
        return first if isinstance(first, Measured) and not settled(then) else then
    if isinstance(first, Measured) or then.cause is Cause.NOT_CONFIGURED:
        return first
    if first.cause is Cause.NOT_CONFIGURED or then.cause is Cause.NO_TRAFFIC:
        return then
    if first.source == then.source or len(first.detail) > 160:
        return first
    return Absent(first.cause, f"{first.detail}; {then.source}: {then.cause} {then.detail}"[:240], first.source)


def absent_signals(why: Absent) -> Signals:
    """Every signal absent for one reason."""
    return Signals(
        requests=why, misses=why, latency=why, mean_latency=why, failures=why, in_flight=why, cpu=why, throttled=why,
        pressure=why, working_set=why,
    )  # fmt: skip
