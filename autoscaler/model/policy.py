"""What the user wants: the ``InferenceAutoscaler`` and ``CapacityBudget`` objects, one frozen typed model.

Every field, default and unit is written here, once: files, custom resources, CRD schemas and ``explain`` all read it.
Quantities, durations and shares arrive in Kubernetes spelling and are exact numbers past this file
(millicores, bytes, seconds, shares in [0, 1]).
"""

from __future__ import annotations

import enum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema, model_validator
from pydantic.alias_generators import to_camel

from autoscaler.model import quantity
from autoscaler.model.workload import TargetRef, WorkloadRef

GROUP = "inference-autoscaler.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

_QUANTITY_SCHEMA = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_SHARE_SCHEMA = {"anyOf": [{"type": "number"}, {"type": "string"}], "x-kubernetes-int-or-string": True}

CpuAmount = Annotated[
    int, BeforeValidator(quantity.parse_cpu), PlainSerializer(quantity.format_cpu), WithJsonSchema(_QUANTITY_SCHEMA)
]
"""Millicores; written ``250m``, ``2``, ``"1.5"``."""
MemoryAmount = Annotated[
    int,
    BeforeValidator(quantity.parse_memory),
    PlainSerializer(quantity.format_memory),
    WithJsonSchema(_QUANTITY_SCHEMA),
]
"""Bytes; written ``1Gi``, ``512Mi``."""
Duration = Annotated[
    float,
    BeforeValidator(quantity.parse_written_duration),
    PlainSerializer(quantity.format_duration),
    WithJsonSchema({"type": "string"}),
]
"""Seconds; written ``500ms``, ``30s``, ``1m30s``."""
Share = Annotated[
    float,
    BeforeValidator(quantity.parse_share),
    PlainSerializer(quantity.format_share),
    WithJsonSchema(_SHARE_SCHEMA),
]
"""A share in [0, 1]; written ``99%`` or ``0.99``."""


class Spec(BaseModel):
    """Base: frozen, camelCase on the wire, unknown fields are errors."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, strict=False
    )


class Mode(enum.StrEnum):
    AUTO = "Auto"
    DRY_RUN = "DryRun"
    OFF = "Off"


class ScaleTargetRef(Spec):
    """The object whose pods are sized: any kind with pods; replicas need a scale subresource."""

    api_version: str = Field("apps/v1", description="API group and version of the target.")
    kind: str = Field("Deployment", description="Kind of the target.", min_length=1)
    name: str = Field(description="Name of the target, in the policy's namespace.", min_length=1)

    @property
    def ref(self) -> TargetRef:
        return TargetRef(self.api_version, self.kind, self.name)


class LatencyObjective(Spec):
    """``within`` of the requests are answered successfully within ``target``."""

    target: Duration = Field(description="Latency a request must not exceed, for example 500ms.", gt=0)
    within: Share = Field(0.99, description="Share of requests within the target.", gt=0.0, lt=1.0)

    @model_validator(mode="before")
    @classmethod
    def _percentile(cls, data: Any) -> Any:
        """``percentile: 0.95`` is read as ``within: 95%``."""
        if isinstance(data, dict) and "percentile" in data:
            if "within" in data:
                raise ValueError("within and percentile say the same thing: set one of them")
            data = dict(data)
            data["within"] = data.pop("percentile")
        return data


class CpuObjective(Spec):
    """Keep CPU use near this share of the limit; alone, or where latency is unknown."""

    target_utilization: Share = Field(0.7, description="CPU use divided by CPU size.", gt=0.0, lt=1.0)


class MetricTarget(Spec):
    """``Value``: the query's one number against the target. ``AverageValue``: divided by the ready pods first."""

    type: Literal["Value", "AverageValue"] = Field("AverageValue", description="How the target is compared.")
    value: float = Field(description="The target.", gt=0)

    @model_validator(mode="before")
    @classmethod
    def _quantity(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("value"), str):
            data = dict(data)
            data["value"] = float(quantity.parse_quantity(data["value"]))
        return data


class MetricObjective(Spec):
    """A custom metric, by a PromQL query that yields one number for the workload."""

    name: str = Field(description="A name for reasons and logs.", min_length=1)
    query: str = Field(description="PromQL with one number as its result.", min_length=1)
    target: MetricTarget


class Objective(Spec):
    """What must hold; at least one."""

    latency: LatencyObjective | None = None
    cpu: CpuObjective | None = None
    metrics: tuple[MetricObjective, ...] = Field((), description="Custom metrics, each with a target.")

    @model_validator(mode="after")
    def _one(self) -> Objective:
        if self.latency is None and self.cpu is None and not self.metrics:
            raise ValueError("needs at least one of latency, cpu, metrics")
        return self


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


class Controls(enum.StrEnum):
    BOTH = "RequestsAndLimits"
    REQUESTS = "RequestsOnly"
    LIMITS = "LimitsOnly"


class Bounded(Spec):
    @model_validator(mode="after")
    def _ordered(self) -> Bounded:
        low, high = getattr(self, "min", None), getattr(self, "max", None)
        if low is not None and high is not None and low > high:
            raise ValueError("min is above max")
        return self


class CpuBounds(Bounded):
    """CPU of a pod's sized container."""

    min: CpuAmount = Field(100, description="Smallest CPU of a pod's container.", ge=10)
    max: CpuAmount | None = Field(None, description="Largest CPU; default: what the node offers.")
    step: CpuAmount = Field(100, description="Sizes are multiples of this.", gt=0)
    controls: Controls = Field(Controls.BOTH, description="Which sides of the resources are set.")


class Shrink(enum.StrEnum):
    NEVER = "Never"
    WHEN_SAFE = "WhenSafe"


class MemoryBounds(Bounded):
    """Memory of a pod's sized container."""

    min: MemoryAmount | None = Field(None, description="Smallest memory; default: the template's.")
    max: MemoryAmount | None = Field(
        None, description="Largest memory; default: the template's (memory is left alone)."
    )
    headroom: Share = Field(0.2, description="Room above the peak working set.", gt=0.0)
    shrink: Shrink = Field(Shrink.NEVER, description="Whether memory may ever be taken back.")


class GrowBehavior(Spec):
    """When sizes go up."""

    stabilization_window_seconds: int = Field(0, ge=0, le=3600, description="The lowest wish in this window counts.")


class ShrinkBehavior(Spec):
    """When sizes go down."""

    stabilization_window_seconds: int = Field(60, ge=0, le=3600, description="The highest wish in this window counts.")
    min_change: Share = Field(0.1, description="Smaller changes are not worth a resize.")


class VerticalBehavior(Spec):
    """How fast sizes follow."""

    grow: GrowBehavior = Field(default_factory=GrowBehavior)
    shrink: ShrinkBehavior = Field(default_factory=ShrinkBehavior)


class Vertical(Spec):
    """The size of the running pods."""

    enabled: bool = Field(True, description="False: sizes are left alone.")
    container: str | None = Field(None, description="Default: the only one, or the one the preset names.")
    cpu: CpuBounds = Field(default_factory=CpuBounds)
    memory: MemoryBounds = Field(default_factory=MemoryBounds)
    behavior: VerticalBehavior = Field(default_factory=VerticalBehavior)
    template: Literal["Keep", "Annotate"] = Field("Keep", description="Annotate writes the learned size for GitOps.")


class ScalingPolicy(Spec):
    """At most so many pods in so many seconds."""

    type: Literal["Pods", "Percent"] = Field(description="What the value counts.")
    value: int = Field(gt=0, description="Pods, or percent of the pods there are.")
    period_seconds: int = Field(gt=0, le=1800, description="Length of the period.")


class ScalingRules(Spec):
    """HPA's ``scaleUp``/``scaleDown`` block: same names, same defaults."""

    stabilization_window_seconds: int | None = Field(
        None, ge=0, le=3600, description="Window of past wishes that count. Default: 0 up, 300 down."
    )
    select_policy: Literal["Max", "Min", "Disabled"] = Field(
        "Max", description="Which of the policies counts; Disabled: no change in this direction."
    )
    policies: tuple[ScalingPolicy, ...] | None = Field(
        None, description="Default: up 4 pods or 100% in 15 s, down 100% in 15 s."
    )
    tolerance: Share | None = Field(None, description="Smaller changes are not made. Default 10%.")


class HorizontalBehavior(Spec):
    """How fast replicas follow."""

    scale_up: ScalingRules = Field(default_factory=ScalingRules)
    scale_down: ScalingRules = Field(default_factory=ScalingRules)


class Horizontal(Spec):
    """The number of pods."""

    enabled: bool = Field(True, description="False: replicas are left alone.")
    min_replicas: int | None = Field(
        None,
        ge=1,
        description="Default: max(2, replicas found at adoption, PDB minAvailable + 1), never above the max.",
    )
    max_replicas: int | None = Field(None, ge=1, description="Default: replicas found at adoption (vertical only).")
    keep_manual_seconds: int = Field(
        600, ge=0, le=86400, description="So long a number of replicas is kept that somebody else has set."
    )
    behavior: HorizontalBehavior = Field(default_factory=HorizontalBehavior)

    @model_validator(mode="after")
    def _ordered(self) -> Horizontal:
        if self.min_replicas is not None and self.max_replicas is not None and self.min_replicas > self.max_replicas:
            raise ValueError("minReplicas is above maxReplicas")
        return self


class ResizeSpec(Spec):
    """How one resize is carried out."""

    timeout_seconds: int = Field(60, gt=0, le=3600, description="An ungranted resize is reverted after this.")
    max_unavailable: int = Field(1, ge=1, description="Pods that may restart at once under RestartContainer.")


class PolicySpec(Spec):
    """spec of an InferenceAutoscaler."""

    scale_target_ref: ScaleTargetRef
    mode: Mode = Field(
        Mode.AUTO,
        description='Auto acts, DryRun only says what it would do, "Off" (quoted: YAML reads a bare Off as false) does '
        "nothing.",
    )
    priority: int = Field(0, description="Higher first when capacity is short.")
    budget: str | None = Field(None, description="Name of a CapacityBudget in the same namespace.")
    objective: Objective
    signals: SignalsSpec = Field(default_factory=SignalsSpec)
    vertical: Vertical = Field(default_factory=Vertical)
    horizontal: Horizontal = Field(default_factory=Horizontal)
    resize: ResizeSpec = Field(default_factory=ResizeSpec)


class Policy(Spec):
    """One InferenceAutoscaler with where it came from."""

    ref: WorkloadRef
    spec: PolicySpec
    origin: str = Field("", description="File and document, or the custom resource.")
    generation: int = 0

    @property
    def target(self) -> TargetRef:
        return self.spec.scale_target_ref.ref


class BudgetSpec(Spec):
    """spec of a CapacityBudget: what all workloads that name it may have together."""

    cpu: CpuAmount | None = Field(None, description="CPU of all their pods together.")
    memory: MemoryAmount | None = Field(None, description="Memory of all their pods together.")


class Budget(Spec):
    ref: WorkloadRef
    spec: BudgetSpec
    origin: str = ""
