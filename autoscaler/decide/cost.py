"""CPU-seconds per request: a slow parameter, learned from sums over minutes.

CPU comes every 10–15 s with its own timestamps and completions every scrape, so one sample's ratio is crooked at its
edges and a sum over minutes isn't. Frozen while throttled hard, without traffic, and for a minute after a start.
"""

from __future__ import annotations

import msgspec

from autoscaler.decide.history import Cost
from autoscaler.model.signal import Absent, Counts, Measured, Signals

MEMORY = 300.0
"""Seconds after which a sample weighs 1/e."""
THROTTLED = 0.7
"""Above this share of throttled periods a sample says more about the quota than about the request."""
FEWEST = 3.0
"""Completions a sample must have to count."""


def learn(past: Cost, signals: Signals, completed: float, now: float, template: str, settled: bool) -> Cost:
    """Take in the newest CPU sample. ``completed``: requests finished since the last tick; ``settled``: no pod of those
    that serve is younger than a minute."""
    if past.template and template and template != past.template:
        past = Cost(work=past.work, template=template)  # the old figure is the best guess for the new template
    cpu = signals.cpu
    pending = past.pending + completed
    if isinstance(cpu, Absent):
        return past if completed <= 0.0 else msgspec.structs.replace(past, pending=pending)
    sampled_at = now - cpu.age_s
    if past.sampled_at >= 0.0 and sampled_at - past.sampled_at < 1.0:
        return past if completed <= 0.0 else msgspec.structs.replace(past, pending=pending)
    span = sampled_at - past.sampled_at if past.sampled_at >= 0.0 else (cpu.window_s or 15.0)
    if past.sampled_at < 0.0 and isinstance(signals.requests, Measured):
        pending = signals.requests.value * span
    throttled = signals.throttled.value if isinstance(signals.throttled, Measured) else 0.0
    known = past.work > 0.0
    frozen = known and (throttled > THROTTLED or not settled)
    if frozen or pending < FEWEST or cpu.value <= 0.0 or span > 120.0:
        keep = 0.0 if span > 120.0 or pending >= FEWEST else pending
        # Too few requests: the CPU they took is waited for too, so keep counting both only when nothing is lost.
        return msgspec.structs.replace(past, pending=keep if frozen else 0.0, sampled_at=sampled_at, template=template)
    fade = max(0.0, 1.0 - span / MEMORY)
    total, done = past.cpu * fade + cpu.value * span, past.done * fade + pending
    return Cost(work=total / done, cpu=total, done=done, sampled_at=sampled_at, template=template or past.template)


def completed(signals: Signals, elapsed: float) -> float:
    """Requests finished over ``elapsed`` seconds, by the fast counter."""
    if elapsed <= 0.0 or not isinstance(signals.requests, Measured):
        return 0.0
    if signals.counts is Counts.ARRIVALS:
        return signals.requests.value * elapsed  # over minutes what came in is what went out
    return signals.requests.value * elapsed
