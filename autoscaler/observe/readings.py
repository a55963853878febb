"""From what each pod answered to the workload's signals: sums, ratios, coverage, and the cause where there is nothing.

One function for every source. Pods that should have answered and did not lower the coverage; nothing is extrapolated
and nothing absent counts as zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from autoscaler.model.signal import NOT_CONFIGURED, Absent, Cause, Measured, PodSignals, Reading, Signals
from autoscaler.observe.answers import Asked, PodAnswer, Settled, coverage_of, grown, lasts, named, settled, why_absent
from autoscaler.observe.counters import Role
from autoscaler.observe.misses import mean_latency, miss_ratio, shown_percentile

Each = tuple[str, PodAnswer, Settled]
"""A pod's uid, its answer, and what that comes to."""
PROCESS = "process"
"""Marks CPU and memory that a server told of its own process: used where the kubelet's figures are absent."""


def reduce(asked: Asked, answers: Mapping[str, PodAnswer], *, latencies: bool = True) -> Signals:
    """The signals of one workload. ``answers`` by pod uid; pods that were not asked have no entry.

    ``latencies``: whether those that are only shown are wanted.
    """
    each = [(uid, answer, settled(asked, answer)) for uid, answer in answers.items()]
    rates = {
        role: _rates(asked, each, role)
        for role in (Role.REQUESTS, Role.FAILURES, Role.CPU, Role.PROCESS_CPU, Role.PRESSURE)
    }
    gauges = {
        role: _gauges(asked, each, role)
        for role in (Role.IN_FLIGHT, Role.WORKING_SET, Role.MEMORY_USAGE, Role.PEAK_MEMORY, Role.PROCESS_MEMORY)
    }
    throttled: dict[str, Reading] = {}
    if Role.PERIODS in asked.roles:
        throttled = {uid: _throttled(asked, answer) for uid, answer in answers.items()}
    cpu = _container_first(rates[Role.CPU], rates[Role.PROCESS_CPU])
    memory = _container_first(gauges[Role.WORKING_SET], gauges[Role.PROCESS_MEMORY])
    in_flight = _over(asked, gauges[Role.IN_FLIGHT], sum, Role.IN_FLIGHT)
    return Signals(
        requests=_over(asked, rates[Role.REQUESTS], sum, Role.REQUESTS),
        counts=asked.names.counts,
        failures_apart=not asked.names.requests_include_failures,
        misses=miss_ratio(asked, answers, in_flight),
        latency=shown_percentile(asked, answers) if latencies else NOT_CONFIGURED,
        mean_latency=mean_latency(asked, answers) if latencies else NOT_CONFIGURED,
        failures=_over(asked, rates[Role.FAILURES], sum, Role.FAILURES),
        in_flight=in_flight,
        cpu=_over(asked, cpu, sum, Role.CPU, Role.PROCESS_CPU),
        throttled=_weighted(asked, throttled),
        pressure=_over(asked, rates[Role.PRESSURE], _mean, Role.PRESSURE),
        working_set=_over(asked, memory, max, Role.WORKING_SET, Role.PROCESS_MEMORY),
        pods={
            uid: PodSignals(
                requests=rates[Role.REQUESTS].get(uid, NOT_CONFIGURED),
                in_flight=gauges[Role.IN_FLIGHT].get(uid, NOT_CONFIGURED),
                cpu=cpu.get(uid, NOT_CONFIGURED),
                throttled=throttled.get(uid, NOT_CONFIGURED),
                working_set=memory.get(uid, NOT_CONFIGURED),
                memory_usage=gauges[Role.MEMORY_USAGE].get(uid, NOT_CONFIGURED),
                peak_memory=gauges[Role.PEAK_MEMORY].get(uid, NOT_CONFIGURED),
            )
            for uid in answers
        },
    )


def _rates(asked: Asked, each: Sequence[Each], role: Role) -> dict[str, Reading]:
    """Each pod's growth a second; empty where nobody asked."""
    if role not in asked.roles:
        return {}
    source = f"{asked.source} ({PROCESS})" if role is Role.PROCESS_CPU else asked.source
    rates: dict[str, Reading] = {}
    for uid, answer, told in each:
        growth = told.growth
        if answer.sample is not None and role not in answer.sample.counters:
            rates[uid] = NOT_CONFIGURED
        elif isinstance(growth, Absent):
            rates[uid] = named(growth, asked)
        elif isinstance(value := growth.counters.get(role, NOT_CONFIGURED), Absent):
            rates[uid] = named(value, asked)
        elif (rate := value / growth.window_s) == math.inf:
            rates[uid] = Absent(Cause.INFINITE, str(role), asked.source)
        else:
            rates[uid] = Measured(
                rate, answer.age_s, growth.window_s,
                weight=value, source=source, lasts_s=told.lasts_s,
            )  # fmt: skip
    return rates


def _gauges(asked: Asked, each: Sequence[Each], role: Role) -> dict[str, Reading]:
    """Each pod's value; empty where nobody asked."""
    if role not in asked.roles:
        return {}
    source = f"{asked.source} ({PROCESS})" if role is Role.PROCESS_MEMORY else asked.source
    gauges: dict[str, Reading] = {}
    for uid, answer, told in each:
        if answer.sample is None:
            gauges[uid] = named(answer.why or Absent(Cause.SOURCE_DOWN, "no answer"), asked)
        elif (value := answer.sample.gauges.get(role)) is None:
            gauges[uid] = NOT_CONFIGURED
        elif answer.age_s > told.lasts_s:
            said = f"{role} is {answer.age_s:.0f}s old, {told.lasts_s:.0f}s are allowed"
            gauges[uid] = Absent(Cause.STALE, said, asked.source)
        elif isinstance(value, Absent):
            gauges[uid] = named(value, asked)
        else:
            gauges[uid] = Measured(value, answer.age_s, source=source, lasts_s=told.lasts_s)
    return gauges


def _throttled(asked: Asked, answer: PodAnswer) -> Reading:
    growth = grown(asked, answer)
    if answer.sample is not None and Role.PERIODS not in answer.sample.counters:
        return NOT_CONFIGURED
    if isinstance(growth, Absent):
        return named(growth, asked)
    periods = growth.counters.get(Role.PERIODS, NOT_CONFIGURED)
    throttled = growth.counters.get(Role.THROTTLED, NOT_CONFIGURED)
    for absent in (periods, throttled):
        if isinstance(absent, Absent):
            return named(absent, asked)
    assert not isinstance(periods, Absent) and not isinstance(throttled, Absent)
    share = min(1.0, throttled / periods) if periods else 0.0
    limit = lasts(asked, answer)
    return Measured(share, answer.age_s, growth.window_s, weight=periods, source=asked.source, lasts_s=limit)


def _container_first(container: Mapping[str, Reading], process: Mapping[str, Reading]) -> dict[str, Reading]:
    """The process's own figure where the container's is not there; never a sum of both kinds over pods."""
    if not process or any(isinstance(reading, Measured) for reading in container.values()):
        return dict(container)
    if all(reading is NOT_CONFIGURED for reading in process.values()):
        return dict(container)
    return dict(process)


def _over(asked: Asked, per_pod: Mapping[str, Reading], fold: Callable[[list[float]], float], *roles: Role) -> Reading:
    """One reading from the pods'; ``roles``: it isn't configured unless one of them was asked for."""
    if not any(role in asked.roles for role in roles):
        return NOT_CONFIGURED
    measured: dict[str, float] = {}
    age = window = weight = lasting = 0.0
    source = ""
    for uid, reading in per_pod.items():
        if isinstance(reading, Measured):
            measured[uid] = reading.value
            weight += reading.weight
            source = source or reading.source
            if reading.age_s > age:
                age = reading.age_s
            if reading.window_s > window:
                window = reading.window_s
            if reading.lasts_s > lasting:
                lasting = reading.lasts_s
    if not measured:
        return why_absent(asked, per_pod.values())
    folded = float(fold(list(measured.values())))
    if folded == math.inf:
        return Absent(Cause.INFINITE, str(roles[0]), asked.source)
    return Measured(folded, age, window, coverage_of(asked, measured), weight, source, lasts_s=lasting)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _weighted(asked: Asked, per_pod: Mapping[str, Reading]) -> Reading:
    """A share over all pods, each by its weight."""
    reading = _over(asked, per_pod, sum, Role.PERIODS)
    if isinstance(reading, Absent):
        return reading
    measured = [one for one in per_pod.values() if isinstance(one, Measured)]
    share = sum(one.value * one.weight for one in measured) / reading.weight if reading.weight else 0.0
    return msgspec.structs.replace(reading, value=share)
