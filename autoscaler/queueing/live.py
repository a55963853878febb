"""Pods that serve in real or virtual time, in plain Python: what the emulator puts behind each running pod.

    serving = ServingPods(threads=4, parallelism=1.0, balance="round-robin", queue_limit=50)
    serving.add_pod("web-0", at=0.0, limit=0.5, cores=4.0)      # cores: what the node has; limit: None = no quota
    serving.offer(0.010, work=0.020)                            # CPU-seconds; wait=: seconds off the CPU after it
    serving.advance(1.0)                                        # serve everything up to t = 1 s
    serving.set_limit("web-0", 1.2, at=1.0)                     # works at once, the bucket is refilled
    serving.pods["web-0"].completions                           # counters, all monotonic, see `PodCounters`
    serving.remove_pod("web-0")                                 # drains; gone from `pods` once empty
    serving.remove_pod("web-1", drain=False)                    # killed: what is inside is dropped

Times are seconds on any clock that never goes back; arrivals must be offered in order and not before the last
`advance`. `offer` only notes the arrival, `advance` does the work, so offering a second's arrivals and advancing once
is cheapest. `sample(name)` reads one pod's counters, in-flight and waiting included; `shared_waiting`, `dropped` and
`finished()` speak of all pods. Nothing here imports NumPy, asyncio or a clock.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from autoscaler.queueing import kernel, places
from autoscaler.queueing.state import DONE, DRAINING, PODS, SHARED, empty_fleet, with_room

BUCKETS: tuple[float, ...] = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.075,
    0.1,
    0.15,
    0.2,
    0.25,
    0.3,
    0.4,
    0.5,
    0.6,
    0.72,
    0.75,
    0.8,
    1.0,
    1.5,
    2.0,
)
BUCKETS += (2.5, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 60.0)

LEAST_LIMIT = 0.01  # cores; the kernel takes no quota below 1 ms in 100 ms


@dataclass(slots=True)
class PodCounters:
    """What one pod has counted since it started. Seconds, CPU-seconds, requests."""

    arrivals: int = 0  # dropped ones included
    completions: int = 0
    dropped: int = 0
    in_flight: int = 0  # inside the pod, waiting ones included
    waiting: int = 0
    cpu_seconds: float = 0.0
    periods: int = 0  # quota periods with use (nr_periods of cpu.stat)
    throttled_periods: int = 0
    throttled_seconds: float = 0.0
    latency_buckets: list[int] = field(default_factory=list)  # cumulative, one a bound of `bounds`, then +Inf
    latency_sum: float = 0.0  # seconds; the count is `completions`


def _floats(length: int, value: float) -> list[float]:
    return [value] * length


def _wholes(length: int, value: int) -> list[int]:
    return [value] * length


class ServingPods:
    """All pods of one workload and the balancing in front of them."""

    def __init__(
        self,
        *,
        threads: int = 8,
        parallelism: float = 1.0,
        balance: str = "round-robin",
        queue_limit: int = 1_000_000,
        batch: int = 1,
        batch_cpu: float = 0.0,
        batch_wait: float = 0.0,
        spin_window: float = 0.0,
        spin_cores: float = 1.0,
        bounds: Sequence[float] = BUCKETS,
        keep_finished: bool = False,
        seed: int = 1,
    ) -> None:
        """`balance`: shared, round-robin, random or least-outstanding. `bounds`: of the latency histogram, seconds.

        `keep_finished`: remember every finished request for `finished()`; otherwise only the counters stay.
        """
        self.keep_finished = keep_finished
        self.bounds = tuple(sorted(bounds))
        self.pods: dict[str, PodCounters] = {}
        self.dropped = 0  # by all pods and by the balancing, when no pod serves or the shared queue is full
        self._places: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._draining: set[str] = set()
        self._buckets: dict[str, list[int]] = {}
        self._offered: list[tuple[float, float, float]] = []
        self._finished: list[tuple[str, float, float]] = []
        self._fleet = empty_fleet(
            floats=_floats,
            wholes=_wholes,
            pods=4,
            requests=256,
            threads=threads,
            parallelism=parallelism,
            balance=balance,
            queue_limit=queue_limit,
            batch=batch,
            batch_cpu=batch_cpu,
            batch_wait=batch_wait,
            spin_window=spin_window,
            spin_cores=spin_cores,
            seed=seed,
        )
        self.now = 0.0

    def add_pod(self, name: str, *, at: float, limit: float | None, cores: float = inf) -> None:
        """A pod starts serving at `at`. `limit` in cores (None: no quota), `cores` it can burn at once."""
        if name in self._places:
            raise ValueError(f"pod {name} is serving already")
        self.advance(max(at, self.now))
        taken = set(self._names)
        place = next(place for place in range(len(taken) + 1) if place not in taken)
        if place >= len(self._fleet.status):
            self._fleet = with_room(self._fleet, floats=_floats, wholes=_wholes, pods=2 * (place + 1), requests=0)
        self._places[name], self._names[place] = place, name
        self._buckets[name] = [0] * (len(self.bounds) + 1)
        places.open_pod(self._fleet, place, self.now, _quota(limit), float(cores))
        self.pods[name] = PodCounters(latency_buckets=[0] * (len(self.bounds) + 1))

    def remove_pod(self, name: str, *, drain: bool = True) -> None:
        """Take the pod out of balancing; it finishes what it has (`drain`) or drops it and is gone."""
        place = self._places[name]
        if drain:
            places.drain_pod(self._fleet, place)
            self._draining.add(name)
            self._forget_empty()
        else:
            places.close_pod(self._fleet, place)
            self._collect()
            self._forget(name)

    def set_limit(self, name: str, limit: float | None, *, at: float | None = None) -> None:
        """Write the quota, as the kubelet does: it works at once."""
        if at is not None:
            self.advance(max(at, self.now))
        places.set_limit(self._fleet, self._places[name], _quota(limit))

    def set_cores(self, name: str, cores: float, *, at: float | None = None) -> None:
        """Bound what the pod can burn at once, as neighbours on a full node do."""
        if at is not None:
            self.advance(max(at, self.now))
        places.set_cores(self._fleet, self._places[name], float(cores))

    def offer(self, arrival: float, work: float, wait: float = 0.0) -> None:
        """A request that needs `work` CPU-seconds and then `wait` seconds off the CPU."""
        self._offered.append((max(arrival, self.now), work, wait))

    def advance(self, to: float) -> None:
        """Serve all that was offered up to `to` and everything that ends until then."""
        if to < self.now:
            raise ValueError(f"time went back from {self.now} to {to}")
        times = [request[0] for request in self._offered]
        room = len(times) + self.in_flight
        if room > len(self._fleet.when):
            self._fleet = with_room(self._fleet, floats=_floats, wholes=_wholes, pods=0, requests=2 * room)
        works = [request[1] for request in self._offered]
        waits = [request[2] for request in self._offered]
        served = kernel.advance(self._fleet, times, works, waits, 0, len(times), to)
        del self._offered[:served]
        self.now = to
        self._collect()
        self._forget_empty()

    @property
    def in_flight(self) -> int:
        """Requests inside all pods and the shared queue."""
        return sum(self._fleet.inside[: self._fleet.cursor[PODS]]) + self.shared_waiting

    @property
    def shared_waiting(self) -> int:
        """Requests in the shared queue (0 with any other balancing)."""
        return self._fleet.waiting[self._fleet.cursor[SHARED]]

    def next_event(self) -> float:
        """When the next request ends, if nothing else arrives; infinite when all is idle."""
        return min(self._fleet.next_event[: self._fleet.cursor[PODS]], default=inf)

    def sample(self, name: str) -> PodCounters:
        """The pod's counters as of the last `advance` (the same object as `pods[name]`)."""
        return self.pods[name]

    def finished(self) -> Iterator[tuple[str, float, float]]:
        """With `keep_finished`: (pod, arrival, end) of each request since the last call.

        A negative end means dropped, an empty name that no pod was there to take it.
        """
        done, self._finished = self._finished, []
        return iter(done)

    def _collect(self) -> None:
        fleet = self._fleet
        for place in range(fleet.cursor[DONE]):
            name = self._names.get(fleet.done_pod[place], "")
            arrived, ended = fleet.done_when[place], fleet.done_at[place]
            if self.keep_finished:
                self._finished.append((name, arrived, ended))
            if ended < 0:
                self.dropped += 1
            else:
                self._buckets[name][bisect_left(self.bounds, ended - arrived)] += 1
                self.pods[name].latency_sum += ended - arrived
        fleet.cursor[DONE] = 0
        for name, place in self._places.items():
            counters = self.pods[name]
            counters.arrivals = fleet.arrivals[place]
            counters.completions = fleet.completions[place]
            counters.dropped = fleet.dropped[place]
            counters.in_flight = fleet.inside[place]
            counters.waiting = fleet.waiting[place]
            counters.cpu_seconds = fleet.cpu[place]
            counters.periods = fleet.periods[place]
            counters.throttled_periods = fleet.throttled[place]
            counters.throttled_seconds = fleet.throttled_time[place]
            total = 0
            for bucket, count in enumerate(self._buckets[name]):
                total += count
                counters.latency_buckets[bucket] = total

    def _forget_empty(self) -> None:
        for name in [name for name in self._draining if self._fleet.inside[self._places[name]] == 0]:
            places.close_pod(self._fleet, self._places[name])
            self._forget(name)

    def _forget(self, name: str) -> None:
        self._draining.discard(name)
        del self._names[self._places.pop(name)]
        del self._buckets[name]
        del self.pods[name]


def _quota(limit: float | None) -> float:
    return inf if limit is None else max(LEAST_LIMIT, float(limit))


__all__ = ["BUCKETS", "DRAINING", "PodCounters", "ServingPods"]
