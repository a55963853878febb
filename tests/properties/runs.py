"""How many examples: few by default and always the same; ``PROPERTY_EXAMPLES=20`` tries twenty times as many, anew.

Whole clusters are large examples: to make a failing one small takes minutes, and is done for ``PROPERTY_SHRINK=1``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings

TIMES = int(os.environ.get("PROPERTY_EXAMPLES", "1"))
SMALL = bool(os.environ.get("PROPERTY_SHRINK"))


def examples(count: int) -> Callable[[Any], Any]:
    return settings(
        max_examples=count * TIMES, derandomize=TIMES == 1, deadline=None, database=None, report_multiple_bugs=False,
        phases=(Phase.explicit, Phase.generate, *((Phase.shrink,) if SMALL else ())),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )  # fmt: skip
