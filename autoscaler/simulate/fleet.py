"""One workload's pods in the simulator: the compiled kernel, its arrivals and what was noted of them."""

from __future__ import annotations

import numpy as np

from autoscaler.queueing.state import IN_SYSTEM, SHARED, Fleet, empty_fleet, with_room
from autoscaler.simulate.arrivals import Arrivals
from autoscaler.simulate.compiled import compiled, floats, wholes
from autoscaler.simulate.load import Load
from autoscaler.simulate.scenario import NO_WAIT, Serving
from autoscaler.simulate.tally import BINS, Tally

CHUNK_S = 60.0


class SimulatedFleet:
    """Serves a stream of arrivals; pods are known by their place."""

    def __init__(self, serving: Serving, arrivals: Arrivals, *, target: float, scored_from: float, seed: int) -> None:
        self._run = compiled()
        self._arrivals = arrivals
        self.fleet: Fleet = empty_fleet(
            floats=floats,
            wholes=wholes,
            pods=8,
            requests=1024,
            threads=serving.threads,
            parallelism=serving.parallelism,
            balance=serving.balance,
            queue_limit=serving.queue_limit,
            batch=serving.batch,
            batch_cpu=serving.batch_cpu,
            batch_wait=serving.batch_wait,
            spin_window=serving.spin_window,
            spin_cores=serving.spin_cores,
            seed=seed,
        )
        minutes = max(1, int(np.ceil(arrivals.length / 60.0)))
        self.tally = Tally(
            aim=np.array([target, scored_from]),
            within=wholes(8, 0),
            latency_sum=floats(8, 0.0),
            minute_within=wholes(minutes, 0),
            bins=wholes(BINS, 0),
            dropped=wholes(2, 0),
        )
        self.minute_arrivals = wholes(minutes, 0)
        self.scored_arrivals = 0
        self._scored_from = scored_from
        self.now = 0.0
        self._chunk_end = 0.0
        self._next = 0
        self._times = self._works = self._waits = np.empty(0)
        self._taken: set[int] = set()

    def advance(self, to: float) -> None:
        """Serve everything up to `to`."""
        while to > self._chunk_end:
            if self._chunk_end > self.now:
                self._serve(self._chunk_end)
            self._fetch()
        if to > self.now:
            self._serve(to)

    def _serve(self, to: float) -> None:
        self._next = self._run.step(
            self.fleet, self.tally, self._times, self._works, self._waits, self._next, len(self._times), to
        )
        self.now = to

    def _fetch(self) -> None:
        """The next minute's arrivals; any arrival exactly on the border belongs to the minute before."""
        begin, end = self._chunk_end, self._chunk_end + CHUNK_S
        self._times, self._works, self._waits = self._arrivals.between(begin, end)
        self._next = 0
        self._chunk_end = end
        if len(self._times):
            minutes = np.minimum((self._times / 60.0).astype(np.int64), len(self.minute_arrivals) - 1)
            np.add.at(self.minute_arrivals, minutes, 1)
            self.scored_arrivals += int(np.count_nonzero(self._times >= self._scored_from))
        room = len(self._times) + int(self.fleet.cursor[IN_SYSTEM])
        if room > len(self.fleet.when):
            self.fleet = with_room(self.fleet, floats=floats, wholes=wholes, pods=0, requests=2 * room)

    def coming(self, span: float) -> float:
        """CPU-seconds that really arrive in the next `span` seconds: only ideal information may ask."""
        last = int(np.searchsorted(self._times, self.now + span, side="right"))
        total = float(self._works[self._next : last].sum())
        if self.now + span > self._chunk_end:
            times, works, _ = self._arrivals.peek(self._chunk_end, self._chunk_end + CHUNK_S)
            total += float(works[: int(np.searchsorted(times, self.now + span, side="right"))].sum())
        return total

    def open(self, limit: float, cores: float) -> int:
        """A pod starts serving now; gives its place."""
        place = next(place for place in range(len(self._taken) + 1) if place not in self._taken)
        if place >= len(self.fleet.status):
            room = 2 * (place + 1)
            self.fleet = with_room(self.fleet, floats=floats, wholes=wholes, pods=room, requests=0)
            more = room - len(self.tally.within)
            self.tally = self.tally._replace(
                within=np.concatenate([self.tally.within, wholes(more, 0)]),
                latency_sum=np.concatenate([self.tally.latency_sum, floats(more, 0.0)]),
            )
        self._taken.add(place)
        self.tally.within[place] = 0
        self.tally.latency_sum[place] = 0.0
        self._run.open_pod(self.fleet, place, self.now, float(limit), float(cores))
        return place

    def drain(self, place: int) -> None:
        self._run.drain_pod(self.fleet, place)

    def empty(self, place: int) -> bool:
        return int(self.fleet.inside[place]) == 0

    def close(self, place: int) -> None:
        """The pod is gone; what was still inside counts as dropped."""
        self._run.close_pod(self.fleet, place)
        self._taken.discard(place)

    def set_limit(self, place: int, limit: float) -> None:
        self._run.set_limit(self.fleet, place, float(limit))

    @property
    def in_flight(self) -> int:
        return int(self.fleet.cursor[IN_SYSTEM])

    @property
    def shared_waiting(self) -> int:
        return int(self.fleet.waiting[self.fleet.cursor[SHARED]])


def warm_up() -> None:
    """Have everything compiled and on disk, so that workers started next only read it."""
    idle = Arrivals(Load("none", rates=np.zeros(1)), "exact", NO_WAIT, NO_WAIT, length=1.0, seed=0)
    fleet = SimulatedFleet(Serving(), idle, target=1.0, scored_from=0.0, seed=0)
    place = fleet.open(1.0, 1.0)
    fleet.advance(1.0)
    fleet.set_limit(place, 2.0)
    fleet.drain(place)
    fleet.close(place)
