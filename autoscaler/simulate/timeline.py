"""What a run looked like over time, in bounded memory: bins that double in width when there are too many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from autoscaler.model.plan import Plan
from autoscaler.simulate.cluster import Cluster
from autoscaler.simulate.controllers.base import Controller, Count, Order, Size
from autoscaler.simulate.visible import Seen

MOST_BINS = 2000
MOST_DECISIONS = 3000


@dataclass(slots=True)
class Bin:
    """Sums over some ticks of one workload; `cores` and `replicas` are summed over ticks, too."""

    begin: float
    ticks: int = 0
    ended: float = 0.0
    missed: float = 0.0
    seconds: float = 0.0
    cores: float = 0.0
    used: float = 0.0
    replicas: float = 0.0

    def add(self, other: Bin) -> None:
        self.ticks += other.ticks
        self.ended += other.ended
        self.missed += other.missed
        self.seconds += other.seconds
        self.cores += other.cores
        self.used += other.used
        self.replicas += other.replicas


@dataclass(frozen=True, slots=True)
class Decision:
    """One workload's change at one tick: total cores and replicas after it, and the controller's words."""

    at: float
    workload: int
    cores: float
    grown: float
    replicas: int
    why: str


@dataclass(slots=True)
class Timeline:
    """By workload. `codes`: per reason code how often it was said, and when first."""

    names: tuple[str, ...]
    width: float
    bins: list[list[Bin]] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    left_out: int = 0
    codes: list[dict[str, tuple[int, float]]] = field(default_factory=list)
    _last: list[tuple[float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bins = [[] for _ in self.names]
        self.codes = [{} for _ in self.names]
        self._last = [(-1.0, -1) for _ in self.names]

    def note(self, seen: Sequence[Seen], orders: Sequence[Order], cluster: Cluster, controller: Controller) -> None:
        """One tick, after its orders were given."""
        whys: dict[int, str] = {}
        for order in orders:
            workload = order.pod.workload if isinstance(order, Size) else order.workload
            if isinstance(order, Count) or workload not in whys:
                whys[workload] = order.why
        for one in seen:
            self._bin(one, cluster)
            cores, replicas = cluster.total(one.workload) / 1000.0, cluster.replicas[one.workload]
            before = self._last[one.workload]
            if (cores, replicas) != before:
                if before[1] >= 0 and one.workload in whys:
                    if len(self.decisions) < MOST_DECISIONS:
                        grown = cores - before[0]
                        why = whys[one.workload]
                        self.decisions.append(Decision(one.at, one.workload, cores, grown, replicas, why))
                    else:
                        self.left_out += 1
                self._last[one.workload] = (cores, replicas)
        plans: Sequence[Plan] = getattr(controller, "plans", ())
        for workload, plan in enumerate(plans):
            for reason in [*plan.holds, *([plan.reason] if plan.reason else [])]:
                count, first = self.codes[workload].get(str(reason.code), (0, cluster.now))
                self.codes[workload][str(reason.code)] = (count + 1, first)

    def _bin(self, one: Seen, cluster: Cluster) -> None:
        ended = (one.requests + one.failures) * one.window
        tick = Bin(
            begin=one.at,
            ticks=1,
            ended=ended,
            missed=ended - one.within * one.window,
            seconds=one.window,
            cores=cluster.total(one.workload) / 1000.0,
            used=sum(pod.cpu.cores for pod in one.pods if pod.cpu is not None),
            replicas=sum(1 for pod in one.pods if pod.serving),
        )
        bins = self.bins[one.workload]
        if bins and one.at < bins[-1].begin + self.width - 1e-9:
            bins[-1].add(tick)
            return
        if len(bins) >= MOST_BINS:
            self._halve()
            bins = self.bins[one.workload]
            if one.at < bins[-1].begin + self.width - 1e-9:
                bins[-1].add(tick)
                return
        bins.append(tick)

    def _halve(self) -> None:
        self.width *= 2
        for workload, bins in enumerate(self.bins):
            merged: list[Bin] = []
            for bin_ in bins:
                if merged and bin_.begin < merged[-1].begin + self.width - 1e-9:
                    merged[-1].add(bin_)
                else:
                    merged.append(bin_)
            self.bins[workload] = merged

    def series(self, workload: int) -> dict[str, list[Any]]:
        """Times (s), requests per second, share missed, mean cores, cores used, replicas."""
        bins = self.bins[workload]
        return {
            "at": [bin_.begin for bin_ in bins],
            "rate": [bin_.ended / max(bin_.seconds, 1e-9) for bin_ in bins],
            "missed": [bin_.missed / bin_.ended if bin_.ended > 0 else 0.0 for bin_ in bins],
            "cores": [bin_.cores / bin_.ticks for bin_ in bins],
            "used": [bin_.used / bin_.ticks for bin_ in bins],
            "replicas": [bin_.replicas / bin_.ticks for bin_ in bins],
        }
