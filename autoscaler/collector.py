"""Python's garbage collector, told what kind of process this is.

A tick makes hundreds of thousands of values, none of which refers to itself through others: counting references frees
them all. At its usual thresholds the collector would walk through them dozens of times a tick, and a third of all CPU
time at 10,000 pods went there. So it looks ever more seldom as long as it finds nothing, and more often where what was
made since its last look is garbage, as in a small process, where little else is made.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any, Final

FIRST: Final = 10_000
FEWEST: Final = 5_000
MOST: Final = 500_000
"""Objects made and not yet freed before the collector looks; at the most what 20,000 pods keep between two ticks."""
OLDER: Final = 10
"""So many looks at the young before one at the older, and so many of those before one at the oldest."""


def seldom() -> None:
    """Collect once, leave what is there now out of sight for good, and look at what comes as seldom as it pays."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(FIRST, OLDER, OLDER)
    if _looked not in gc.callbacks:
        gc.callbacks.append(_looked)


def suited(threshold: int, collected: int) -> int:
    """The next threshold, after a look at ``threshold`` young objects found so many of them to be garbage."""
    if collected > threshold // 10:
        return max(FEWEST, threshold // 2)
    return min(MOST, 2 * threshold) if collected < threshold // 100 else threshold


def _looked(phase: str, info: Mapping[str, Any]) -> None:
    if phase == "stop" and info["generation"] == 0:
        threshold = gc.get_threshold()[0]
        if (wanted := suited(threshold, info["collected"])) != threshold:
            gc.set_threshold(wanted, OLDER, OLDER)
