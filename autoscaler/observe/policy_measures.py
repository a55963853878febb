"""What a policy is measured by: whether anything could measure it, and whether its queries can be read."""

from __future__ import annotations

from autoscaler.model.policy import Policy, PolicySpec
from autoscaler.observe import promql


def unmeasurable(spec: PolicySpec) -> list[tuple[tuple[str, ...], str]]:
    """An objective that nothing could measure is refused, not ignored."""
    found: list[tuple[tuple[str, ...], str]] = []
    signals = spec.signals
    if spec.objective.latency and signals.latency is None and signals.preset is None:
        found.append(
            (("objective", "latency"), "nothing measures it; write signals.preset or signals.latency.histogram")
        )
    latency = signals.latency
    if latency is not None and not (latency.histogram or latency.query or latency.summary):
        found.append((("signals", "latency"), "names no metric; write histogram, summary or query"))
    for name, signal, key in (("requests", signals.requests, "counter"), ("failures", signals.failures, "counter"),
                              ("inFlight", signals.in_flight, "gauge")):  # fmt: skip
        if signal is not None and not (getattr(signal, key) or signal.query):
            found.append((("signals", name), f"names no metric; write {key} or query"))
    return found


def _queries(spec: PolicySpec) -> list[tuple[tuple[str, ...], str]]:
    """(place, PromQL) of every query that a policy writes."""
    signals = spec.signals
    named = (("latency", signals.latency), ("requests", signals.requests), ("failures", signals.failures),
             ("inFlight", signals.in_flight))  # fmt: skip
    found: list[tuple[tuple[str, ...], str]] = [
        (("signals", name, "query"), signal.query) for name, signal in named if signal and signal.query
    ]
    found += [
        (("objective", "metrics", str(place), "query"), metric.query)
        for place, metric in enumerate(spec.objective.metrics)
    ]
    return found


def asks_prometheus(policy: Policy) -> list[str]:
    """A line for each query that nobody could answer without a Prometheus."""
    return [
        f"{policy.origin}: spec.{'.'.join(path)}: a query needs a Prometheus; name one with --prometheus-url"
        for path, _ in _queries(policy.spec)
    ]


def unparsable(spec: PolicySpec) -> list[tuple[tuple[str, ...], str]]:
    """PromQL is checked when it is read, not when the load rises."""
    found = []
    for path, query in _queries(spec):
        try:
            promql.check(query)
        except promql.BadQuery as error:
            found.append((path, str(error).removeprefix("query: ")))
    return found
