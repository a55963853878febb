"""A workload's tick in the words of a custom resource's status: HPA's three conditions, and two of our own. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, Literal

from autoscaler.model import quantity
from autoscaler.model.plan import AnnotatePod, Evict, Plan, Resize, Revert, Scale
from autoscaler.model.policy import Mode, Policy
from autoscaler.model.reason import Code, Reason
from autoscaler.model.signal import Absent, Cause, Measured, Reading
from autoscaler.model.status import (
    Condition,
    ContainerStatus,
    DecisionStatus,
    ObjectiveStatus,
    PolicyStatus,
    ReplicasStatus,
    SizeStatus,
)  # fmt: skip
from autoscaler.model.workload import Container, Pod, Qos, ResizeState, Resources, WorkloadView

BLIND: Final = frozenset({Code.NO_SIGNAL, Code.STALE})
LIMITED: Final = frozenset(
    {Code.AT_MAX, Code.AT_MIN, Code.NODE_FULL, Code.QUOTA, Code.LIMIT_RANGE, Code.BUDGET, Code.FLEET_LIMIT,
     Code.INELASTIC, Code.UNREACHABLE, Code.NO_ROOM_TO_CONSOLIDATE, Code.RATE_LIMITED, Code.MEMORY_UNSAFE, Code.LEAK,
     Code.MIN_BEYOND}
)  # fmt: skip
UNABLE: Final = frozenset({Code.OTHER_OWNER, Code.ROLLOUT})
UNRESIZABLE: Final = frozenset({Code.UNSUPPORTED, Code.REFUSED})
Truth = Literal["True", "False", "Unknown"]


def stamp(at: float) -> str:
    """Unix seconds as RFC 3339 in whole seconds."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def status_of(view: WorkloadView, policy: Policy, plan: Plan, at: float, learned: str | None = None) -> PolicyStatus:
    """What the resource's status says after a tick at ``at`` (unix seconds)."""
    return PolicyStatus(
        observed_generation=policy.generation or None,
        target=str(view.target),
        cpu=_span([c.desired.cpu for c in _containers(view.pods, view.container)], quantity.format_cpu),
        objective=_objective(view, policy),
        containers=_sizes(view, plan),
        replicas=_replicas(view, plan),
        last_decision=_decision(plan, at),
        learned=learned,
        conditions=conditions_of(view, policy, plan, at),
    )


def refused_status(generation: int, problem: str, at: float, reason: str = "InvalidSpec") -> PolicyStatus:
    """For a resource that can't be obeyed: Ready=False with the reason in a sentence."""
    failed = Condition(
        type="Ready", status="False", reason=reason, message=problem, last_transition_time=stamp(at),
        observed_generation=generation or None,
    )  # fmt: skip
    return PolicyStatus(observed_generation=generation or None, conditions=(failed,))


def conditions_of(view: WorkloadView, policy: Policy, plan: Plan, at: float) -> tuple[Condition, ...]:
    reasons = _reasons(plan)
    answers = {
        "Ready": _ready(view, policy),
        "AbleToScale": _able(view, reasons),
        "ScalingActive": _active(view, policy, reasons),
        "ScalingLimited": _limited(reasons),
        "ResizePossible": _resizable(view, reasons),
    }
    return tuple(
        Condition(
            type=kind,
            status=truth,
            reason=reason,
            message=message,
            last_transition_time=stamp(at),
            observed_generation=policy.generation or None,
        )
        for kind, (truth, reason, message) in answers.items()
    )


def _reasons(plan: Plan) -> tuple[Reason, ...]:
    own = (plan.reason,) if plan.reason is not None else ()
    granted = plan.grant.why if plan.grant is not None else ()
    return (*own, *plan.holds, *granted, *(action.reason for action in plan.actions))


def _first(reasons: Iterable[Reason], codes: frozenset[Code]) -> Reason | None:
    return next((reason for reason in reasons if reason.code in codes), None)


def _ready(view: WorkloadView, policy: Policy) -> tuple[Truth, str, str]:
    if view.hold:
        return "False", "Held", view.hold
    if policy.spec.mode is Mode.OFF:
        return "False", "Off", "mode is Off"
    if view.paused:
        return "False", "Paused", "paused by a person"
    if policy.spec.mode is Mode.DRY_RUN:
        return "True", "DryRun", "decides, and only says what it would do"
    return "True", "Deciding", "observed and decided on every tick"


def _able(view: WorkloadView, reasons: Sequence[Reason]) -> tuple[Truth, str, str]:
    if view.hold:
        return "False", "FailedGetScale", view.hold
    if view.scale is None:
        return "False", "NoScaleSubresource", f"{view.target} has no replicas to set; its pods are sized only"
    held = _first(reasons, UNABLE)
    if held is not None:
        return "False", held.code.value, held.text
    if view.scale.other_owner:
        return "False", Code.OTHER_OWNER.value, f"replicas are set by {view.scale.other_owner}"
    return "True", "SucceededGetScale", "replicas can be read and set"


def _active(view: WorkloadView, policy: Policy, reasons: Sequence[Reason]) -> tuple[Truth, str, str]:
    if policy.spec.mode is Mode.OFF or (view.scale is not None and view.scale.desired == 0):
        return "False", "ScalingDisabled", "mode is Off" if policy.spec.mode is Mode.OFF else "replicas is 0: off"
    blind = _first(reasons, BLIND)
    if blind is not None:
        return "False", blind.code.value, blind.text
    if view.hold:
        return "Unknown", "Held", view.hold
    misses = view.signals.misses
    if (
        policy.spec.objective.latency is not None
        and isinstance(misses, Absent)
        and misses.cause is not Cause.NO_TRAFFIC
    ):
        return "False", Code.UNMEASURED.value, f"misses: {misses.told}; only growing goes on, with what else is known"
    return "True", "ValidMetricFound", "the objective is measured"


def _limited(reasons: Sequence[Reason]) -> tuple[Truth, str, str]:
    found = _first(reasons, LIMITED)
    if found is None:
        return "False", "DesiredWithinRange", "what is wanted can be had"
    return "True", found.code.value, found.text


def _resizable(view: WorkloadView, reasons: Sequence[Reason]) -> tuple[Truth, str, str]:
    if not view.pods:
        return "Unknown", "NoPods", "there is no pod to resize"
    refused = next((p.attempt for p in view.pods if p.attempt and p.attempt.state is ResizeState.REFUSED), None)
    if refused is not None:
        return "False", refused.refusal or Code.REFUSED.value, refused.message
    held = _first(reasons, UNRESIZABLE)
    if held is not None:
        return "False", held.code.value, held.text
    for fault, words in _UNFIT:
        pod = next((p for p in view.pods if fault(p)), None)
        if pod is not None:
            return "False", Code.UNSUPPORTED.value, f"{pod.name} {words}"
    return "True", "Supported", "pods can be resized in place"


_UNFIT: Final = (
    (lambda pod: pod.static, "is a static pod: it can't be resized"),
    (lambda pod: pod.windows, "runs on Windows: it can't be resized"),
    (lambda pod: pod.qos is Qos.BEST_EFFORT, "is BestEffort: give its containers requests"),
)


def _objective(view: WorkloadView, policy: Policy) -> ObjectiveStatus:
    wanted, signals = policy.spec.objective, view.signals
    if wanted.latency is not None:
        within = quantity.format_share(wanted.latency.within)
        text = f"{within} within {quantity.format_duration(wanted.latency.target)}"
        return _measured(text, signals.misses, lambda v: f"{v * 100:.3g}% missed")
    if wanted.cpu is not None:
        text = f"CPU at {quantity.format_share(wanted.cpu.target_utilization)}"
        return _measured(text, signals.cpu, lambda v: f"{quantity.format_cpu(round(v * 1000))} used")
    metric = wanted.metrics[0]
    reading = signals.custom.get(metric.name)
    text = f"{metric.name} at {metric.target.value:g}"
    return _measured(text, reading, lambda v: f"{v:.4g}") if reading is not None else ObjectiveStatus(text=text)


def _measured(text: str, reading: Reading, spell: Callable[[float], str]) -> ObjectiveStatus:
    match reading:
        case Measured(value=value, age_s=age, coverage=coverage):
            known = f" (Partial: known for {coverage:.0%} of the pods)" if coverage < 0.999 else ""
            return ObjectiveStatus(text=text, measured=spell(value) + known, age_seconds=round(age))
        case Absent(cause=cause, detail=detail):
            return ObjectiveStatus(text=text, absent=f"{cause.value}: {detail}" if detail else cause.value)


def _sizes(view: WorkloadView, plan: Plan) -> tuple[ContainerStatus, ...]:
    if not view.container or not view.pods:
        return ()
    containers = _containers(view.pods, view.container)
    want = plan.want
    wanted = None
    if want is not None and (want.pods or want.memory):
        wanted = SizeStatus(
            cpu=_span(list(want.pods.values()), quantity.format_cpu),
            memory=_span(list(want.memory.values()), quantity.format_memory),
        )
    return (
        ContainerStatus(
            name=view.container,
            wanted=wanted,
            desired=_size([c.desired for c in containers]),
            actual=_size([c.actual for c in containers if c.actual is not None]),
        ),
    )


def _containers(pods: Iterable[Pod], name: str) -> list[Container]:
    return [c for pod in pods if pod.active and (c := pod.container(name)) is not None]


def _size(sizes: Sequence[Resources]) -> SizeStatus | None:
    if not sizes:
        return None
    return SizeStatus(
        cpu=_span([s.cpu for s in sizes], quantity.format_cpu),
        memory=_span([s.memory for s in sizes], quantity.format_memory),
    )


def _span(amounts: Sequence[int | None], spell: Callable[[int], str]) -> str | None:
    known = [a for a in amounts if a is not None]
    if not known:
        return None
    low, high = min(known), max(known)
    return spell(low) if low == high else f"{spell(low)}..{spell(high)}"


def _replicas(view: WorkloadView, plan: Plan) -> ReplicasStatus | None:
    if view.scale is None:
        return None
    scaled = next((action.after for action in plan.actions if isinstance(action, Scale)), None)
    wish = plan.want.replicas if plan.want is not None else None
    return ReplicasStatus(
        current=sum(1 for pod in view.pods if pod.active),
        ready=sum(1 for pod in view.pods if pod.active and pod.ready),
        wanted=scaled if scaled is not None else wish if wish is not None else view.scale.desired,
    )


def _decision(plan: Plan, at: float) -> DecisionStatus | None:
    notable = next((action for action in plan.actions if not isinstance(action, AnnotatePod)), None)
    reason = notable.reason if notable is not None else plan.reason or next(iter(plan.holds), None)
    if reason is None:
        return None
    return DecisionStatus(action=_verb(notable), reason=reason.code.value, message=reason.text, time=stamp(at))


def _verb(action: Resize | Revert | Scale | Evict | None) -> str:
    return "Hold" if action is None else type(action).__name__
