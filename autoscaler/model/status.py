"""What a custom resource's status says: what is it doing, and why, for ``kubectl get ia`` and ``kubectl describe``.

The schema of the CRD's status is generated from these classes. Amounts are in Kubernetes spelling, since people read
them; times are RFC 3339.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from autoscaler.model.policy import Spec

Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""RFC 3339, UTC, whole seconds."""


class SizeStatus(Spec):
    """CPU and memory as Kubernetes writes them."""

    cpu: str | None = Field(None, description="CPU, for example 2500m.")
    memory: str | None = Field(None, description="Memory, for example 2Gi.")


class ContainerStatus(Spec):
    """One container over all pods; where pods differ, the smallest to the largest is written as 1..2500m."""

    name: str = Field(description="Name of the container.")
    wanted: SizeStatus | None = Field(None, description="What the last decision would like, before sharing.")
    desired: SizeStatus | None = Field(None, description="What the pods' spec asks for.")
    actual: SizeStatus | None = Field(None, description="What the containers run with.")


class ReplicasStatus(Spec):
    """The number of pods."""

    current: int | None = Field(None, description="Pods that there are.")
    ready: int | None = Field(None, description="Pods that are ready.")
    wanted: int | None = Field(None, description="Pods that the last decision wants.")


class ObjectiveStatus(Spec):
    """The objective next to what was measured."""

    text: str = Field(description="The objective in words, for example 99% within 500ms.")
    measured: str | None = Field(None, description="Share of missed requests, or the metric that is controlled.")
    age_seconds: int | None = Field(None, description="Age of the measurement when this status was written.")
    absent: str | None = Field(None, description="Why nothing was measured, if so.")


class DecisionStatus(Spec):
    """The last decision that a person would notice."""

    action: str = Field(description="Resize, Scale, Revert, Evict or Hold.")
    reason: str = Field(description="Code of the reason.")
    message: str = Field(description="The reason in a sentence, with its numbers.")
    time: Timestamp = Field(description="When it was decided.")


class Condition(Spec):
    """A condition as everywhere in Kubernetes."""

    type: str = Field(
        description="Ready, AbleToScale, ScalingActive, ScalingLimited or ResizePossible; Short of a budget.",
        min_length=1,
        max_length=316,
    )
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: str = Field(description="Code of the reason.", max_length=1024)
    message: str = Field("", description="The reason in a sentence.", max_length=32768)
    last_transition_time: Timestamp = Field(description="When the status last changed.")
    observed_generation: int | None = Field(None, description="Generation of the resource that this is about.")


class PolicyStatus(Spec):
    """status of an InferenceAutoscaler."""

    observed_generation: int | None = Field(None, description="Generation of the resource that was last read.")
    target: str | None = Field(None, description="Kind and name of the target.", max_length=512)
    cpu: str | None = Field(None, description="CPU of a pod's sized container, now.")
    objective: ObjectiveStatus | None = Field(None, description="The objective next to what was measured.")
    containers: tuple[ContainerStatus, ...] = Field((), description="Sizes wanted, desired and actual.")
    replicas: ReplicasStatus | None = Field(None, description="The number of pods.")
    last_decision: DecisionStatus | None = Field(None, description="What was last done or held, and why.")
    learned: str | None = Field(None, description="What was learned, compact, read back after a restart.")
    conditions: tuple[Condition, ...] = Field((), description="Conditions, one of each type.")


class BudgetMember(Spec):
    """One workload's part of a budget."""

    name: str = Field(description="Name of the InferenceAutoscaler.")
    cpu: str | None = Field(None, description="CPU of its pods' sized containers, as their specs ask for.")
    memory: str | None = Field(None, description="Memory of the same.")
    wanted_cpu: str | None = Field(None, description="CPU that its last decision would like, before sharing.")


class BudgetStatus(Spec):
    """status of a CapacityBudget."""

    observed_generation: int | None = Field(None, description="Generation of the resource that was last read.")
    used: SizeStatus | None = Field(None, description="What all members have together.")
    wanted_cpu: str | None = Field(None, description="CPU that all members would like together, before sharing.")
    members: tuple[BudgetMember, ...] = Field((), description="Who names it, with what each has and would like.")
    conditions: tuple[Condition, ...] = Field((), description="Conditions, one of each type: Ready, Short.")
