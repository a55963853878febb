"""Which metrics of a server tell what, and where they are read."""

from __future__ import annotations

import enum
from typing import Literal

from pydantic import Field

from autoscaler.model.written import Duration, Spec


class LatencySignal(Spec):
    """Where latency comes from: a classic histogram, or a query for the miss ratio."""

    histogram: str | None = Field(None, description="Base name of a classic histogram, without _bucket.")
    unit: Literal["s", "ms", "us"] = Field("s", description="Unit of the histogram's buckets.")
    labels: dict[str, str] = Field(default_factory=dict, description="Labels that select the series.")
    query: str | None = Field(None, description="PromQL for the share of requests that miss, in [0, 1].")
    summary: str | None = Field(None, description="Base name of a summary with a quantile at the objective.")


class CounterSignal(Spec):
    """A counter, or a query for its rate per second."""

    counter: str | None = Field(None, description="Name of the counter.")
    labels: dict[str, str] = Field(default_factory=dict, description="Labels that select the series.")
    query: str | None = Field(None, description="PromQL for the rate per second.")
    counts: Literal["arrivals", "completions"] = Field("completions", description="Which end of a request it counts.")


class GaugeSignal(Spec):
    """A gauge, or a query for its value."""

    gauge: str | None = Field(None, description="Name of the gauge.")
    labels: dict[str, str] = Field(default_factory=dict, description="Labels that select the series.")
    query: str | None = Field(None, description="PromQL for the value.")


class SourceName(enum.StrEnum):
    PROMETHEUS = "prometheus"
    SCRAPE = "scrape"
    KUBELET = "kubelet"
    METRICS_API = "metrics.k8s.io"


class ScrapeSettings(Spec):
    """Direct scrape of the pods; defaults come from their ``prometheus.io/*`` annotations."""

    port: int | None = Field(None, ge=1, le=65535, description="Port of the metrics page.")
    path: str | None = Field(None, description="Path of the metrics page.")
    scheme: Literal["http", "https"] | None = Field(None, description="Scheme of the metrics page.")


MAX_AGE_S = 30.0
"""Default of signals.maxAge, in seconds."""


class SignalsSpec(Spec):
    """Names of the server's metrics: a preset, each name overridable."""

    preset: str | None = Field(None, description="Names of this server's metrics; see `autoscaler presets`.")
    latency: LatencySignal | None = None
    requests: CounterSignal | None = None
    failures: CounterSignal | None = None
    in_flight: GaugeSignal | None = None
    scrape: ScrapeSettings = Field(default_factory=ScrapeSettings)
    sources: tuple[SourceName, ...] = Field(
        (SourceName.PROMETHEUS, SourceName.SCRAPE, SourceName.KUBELET, SourceName.METRICS_API),
        description="Order of fallback, signal by signal.",
        min_length=1,
    )
    max_age: Duration = Field(
        MAX_AGE_S,
        description="Older samples count as stale. The default, and no other value, becomes two scrapes where these "
        "are more than 15 s apart.",
        gt=0,
    )

    @property
    def max_age_set(self) -> bool:
        """Whether a person chose it: then it holds, however rarely the source is scraped. (A server writes defaults
        into objects, so the default value itself must mean the default.)"""
        return self.max_age != MAX_AGE_S
