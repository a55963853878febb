"""How many requests arrive: a level with change points.

A count over one scrape interval is noisy (±19 % of √ρ at 5 s and 180 ms); following it would mean a resize every tick,
averaging it would mean seeing a step half a minute late. So the level moves slowly while samples differ from it by
chance, and jumps when their summed surprise can't be chance any more (Page's CUSUM, 1954): a step soon, a burst of a
few seconds not at all: what it left behind is drained, the level stays.
"""

from __future__ import annotations

from math import exp, sqrt

import msgspec

from autoscaler.decide.history import Traffic
from autoscaler.model.signal import Absent, Counts, Measured, Signals

ALLOWANCE = 0.75
"""Surprise in standard deviations that a sample may have without counting."""
DECISION = 7.0
"""Summed surprise at which the level jumps."""
LEARN_GAIN = 0.02
"""Part by which the gain moves at two surprises of usual size."""
LEAST_GAIN, MOST_GAIN = 0.03, 0.4
"""Bounds of the gain at a sample each five seconds."""
SPREAD_SAMPLES = 100.0
"""Samples over which the size of surprises is learned."""
CLIP_SQUARE, CLIP_SURPRISE = 9.0, 3.0
"""A single sample counts at most as this many of the usual ones."""
USUAL_WINDOW = 5.0
WHOLE = 4.5
"""Seconds of samples that make one: what comes and goes within is a queue's to bear, not the head-room's."""
EXCESS_TIME = 1800.0
"""Seconds over which the size of surprises is learned."""
REACTION = 2
"""Samples between a rise and the cores for it: what surprises are measured over."""
CLIP = 6.0
"""One surprise counts at most this many of the usual ones: a single burst is no habit."""
MEAN_TIME = 1800.0
"""Seconds over which the mean is taken that levels come back to."""
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
    if signals.failures_apart and isinstance(signals.failures, Measured):
        rate += signals.failures.value  # what is shed came, too
    fresh = past.sampled_at < 0.0 or sampled_at - past.sampled_at > FORGET_GAP
    if signals.counts is Counts.COMPLETIONS and in_flight >= 0.0 and past.in_flight >= 0.0 and not fresh:
        rate = max(0.0, rate + (in_flight - past.in_flight) / max(window, sampled_at - past.sampled_at))
    stalled = 0.0
    if in_flight > 0.0 and requests.value <= 0.0 and signals.counts is Counts.COMPLETIONS:
        stalled = past.stalled_for + (window if fresh else sampled_at - past.sampled_at)
    if fresh or past.level < 0.0:
        return Traffic(
            level=rate, samples=1, newest=rate, sampled_at=sampled_at, in_flight=in_flight, excess=past.excess,
            excess_square=past.excess_square, stalled_for=stalled,
        )  # fmt: skip
    return _follow(past, rate, window, sampled_at, in_flight, stalled)


def _follow(past: Traffic, rate: float, window: float, at: float, in_flight: float, stalled: float) -> Traffic:
    level, samples = past.level, past.samples
    noise = chance(level, window)
    # The level itself is uncertain while it is young.
    surprise = (rate - level) / (noise * sqrt(1.0 + 1.0 / samples))
    spread = past.spread + (min(surprise**2, CLIP_SQUARE * past.spread) - past.spread) / SPREAD_SAMPLES
    usual = surprise / sqrt(spread)
    usual = max(-CLIP_SURPRISE, min(CLIP_SURPRISE, usual))
    gain = max(
        LEAST_GAIN,
        min(MOST_GAIN, past.gain * exp(LEARN_GAIN * min(1.0, window / USUAL_WINDOW) * usual * past.surprise)),
    )
    counted = surprise / sqrt(max(1.0, spread))
    rise = past.rise + counted - ALLOWANCE
    fall = past.fall - counted - ALLOWANCE
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
        rise = fall = rise_sum = rise_time = fall_sum = fall_time = usual = 0.0
    else:
        samples += 1
        level += (rate - level) * max(1.0 - (1.0 - gain) ** (window / USUAL_WINDOW), 1.0 / samples)
    mean_time = min(MEAN_TIME, past.mean_time + window)
    mean = past.mean + (rate - past.mean) * (window / mean_time) if past.mean >= 0.0 else rate
    earlier = past.earlier
    excess, square = past.excess, past.excess_square
    if excess < 0.0:
        relative = noise / max(level, noise)
        excess, square = 0.4 * relative, 0.5 * relative * relative
    binned, binned_time = past.binned + rate * window, past.binned_time + window
    if binned_time >= WHOLE:
        if len(earlier) >= REACTION:
            before = max(earlier[0], noise)
            beyond = min(max(0.0, binned / binned_time / before - 1.0), CLIP * square / (2.0 * excess))
            weight = min(1.0, binned_time / EXCESS_TIME)
            excess += (beyond - excess) * weight
            square += (beyond * beyond - square) * weight
            earlier = (*earlier[1:], past.level)
        else:
            earlier = (*earlier, past.level)
        binned = binned_time = 0.0
    return msgspec.structs.replace(
        past, level=level, samples=samples, newest=rate, mean=mean, mean_time=mean_time, sampled_at=at,
        in_flight=in_flight, rise=rise, rise_sum=rise_sum, rise_time=rise_time, fall=fall, fall_sum=fall_sum,
        fall_time=fall_time, earlier=earlier, excess=excess, excess_square=square, gain=gain, spread=spread,
        binned=binned, binned_time=binned_time, surprise=usual, stalled_for=stalled,
    )  # fmt: skip


def chance(rate: float, window: float) -> float:
    """Standard deviation of a Poisson rate counted over ``window`` seconds; one more event than expected counts too."""
    return sqrt(max(rate, 0.0) * window + 1.0) / window


def tail(past: Traffic) -> tuple[float, float]:
    """(p, s): a sample exceeds the level by more than x times itself with probability p·e^(−x/s).

    The exponential with the two moments that were seen: s = m₂ / 2m₁, p = 2m₁² / m₂.
    """
    if past.excess <= 0.0 or past.excess_square <= 0.0:
        return 0.5, 0.0
    return min(1.0, 2.0 * past.excess**2 / past.excess_square), past.excess_square / (2.0 * past.excess)
