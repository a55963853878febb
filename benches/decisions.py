"""How good the decisions are, measured: every row on simulated clusters, printed beside its anchors, reached or not.

    python benches/decisions.py --traces DIR [--row NAME[,NAME…]] [--seeds N] [--list]

`DIR` (or AUTOSCALER_TRACES) holds the public load traces: faro/, autothrottle/, azure-llm-2023/. Rows without a trace
run without it. One set of defaults for all rows: 5 s scrape, 1.8 s actuation, 35 s cold start, within 99.5 %.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from autoscaler.simulate.service import Fixed
from decided.runs import Bench
from decided.situations import inelastic, one_burst, random_eight, room, slow_dependency, spinning, steady, tiny
from decided.traces import FARO_SERVING, azure, calm, faro, trace, uniform
from rows import Line, show

ROWS: dict[str, tuple[str, Callable[[Bench], Iterator[Line]]]] = {
    "faro-32": (
        "Faro's jobs, 32 CPU, its arrivals",
        faro(32, 1.2, "Faro 3.1 % simulated, 5.3 % real; HPA-70 5.6 %; naive 1.8 %"),
    ),
    "faro-36": ("Faro's jobs, 36 CPU, its arrivals", faro(36, 0.5, "Faro 2.3 %, HPA-70 2.1 %; naive 0.74 %")),
    "faro-28": ("Faro's jobs, 28 CPU, its arrivals", faro(28, 5.0, "naive 6.1 %")),
    "uniform-28": ("Faro's jobs, uniform arrivals, 28 CPU", uniform(28, 2.0, "naive 3.0, ideal 0.31 %")),
    "uniform-32": ("Faro's jobs, uniform arrivals, 32 CPU", uniform(32, 0.3, "naive 0.45, ideal 0.02 %")),
    "uniform-36": ("Faro's jobs, uniform arrivals, 36 CPU", uniform(36, 0.1, "naive 0.17, ideal 0.003 %")),
    "uniform-fixed": (
        "Faro's jobs, uniform arrivals, fixed 180 ms, 32 CPU",
        uniform(32, 2.5, "naive 3.8, ideal 0.43 %", replace(FARO_SERVING, service=Fixed(0.18))),
    ),
    "bursty": ("bursty at 10 Erlang", trace("bursty")),
    "noisy": ("noisy at 10 Erlang", trace("noisy")),
    "diurnal": ("diurnal at 10 Erlang", trace("diurnal")),
    "azure-conv": (
        "Azure conv, service from tokens, objective 4 x mean",
        azure("conv", 10.0, 0.9, "HPA-70 1.7-3.4 %, naive 0.2 %"),
    ),
    "azure-code": ("Azure code, the same", azure("code", 5.0, 1.0, "HPA-70 18-22 %, naive 1.4-5.5 %")),
    "steady": ("steady Poisson, 10 Erlang, 1 h", steady),
    "calm-bursty": ("reversals, bursty", calm("bursty")),
    "calm-noisy": ("reversals, noisy", calm("noisy")),
    "calm-code": ("reversals, Azure code", calm("code")),
    "random-8": ("8 pods, random balancing, objective 2.3 x service, 8 Erlang", random_eight),
    "tiny": ("0.05 Erlang: one request at a time on a small quota", tiny),
    "inelastic": ("inelastic pods: one thread of one core", inelastic),
    "room-0": ("node room 0 %", room(0.0)),
    "room-10": ("node room 10 %", room(0.10)),
    "room-25": ("node room 25 %", room(0.25)),
    "room-50": ("node room 50 %", room(0.50)),
    "slow-dependency": ("a slow dependency: latency without CPU", slow_dependency),
    "spinning": ("a spinning thread pool: 18 ms of CPU busy, 82 ms idle", spinning),
    "one-burst": ("one burst of 60 s, then quiet", one_burst),
}


def main() -> int:
    """Print the rows; the exit code only says whether all could be measured, not whether goals were met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=os.environ.get("AUTOSCALER_TRACES"))
    parser.add_argument("--row", default="", help="only these, comma-separated, a name or its beginning")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    wanted = [name for name in args.row.split(",") if name]
    rows = {name: row for name, row in ROWS.items() if not wanted or any(name.startswith(part) for part in wanted)}
    if not rows:
        print(f"no row is called {args.row}; there are {', '.join(ROWS)}", file=sys.stderr)
        return 2
    if args.list:
        print("\n".join(f"{name:16} {what}" for name, (what, _) in rows.items()))
        return 0
    bench = Bench(Path(args.traces) if args.traces else None, max(1, args.seeds))
    met, missed, unmeasured = show(rows, bench, met="reached", missed="MISSED")
    print(f"\n{met} goals reached, {missed} missed, {unmeasured} rows not measured; {bench.seeds} seeds")
    return 1 if unmeasured else 0


if __name__ == "__main__":
    sys.exit(main())
