"""What became of a CapacityBudget in one tick, in the words of its status: used, wanted, by whom. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from autoscaler.kube.report import stamp
from autoscaler.model import quantity
from autoscaler.model.plan import BudgetView, Plan
from autoscaler.model.reason import Code, Reason
from autoscaler.model.status import BudgetMember, BudgetStatus, Condition, SizeStatus
from autoscaler.model.workload import WorkloadRef, WorkloadView

UNSEEN: Final = "no workload names this budget: set spec.budget of its InferenceAutoscaler"


def budget_status(
    budget: BudgetView, generation: int, views: Mapping[WorkloadRef, WorkloadView], plans: Mapping[WorkloadRef, Plan],
    at: float,
) -> BudgetStatus:  # fmt: skip
    """``used``: the sized containers of all pods that members have, as their specs ask for."""
    members, short = [], []
    used_cpu = used_memory = wanted_cpu = 0
    for ref in sorted(budget.members):
        view, plan = views.get(ref), plans.get(ref)
        cpu, memory = _held(view)
        want = plan.want if plan is not None else None
        wanted = round(want.cpu) if want is not None else cpu
        used_cpu, used_memory, wanted_cpu = used_cpu + cpu, used_memory + memory, wanted_cpu + wanted
        members.append(
            BudgetMember(
                name=ref.name,
                cpu=quantity.format_cpu(cpu),
                memory=quantity.format_memory(memory),
                wanted_cpu=quantity.format_cpu(wanted),
            )
        )
        short += [(ref, reason) for reason in _reasons(plan) if reason.code is Code.BUDGET]
    return BudgetStatus(
        observed_generation=generation or None,
        used=SizeStatus(cpu=quantity.format_cpu(used_cpu), memory=quantity.format_memory(used_memory)),
        wanted_cpu=quantity.format_cpu(wanted_cpu),
        members=tuple(members),
        conditions=(
            _condition("Ready", "True", "Obeyed", "shared among its members" if members else UNSEEN, generation, at),
            _short(short, generation, at),
        ),
    )


def refused_budget(generation: int, problem: str, reason: str, at: float) -> BudgetStatus:
    """For one that can't be obeyed."""
    return BudgetStatus(
        observed_generation=generation or None,
        conditions=(_condition("Ready", "False", reason, problem, generation, at),),
    )


def _held(view: WorkloadView | None) -> tuple[int, int]:
    """Millicores and bytes."""
    sizes = (
        [pod.container(view.container) for pod in view.pods if pod.phase not in ("Succeeded", "Failed")] if view else []
    )
    return (
        sum(one.desired.cpu or 0 for one in sizes if one is not None),
        sum(one.desired.memory or 0 for one in sizes if one is not None),
    )


def _reasons(plan: Plan | None) -> Iterable[Reason]:
    if plan is None:
        return ()
    granted = plan.grant.why if plan.grant is not None else ()
    own = (plan.reason,) if plan.reason is not None else ()
    return (*own, *plan.holds, *granted, *(action.reason for action in plan.actions))


def _short(short: list[tuple[WorkloadRef, Reason]], generation: int, at: float) -> Condition:
    if not short:
        return _condition("Short", "False", "Enough", "members get what they want of it", generation, at)
    ref, reason = short[0]
    return _condition("Short", "True", Code.BUDGET.value, f"{ref.name}: {reason.text}", generation, at)


def _condition(
    kind: str, status: Literal["True", "False"], reason: str, message: str, generation: int, at: float
) -> Condition:
    return Condition(
        type=kind, status=status, reason=reason, message=message, last_transition_time=stamp(at),
        observed_generation=generation or None,
    )  # fmt: skip
