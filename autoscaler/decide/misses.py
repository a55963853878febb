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
SEVERE = 5.0
"""One interval alone is a breach at this many times what is allowed."""
FEWEST = 2.0
"""Late requests in an interval below which it says nothing."""


def learn(past: Headroom, signals: Signals, dt: float) -> Headroom:
    """Add the newest interval to the minute; ``dt``: seconds since the sample before."""
    reading = signals.misses
    if not isinstance(reading, Measured) or reading.weight <= 0.0:
        return past
    keep = exp(-min(max(dt, 0.0), 600.0) / MINUTE)
    return msgspec.structs.replace(
        past, requests=past.requests * keep + reading.weight, missed=past.missed * keep + reading.weight * reading.value
    )


def breach(past: Headroom, reading: Measured, allowed: float) -> bool:
    """Whether more is missed than allowed: by far in this interval, or in the last minute and still now."""
    if reading.value <= allowed:
        return False
    if reading.weight <= 0.0:
        return True  # a ratio without its requests has to be believed
    late = reading.value * reading.weight
    if late >= FEWEST and reading.value >= SEVERE * allowed:
        return True
    return past.requests > 0.0 and past.missed > FEWEST and past.missed > allowed * past.requests
