"""The number of pods: between which bounds, and how fast it follows."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from autoscaler.model.written import Share, Spec


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
