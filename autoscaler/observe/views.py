"""One workload's view, from its target, its pods and what stands around them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.kube.decode import OWN_PREFIX
from autoscaler.kube.seen import BudgetSeen, ReplicaSetSeen, ScalerSeen, TargetSeen
from autoscaler.kube.selectors import matches
from autoscaler.model.policy import Policy
from autoscaler.model.signal import Signals
from autoscaler.model.workload import Pod, Resources, ScaleView, WorkloadView

PAUSE = f"{OWN_PREFIX}pause"
"""Annotation on the target: ``"true"`` holds it."""
MESH = frozenset({"istio-proxy", "linkerd-proxy", "consul-dataplane", "envoy", "inference-autoscaler"})
"""Containers that stand beside a server and never are the one to be sized, unless the policy names them."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known beside the target itself. ``zones``: zone by node name."""

    pods: tuple[Pod, ...] = ()
    sets: tuple[ReplicaSetSeen, ...] = ()
    scalers: tuple[ScalerSeen, ...] = ()
    disruption: tuple[BudgetSeen, ...] = ()
    zones: Mapping[str, str] = field(default_factory=dict)


def hold_for_target(policy: Policy) -> str:
    return f"{policy.target} doesn't exist in namespace {policy.ref.namespace}: create it or correct scaleTargetRef"


def view_of(
    policy: Policy, target: TargetSeen | None, around: Surroundings, preset_container: str, hold: str
) -> WorkloadView:
    """The view; ``hold`` is a reason found before looking, else this finds its own."""
    pods = around.pods
    container, trouble = container_of(policy, target, pods, preset_container)
    scale = _scale(target, around) if target is not None and target.scalable else None
    if not hold and target is not None:
        hold = trouble or _no_pods(target, pods)
        if not hold and scale is None and not policy.spec.vertical.enabled:
            hold = f"{policy.target} has no scale subresource and vertical.enabled is false: nothing is left to do"
    zones = {around.zones.get(pod.node, "") for pod in pods} - {""}
    return WorkloadView(
        ref=policy.ref,
        target=policy.target,
        scale=scale,
        pods=pods,
        signals=Signals(),
        container=container,
        template=_template(target, container),
        hold=hold,
        paused=target is not None and target.annotations.get(PAUSE, "").lower() == "true",
        pdb_min_available=min_available(around.disruption, pods, target.replicas if target is not None else len(pods)),
        pdb_floor=floor(around.disruption, pods),
        zones=max(1, len(zones)),
        size_owner=next((s.by for s in around.scalers if s.kind == "VerticalPodAutoscaler" and s.acts), ""),
    )


def _no_pods(target: TargetSeen, pods: Sequence[Pod]) -> str:
    if pods or not target.scalable or target.replicas == 0:
        return ""  # zero replicas is somebody's wish, which decisions know
    return f"no pods: {target.replicas} replicas wanted, none created (see the events of {target.kind} {target.name})"


def container_of(
    policy: Policy, target: TargetSeen | None, pods: Sequence[Pod], preset_container: str
) -> tuple[str, str]:
    """(the container to be sized, trouble). Named by the policy, else the only one, else the preset's usual one."""
    # Pods are the truth; injected sidecars are in no template. Without pods the template must do.
    sample = next((pod for pod in reversed(pods) if pod.active), pods[-1] if pods else None)
    if sample is not None:
        names = [c.name for c in sample.containers]
        servers = [c.name for c in sample.containers if not c.sidecar and c.name not in MESH]
    else:
        names = list(target.template) if target is not None else []
        servers = [name for name in names if name not in MESH]
    there = ", ".join(names)
    wanted = policy.spec.vertical.container
    if wanted is not None:
        if names and wanted not in names:
            return wanted, f"spec.vertical.container: no container {wanted!r} in the pods (there: {there})"
        return wanted, ""
    if len(servers) == 1:
        return servers[0], ""
    if preset_container in names:
        return preset_container, ""
    if not names:
        return "", ""
    return "", f"which container is to be sized? Set spec.vertical.container to one of: {there}"


def _template(target: TargetSeen | None, container: str) -> Resources | None:
    return None if target is None else target.template.get(container)


def _scale(target: TargetSeen, around: Surroundings) -> ScaleView:
    live = [s for s in around.sets if s.replicas or s.current]
    newest = max(around.sets, key=lambda s: (s.revision, s.name), default=None)
    owners = [s.by for s in around.scalers if s.kind != "VerticalPodAutoscaler" and s.acts]
    return ScaleView(
        desired=target.replicas,
        current=target.current,
        resource_version=target.resource_version,
        rollout=target.rolling or len(live) > 1,
        template_hash=newest.template_hash if newest is not None else target.template_hash,
        selector=target.selector,
        other_owner=owners[0] if owners else _managing_owner(target),
        paused=target.paused,
        scaled_by=target.scaled_by,
        scaled_at=target.scaled_at,
    )


def _managing_owner(target: TargetSeen) -> str:
    """A ReplicaSet of a Deployment gets its replicas put back. Other owners, such as operators, may or may not."""
    owner = target.owner
    return f"deployment/{owner.name}" if owner is not None and owner.kind == "Deployment" else ""


def min_available(budgets: Iterable[BudgetSeen], pods: Sequence[Pod], replicas: int) -> int | None:
    """How many pods the strictest PodDisruptionBudget keeps; None when none selects these pods."""
    return max((_healthy(budget, replicas) for budget in _selecting(budgets, pods)), default=None)


def floor(budgets: Iterable[BudgetSeen], pods: Sequence[Pod]) -> int | None:
    """How many pods must stay however few there are: percentages and ``maxUnavailable`` follow the replicas."""
    return max(
        (one.min_available for one in _selecting(budgets, pods) if isinstance(one.min_available, int)), default=None
    )


def _selecting(budgets: Iterable[BudgetSeen], pods: Sequence[Pod]) -> list[BudgetSeen]:
    return [one for one in budgets if any(matches(one.selector, pod.labels) for pod in (*pods[:1], *pods[-1:]))]


def _healthy(budget: BudgetSeen, replicas: int) -> int:
    """By the spec, for the replicas of now; the controller's own number where the spec can't be read."""
    low = _count(budget.min_available, replicas)
    if low is not None:
        return low
    away = _count(budget.max_unavailable, replicas)
    if away is not None:
        return max(0, replicas - away)
    return budget.healthy or 0


def _count(amount: str | int | None, replicas: int) -> int | None:
    """An int-or-percent, percentages rounded up as the disruption controller does."""
    if isinstance(amount, int) or amount is None:
        return amount
    if not amount.endswith("%") or not amount[:-1].isdecimal():
        return None
    return -(-int(amount[:-1]) * replicas // 100)
