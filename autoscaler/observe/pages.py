"""One pod's page as one sample: which lines are wanted, and what they mean to us."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from autoscaler.model.signal import Absent, Cause
from autoscaler.observe.counters import PodSample, Role, Value, checked, summed
from autoscaler.observe.exposition import Page
from autoscaler.observe.names import Histogram, Selector, SignalNames, Summary

ALMOST = 1.01
"""How much a bucket may be below a smaller one."""


def wanted_metrics(names: SignalNames) -> frozenset[str]:
    """Full names of all lines to keep."""
    wanted = {
        selector.metric
        for group in (
            names.requests, names.failures, names.in_flight, names.busy_s, names.process_cpu, names.process_memory,
        )
        for selector in group
    }  # fmt: skip
    if names.histogram is not None:
        wanted |= {names.histogram.metric + suffix for suffix in ("_bucket", "_count", "_sum")}
    if names.summary is not None:
        wanted |= {names.summary.metric + suffix for suffix in ("", "_count", "_sum")}
    return frozenset(wanted)


def sample_of(
    page: Page, names: SignalNames, incarnation: Hashable, at: float, before: PodSample | None = None
) -> PodSample:
    """The numbers of one server's page. Times written by the server are not used as such, its clock is not ours; but
    where they don't move, this is the page of before.

    ``before``: the pod's last sample, so that an optional metric that was there and vanished is missed.
    """
    stamps = [one.at for several in page.series.values() for one in several if one.at is not None]
    sample = PodSample(incarnation, at, stamp=max(stamps, default=None))
    if (
        before is not None
        and sample.stamp is not None
        and (before.incarnation, before.stamp)
        == (
            incarnation,
            sample.stamp,
        )
    ):
        sample.at = before.at
    counters = {
        Role.REQUESTS: names.requests,
        Role.FAILURES: names.failures,
        Role.LATENCY_SUM: names.busy_s,
        Role.PROCESS_CPU: names.process_cpu,
    }
    gauges = {Role.IN_FLIGHT: names.in_flight, Role.PROCESS_MEMORY: names.process_memory}
    for wanted, into, earlier in (
        (counters, sample.counters, before.counters if before else {}),
        (gauges, sample.gauges, before.gauges if before else {}),
    ):
        for role, selectors in wanted.items():
            if selectors and (role in earlier or not never_shown(page, selectors)):
                into[role] = _sum(page, selectors)
    if names.histogram is not None:
        _read_histogram(page, names.histogram, sample)
    elif names.summary is not None:
        _read_summary(page, names.summary, sample)
    return sample


def never_shown(page: Page, selectors: Sequence[Selector]) -> bool:
    """Whether the page has none of them and they are all optional."""
    return all(selector.optional and not page.has(selector.metric) for selector in selectors)


def _sum(page: Page, selectors: Sequence[Selector]) -> Value:
    """The sum of the selectors; one that is there is enough (a queue gauge that a version lacks is no reason to see
    nothing), a broken one is not."""
    found: list[float] = []
    for selector in selectors:
        if selector.metric in page.doubled:
            return Absent(Cause.CONTRADICTORY, f"{selector.metric} has a series twice, with different values")
        if page.has(selector.metric):
            series = page.matching(selector.metric, selector.labels)
            value = checked(summed(one.value for one in series) * selector.scale, str(selector))
            if isinstance(value, Absent):
                return value
            found.append(value)
    if not found:
        return Absent(Cause.NO_SUCH_METRIC, " + ".join(map(str, selectors)))
    return checked(summed(found), " + ".join(map(str, selectors)))


def _read_histogram(page: Page, histogram: Histogram, sample: PodSample) -> None:
    bucket, count, spent = (histogram.metric + suffix for suffix in ("_bucket", "_count", "_sum"))
    sample.counters[Role.FINISHED] = finished = _sum(page, (Selector(count, histogram.labels),))
    if page.has(spent):
        sample.counters[Role.LATENCY_SUM] = _sum(page, (Selector(spent, histogram.labels, histogram.unit),))
    if isinstance(finished, Absent) and finished.cause is not Cause.NO_SUCH_METRIC:
        return
    if bucket in page.doubled:
        sample.counters[Role.FINISHED] = Absent(Cause.CONTRADICTORY, f"{bucket} has a series twice")
        return
    counts: dict[float, float] = {}
    layers: dict[float, int] = {}
    seen: set[tuple[float, frozenset[tuple[str, str]]]] = set()
    for series in page.matching(bucket, histogram.labels):
        try:
            bound = float(series.labels.get("le", "")) * histogram.unit
        except ValueError:
            continue
        value = checked(series.value, f'{bucket}{{le="{series.labels["le"]}"}}')
        if isinstance(value, Absent):
            sample.counters[Role.FINISHED] = value
            return
        of = (bound, frozenset(pair for pair in series.labels.items() if pair[0] != "le"))
        if of in seen:
            sample.counters[Role.FINISHED] = Absent(Cause.CONTRADICTORY, f"{bucket} has bound {bound:g}s twice")
            return
        seen.add(of)
        counts[bound] = counts.get(bound, 0.0) + value
        layers[bound] = layers.get(bound, 0) + 1
    if counts and isinstance(finished, Absent):
        sample.counters[Role.FINISHED] = counts.get(math.inf, finished)
    # series with different bounds on one page: only the bounds that all of them have can be summed
    full = max(layers.values(), default=0)
    sample.buckets = {bound: value for bound, value in sorted(counts.items()) if layers[bound] == full}
    below = (0.0, 0.0)
    for bound, value in sample.buckets.items():
        if value * ALMOST + 1 < below[1]:  # a page that is written while requests end is off by a few
            said = f"{bucket}: {below[1]:g} up to {below[0]:g}s, {value:g} up to {bound:g}s"
            sample.counters[Role.FINISHED] = Absent(Cause.CONTRADICTORY, said)
            return
        below = (bound, value)


def _read_summary(page: Page, summary: Summary, sample: PodSample) -> None:
    sample.counters[Role.FINISHED] = _sum(page, (Selector(summary.metric + "_count", summary.labels),))
    if page.has(summary.metric + "_sum"):
        spent = Selector(summary.metric + "_sum", summary.labels, summary.unit)
        sample.counters[Role.LATENCY_SUM] = _sum(page, (spent,))
    for series in page.matching(summary.metric, summary.labels):
        try:
            share = float(series.labels["quantile"])
        except (KeyError, ValueError):
            continue
        value = series.value * summary.unit
        sample.quantiles[share] = max(value, sample.quantiles.get(share, value))
