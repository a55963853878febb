"""Arrivals of one workload, drawn minute by minute so that memory stays flat, the same for every controller.

* poisson: a Poisson number in each step of the load, at uniform moments.
* uniform: exactly the load's number in each step, at uniform moments: smoother than Poisson in the large.
* exact: evenly spaced along the cumulated rate; a list of requests comes as it is.
* faro: exactly N a minute; the first at its start, then exponential gaps of mean 60/N that are not cut at the
  minute's end, so minutes overlap or leave gaps (beyomeyl/faro's load generator). Much rougher than uniform.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from autoscaler.simulate.load import Load
from autoscaler.simulate.service import Service

PROCESSES = ("poisson", "uniform", "exact", "faro")


class Batch(NamedTuple):
    """Sorted times, CPU-seconds, seconds off the CPU."""

    times: np.ndarray
    works: np.ndarray
    waits: np.ndarray


class Arrivals:
    """`between(begin, end)` must be called for adjoining spans, in order."""

    def __init__(self, load: Load, process: str, service: Service, wait: Service, *, length: float, seed: int) -> None:
        if process not in PROCESSES:
            raise ValueError(f"arrivals {process!r} is none of {', '.join(PROCESSES)}")
        self._load = load
        self._process = "exact" if load.times is not None else process
        self._service, self._wait = service, wait
        self.length = length
        when, what = np.random.SeedSequence(seed).spawn(2)
        self._when, self._what = np.random.default_rng(when), np.random.default_rng(what)
        self._late = np.empty(0)  # drawn for an earlier span, coming in a later one
        self._drawn = 0.0
        self._offered = 0.0  # cumulated expected number, for `uniform` and `exact`
        self._kept: dict[tuple[float, float], Batch] = {}

    def between(self, begin: float, end: float) -> Batch:
        """Arrivals in (begin, end], the very first moment included in the first span."""
        kept = self._kept.pop((begin, end), None)
        if kept is not None:
            return kept
        times, tokens = self._times(begin, min(end, self.length))
        works = self._service.draw(self._what, len(times), tokens)
        waits = self._wait.draw(self._what, len(times))
        return Batch(times, np.ascontiguousarray(works, dtype=np.float64), waits)

    def peek(self, begin: float, end: float) -> Batch:
        """What `between` will give for the next span."""
        if (begin, end) not in self._kept:
            self._kept[(begin, end)] = self.between(begin, end)
        return self._kept[(begin, end)]

    @property
    def late(self) -> np.ndarray:
        """What was drawn already and comes after the last span asked for."""
        return self._late

    def _times(self, begin: float, end: float) -> tuple[np.ndarray, np.ndarray | None]:
        load = self._load
        if end <= begin:
            return np.empty(0), None
        if load.times is not None:
            first = int(np.searchsorted(load.times, begin, side="right")) if begin > 0 else 0
            last = int(np.searchsorted(load.times, end, side="right"))
            return load.times[first:last], None if load.tokens is None else load.tokens[first:last]
        drawn = [self._late]
        while self._drawn < end:
            drawn.append(self._step())
        times = np.sort(np.concatenate(drawn))
        cut = int(np.searchsorted(times, end, side="right"))
        self._late = times[cut:]
        return times[:cut], None

    def _step(self) -> np.ndarray:
        """The arrivals that belong to the next step of the load (short steps are drawn a minute at a time)."""
        load = self._load
        assert load.rates is not None
        first = round(self._drawn / load.step)
        steps = max(1, round(60.0 / load.step)) if self._process != "faro" else 1
        rates = load.rates[first : first + steps]
        begin = self._drawn
        self._drawn = (first + max(1, len(rates))) * load.step
        if not len(rates):
            return np.empty(0)
        expected = rates * load.step
        if self._process == "faro":
            number = round(float(expected[0]))
            if number == 0:
                return np.empty(0)
            gaps = self._when.exponential(load.step / number, number - 1)
            return begin + np.concatenate([[0.0], np.cumsum(gaps)])
        if self._process == "poisson":
            numbers = self._when.poisson(expected)
        else:
            edges = self._offered + np.concatenate([[0.0], np.cumsum(expected)])
            self._offered = float(edges[-1])
            # Counts are whole already in most loads; rounding the cumulated number loses none of a fractional one.
            whole = np.floor(edges + 1e-6)
            numbers = np.diff(whole).astype(np.int64)
            if self._process == "exact":
                marks = np.arange(whole[0] + 1, whole[-1] + 1)
                moments = begin + np.arange(len(edges)) * load.step
                return np.interp(marks, edges, moments)
        starts = np.repeat(begin + np.arange(len(rates)) * load.step, numbers)
        return starts + self._when.random(len(starts)) * load.step
