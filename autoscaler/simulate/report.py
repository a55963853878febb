"""One self-contained HTML file of a comparison: score table, misses against cores, and every workload over time.

Figures are matplotlib `Figure`s (no pyplot, no state), written as SVG into the page; no script, nothing fetched.
"""

from __future__ import annotations

import html
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from autoscaler.simulate.batch import Result, Run
from autoscaler.simulate.scores import spread
from autoscaler.simulate.timeline import Decision, Timeline

OURS = "ours"
COLOURS = ("#1b6ca8", "#d1495b", "#6a994e", "#edae49", "#7b5ea7", "#3d405b", "#2a9d8f", "#b56576")
MOST_WORKLOADS = 12  # with a figure of their own
MOST_LISTED = 200  # decisions in the table
COLUMNS = (
    ("violations_minute", "missed by minute, %", 100.0),
    ("violations", "missed, %", 100.0),
    ("violations_overall", "missed of all, %", 100.0),
    ("p50", "p50, s", 1.0),
    ("p95", "p95, s", 1.0),
    ("p99", "p99, s", 1.0),
    ("core_hours", "core-hours", 1.0),
    ("mean_cores", "mean cores", 1.0),
    ("slack", "slack, %", 100.0),
    ("resizes", "resizes", 1.0),
    ("replicas_started", "replicas started", 1.0),
    ("reversals", "reversals", 1.0),
    ("wall_s", "wall, s", 1.0),
)
NOTHING = {"Date": None, "Creator": None, "Format": None, "Type": None}
STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2733; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
p.note, figcaption { color: #566270; font-size: .9rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .87rem; }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid #dde3ea; vertical-align: top; }
th:first-child, td:first-child, td.text, th.text { text-align: left; }
tr.ours { background: #eef5fb; font-weight: 600; }
div.wide { overflow-x: auto; } figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; }
"""


def write(path: Path, runs: Sequence[Run], results: Sequence[Result], given: Mapping[str, Any]) -> None:
    """The whole page. The first seed of each controller is drawn, the table is over all seeds."""
    names = list(dict.fromkeys(run.controller for run in runs))
    scores = {
        name: [result.scores for run, result in zip(runs, results, strict=True) if run.controller == name]
        for name in names
    }
    drawn = {
        run.controller: result.timeline
        for run, result in zip(runs, results, strict=True)
        if result.timeline is not None
    }
    scenario = runs[0].scenario
    parts = [
        "<h1>Autoscalers compared</h1>",
        f'<p class="note">{html.escape(_described(given))}</p>',
        f"<p>{len(scenario.loads)} workload{'s' if len(scenario.loads) != 1 else ''} over "
        f"{scenario.duration / 3600:.3g} h; objective: {100 * scenario.within:g} % of requests within "
        f"{1000 * scenario.target:g} ms. The first five minutes are not scored, except by minute.</p>",
        "<h2>Scores</h2>",
        _table(scores),
        "<h2>Misses against cores</h2>",
        _figure(_against(scores, scenario.within), "Down and to the left is better; the line is what may be missed."),
    ]
    if drawn:
        first = next(iter(drawn.values()))
        for workload, title in enumerate(first.names[:MOST_WORKLOADS]):
            parts.append(f"<h2>{html.escape(title)}</h2>")
            parts.append(
                _figure(_over_time(drawn, workload), "Seed 1. Marks are our decisions: up grows, down shrinks.")
            )
        if len(first.names) > MOST_WORKLOADS:
            left = len(first.names) - MOST_WORKLOADS
            parts.append(f'<p class="note">{left} more workloads are in the scores, not drawn.</p>')
        for name in names:
            if name.startswith(OURS) and name in drawn:
                parts.append(_decisions(name, drawn[name]))
    page = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Autoscalers compared</title><style>{STYLE}</style></head><body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )
    path.write_text(page, encoding="utf-8")


def _described(given: Mapping[str, Any]) -> str:
    """The flags that make this page again."""
    words = []
    for name, value in given.items():
        if value in (None, [], False) or name in ("report", "json", "scenario"):
            continue
        for one in value if isinstance(value, list) else [value]:
            shown = Path(str(one)).name if name in ("load", "policy") else one
            words.append(f"--{name.replace('_', '-')} {shown}")
    return "autoscaler simulate " + " ".join(words)


def _table(scores: Mapping[str, Sequence[Any]]) -> str:
    rows = ["<tr><th>controller</th>" + "".join(f"<th>{title}</th>" for _, title, _ in COLUMNS) + "</tr>"]
    for name, found in scores.items():
        cells = []
        for field, _, scale in COLUMNS:
            values = [getattr(one, field) for one in found]
            if any(value is None for value in values):
                cells.append("<td>never</td>")
                continue
            middle, width = spread(scale * value for value in values)
            cells.append(f"<td>{middle:.4g}{f' ± {width:.2g}' if len(found) > 1 else ''}</td>")
        kind = ' class="ours"' if name == OURS else ""
        rows.append(f"<tr{kind}><td>{html.escape(name)}</td>{''.join(cells)}</tr>")
    return f'<div class="wide"><table>{"".join(rows)}</table></div>'


def _against(scores: Mapping[str, Sequence[Any]], within: float) -> Figure:
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for number, (name, found) in enumerate(scores.items()):
        cores, cores_off = spread(one.mean_cores for one in found)
        missed, missed_off = spread(100 * one.violations for one in found)
        axes.errorbar(
            cores,
            max(missed, 1e-3),
            xerr=cores_off,
            yerr=min(missed_off, max(missed, 1e-3) * 0.99),
            fmt="o",
            color=COLOURS[number % len(COLOURS)],
            markersize=8 if name == OURS else 6,
        )
        axes.annotate(name, (cores, max(missed, 1e-3)), xytext=(7, 5), textcoords="offset points")
    axes.axhline(100 * (1 - within), color="#8895a3", linewidth=1, linestyle="--")
    axes.set_yscale("log")
    axes.set_xlabel("mean cores")
    axes.set_ylabel("missed requests, %")
    axes.grid(alpha=0.3)
    return figure


def _over_time(drawn: Mapping[str, Timeline], workload: int) -> Figure:
    """Load, misses, cores and replicas, one above the other."""
    figure = Figure(figsize=(10, 8), layout="constrained")
    load, missed, cores, replicas = figure.subplots(4, 1, sharex=True)
    for number, (name, timeline) in enumerate(drawn.items()):
        series = timeline.series(workload)
        at = [moment / 60.0 for moment in series["at"]]
        colour = COLOURS[number % len(COLOURS)]
        if number == 0:
            load.plot(at, series["rate"], color="#3d405b", linewidth=0.9)
        missed.plot(at, [100 * share for share in series["missed"]], color=colour, linewidth=0.9, label=name)
        cores.step(at, series["cores"], color=colour, linewidth=1.1, where="post", label=name)
        replicas.step(at, series["replicas"], color=colour, linewidth=1.1, where="post")
        if name == OURS:
            cores.fill_between(at, series["used"], step="post", color=colour, alpha=0.15, linewidth=0)
            for up, mark in ((True, "^"), (False, "v")):
                moved = [one for one in _of(timeline, workload) if (one.grown > 0) == up and one.grown != 0]
                x, y = [one.at / 60.0 for one in moved], [one.cores for one in moved]
                cores.plot(x, y, linestyle="", marker=mark, markersize=4, color=colour)
    load.set_ylabel("ended, 1/s")
    missed.set_ylabel("missed, %")
    cores.set_ylabel("cores")
    replicas.set_ylabel("serving pods")
    replicas.set_xlabel("minutes")
    for axes in (load, missed, cores, replicas):
        axes.grid(alpha=0.3)
        axes.set_ylim(bottom=0)
    cores.legend(loc="upper right", fontsize="small", ncols=min(4, len(drawn)))
    return figure


def _of(timeline: Timeline, workload: int) -> list[Decision]:
    return [one for one in timeline.decisions if one.workload == workload]


def _decisions(name: str, timeline: Timeline) -> str:
    """What it did and why, in the controller's own words."""
    chosen = timeline.decisions[:MOST_LISTED]
    rows = []
    for one in chosen:
        words = (_clock(one.at), timeline.names[one.workload], f"{one.grown:+.3g}", f"{one.cores:.3g}", one.replicas)
        cells = [f"<td>{html.escape(str(word))}</td>" for word in words]
        rows.append(f'<tr>{"".join(cells)}<td class="text">{html.escape(one.why)}</td></tr>')
    total = len(timeline.decisions) + timeline.left_out
    note = f"<p class='note'>The first {len(chosen)} of {total}.</p>" if total > len(chosen) else ""
    titles = ("at", "workload", "cores", "in all", "replicas")
    head = "".join(f"<th>{title}</th>" for title in titles) + '<th class="text">why</th>'
    body = f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'
    return f"<h2>Decisions of {html.escape(name)}</h2>{note}{body}"


def _clock(at: float) -> str:
    whole = math.floor(at)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def _figure(figure: Figure, caption: str) -> str:
    out = io.StringIO()
    # No date and no random ids: the same runs give the same page.
    with matplotlib.rc_context({"svg.hashsalt": "inference-autoscaler", "svg.fonttype": "path"}):
        figure.savefig(out, format="svg", metadata=NOTHING)
    svg = out.getvalue()
    return f"<figure>{svg[svg.index('<svg') :]}<figcaption>{html.escape(caption)}</figcaption></figure>"
