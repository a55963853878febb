"""CPU-seconds per request: a slow parameter, learned from sums over minutes.

CPU comes every 10–15 s with its own timestamps and completions every scrape, so one sample's ratio is crooked at its
edges and a sum over minutes isn't. Frozen while throttled hard, while many requests fail, without traffic, and for a
minute after a start.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec

from autoscaler.decide import serial, spin
from autoscaler.decide.history import Cost
from autoscaler.model.signal import Absent, Counts, Measured, Signals

MEMORY = 300.0
"""Seconds after which a sample weighs 1/e."""
THROTTLED = 0.7
"""Above this share of throttled periods a sample says more about the quota than about the request."""
KEPT = 90.0
"""Seconds of completions that are kept: more than any CPU sample is old and long."""
CALM = 0.05
"""Share of throttled periods up to which latency is the request's own."""
FAILING = 0.1
"""Beyond this share of failures a sample says more about them than about what a request costs."""
WHOLE = 0.999
"""CPU of a part of the pods is not set against the requests of all."""
FEWEST = 3.0
"""Completions a sample must have to count."""


def learn(
    past: Cost,
    signals: Signals,
    completed: float,
    now: float,
    template: str,
    settled: bool,
    pods: int = 0,
    size: float = 0.0,
) -> Cost:
    """Take in the newest CPU sample. ``completed``: requests finished since the last tick; ``settled``: no pod of those
    that serve is younger than a minute; ``pods`` serve, with ``size`` cores each, 0 where that has just changed.

    The sample is of a while ago: it is set against the requests that were finished over its own span, not until now.
    """
    if past.template and template and template != past.template:
        past = Cost(work=past.work, template=template)  # the old figure is the best guess for the new template
    counted = _count(past.counted, completed, now)
    cpu = signals.cpu
    if isinstance(cpu, Absent) or cpu.coverage < WHOLE:
        return msgspec.structs.replace(past, counted=counted)
    sampled_at = now - cpu.age_s
    if past.sampled_at >= 0.0 and sampled_at - past.sampled_at < 1.0:
        return msgspec.structs.replace(past, counted=counted)
    span = sampled_at - past.sampled_at if past.sampled_at >= 0.0 else (cpu.window_s or 15.0)
    done = _until(counted, sampled_at) - _until(counted, sampled_at - span)
    guess = False
    if counted[0][0] > sampled_at - 0.98 * span:
        # The count began after the sample did, which would make few requests carry all the CPU.
        if past.done > 0.0:
            return msgspec.structs.replace(past, counted=counted, sampled_at=sampled_at, template=template)
        # A sample of before the first look, and the rate of now: a guess until there is a whole one.
        guess, done = True, signals.requests.value * span if isinstance(signals.requests, Measured) else 0.0
    if past.work <= 0.0 and not signals.failures_apart:
        done *= 1.0 - _failing(signals)  # a first guess had better not be of requests that were turned away
    throttled = signals.throttled.value if isinstance(signals.throttled, Measured) else 0.0
    known, whole = past.work > 0.0, past.done > 0.0
    frozen = (whole and throttled > THROTTLED) or (known and (not settled or _failing(signals) > FAILING))
    if frozen or done < FEWEST or cpu.value <= 0.0 or span > 120.0:
        if not frozen and done < FEWEST and span <= 120.0 and past.sampled_at >= 0.0:
            return msgspec.structs.replace(past, counted=counted)  # too few to tell: the next sample covers them too
        return msgspec.structs.replace(past, counted=counted, sampled_at=sampled_at, template=template)
    fade = max(0.0, 1.0 - span / MEMORY)
    total, sum_done = past.cpu * fade + cpu.value * span, past.done * fade + done
    lasted = signals.mean_latency.value if isinstance(signals.mean_latency, Measured) else None
    pace = spin.learn(past.pace, done / span, cpu.value * span / done, lasted if throttled < CALM else None)
    work, own = spin.cost(pace, total / sum_done)
    if guess:
        total = sum_done = 0.0
    speeds = past.speeds
    if lasted is not None and throttled < CALM and size > 0.0 and pods:
        speeds = serial.learn(speeds, work, lasted, size, cpu.value / (pods * size))
    lasts = pace.swift if pace.swift > 0.0 else lasted
    if lasts is not None and lasts > 0.0 and (not serial.curve(speeds) or spin.spins(pace)):
        own = min(own, lasts)  # spinning after its work: none needs longer than it takes
    return Cost(
        work=work, own=own, pace=pace, speeds=speeds, cpu=total, done=sum_done, counted=counted, sampled_at=sampled_at,
        template=template or past.template,
    )  # fmt: skip


def _failing(signals: Signals) -> float:
    """Share of failed and shed requests: those that are turned away at once cost next to nothing, others cost more."""
    if not isinstance(signals.failures, Measured) or not isinstance(signals.requests, Measured):
        return 0.0
    failed, answered = signals.failures.value, signals.requests.value
    total = answered + failed if signals.failures_apart else answered
    return failed / total if total > 0.0 else 0.0


def _count(counted: tuple[tuple[float, float], ...], completed: float, now: float) -> tuple[tuple[float, float], ...]:
    """One more entry, at most one a second; what is older than any sample goes."""
    total = (counted[-1][1] if counted else 0.0) + completed
    if len(counted) > 1 and now - counted[-2][0] < 1.0:
        return (*counted[:-1], (now, total))
    first = next((place for place, (at, _) in enumerate(counted) if at > now - KEPT), len(counted))
    return (*counted[max(0, first - 1) :], (now, total))


def _until(counted: tuple[tuple[float, float], ...], at: float) -> float:
    """Completions until ``at``, linear between two ticks; before the first and after the last as there."""
    if not counted or at <= counted[0][0]:
        return counted[0][1] if counted else 0.0
    for (begin, low), (end, high) in pairwise(counted):
        if at <= end:
            return low + (high - low) * (at - begin) / (end - begin)
    return counted[-1][1]


def completed(signals: Signals, elapsed: float) -> float:
    """Requests finished over ``elapsed`` seconds, by the fast counter."""
    if elapsed <= 0.0 or not isinstance(signals.requests, Measured):
        return 0.0
    if signals.counts is Counts.ARRIVALS:
        return signals.requests.value * elapsed  # over minutes what came in is what went out
    return signals.requests.value * elapsed
