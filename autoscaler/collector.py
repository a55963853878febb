"""Python's garbage collector, told what kind of process this is.

A tick makes hundreds of thousands of values, none of which refers to itself through others: counting references frees
them all. At its usual thresholds the collector would walk through them dozens of times a tick, and a third of all CPU
time at 10,000 pods went there. The few cycles that the libraries leave are collected often enough.
"""

from __future__ import annotations

import gc
from typing import Final

NEW_OBJECTS: Final = 500_000
"""Made and not yet freed, before the collector looks; about what 20,000 pods keep between two ticks."""
OLDER: Final = 10
"""So many looks at the young before one at the older, and so many of those before one at the oldest."""


def seldom() -> None:
    """Collect once, leave what is there now out of sight for good, and look at what comes only seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, OLDER, OLDER)
