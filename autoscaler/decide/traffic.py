"""How many requests arrive: a level with change points.

A count over one scrape interval is noisy (±19 % of √ρ at 5 s and 180 ms); following it would mean a resize every tick,
averaging it would mean seeing a step half a minute late. So the level moves slowly while samples differ from it by
chance, and jumps when their summed surprise can't be chance any more (Page's CUSUM, 1954): a large step at once, a small
one after some ticks.
"""

from __future__ import annotations

from math import sqrt

import msgspec

from autoscaler.decide.history import Traffic
from autoscaler.model.signal import Absent, Counts, Measured, Signals

ALLOWANCE = 0.75
"""Surprise in standard deviations that a sample may have without counting."""
DECISION = 4.0
"""Summed surprise at which the level jumps."""
LEVEL_TIME = 90.0
"""Seconds over which the level follows what is not surprising."""
SWING_TIME = 1200.0
"""Seconds over which the swing is learned."""
REACTION = 3
"""Samples between a rise and the cores for it: what the swing is measured over."""
FORGET_GAP = 120.0
"""After this many seconds without a sample the level starts anew."""


def learn(past: Traffic, signals: Signals, now: float) -> Traffic:
    """Take in the newest sample; the same history when there is none newer."""
    requests = signals.requests
    if isinstance(requests, Absent):
        return past
    sampled_at = now - requests.age_s
    if past.sampled_at >= 0.0 and sampled_at - past.sampled_at < 0.5:
        return past
    window = requests.window_s if requests.window_s > 0.0 else 5.0
    in_flight = signals.in_flight.value if isinstance(signals.in_flight, Measured) else -1.0
    rate = requests.value
    fresh = past.sampled_at < 0.0 or sampled_at - past.sampled_at > FORGET_GAP
    if signals.counts is Counts.COMPLETIONS and in_flight >= 0.0 and past.in_flight >= 0.0 and not fresh:
        rate = max(0.0, rate + (in_flight - past.in_flight) / max(window, sampled_at - past.sampled_at))
    stalled = 0.0
    if in_flight > 0.0 and requests.value <= 0.0 and signals.counts is Counts.COMPLETIONS:
        stalled = past.stalled_for + (window if fresh else sampled_at - past.sampled_at)
    if fresh or past.level < 0.0:
        return Traffic(
            level=rate, samples=1, newest=rate, sampled_at=sampled_at, in_flight=in_flight, swing=past.swing,
            stalled_for=stalled,
        )  # fmt: skip
    return _follow(past, rate, window, sampled_at, in_flight, stalled)


def _follow(past: Traffic, rate: float, window: float, at: float, in_flight: float, stalled: float) -> Traffic:
    level, samples = past.level, past.samples
    noise = chance(level, window)
    # The level itself is uncertain while it is young.
    surprise = (rate - level) / (noise * sqrt(1.0 + 1.0 / samples))
    rise = past.rise + surprise - ALLOWANCE
    fall = past.fall - surprise - ALLOWANCE
    rise_sum = rise_time = fall_sum = fall_time = 0.0
    if rise > 0.0:
        rise_sum, rise_time = past.rise_sum + rate * window, past.rise_time + window
    else:
        rise = 0.0
    if fall > 0.0:
        fall_sum, fall_time = past.fall_sum + rate * window, past.fall_time + window
    else:
        fall = 0.0
    if rise > DECISION or fall > DECISION:
        level = rise_sum / rise_time if rise > DECISION else fall_sum / fall_time
        samples = max(1, round((rise_time if rise > DECISION else fall_time) / window))
        rise = fall = rise_sum = rise_time = fall_sum = fall_time = 0.0
    else:
        samples += 1
        level += (rate - level) * max(window / LEVEL_TIME, 1.0 / samples)
    earlier = past.earlier
    swing = past.swing
    if len(earlier) >= REACTION:
        before = earlier[0]
        beyond = rate - before
        excess = beyond * beyond - noise * noise if beyond > 0.0 else 0.0
        relative = min(4.0, max(0.0, excess) / max(before * before, noise * noise))
        swing += (relative - swing) * min(1.0, window / SWING_TIME)
        earlier = (*earlier[1:], past.level)
    else:
        earlier = (*earlier, past.level)
    return msgspec.structs.replace(
        past, level=level, samples=samples, newest=rate, sampled_at=at, in_flight=in_flight, rise=rise,
        rise_sum=rise_sum, rise_time=rise_time, fall=fall, fall_sum=fall_sum, fall_time=fall_time, earlier=earlier,
        swing=swing, stalled_for=stalled,
    )  # fmt: skip


def chance(rate: float, window: float) -> float:
    """Standard deviation of a Poisson rate counted over ``window`` seconds; one more event than expected counts too."""
    return sqrt(max(rate, 0.0) * window + 1.0) / window


def upper(past: Traffic, window: float = 5.0) -> float:
    """The rate to prepare for: the level, or an excursion that is likely real before it is certain."""
    if past.rise_time > 0.0 and past.rise > 2.0:
        return max(past.level, past.rise_sum / past.rise_time)
    return past.level
