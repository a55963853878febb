"""What a run cost and what it missed, measured on the emulated cluster itself and in the same way for everybody."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from autoscaler.demo.scene import NAMESPACE, TARGET_S
from autoscaler.emulate.cluster import EmulatedCluster, Handle
from autoscaler.model.quantity import parse_cpu

RECENT_S = 5.0


@dataclass(frozen=True, slots=True)
class Score:
    """Requests and misses (late, failed or unfinished at the end), and what was spent for them."""

    requests: int
    missed: int
    resizes: int
    scalings: int
    restarts: int
    core_hours: float

    @property
    def missed_share(self) -> float:
        return self.missed / self.requests if self.requests else 0.0


class Meter:
    """Call ``look`` often; it integrates and counts since ``start``. Times are loop seconds."""

    def __init__(self, cluster: EmulatedCluster, workload: Handle) -> None:
        self._cluster, self._workload = cluster, workload
        workload.fleet.pods.keep_finished = True
        self._core_seconds = 0.0
        self._requests = self._missed = 0
        self._recent: deque[tuple[float, int, int]] = deque()
        self._begun = self._looked_at = self._now()
        self._offered_before = workload.totals()[0]
        self._uids: dict[str, int] = {}
        self._replicas: int | None = None
        self._scalings = 0

    def _now(self) -> float:
        return self._cluster.plane.timeline.now()

    def look(self) -> None:
        now = self._now()
        self._core_seconds += self.cores() * (now - self._looked_at)
        self._looked_at = now
        self._workload.totals()  # serves everything up to now
        requests = missed = 0
        for _, arrived, ended in self._workload.fleet.pods.finished():
            requests += 1
            missed += ended < 0 or ended - arrived > TARGET_S
        self._requests += requests
        self._missed += missed
        self._recent.append((now, requests, missed))
        while self._recent[0][0] < now - RECENT_S:
            self._recent.popleft()
        for pod in self.pods():
            restarts = sum(one.get("restartCount", 0) for one in pod.get("status", {}).get("containerStatuses", ()))
            self._uids[pod["metadata"]["uid"]] = restarts
        replicas = int(self._cluster.object("Deployment", NAMESPACE, self._workload.name)["spec"].get("replicas", 0))
        if self._replicas is not None and replicas != self._replicas:
            self._scalings += 1
        self._replicas = replicas

    def pods(self) -> list[dict[str, Any]]:
        """Pods that are there, those that start or end included."""
        return self._workload.pods()

    def sizes(self) -> list[float]:
        """Cores of each pod: the larger of what is asked for and what is allocated."""
        return [_cores(pod) for pod in self.pods()]

    def cores(self) -> float:
        return sum(self.sizes())

    def ready(self) -> int:
        conditions = [pod.get("status", {}).get("conditions", ()) for pod in self.pods()]
        return sum(any(c["type"] == "Ready" and c["status"] == "True" for c in each) for each in conditions)

    def recent_misses(self) -> float | None:
        """Share of the requests that ended in the last seconds and missed; None when none ended."""
        requests = sum(count for _, count, _ in self._recent)
        return sum(missed for _, _, missed in self._recent) / requests if requests else None

    def score(self) -> Score:
        """So far. What is still inside and already late, or will be, counts as missed when it is asked at the end."""
        inside = self._workload.totals()[0] - self._offered_before - self._requests
        resized = self._cluster.audit.of("patch", "pods", "resize", code=200)
        return Score(
            requests=self._requests + inside,
            missed=self._missed + inside,
            resizes=sum(entry.at >= self._begun for entry in resized),
            scalings=self._scalings,
            restarts=sum(self._uids.values()),
            core_hours=self._core_seconds / 3600,
        )


def _cores(pod: dict[str, Any]) -> float:
    asked = parse_cpu(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"])
    statuses = pod.get("status", {}).get("containerStatuses") or [{}]
    running = ((statuses[0].get("resources") or {}).get("limits") or {}).get("cpu")
    return max(asked, parse_cpu(running) if running else 0) / 1000
