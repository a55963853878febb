"""The Vertical Pod Autoscaler, sizes written in place (InPlaceOrRecreate).

From the recommender's and updater's sources and docs (kubernetes/autoscaler, vertical-pod-autoscaler/docs): CPU samples
of a minute go into a histogram whose buckets grow by 5 % from 10 m, weighted by the request and decaying by half a day;
target is the 90th percentile, bounds the 50th and 95th, plus 15 % safety margin, widened by confidence (days of
samples): upper x (1 + 1/confidence), lower x (1 + 0.001/confidence)^-2. The updater acts once a minute on pods outside
the bounds; inside, only on pods older than 12 h that are 10 % off. Nothing below 25 m.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.simulate.cluster import Cluster
from autoscaler.simulate.controllers.base import Order, Shape, Size, vertical_shapes
from autoscaler.simulate.scenario import Scenario
from autoscaler.simulate.visible import Seen

FIRST_BUCKET, RATIO, LARGEST = 0.01, 1.05, 1000.0
HALF_LIFE_S = 24 * 3600.0
MIN_SAMPLE_WEIGHT = 0.1
MARGIN = 1.15
TARGET, LOWER, UPPER = 0.90, 0.50, 0.95
MINIMUM = 0.025
INTERVAL_S = 60.0
LONG_LIVED_S, WORTH_IT = 12 * 3600.0, 0.1


class CpuHistogram:
    """Exponential buckets; a sample's weight doubles with every half-life, which lets the older ones fade."""

    def __init__(self) -> None:
        starts = [0.0]
        width = FIRST_BUCKET
        while starts[-1] < LARGEST:
            starts.append(starts[-1] + width)
            width *= RATIO
        self._starts = starts
        self._weights = [0.0] * len(starts)
        self.first: float | None = None
        self.samples = 0
        self.last = 0.0

    def add(self, cores: float, request: float, at: float) -> None:
        """One sample of CPU use under a request (cores) at a time (s)."""
        bucket = 0
        while bucket + 1 < len(self._starts) and cores >= self._starts[bucket + 1]:
            bucket += 1
        self._weights[bucket] += max(request, MIN_SAMPLE_WEIGHT) * 2.0 ** (at / HALF_LIFE_S)
        self.first = at if self.first is None else self.first
        self.last = at
        self.samples += 1

    def percentile(self, share: float) -> float:
        """The end of the bucket in which the share is reached; 0 when empty."""
        total = sum(self._weights)
        if total <= 0.0:
            return 0.0
        partial = 0.0
        for bucket, weight in enumerate(self._weights):  # noqa: B007  its last value is the answer
            partial += weight
            if partial >= share * total:
                break
        return self._starts[min(bucket + 1, len(self._starts) - 1)]

    @property
    def confidence(self) -> float:
        """Days of history, at most days of samples (one a minute)."""
        if self.first is None:
            return 0.0
        return min((self.last - self.first) / 86400.0, self.samples / 1440.0)


def recommend(histogram: CpuHistogram) -> tuple[float, float, float]:
    """(lower bound, target, upper bound) in cores."""
    confidence = histogram.confidence
    upper = histogram.percentile(UPPER) * MARGIN
    lower = histogram.percentile(LOWER) * MARGIN
    if confidence > 0.0:
        upper *= 1.0 + 1.0 / confidence
        lower *= (1.0 + 0.001 / confidence) ** -2.0
    else:
        upper, lower = LARGEST, 0.0
    return max(lower, MINIMUM), max(histogram.percentile(TARGET) * MARGIN, MINIMUM), max(upper, MINIMUM)


class Vpa:
    """One recommendation a workload, from the samples of all its pods."""

    tick: float | None = None

    def __init__(self) -> None:
        self._histograms: dict[int, CpuHistogram] = {}
        self._due = 0.0
        self._last_sample: dict[str, float] = {}

    def shapes(self, scenario: Scenario, demand: Sequence[float]) -> list[Shape]:
        return vertical_shapes(scenario, demand)

    def decide(self, seen: Sequence[Seen], cluster: Cluster) -> list[Order]:
        now = cluster.now
        if now < self._due:
            return []
        self._due = now + INTERVAL_S
        orders: list[Order] = []
        for one in seen:
            histogram = self._histograms.setdefault(one.workload, CpuHistogram())
            for pod in one.pods:
                if pod.cpu is not None and pod.cpu.at > self._last_sample.get(pod.pod.uid, -1.0):
                    histogram.add(pod.cpu.cores, pod.pod.desired / 1000.0, now)
                    self._last_sample[pod.pod.uid] = pod.cpu.at
            if not histogram.samples:
                continue
            lower, target, upper = recommend(histogram)
            for pod in one.ready:
                request = pod.pod.desired / 1000.0
                outside = request < lower or request > upper
                old = now - pod.pod.created_at >= LONG_LIVED_S
                if outside or (old and abs(target - request) / request >= WORTH_IT):
                    orders.append(Size(pod.pod, round(target * 1000), f"bounds {lower:.3g} to {upper:.3g} cores"))
        return orders
