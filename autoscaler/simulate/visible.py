"""What can be scraped of the made-up cluster: the only thing controllers see.

Application metrics are counters and gauges at each scrape, so rates cover one scrape interval. CPU and throttling come
from the kubelet: each pod is sampled every 10 or 15 s and the sample is visible one scrape later, so its age is up to
20 s. What happened in a pod after its last scrape is lost with the pod.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from autoscaler.simulate.cluster import Cluster, SimulatedPod


@dataclass(slots=True)
class CpuSeen:
    """Between the kubelet's last two samples: cores used, share of periods throttled; `at` is the newer one's time."""

    cores: float
    throttled: float
    at: float
    window: float


@dataclass(slots=True)
class PodSeen:
    """One pod at one scrape. Rates per second over `Seen.window`."""

    pod: SimulatedPod
    serving: bool
    requests: float = 0.0
    within: float = 0.0
    failures: float = 0.0
    latency: float = 0.0  # seconds per second: sum of the latencies of what completed
    in_flight: int = 0
    scraped: bool = False  # there is a rate: it was scraped before, too
    cpu: CpuSeen | None = None


@dataclass(slots=True)
class Seen:
    """One workload at one scrape: completions, misses and failures per second since the scrape before."""

    workload: int
    at: float
    window: float
    replicas: int
    pods: list[PodSeen] = field(default_factory=list)
    requests: float = 0.0
    within: float = 0.0
    failures: float = 0.0
    latency: float = 0.0
    in_flight: int = 0

    @property
    def missed(self) -> float | None:
        """Share of what ended that missed the objective; None when nothing ended."""
        ended = self.requests + self.failures
        return None if ended <= 0 else 1.0 - self.within / ended

    @property
    def ready(self) -> list[PodSeen]:
        return [pod for pod in self.pods if pod.serving]


class _Sampled:
    """The kubelet's two newest samples of one pod and the one that is not published yet."""

    __slots__ = ("due", "fresh", "newest", "seen")

    def __init__(self, at: float) -> None:
        self.due = at
        self.newest = (at, 0.0, 0, 0)
        self.fresh: tuple[float, float, int, int] | None = None
        self.seen: CpuSeen | None = None


class Visibility:
    """Scrapes everything at each tick."""

    def __init__(self, cluster: Cluster, *, seed: int) -> None:
        self._cluster = cluster
        self._dice = np.random.default_rng([seed, 78])
        self._counters: dict[str, tuple[int, int, int, float]] = {}
        self._dropped = [0] * len(cluster.fleets)
        self._sampled: dict[str, _Sampled] = {}
        self._last = 0.0

    def scrape(self) -> list[Seen]:
        """One `Seen` a workload, in their order."""
        cluster = self._cluster
        now, window = cluster.now, max(cluster.now - self._last, 1e-9)
        counters: dict[str, tuple[int, int, int, float]] = {}
        seen = []
        for workload, fleet in enumerate(cluster.fleets):
            state, tally = fleet.fleet, fleet.tally
            glimpse = Seen(workload, now, window, cluster.replicas[workload])
            glimpse.in_flight = fleet.shared_waiting
            for pod in cluster.pods[workload]:
                place = pod.place
                if place is None:
                    glimpse.pods.append(PodSeen(pod, False))
                    continue
                one = PodSeen(pod, not pod.draining, in_flight=int(state.inside[place]))
                current = (
                    int(state.completions[place]),
                    int(tally.within[place]),
                    int(state.dropped[place]),
                    float(tally.latency_sum[place]),
                )
                before = self._counters.get(pod.uid)
                counters[pod.uid] = current
                if before is None and pod.ready_at == 0.0:
                    before = (0, 0, 0, 0.0)
                if before is not None:
                    one.scraped = True
                    one.requests = (current[0] - before[0]) / window
                    one.within = (current[1] - before[1]) / window
                    one.failures = (current[2] - before[2]) / window
                    one.latency = (current[3] - before[3]) / window
                one.cpu = self._sample(pod, place, state, now)
                glimpse.pods.append(one)
                glimpse.requests += one.requests
                glimpse.within += one.within
                glimpse.latency += one.latency
                glimpse.in_flight += one.in_flight
            dropped = int(tally.dropped[0])
            glimpse.failures = (dropped - self._dropped[workload]) / window
            self._dropped[workload] = dropped
            seen.append(glimpse)
        self._counters = counters
        if len(self._sampled) > 4 * len(counters) + 16:
            self._sampled = {uid: sampled for uid, sampled in self._sampled.items() if uid in counters}
        self._last = now
        return seen

    def _sample(self, pod: SimulatedPod, place: int, state: object, now: float) -> CpuSeen | None:
        sampled = self._sampled.get(pod.uid)
        if sampled is None:
            sampled = self._sampled[pod.uid] = _Sampled(pod.ready_at or 0.0)
        if sampled.fresh is not None and now > sampled.fresh[0]:
            at, cpu, periods, throttled = sampled.fresh
            before = sampled.newest
            window = at - before[0]
            counted = periods - before[2]
            share = (throttled - before[3]) / counted if counted > 0 else 0.0
            sampled.seen = CpuSeen((cpu - before[1]) / window, share, at, window)
            sampled.newest, sampled.fresh = sampled.fresh, None
        if now >= sampled.due + 1e-9 and sampled.fresh is None and now > sampled.newest[0]:
            used = float(state.cpu[place])  # type: ignore[attr-defined]
            sampled.fresh = (now, used, int(state.periods[place]), int(state.throttled[place]))  # type: ignore[attr-defined]
            sampled.due = now + float(self._dice.uniform(9.0, 15.0))
        return sampled.seen
