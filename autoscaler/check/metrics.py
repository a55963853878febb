"""Whether what the objective needs is measured: there, fresh, complete, with a bucket at the target; and which preset
fits what a pod's page shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from autoscaler.check.findings import Finding, fine, warn, wrong
from autoscaler.check.remedies import NO_BUCKET, PARTIAL, STALE, Told, remedy
from autoscaler.model.policy import Policy
from autoscaler.model.quantity import format_duration
from autoscaler.model.seen import Subject
from autoscaler.model.signal import Absent, Cause, Measured, Reading
from autoscaler.observe import presets
from autoscaler.observe.names import SignalNames, resolve
from autoscaler.observe.page_door import ScrapeLimits, names_on_page

NO_FAULT: Final = frozenset({Cause.NO_TRAFFIC, Cause.NAN, Cause.TOO_SHORT, Cause.COUNTER_RESET, Cause.NO_PODS})
"""Causes that say nothing against the set-up."""


def of_metrics(subject: Subject) -> Iterator[Finding]:
    view, policy = subject.view, subject.policy
    if view.hold:
        return
    signals, about = view.signals, str(view.ref)
    objective = policy.spec.objective
    if objective.latency is not None:
        yield _needed(about, "misses of the latency objective", signals.misses, policy, Told.PAGE,
                      alone=objective.cpu is None and not objective.metrics)  # fmt: skip
        yield from _useful(about, "requests", signals.requests, policy, Told.PAGE, "demand can't be told from traffic")
        silent = "a stall can't be told from silence"
        yield from _useful(about, "requests in flight", signals.in_flight, policy, Told.PAGE, silent)
    for name in (metric.name for metric in objective.metrics):
        reading = signals.custom.get(name, Absent(Cause.NOT_CONFIGURED))
        yield _needed(about, f"metric {name}", reading, policy, Told.QUERY, alone=objective.latency is None)
    if objective.cpu is not None and objective.latency is None and not objective.metrics:
        yield _needed(about, "CPU use", signals.cpu, policy, Told.CPU, alone=True)
    else:
        yield from _useful(about, "CPU use", signals.cpu, policy, Told.CPU, "a miss without CPU evidence buys no CPU")
    without = "throttling shows only as CPU use"
    yield from _useful(about, "throttled periods", signals.throttled, policy, Told.THROTTLING, without)
    if policy.spec.vertical.memory.max is not None:
        without = "memory grows only after an OOM"
        yield from _useful(about, "working set", signals.working_set, policy, Told.CPU, without)


async def of_page(subject: Subject, limits: ScrapeLimits | None = None) -> tuple[Finding, ...]:
    """What one pod's page shows, held against the policy's names: the preset that fits, where that is another one."""
    view, spec, about = subject.view, subject.policy.spec, str(subject.view.ref)
    pod = next((one for one in view.pods if one.active and one.phase == "Running" and one.ip), None)
    if view.hold or pod is None or spec.objective.latency is None:
        return ()
    try:
        names = resolve(subject.policy)
    except ValueError as wrong_name:
        return (wrong(about, "preset", str(wrong_name), "autoscaler presets lists them"),)
    shown = await names_on_page(pod, names, limits)
    if isinstance(shown, Absent):
        if spec.signals.preset is None and not names.requests and not names.queries.requests:
            text = f"no preset is named, and the page of {pod.name} can't be read ({shown.told})"
            return (warn(about, "preset", text, "annotate the pods with prometheus.io/port, or name signals.preset"),)
        return ()
    return tuple(_fits(about, pod.name, shown, subject.policy, names))


def _fits(about: str, pod: str, shown: set[str], policy: Policy, names: SignalNames) -> Iterator[Finding]:
    preset, best = policy.spec.signals.preset, presets.propose_from(shown)
    shape = names.histogram or names.summary
    if shape is not None and shape.metric in shown:
        if preset is not None:
            yield fine(about, "preset", f"{pod} shows what preset {preset} reads")
        return
    if best is not None and best != preset:
        have = f"not {shape.metric}" if shape is not None else "no preset is named" if preset is None else "another"
        text = f"{pod} shows the metrics of {presets.get(best).title}, {have}"
        yield warn(about, "preset", text, f"set signals.preset: {best}")
        return
    if best is not None:
        text = f"{pod} is {presets.get(best).title} and shows no latency of whole requests"
        yield warn(about, "preset", text, presets.get(best).remarks or "name one under signals.latency")
        return
    if any(name.endswith("_bucket") for name in shown):
        found = sorted(name.removesuffix("_bucket") for name in shown if name.endswith("_bucket"))
        text = f"no preset fits the page of {pod}; its histograms are {', '.join(found[:4])}"
        yield warn(about, "preset", text, "name one under signals.latency.histogram")
    elif shape is not None or not names.queries.misses:
        text = f"no preset fits the page of {pod}, and it has no histogram with buckets"
        yield warn(about, "preset", text, "let the server expose a classic histogram of its requests, or use a mesh's")


def _needed(about: str, what: str, reading: Reading, policy: Policy, told: Told, *, alone: bool) -> Finding:
    if isinstance(reading, Measured):
        return _measured(about, what, reading, policy)
    text = f"{what}: {reading.cause}{f', {reading.detail}' if reading.detail else ''}"
    if reading.cause in NO_FAULT:
        return warn(about, "metrics", text, remedy(reading, told, policy, "send it some requests and check again"))
    todo = remedy(reading, told, policy)
    if alone:
        return wrong(about, "metrics", text, todo)
    return warn(about, "metrics", f"{text} (another objective stands in)", todo)


def _measured(about: str, what: str, reading: Measured, policy: Policy) -> Finding:
    how = f"{what} measured by {reading.source or 'its source'}, {format_duration(round(reading.age_s, 1))} old"
    if not reading.fresh(policy.spec.signals.max_age):
        limit = format_duration(policy.spec.signals.max_age)
        return warn(about, "metrics", f"{how}, more than signals.maxAge {limit}", STALE)
    if reading.coverage < 1.0:
        return warn(about, "metrics", f"{how}, by {reading.coverage * 100:.0f}% of the pods", PARTIAL)
    if reading.note:
        return warn(about, "metrics", f"{how}: {reading.note}", NO_BUCKET)
    return fine(about, "metrics", how)


def _useful(about: str, what: str, reading: Reading, policy: Policy, told: Told, without: str) -> Iterator[Finding]:
    """Not needed, but decisions are better with it."""
    if isinstance(reading, Measured) or reading.cause in NO_FAULT:
        return
    detail = f", {reading.detail}" if reading.detail else ""
    todo = remedy(reading, told, policy)
    yield warn(about, "metrics", f"{what}: {reading.cause}{detail}, so {without}", todo)
