"""What the user wants: the ``InferenceAutoscaler`` and ``CapacityBudget`` objects, one frozen typed model.

Every field, default and unit is written once, here and in the parts that this is composed of (``objective``,
``metrics``, ``vertical``, ``horizontal``, in the spelling of ``written``): files, custom resources, CRD schemas and
``explain`` all read them. The whole vocabulary is to be had from this module.
"""

from __future__ import annotations

import enum

from pydantic import Field

from autoscaler.model.horizontal import Horizontal, HorizontalBehavior, ScalingPolicy, ScalingRules
from autoscaler.model.metrics import (
    MAX_AGE_S,
    CounterSignal,
    GaugeSignal,
    LatencySignal,
    ScrapeSettings,
    SignalsSpec,
    SourceName,
)
from autoscaler.model.objective import CpuObjective, LatencyObjective, MetricObjective, MetricTarget, Objective
from autoscaler.model.vertical import (
    Bounded,
    Controls,
    CpuBounds,
    GrowBehavior,
    MemoryBounds,
    Shrink,
    ShrinkBehavior,
    Vertical,
    VerticalBehavior,
)
from autoscaler.model.workload import TargetRef, WorkloadRef
from autoscaler.model.written import CpuAmount, Duration, MemoryAmount, Share, Spec

__all__ = [
    "API_VERSION",
    "GROUP",
    "MAX_AGE_S",
    "VERSION",
    "Bounded",
    "Budget",
    "BudgetSpec",
    "Controls",
    "CounterSignal",
    "CpuAmount",
    "CpuBounds",
    "CpuObjective",
    "Duration",
    "GaugeSignal",
    "GrowBehavior",
    "Horizontal",
    "HorizontalBehavior",
    "LatencyObjective",
    "LatencySignal",
    "MemoryAmount",
    "MemoryBounds",
    "MetricObjective",
    "MetricTarget",
    "Mode",
    "Objective",
    "Policy",
    "PolicySpec",
    "ResizeSpec",
    "ScaleTargetRef",
    "ScalingPolicy",
    "ScalingRules",
    "ScrapeSettings",
    "Share",
    "Shrink",
    "ShrinkBehavior",
    "SignalsSpec",
    "SourceName",
    "Spec",
    "Vertical",
    "VerticalBehavior",
]

GROUP = "inference-autoscaler.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"


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
