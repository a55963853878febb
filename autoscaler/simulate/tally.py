"""What is noted of finished requests: by pod for the scrapes, by minute and by latency for the scores."""

from math import log, log1p
from typing import Any, NamedTuple

from autoscaler.queueing.state import DONE, Fleet

RESOLUTION = 0.005  # relative width of a latency bin
SHORTEST = 1e-4  # seconds; everything below shares the first bin
STEP = log1p(RESOLUTION)
BINS = 4000  # up to 1e-4 x 1.005^4000: ten hours


class Tally(NamedTuple):
    """Arrays, one row a pod, a minute of arrival, or a bin of latency. `aim`: objective, scored from, minutes kept."""

    aim: Any
    within: Any  # per pod: requests answered within the objective
    latency_sum: Any  # per pod, seconds
    minute_within: Any  # per minute of arrival
    bins: Any  # completed requests that count, by latency
    dropped: Any  # [all requests dropped, those that count]


def note(fleet: Fleet, tally: Tally) -> None:
    """Empty the finished requests into the tally."""
    target = tally.aim[0]
    scored_from = tally.aim[1]
    minutes = len(tally.minute_within)
    for place in range(fleet.cursor[DONE]):
        arrived = fleet.done_when[place]
        ended = fleet.done_at[place]
        counts = arrived >= scored_from
        if ended < 0.0:
            tally.dropped[0] += 1
            if counts:
                tally.dropped[1] += 1
            continue
        latency = ended - arrived
        pod = fleet.done_pod[place]
        tally.latency_sum[pod] += latency
        if latency <= target:
            tally.within[pod] += 1
            minute = int(arrived / 60.0)
            if minute < minutes:
                tally.minute_within[minute] += 1
        if counts:
            bin_ = 0
            if latency > SHORTEST:
                bin_ = min(BINS - 1, int(log(latency / SHORTEST) / STEP) + 1)
            tally.bins[bin_] += 1
    fleet.cursor[DONE] = 0
