"""The rules of the Horizontal Pod Autoscaler, autoscaling/v2, as pure functions: the replica calculator and `behavior`.

From the documentation of its algorithm (https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/):
desired = ceil(current x value / target); nothing within a tolerance of 10 %; every 15 s; pods that are not ready, or
without a sample since they became ready, count as idle when growing, missing ones as fully used when shrinking, and
if that turns the direction nothing is done. Then `behavior`: scale-down takes the highest wish of 300 s and at most
100 % in 15 s; scale-up at most the larger of 4 pods and 100 % in 15 s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

SYNC_S = 15.0
TOLERANCE = 0.1
INITIALIZATION_S = 300.0  # --horizontal-pod-autoscaler-cpu-initialization-period
READINESS_DELAY_S = 30.0  # --horizontal-pod-autoscaler-initial-readiness-delay


@dataclass(frozen=True, slots=True)
class Behavior:
    """HPA's own defaults."""

    down_window: float = 300.0
    up_window: float = 0.0
    up_pods: int = 4
    up_percent: int = 100
    down_percent: int = 100
    period: float = 15.0
    most: int = 1000
    least: int = 1


@dataclass(frozen=True, slots=True)
class PodUse:
    """One pod as the replica calculator sees it: value over request, or None without a usable sample."""

    use: float | None
    ready: bool


def replicas_wanted(current: int, pods: Sequence[PodUse], target: float) -> int:
    """The replica calculator: `target` is the wanted use, as a share of the request or in the metric's unit."""
    measured = [pod.use for pod in pods if pod.ready and pod.use is not None]
    missing = sum(1 for pod in pods if pod.ready and pod.use is None)
    unready = sum(1 for pod in pods if not pod.ready)
    if not measured:
        return current
    ratio = sum(measured) / len(measured) / target
    if not (missing or (unready and ratio > 1.0)):
        if abs(ratio - 1.0) <= TOLERANCE:
            return current
        return math.ceil(ratio * len(measured) - 1e-9)
    filled = list(measured)
    if missing:
        # Pessimism in both directions: unknown pods are at the target's full request when shrinking, idle when growing.
        filled += [max(1.0, target) if ratio < 1.0 else 0.0] * missing
    if ratio > 1.0:
        filled += [0.0] * unready
    anew = sum(filled) / len(filled) / target
    if abs(anew - 1.0) <= TOLERANCE or (ratio < 1.0 < anew) or (anew < 1.0 < ratio):
        return current
    wanted = math.ceil(anew * len(filled) - 1e-9)
    if (anew < 1.0 and wanted > current) or (anew > 1.0 and wanted < current):
        return current
    return wanted


class Stabilizer:
    """`behavior` of one HPA: windows and rates."""

    def __init__(self, behavior: Behavior) -> None:
        self._behavior = behavior
        self._wishes: list[tuple[float, int]] = []
        self._added: list[tuple[float, int]] = []

    def allow(self, now: float, current: int, wanted: int) -> int:
        behavior = self._behavior
        self._wishes.append((now, wanted))
        longest = max(behavior.down_window, behavior.up_window)
        self._wishes = [wish for wish in self._wishes if now - wish[0] <= longest]
        highest = max(wish for at, wish in self._wishes if now - at <= behavior.down_window)
        lowest = min(wish for at, wish in self._wishes if now - at <= behavior.up_window)
        stable = min(max(current, lowest), highest)
        self._added = [change for change in self._added if now - change[0] < behavior.period]
        changed = sum(change for _, change in self._added)
        before = current - changed
        if stable > current:
            limit = max(before + behavior.up_pods, math.ceil(before * (1 + behavior.up_percent / 100)))
            stable = min(stable, max(current, limit))
        elif stable < current:
            stable = max(stable, min(current, math.floor(before * (1 - behavior.down_percent / 100))))
        stable = min(max(stable, behavior.least), behavior.most)
        if stable != current:
            self._added.append((now, stable - current))
        return stable
