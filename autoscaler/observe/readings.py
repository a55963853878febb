"""From what each pod answered to the workload's signals: sums, ratios, coverage, and the cause where there is nothing.

One function for every source. Pods that should have answered and did not lower the coverage; nothing is extrapolated
and nothing absent counts as zero.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from autoscaler.model.policy import LatencyObjective
from autoscaler.model.signal import NOT_CONFIGURED, Absent, Cause, Measured, PodSignals, Reading, Signals
from autoscaler.model.workload import Pod
from autoscaler.observe import latency
from autoscaler.observe.counters import Growth, PodSample, Role
from autoscaler.observe.names import Covers, SignalNames

PROCESS = "process"
"""Marks CPU and memory that a server told of its own process: used where the kubelet's figures are absent."""

FAILURES_UNKNOWN = 0.5
"""Coverage of a miss ratio whose failures could not be read: half of what it is made of."""


@dataclass(slots=True)
class PodAnswer:
    """What a source got from one pod. ``age_s``: since the sample, by the source's own clock."""

    sample: PodSample | None = None
    growth: Growth | Absent | None = None
    age_s: float = 0.0
    why: Absent | None = None
    """Why there is no sample."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What one workload's answers are reduced against."""

    names: SignalNames
    objective: LatencyObjective | None
    max_age_s: float
    source: str
    expected: Collection[str]
    """Uids of the pods that must answer for full coverage."""
    roles: frozenset[Role] | None = None
    """What the source was asked for; None: what ``names`` name."""

    def asks(self, role: Role) -> bool:
        return role in (self.roles if self.roles is not None else page_roles(self.names))


KUBELET_ROLES = frozenset(
    {Role.CPU, Role.PERIODS, Role.THROTTLED, Role.PRESSURE, Role.WORKING_SET, Role.MEMORY_USAGE, Role.PEAK_MEMORY}
)
"""What the kubelet tells of a container."""


@functools.lru_cache(maxsize=1024)
def page_roles(names: SignalNames) -> frozenset[Role]:
    """What a server's page is read for."""
    wanted = {
        Role.REQUESTS: names.requests,
        Role.FAILURES: names.failures,
        Role.IN_FLIGHT: names.in_flight,
        Role.PROCESS_CPU: names.process_cpu,
        Role.PROCESS_MEMORY: names.process_memory,
        Role.LATENCY_SUM: names.busy_s or names.histogram or names.summary,
        Role.FINISHED: names.histogram or names.summary,
    }
    return frozenset(role for role, selectors in wanted.items() if selectors)


def expected_pods(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Pods that serve or have served: active, running, ready once. One that is starting can't answer yet."""
    return tuple(pod for pod in pods if pod.active and pod.phase == "Running" and (pod.ready or pod.ready_at))


def reduce(asked: Asked, answers: Mapping[str, PodAnswer]) -> Signals:
    """The signals of one workload. ``answers`` by pod uid; pods that were not asked have no entry."""
    rates = {
        role: {uid: _rate(asked, answer, role) for uid, answer in answers.items()}
        for role in (Role.REQUESTS, Role.FAILURES, Role.CPU, Role.PROCESS_CPU, Role.PRESSURE)
    }
    gauges = {
        role: {uid: _gauge(asked, answer, role) for uid, answer in answers.items()}
        for role in (Role.IN_FLIGHT, Role.WORKING_SET, Role.MEMORY_USAGE, Role.PEAK_MEMORY, Role.PROCESS_MEMORY)
    }
    throttled = {uid: _throttled(asked, answer) for uid, answer in answers.items()}
    cpu = _container_first(rates[Role.CPU], rates[Role.PROCESS_CPU])
    memory = _container_first(gauges[Role.WORKING_SET], gauges[Role.PROCESS_MEMORY])
    in_flight = _over(asked, gauges[Role.IN_FLIGHT], sum)
    parts = {uid: _part(asked, answer) for uid, answer in answers.items()}
    return Signals(
        requests=_over(asked, rates[Role.REQUESTS], sum),
        counts=asked.names.counts,
        misses=_misses(asked, answers, parts, in_flight),
        latency=_percentile(asked, answers),
        mean_latency=_mean(asked, answers),
        failures=_over(asked, rates[Role.FAILURES], sum),
        in_flight=in_flight,
        cpu=_over(asked, cpu, sum),
        throttled=_weighted(asked, throttled),
        pressure=_over(asked, rates[Role.PRESSURE], lambda values: sum(values) / len(values)),
        working_set=_over(asked, memory, max),
        pods={
            uid: PodSignals(
                requests=rates[Role.REQUESTS][uid],
                in_flight=gauges[Role.IN_FLIGHT][uid],
                cpu=cpu[uid],
                throttled=throttled[uid],
                working_set=memory[uid],
                memory_usage=gauges[Role.MEMORY_USAGE][uid],
                peak_memory=gauges[Role.PEAK_MEMORY][uid],
            )
            for uid in answers
        },
    )


def _grown(asked: Asked, answer: PodAnswer) -> Growth | Absent:
    if answer.sample is None or answer.growth is None:
        return answer.why or Absent(Cause.SOURCE_DOWN, "no answer", asked.source)
    if answer.age_s > asked.max_age_s:
        return Absent(Cause.STALE, f"{answer.age_s:.0f}s old", asked.source)
    return answer.growth


def _rate(asked: Asked, answer: PodAnswer, role: Role) -> Reading:
    growth = _grown(asked, answer)
    if not asked.asks(role) or (answer.sample is not None and role not in answer.sample.counters):
        return NOT_CONFIGURED
    if isinstance(growth, Absent):
        return _named(growth, asked)
    value = growth.counters.get(role, NOT_CONFIGURED)
    if isinstance(value, Absent):
        return _named(value, asked)
    source = f"{asked.source} ({PROCESS})" if role is Role.PROCESS_CPU else asked.source
    return Measured(value / growth.window_s, answer.age_s, growth.window_s, weight=value, source=source)


def _gauge(asked: Asked, answer: PodAnswer, role: Role) -> Reading:
    if not asked.asks(role):
        return NOT_CONFIGURED
    if answer.sample is None:
        return _named(answer.why or Absent(Cause.SOURCE_DOWN, "no answer"), asked)
    value = answer.sample.gauges.get(role)
    if value is None:
        return NOT_CONFIGURED
    if answer.age_s > asked.max_age_s:
        return Absent(Cause.STALE, f"{role} is {answer.age_s:.0f}s old", asked.source)
    if isinstance(value, Absent):
        return _named(value, asked)
    source = f"{asked.source} ({PROCESS})" if role is Role.PROCESS_MEMORY else asked.source
    return Measured(value, answer.age_s, source=source)


def _throttled(asked: Asked, answer: PodAnswer) -> Reading:
    growth = _grown(asked, answer)
    if not asked.asks(Role.PERIODS) or (answer.sample is not None and Role.PERIODS not in answer.sample.counters):
        return NOT_CONFIGURED
    if isinstance(growth, Absent):
        return _named(growth, asked)
    periods = growth.counters.get(Role.PERIODS, NOT_CONFIGURED)
    throttled = growth.counters.get(Role.THROTTLED, NOT_CONFIGURED)
    for absent in (periods, throttled):
        if isinstance(absent, Absent):
            return _named(absent, asked)
    assert not isinstance(periods, Absent) and not isinstance(throttled, Absent)
    share = min(1.0, throttled / periods) if periods else 0.0
    return Measured(share, answer.age_s, growth.window_s, weight=periods, source=asked.source)


def _container_first(container: Mapping[str, Reading], process: Mapping[str, Reading]) -> dict[str, Reading]:
    """The process's own figure where the container's is not there; never a sum of both kinds over pods."""
    if any(isinstance(reading, Measured) for reading in container.values()):
        return dict(container)
    if all(reading is NOT_CONFIGURED for reading in process.values()):
        return dict(container)
    return dict(process)


def _over(asked: Asked, per_pod: Mapping[str, Reading], fold: Callable[[list[float]], float]) -> Reading:
    measured = {uid: reading for uid, reading in per_pod.items() if isinstance(reading, Measured)}
    if not measured:
        return _why(asked, per_pod.values())
    values = list(measured.values())
    return Measured(
        float(fold([reading.value for reading in values])),
        age_s=max(reading.age_s for reading in values),
        window_s=max(reading.window_s for reading in values),
        coverage=_coverage(asked, measured),
        weight=sum(reading.weight for reading in values),
        source=values[0].source,
    )


def _weighted(asked: Asked, per_pod: Mapping[str, Reading]) -> Reading:
    """A share over all pods, each by its weight."""
    reading = _over(asked, per_pod, sum)
    if isinstance(reading, Absent):
        return reading
    measured = [one for one in per_pod.values() if isinstance(one, Measured)]
    share = sum(one.value * one.weight for one in measured) / reading.weight if reading.weight else 0.0
    return Measured(share, reading.age_s, reading.window_s, reading.coverage, reading.weight, reading.source)


def _coverage(asked: Asked, answered: Collection[str]) -> float:
    if not asked.expected:
        return 1.0
    missing = sum(uid not in answered for uid in asked.expected)
    if missing < len(asked.expected):
        return 1.0 - missing / len(asked.expected)
    return 0.5 / len(asked.expected)  # only pods that are starting answered


def _why(asked: Asked, readings: Iterable[Reading]) -> Absent:
    """The cause most pods give; NO_PODS where there are none."""
    causes = [reading for reading in readings if isinstance(reading, Absent)]
    if not causes:
        return Absent(Cause.NO_PODS, "no running pod", asked.source)
    told = [absent for absent in causes if absent.cause is not Cause.NOT_CONFIGURED]
    if not told:
        return NOT_CONFIGURED
    cause, times = Counter(absent.cause for absent in told).most_common(1)[0]
    detail = next(absent.detail for absent in told if absent.cause is cause)
    if len(causes) > 1:
        detail = f"{times} of {len(causes)} pods: {detail}"
    return Absent(cause, detail, asked.source)


def _named(absent: Absent, asked: Asked) -> Absent:
    if absent.source or absent.cause is Cause.NOT_CONFIGURED:
        return absent
    return Absent(absent.cause, absent.detail, asked.source)


@dataclass(slots=True)
class _Part:
    """One pod's share of the miss ratio: ``good`` of ``total`` requests in its window."""

    good: float
    total: float
    failures_known: bool
    note: str = ""


def _part(asked: Asked, answer: PodAnswer) -> _Part | Absent:
    shape = asked.names.histogram or asked.names.summary
    if asked.objective is None or shape is None or not asked.asks(Role.FINISHED):
        return NOT_CONFIGURED
    growth = _grown(asked, answer)
    if isinstance(growth, Absent):
        return growth
    finished = growth.counters.get(Role.FINISHED, NOT_CONFIGURED)
    if isinstance(finished, Absent):
        return finished
    note = ""
    if asked.names.histogram is not None:
        bound = latency.objective_bound(growth.buckets, asked.objective.target)
        if isinstance(bound, Absent):
            return bound
        within = growth.buckets[bound]
        if within > finished * 1.01 + 1:
            return Absent(Cause.CONTRADICTORY, f"bucket {bound:g}s grew by {within:g}, the count by {finished:g}")
        if abs(bound / asked.objective.target - 1) > 1e-6:
            note = f"counted at {bound:g}s"
    else:
        assert answer.sample is not None
        share = latency.share_within(answer.sample.quantiles, asked.objective.target)
        if finished and isinstance(share, Absent):
            return share
        within = 0.0 if isinstance(share, Absent) else share * finished
        note = "estimated from a summary's quantiles"
    failures = growth.counters.get(Role.FAILURES)
    requests = growth.counters.get(Role.REQUESTS)
    failed = failures if isinstance(failures, float) else 0.0
    part = _requests_within(asked, min(within, finished), finished, requests, failed)
    part.failures_known = not isinstance(failures, Absent)
    part.note = note
    return part


def _requests_within(asked: Asked, within: float, finished: float, requests: object, failed: float) -> _Part:
    """How many of all requests were answered successfully in time, given what the histogram covers.

    Failures that the histogram has seen without saying so are taken as fast ones: a shed request must not make latency
    look good. See docs/signals.md for the table of cases.
    """
    names, covers = asked.names, (asked.names.histogram or asked.names.summary).covers  # type: ignore[union-attr]
    if covers is Covers.SUCCESSES:
        return _Part(within, finished + failed, True)
    total, included = finished, failed
    if covers is Covers.EITHER and isinstance(requests, float) and names.counts.value == "completions":
        counted = requests + (0.0 if names.requests_include_failures else failed)
        total = max(finished, counted, failed)
        included = min(failed, max(0.0, finished - (total - failed)))
    return _Part(max(0.0, within - included), max(total, failed), True)


def _misses(
    asked: Asked, answers: Mapping[str, PodAnswer], parts: Mapping[str, _Part | Absent], in_flight: Reading
) -> Reading:
    known = {uid: part for uid, part in parts.items() if isinstance(part, _Part)}
    if not known:
        return _why(asked, [part for part in parts.values() if isinstance(part, Absent)])
    total = sum(part.total for part in known.values())
    windows = [growth.window_s for uid in known if isinstance(growth := answers[uid].growth, Growth)]
    if total <= 0:
        waiting = f", {in_flight.value:g} in flight" if isinstance(in_flight, Measured) and in_flight.value else ""
        return Absent(Cause.NO_TRAFFIC, f"no request finished in {max(windows):.3g}s{waiting}", asked.source)
    coverage = _coverage(asked, known)
    if not all(part.failures_known for part in known.values()):
        coverage = min(coverage, FAILURES_UNKNOWN)
    return Measured(
        min(1.0, max(0.0, 1.0 - sum(part.good for part in known.values()) / total)),
        age_s=max(answers[uid].age_s for uid in known),
        window_s=max(windows),
        coverage=coverage,
        weight=total,
        source=asked.source,
        note=next((part.note for part in known.values() if part.note), ""),
    )


def _percentile(asked: Asked, answers: Mapping[str, PodAnswer]) -> Reading:
    """The latency at the objective's percentile, for show."""
    if asked.objective is None or (asked.names.histogram is None and asked.names.summary is None):
        return NOT_CONFIGURED
    grown = {uid: _grown(asked, answer) for uid, answer in answers.items()}
    known = {uid: growth for uid, growth in grown.items() if isinstance(growth, Growth)}
    if not known:
        return _why(asked, [growth for growth in grown.values() if isinstance(growth, Absent)])
    if asked.names.summary is not None:
        told = [
            value
            for uid in known
            if (sample := answers[uid].sample) is not None
            and (value := sample.quantiles.get(asked.objective.within)) is not None
        ]
        shown: float | Absent = max(told) if told else Absent(Cause.NO_BUCKET, "no quantile at the objective")
        note = "the slowest pod's"
    else:
        shown, note = latency.percentile([growth.buckets for growth in known.values()], asked.objective.within)
    if isinstance(shown, Absent):
        return _named(shown, asked)
    return Measured(
        shown,
        age_s=max(answers[uid].age_s for uid in known),
        window_s=max(growth.window_s for growth in known.values()),
        coverage=_coverage(asked, known),
        source=asked.source,
        note=note,
    )


def _mean(asked: Asked, answers: Mapping[str, PodAnswer]) -> Reading:
    """Seconds a finished request took on average."""
    if not asked.asks(Role.LATENCY_SUM):
        return NOT_CONFIGURED
    spent, finished, known = 0.0, 0.0, {}
    absent: list[Absent] = []
    for uid, answer in answers.items():
        growth = _grown(asked, answer)
        if isinstance(growth, Absent):
            absent.append(growth)
            continue
        total = growth.counters.get(Role.LATENCY_SUM, NOT_CONFIGURED)
        count = growth.counters.get(Role.FINISHED, NOT_CONFIGURED)
        if isinstance(count, Absent):
            count = growth.counters.get(Role.REQUESTS, NOT_CONFIGURED)
        if isinstance(total, Absent) or isinstance(count, Absent):
            absent.append(total if isinstance(total, Absent) else count)  # type: ignore[arg-type]
            continue
        spent, finished, known[uid] = spent + total, finished + count, growth
    if not known:
        return _why(asked, absent)
    if finished <= 0:
        return Absent(Cause.NO_TRAFFIC, "no request finished", asked.source)
    return Measured(
        spent / finished,
        age_s=max(answers[uid].age_s for uid in known),
        window_s=max(growth.window_s for growth in known.values()),
        coverage=_coverage(asked, known),
        weight=finished,
        source=asked.source,
    )
