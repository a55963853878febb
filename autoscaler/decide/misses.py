"""Whether the objective is missed, and what that teaches about head-room.

One scrape interval has too few requests to judge 99.5 %: three late ones of 360 are 0.8 %. So misses are weighed twice,
as burn rates of an error budget are: over a minute against what is allowed, and over one interval against several times
that, so that a real breach is seen at once and a few stragglers buy no cores.
"""

from __future__ import annotations

from math import exp

import msgspec

from autoscaler.decide.history import Headroom
from autoscaler.model.signal import Measured, Signals

MINUTE = 60.0
"""Seconds over which misses are weighed against what is allowed."""
INTERVAL = 5.0
"""Seconds that an interval has at least: of a single second nothing can be said."""
SEVERE = 5.0
"""One interval alone is a breach at this many times what is allowed."""
AIM = 0.15
"""Share of the allowed misses that the learned factor steers for."""
JUDGED = 300.0
"""Seconds of undisturbed samples after which the factor is judged."""
SPARE, PLENTY = 0.1, 10.0
"""Head-room is taken back where at most this part of what is aimed at was missed, of requests enough to expect ten."""
MORE, LESS = 1.15, 0.96
LEAST, MOST = 0.3, 4.0
FEWEST = 2.0
"""Late requests in an interval below which it says nothing."""


def learn(past: Headroom, signals: Signals, dt: float) -> Headroom:
    """Add the newest interval to the minute; ``dt``: seconds since the sample before."""
    reading = signals.misses
    if not isinstance(reading, Measured) or reading.weight <= 0.0:
        return past
    keep = exp(-min(max(dt, 0.0), 600.0) / MINUTE)
    some = max(0.0, 1.0 - max(dt, 0.0) / INTERVAL)
    late = reading.weight * reading.value
    return msgspec.structs.replace(
        past, requests=past.requests * keep + reading.weight, missed=past.missed * keep + late,
        lately=past.lately * some + reading.weight, late=past.late * some + late,
    )  # fmt: skip


def breach(past: Headroom, reading: Measured, allowed: float) -> bool:
    """Whether more is missed than allowed: by far in this interval, or in the last minute and still now."""
    if reading.value <= allowed:
        return False
    if reading.weight <= 0.0:
        return True  # a ratio without its requests has to be believed
    if past.late >= FEWEST and past.late >= SEVERE * allowed * past.lately:
        return True
    return past.requests > 0.0 and past.missed > FEWEST and past.missed > allowed * past.requests


def judge(past: Headroom, signals: Signals, *, allowed: float, dt: float, evidence: bool | None) -> Headroom:
    """Learn the factor on head-room from one undisturbed interval: nothing in flight, not clamped, no change lately.

    ``evidence``: whether the CPU is what was short; late requests without it teach nothing. Only whole windows of
    ``JUDGED`` seconds with enough requests to see what is aimed at move the factor, by a step.
    """
    reading = signals.misses
    if not isinstance(reading, Measured) or reading.weight <= 0.0 or allowed <= 0.0:
        return past
    late = reading.value * reading.weight
    if late > 0.0 and evidence is False:
        return past
    time, asked, missed = past.judged_time + dt, past.judged_requests + reading.weight, past.judged_missed + late
    aim = AIM * allowed
    beta = past.beta
    if time >= JUDGED and asked * aim >= FEWEST and missed > 2.0 * aim * asked:
        beta = min(MOST, beta * MORE)
        time = asked = missed = 0.0
    elif time >= JUDGED and asked * aim >= PLENTY:  # that nothing was missed of a few proves nothing
        if missed < SPARE * aim * asked:
            beta = max(LEAST, beta * LESS)
        time = asked = missed = 0.0
    return msgspec.structs.replace(past, beta=beta, judged_time=time, judged_requests=asked, judged_missed=missed)
