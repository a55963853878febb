"""What must hold: latency, CPU use, or metrics of one's own."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from autoscaler.model import quantity
from autoscaler.model.written import Duration, Share, Spec


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
