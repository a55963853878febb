"""The size of the running pods: between which bounds, and how fast it follows."""

from __future__ import annotations

import enum
from typing import Final, Literal

from pydantic import Field, model_validator

from autoscaler.model.written import CpuAmount, MemoryAmount, Share, Spec

MOST_CPU: Final = 1_000_000
"""Millicores. No pod has a thousand cores: somebody wrote millicores without their m."""
LEAST_MEMORY: Final = 4 * 2**20
"""Bytes. No container lives in less: somebody wrote mebibytes without their Mi."""


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
    """CPU of a pod's sized container: its limit, of which the request keeps its share; the request where there is no
    limit, or controls is RequestsOnly."""

    min: CpuAmount = Field(
        100, description="Smallest CPU of a pod's container; a smaller request keeps its share.", ge=10, lt=MOST_CPU
    )
    max: CpuAmount | None = Field(None, description="Largest CPU; default: what the node offers.", lt=MOST_CPU)
    step: CpuAmount = Field(100, description="Sizes are multiples of this.", gt=0)
    controls: Controls = Field(Controls.BOTH, description="Which sides of the resources are set.")


class Shrink(enum.StrEnum):
    NEVER = "Never"
    WHEN_SAFE = "WhenSafe"


class MemoryBounds(Bounded):
    """Memory of a pod's sized container."""

    min: MemoryAmount | None = Field(None, description="Smallest memory; default: the template's.", ge=LEAST_MEMORY)
    max: MemoryAmount | None = Field(
        None, description="Largest memory; default: the template's (memory is left alone).", ge=LEAST_MEMORY
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
    keep_manual_seconds: int = Field(
        600, ge=0, le=86400, description="So long a pod keeps the CPU that somebody else has resized it to."
    )
    behavior: VerticalBehavior = Field(default_factory=VerticalBehavior)
    template: Literal["Keep", "Annotate"] = Field("Keep", description="Annotate writes the learned size for GitOps.")
