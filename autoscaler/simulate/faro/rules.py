"""The rules of Faro's policies: when an up or a down is due, and to how many replicas."""

from __future__ import annotations

import math
from dataclasses import dataclass

TARGET_S = 0.72
POLL_S = 10.0
WINDOW_S = 30.0
UP_AFTER, DOWN_AFTER = 3, 60
MAX_REPLICAS = 100


@dataclass(slots=True)
class Counter:
    """Polls above (positive) or not above (negative) the target in a row."""

    value: int = 0

    def poll(self, above: bool) -> int:
        """+1 when an up is due, -1 for a down, 0 else; it starts anew after either."""
        if above:
            self.value = self.value + 1 if self.value > 0 else 1
        else:
            self.value = self.value - 1 if self.value < 0 else -1
        if self.value >= UP_AFTER:
            self.value = 0
            return 1
        if self.value <= -DOWN_AFTER:
            self.value = 0
            return -1
        return 0


def aiad(current: int, mean: float, due: int) -> int:
    """One more, one less."""
    return current + due


def oneshot(current: int, mean: float, due: int) -> int:
    """In proportion to latency over target, both ways."""
    return math.ceil(current * mean / TARGET_S - 1e-9) if due else current
