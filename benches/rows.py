"""Rows of measurements, printed beside their goals as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class Line:
    """One measured number beside its goal; `met` None where there is no goal."""

    text: str
    met: bool | None = None


def show(
    rows: Mapping[str, tuple[str, Callable[[B], Iterator[Line]]]], bench: B, met: str, missed: str
) -> tuple[int, int, int]:
    """Measure the rows and print them, each line marked as `met`, `missed` or neither.

    Gives how many lines were met, how many missed, and how many rows could not be measured.
    """
    counts = {True: 0, False: 0}
    unmeasured = 0
    width = max(len(met), len(missed))
    for name, (what, measure) in rows.items():
        began = time.perf_counter()
        print(f"\n{name}: {what}", flush=True)
        try:
            for line in measure(bench):
                mark = {True: met, False: missed, None: ""}[line.met]
                if line.met is not None:
                    counts[line.met] += 1
                print(f"  {mark:{width}} {line.text}", flush=True)
        except (FileNotFoundError, ValueError) as error:
            unmeasured += 1
            print(f"  not measured: {error}", flush=True)
        print(f"          ({time.perf_counter() - began:.0f} s)", flush=True)
    return counts[True], counts[False], unmeasured
