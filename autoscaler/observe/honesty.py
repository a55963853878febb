"""What each missing signal means: one table, for the code, for people (docs/signals.md) and for the tests.

The rule behind all rows: what is not known never counts as zero. A cause blocks what would take something away
(smaller pods, fewer replicas, learning), and lets growing go on with whatever else is valid.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.model.signal import Cause
from autoscaler.observe import presets

GROWS_ON = "goes on with the other valid signals"


@dataclass(frozen=True, slots=True)
class Meaning:
    """``when``: how it comes about. ``growing``, ``shrinking``, ``scale_in``: what may still be done."""

    when: str
    growing: str = GROWS_ON
    shrinking: str = "blocked"
    scale_in: str = "blocked"


MEANINGS: dict[Cause, Meaning] = {
    Cause.NOT_CONFIGURED: Meaning(
        "the policy and its preset don't name this signal, or no source for it is set up",
        shrinking="blocked where an objective needs it (requests, misses, CPU); else allowed",
        scale_in="blocked where an objective needs it (requests, misses, CPU); else allowed",
    ),
    Cause.NO_SUCH_METRIC: Meaning("the page, or Prometheus, has never had a metric of this name for these pods"),
    Cause.NO_TRAFFIC: Meaning(
        "the counters are there and did not move: there is no share of nothing",
        growing="requests in flight without completions are a stall, and grow; else there is nothing to grow for",
        shrinking="allowed: the request rate is measured, and zero; blocked while requests are in flight",
        scale_in="allowed: the request rate is measured, and zero; blocked while requests are in flight",
    ),
    Cause.STALE: Meaning(
        "the newest sample is older than signals.maxAge allows, from before the container's start, or of a page whose "
        "own times stand still"
    ),
    Cause.PARTIAL: Meaning("Prometheus (Thanos, Cortex) warned that stores did not answer, and these pods are missing"),
    Cause.NAN: Meaning("the page or the query gives NaN: a quantile of an empty window, a division of zero by zero"),
    Cause.INFINITE: Meaning("the page or the query gives +Inf or -Inf"),
    Cause.NEGATIVE: Meaning("a counter or gauge that can't be negative is"),
    Cause.COUNTER_RESET: Meaning("the container restarted, or a counter fell without a restart: one interval is lost"),
    Cause.REFUSED: Meaning(
        "the query or the credentials were refused, or the page is not one (HTML, too large, cut short, garbled, "
        "compressed, a redirect)"
    ),
    Cause.SOURCE_DOWN: Meaning("no answer in time, connection refused, a server error"),
    Cause.TOO_SHORT: Meaning("one sample so far, or the first one after a gap: there is no growth to measure yet"),
    Cause.NO_BUCKET: Meaning("the histogram has no bound within 10 % of the target, nor one down to half of it"),
    Cause.NO_PODS: Meaning("no pod is running that could answer", growing="there is nothing to grow"),
    Cause.CONTRADICTORY: Meaning(
        "a series twice with different values, a bucket above its count or below a smaller one, several series where "
        "one is needed"
    ),
}
"""Every cause has a row; the tests hold this table against the decider."""

LESS_THAN_ALL = Meaning(
    "a value whose coverage is below 1: some pods did not answer, or failures could not be read",
    growing="goes on with the value: what is missing can only add to it",
)


def table() -> str:
    """The table as Markdown, for docs/signals.md."""
    lines = [
        "| cause | when | growing | shrinking | scale-in |",
        "|---|---|---|---|---|",
    ]
    rows = [(f"`{cause}`", meaning) for cause, meaning in MEANINGS.items()]
    rows.append(("coverage < 1", LESS_THAN_ALL))
    for name, meaning in rows:
        lines.append(f"| {name} | {meaning.when} | {meaning.growing} | {meaning.shrinking} | {meaning.scale_in} |")
    return "\n".join(lines) + "\n"


def presets_table() -> str:
    """The presets as Markdown, for docs/signals.md."""
    lines = ["| preset | server | counts | latency from | in flight | to know |", "|---|---|---|---|---|---|"]
    for preset in presets.every().values():
        names = preset.names
        shape = names.histogram or names.summary
        latency = f"`{shape.metric}`" if shape else "none"
        flying = " + ".join(f"`{selector.metric}`" for selector in names.in_flight) or "none"
        counted = f"{names.counts}{'' if names.requests_include_failures else ' that succeeded'}"
        counts = counted if names.requests else "nothing"
        cells = (f"`{preset.name}`", preset.title, counts, latency, flying, preset.remarks or "–")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def written_into(page: str) -> str:
    """docs/signals.md with its two tables as they are now."""
    for mark, text in (("honesty", table()), ("presets", presets_table())):
        before, _, rest = page.partition(f"<!-- {mark} -->\n")
        _, _, after = rest.partition(f"<!-- /{mark} -->")
        page = f"{before}<!-- {mark} -->\n{text}<!-- /{mark} -->{after}"
    return page
