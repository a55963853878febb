"""The miss ratio, and the latencies that are shown, from what each pod's counters grew by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from autoscaler.model.signal import NOT_CONFIGURED, Absent, Cause, Measured, Reading
from autoscaler.observe import latency
from autoscaler.observe.answers import Asked, PodAnswer, coverage_of, grown, lasts, named, why_absent
from autoscaler.observe.counters import Growth, Role, checked
from autoscaler.observe.names import Covers

FAILURES_UNKNOWN = 0.5
"""Coverage of a miss ratio whose failures could not be read: half of what it is made of."""


@dataclass(slots=True)
class Part:
    """One pod's share of the miss ratio: ``good`` of ``total`` requests in its window."""

    good: float
    total: float
    failures_known: bool
    note: str = ""


def part_of(asked: Asked, answer: PodAnswer) -> Part | Absent:
    shape = asked.names.histogram or asked.names.summary
    if asked.objective is None or shape is None:
        return NOT_CONFIGURED
    growth = grown(asked, answer)
    if isinstance(growth, Absent):
        return growth
    finished = growth.counters.get(Role.FINISHED, NOT_CONFIGURED)
    if isinstance(finished, Absent):
        return finished
    note = ""
    if asked.names.histogram is not None and not growth.buckets and finished == 0:
        counted = growth.counters.get(Role.REQUESTS)
        if isinstance(counted, float) and counted > 0:
            return Absent(Cause.NO_SUCH_METRIC, f"{asked.names.histogram.metric}: no series, {counted:g} requests")
        return Part(0.0, 0.0, True)
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


def _requests_within(asked: Asked, within: float, finished: float, requests: object, failed: float) -> Part:
    """How many of all requests were answered successfully in time, given what the histogram covers.

    Failures that the histogram has seen without saying so are taken as fast ones: a shed request must not make latency
    look good. See docs/signals.md for the table of cases.
    """
    names, covers = asked.names, (asked.names.histogram or asked.names.summary).covers  # type: ignore[union-attr]
    if covers is Covers.SUCCESSES:
        return Part(within, finished + failed, True)
    total, included = finished, failed
    if covers is Covers.EITHER and isinstance(requests, float) and names.counts.value == "completions":
        counted = requests + (0.0 if names.requests_include_failures else failed)
        total = max(finished, counted, failed)
        included = min(failed, max(0.0, finished - (total - failed)))
    return Part(max(0.0, within - included), max(total, failed), True)


def miss_ratio(asked: Asked, answers: Mapping[str, PodAnswer], in_flight: Reading) -> Reading:
    """The share of all requests that failed or took longer than the target."""
    if asked.objective is None or Role.FINISHED not in asked.roles:
        return NOT_CONFIGURED
    parts = {uid: part_of(asked, answer) for uid, answer in answers.items()}
    known = {uid: part for uid, part in parts.items() if isinstance(part, Part)}
    if not known:
        return why_absent(asked, [part for part in parts.values() if isinstance(part, Absent)])
    total = sum(part.total for part in known.values())
    windows = [growth.window_s for uid in known if isinstance(growth := answers[uid].growth, Growth)]
    if total <= 0:
        waiting = f", {in_flight.value:g} in flight" if isinstance(in_flight, Measured) and in_flight.value else ""
        return Absent(Cause.NO_TRAFFIC, f"no request finished in {max(windows):.3g}s{waiting}", asked.source)
    coverage = coverage_of(asked, known)
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
        lasts_s=max(lasts(asked, answers[uid]) for uid in known),
    )


def shown_percentile(asked: Asked, answers: Mapping[str, PodAnswer]) -> Reading:
    """The latency at the objective's percentile, for show."""
    if asked.objective is None or Role.FINISHED not in asked.roles:
        return NOT_CONFIGURED
    growths = {uid: grown(asked, answer) for uid, answer in answers.items()}
    known = {uid: growth for uid, growth in growths.items() if isinstance(growth, Growth)}
    if not known:
        return why_absent(asked, [growth for growth in growths.values() if isinstance(growth, Absent)])
    if asked.names.summary is not None:
        told = [
            value
            for uid in known
            if (sample := answers[uid].sample) is not None
            and (value := sample.quantiles.get(asked.objective.within)) is not None
        ]
        known_of = [value for value in told if not math.isnan(value)]
        shown: float | Absent
        if known_of:
            shown = max(known_of)
        elif told:
            shown = Absent(Cause.NO_TRAFFIC, "the summary's window is empty")
        else:
            shown = Absent(Cause.NO_BUCKET, "no quantile at the objective")
        note = "the slowest pod's"
    else:
        shown, note = latency.percentile([growth.buckets for growth in known.values()], asked.objective.within)
    if not isinstance(shown, Absent):
        shown = checked(shown, "the percentile")
    if isinstance(shown, Absent):
        return named(shown, asked)
    return Measured(
        shown,
        age_s=max(answers[uid].age_s for uid in known),
        window_s=max(growth.window_s for growth in known.values()),
        coverage=coverage_of(asked, known),
        source=asked.source,
        note=note,
    )


def mean_latency(asked: Asked, answers: Mapping[str, PodAnswer]) -> Reading:
    """Seconds a finished request took on average."""
    if Role.LATENCY_SUM not in asked.roles:
        return NOT_CONFIGURED
    spent, finished, known = 0.0, 0.0, {}
    absent: list[Absent] = []
    for uid, answer in answers.items():
        growth = grown(asked, answer)
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
        return why_absent(asked, absent)
    if finished <= 0:
        return Absent(Cause.NO_TRAFFIC, "no request finished", asked.source)
    mean = checked(spent / finished, "the mean latency")
    if isinstance(mean, Absent):
        return named(mean, asked)
    return Measured(
        mean,
        age_s=max(answers[uid].age_s for uid in known),
        window_s=max(growth.window_s for growth in known.values()),
        coverage=coverage_of(asked, known),
        weight=finished,
        source=asked.source,
    )
