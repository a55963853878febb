"""Our controller: the functions that the daemon runs, on the made-up cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autoscaler.decide.decision import decide
from autoscaler.decide.history import History
from autoscaler.model.plan import AnnotatePod, BudgetView, Evict, Plan, Resize, Revert, Scale
from autoscaler.model.policy import Policy, PolicySpec
from autoscaler.model.quantity import format_duration
from autoscaler.model.seen import Seen as Snapshot
from autoscaler.model.seen import Subject
from autoscaler.model.workload import WorkloadRef
from autoscaler.simulate.cluster import Cluster, SimulatedPod
from autoscaler.simulate.controllers.base import Count, Order, Shape, Size, horizontal_shapes, vertical_shapes
from autoscaler.simulate.scenario import Scenario
from autoscaler.simulate.translate import EPOCH, Translator, ledger
from autoscaler.simulate.visible import Seen

NAMESPACE = "simulated"
BUDGET = "all"
Explain = Callable[[int, Plan], None]


class Ours:
    """`policy` is the user's; its objective and target are the scenario's. Either half can be switched off."""

    tick: float | None = None

    def __init__(self, policy: PolicySpec | None = None, *, vertical: bool = True, horizontal: bool = True) -> None:
        self._policy = policy
        self._vertical, self._horizontal = vertical, horizontal
        self._policies: tuple[Policy, ...] = ()
        self._histories: dict[WorkloadRef, History] = {}
        self._budgets: tuple[BudgetView, ...] = ()
        self._translator = Translator(())
        self.plans: list[Plan] = []  # of the last tick, for who wants the reasons

    def shapes(self, scenario: Scenario, demand: Sequence[float]) -> list[Shape]:
        names = [load.name for load in scenario.loads]
        refs = tuple(WorkloadRef(NAMESPACE, name) for name in names)
        self._translator = Translator(refs)
        self._histories = {}
        if scenario.budget is not None:
            budget = WorkloadRef(NAMESPACE, BUDGET)
            self._budgets = (BudgetView(budget, round(scenario.budget * 1000), None, refs),)
        self._policies = tuple(Policy(ref=ref, spec=self._spec(scenario, ref.name), origin="scenario") for ref in refs)
        if not self._vertical:
            return horizontal_shapes(scenario, demand, share=0.7)
        return vertical_shapes(scenario, demand)

    def _spec(self, scenario: Scenario, name: str) -> PolicySpec:
        written: dict[str, Any] = {}
        if self._policy is not None:
            written = self._policy.model_dump(by_alias=True, exclude_unset=True)
        written["scaleTargetRef"] = {"name": name}
        if scenario.budget is not None:
            written["budget"] = BUDGET
        else:
            written.pop("budget", None)
        objective = dict(written.get("objective") or {})
        objective["latency"] = {"target": format_duration(scenario.target), "within": scenario.within}
        written["objective"] = objective
        vertical, horizontal = dict(written.get("vertical") or {}), dict(written.get("horizontal") or {})
        if not self._vertical:
            vertical["enabled"] = False
            horizontal.setdefault("maxReplicas", scenario.max_replicas or 1000)
            horizontal.setdefault("minReplicas", 1)
        elif scenario.max_replicas is not None:
            horizontal.setdefault("maxReplicas", scenario.max_replicas)
            horizontal.setdefault("minReplicas", min(scenario.pods, scenario.max_replicas))
        if not self._horizontal:
            horizontal["enabled"] = False
        written["vertical"], written["horizontal"] = vertical, horizontal
        return PolicySpec.model_validate(written)

    def decide(self, seen: Sequence[Seen], cluster: Cluster) -> list[Order]:
        views = [self._translator.view(one, cluster) for one in seen]
        subjects = tuple(Subject(view, policy) for view, policy in zip(views, self._policies, strict=True))
        snapshot = Snapshot(EPOCH + cluster.now, subjects, ledger(cluster, self._budgets))
        plans, self._histories = decide(snapshot, self._histories)
        self.plans = [plans[view.ref] for view in views]
        orders: list[Order] = []
        for number, plan in enumerate(self.plans):
            orders += self._orders(number, plan, cluster)
        return orders

    def _orders(self, workload: int, plan: Plan, cluster: Cluster) -> list[Order]:
        pods = {pod.uid: pod for pod in cluster.pods[workload]}
        orders: list[Order] = []
        for action in plan.actions:
            why = str(action.reason)
            match action:
                case Resize() | Revert():
                    pod, milli = pods.get(action.pod.uid), action.after.cpu
                    if pod is not None and milli is not None:
                        orders.append(Size(pod, milli, why))
                case Scale():
                    victims = tuple(pods[pod.uid] for pod in action.victims if pod.uid in pods)
                    orders.append(Count(workload, action.after, why, victims))
                case AnnotatePod():
                    notes = self._translator.annotations.setdefault(action.pod.uid, {})
                    for key, value in action.annotations.items():
                        notes.pop(key, None) if value is None else notes.__setitem__(key, value)
                case Evict():
                    orders += _recreate(workload, pods.get(action.pod.uid), cluster, why)
        return orders


def _recreate(workload: int, pod: SimulatedPod | None, cluster: Cluster, why: str) -> list[Order]:
    """An eviction: one pod fewer, and the ReplicaSet puts another in its place."""
    if pod is None:
        return []
    replicas = cluster.replicas[workload]
    return [Count(workload, replicas - 1, why, (pod,)), Count(workload, replicas, why)]
