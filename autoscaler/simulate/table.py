"""The runs' scores as a table: mean ± spread over the seeds."""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.simulate.batch import Result, Run
from autoscaler.simulate.scores import spread

SHOWN = ("violations_minute", "violations", "p99", "mean_cores", "resizes", "replicas_started", "reversals")


def table(runs: Sequence[Run], results: Sequence[Result]) -> list[str]:
    """Mean ± spread over seeds, a line a controller."""
    head = ["controller", "missed by minute", "missed", "p99", "cores", "resizes", "started", "reversals"]
    rows = [head]
    for name in dict.fromkeys(run.controller for run in runs):
        scores = [result.scores for run, result in zip(runs, results, strict=True) if run.controller == name]
        cells = [name]
        for field in SHOWN:
            values = [getattr(one, field) for one in scores]
            if any(value is None for value in values):
                cells.append("never")
                continue
            middle, width = spread(values)
            if field.startswith("violations"):
                cells.append(f"{100 * middle:.3g} ± {100 * width:.2g} %")
            elif field == "p99":
                cells.append(f"{middle:.3g} s")
            elif field == "mean_cores":
                cells.append(f"{middle:.2f} ± {width:.2f}")
            else:
                cells.append(f"{middle:.4g}")
        rows.append(cells)
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
