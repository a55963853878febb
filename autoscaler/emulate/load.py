"""Open-loop load: requests come when the schedule says, whatever the servers do with them."""

import bisect
import math
import random
from collections.abc import Iterator, Sequence


class Load:
    """Requests per second over time. `steps`: (seconds since the start, rate), the last rate stays for good.

    `ramp`: rates change linearly between the steps instead of jumping. `even`: evenly spaced arrivals instead of a
    Poisson stream. Times given to `between` must not go back.
    """

    def __init__(
        self, steps: Sequence[tuple[float, float]], *, ramp: bool = False, even: bool = False, seed: int = 1
    ) -> None:
        if any(rate < 0 or not math.isfinite(rate) for _, rate in steps):
            raise ValueError("a rate must be a number of requests per second, 0 or more")
        self.steps = sorted((float(at), float(rate)) for at, rate in steps)
        self.ramp = ramp
        self.even = even
        self._times = [at for at, _ in self.steps]
        self._dice = random.Random(seed)
        self._owed = 0.0  # of the next arrival, for even spacing
        self._next: float | None = None

    def rate(self, at: float) -> float:
        """Requests per second at a time."""
        index = bisect.bisect_right(self._times, at) - 1
        if index < 0:
            return 0.0
        begin, rate = self.steps[index]
        if not self.ramp or index + 1 == len(self.steps):
            return rate
        end, later = self.steps[index + 1]
        return rate + (later - rate) * (at - begin) / (end - begin)

    def between(self, begin: float, end: float) -> Iterator[float]:
        """Arrival times in (begin, end], in order."""
        at = begin
        while at < end:
            # Rates are taken as constant over short pieces, exactly so when they step.
            piece = min(end, at + 0.25 if self.ramp else self._next_step(at))
            yield from self._steady(at, piece, self.rate((at + piece) / 2 if self.ramp else at))
            at = piece

    def _next_step(self, at: float) -> float:
        index = bisect.bisect_right(self._times, at)
        return self._times[index] if index < len(self._times) else math.inf

    def _steady(self, begin: float, end: float, rate: float) -> Iterator[float]:
        if rate <= 0:
            return
        if self.even:
            gap = 1.0 / rate
            at = begin + gap * (1.0 - self._owed)
            while at <= end:
                yield at
                at += gap
            self._owed = (end - (at - gap)) / gap
            return
        at = begin + self._dice.expovariate(rate)
        while at <= end:
            yield at
            at += self._dice.expovariate(rate)
