"""The ledger of one tick: what is committed on every node, kept as running sums, and the limits that hold.

Only what changed is added up again: a tick costs the same with 10,000 quiet pods as with 10.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autoscaler.kube.decode import PodSeen
from autoscaler.kube.seen import Limit, LimitsSeen, NodeSeen, QuotaSeen
from autoscaler.kube.store import Store
from autoscaler.model.plan import BudgetView, Ledger, LimitRangeView, QuotaView
from autoscaler.model.policy import Budget, Policy
from autoscaler.model.workload import Node, WorkloadRef


class Commitments:
    """Requests per node in millicores and bytes, of all pods that are there."""

    def __init__(self) -> None:
        self.cpu: dict[str, int] = {}
        self.memory: dict[str, int] = {}

    def changed(self, before: PodSeen | None, after: PodSeen | None) -> None:
        """A pod came, changed or went."""
        if before is not None:
            self._add(before.pod.node, -before.cpu, -before.memory)
        if after is not None:
            self._add(after.pod.node, after.cpu, after.memory)

    def _add(self, node: str, cpu: int, memory: int) -> None:
        if node and (cpu or memory):
            self.cpu[node] = self.cpu.get(node, 0) + cpu
            self.memory[node] = self.memory.get(node, 0) + memory

    def with_extra(self, extra: Mapping[str, tuple[int, int]]) -> tuple[dict[str, int], dict[str, int]]:
        """The sums plus what was sent and isn't visible yet, by node."""
        cpu, memory = dict(self.cpu), dict(self.memory)
        for node, (more_cpu, more_memory) in extra.items():
            cpu[node] = cpu.get(node, 0) + more_cpu
            memory[node] = memory.get(node, 0) + more_memory
        return cpu, memory


class Books:
    """Writes the ledger from the stores; what didn't change is handed out again."""

    def __init__(
        self, commitments: Commitments, nodes: Store[NodeSeen], quotas: Store[QuotaSeen], limits: Store[LimitsSeen]
    ) -> None:
        self._commitments = commitments
        self._nodes, self._quotas, self._limits = nodes, quotas, limits
        self._node_views: tuple[int, Mapping[str, Node]] = (-1, {})
        self._quota_views: tuple[int, tuple[QuotaView, ...]] = (-1, ())
        self._limit_views: tuple[int, Mapping[str, LimitRangeView]] = (-1, {})

    def write(
        self,
        extra: Mapping[str, tuple[int, int]],
        policies: Sequence[Policy],
        budgets: Iterable[Budget],
        *,
        nodes_known: bool,
    ) -> Ledger:
        """``extra``: per node what was sent and isn't visible yet. Fleet limits are the caller's to fill in."""
        cpu, memory = self._commitments.with_extra(extra) if nodes_known else ({}, {})
        return Ledger(
            nodes=self._node_map() if nodes_known else {},
            committed_cpu=cpu,
            committed_memory=memory,
            quotas=self._quota_tuple(),
            limit_ranges=self._limit_map(),
            budgets=budget_views(budgets, policies),
            nodes_known=nodes_known,
        )

    def _node_map(self) -> Mapping[str, Node]:
        if self._node_views[0] != self._nodes.changes:
            self._node_views = (self._nodes.changes, {seen.node.name: seen.node for seen in self._nodes.items.values()})
        return self._node_views[1]

    def _quota_tuple(self) -> tuple[QuotaView, ...]:
        if self._quota_views[0] != self._quotas.changes:
            views = tuple(
                QuotaView(q.namespace, q.name, q.hard, {key: q.used.get(key, 0) for key in q.hard})
                for q in sorted(self._quotas.items.values(), key=lambda q: (q.namespace, q.name))
                if q.applies and q.hard
            )
            self._quota_views = (self._quotas.changes, views)
        return self._quota_views[1]

    def _limit_map(self) -> Mapping[str, LimitRangeView]:
        if self._limit_views[0] != self._limits.changes:
            by_namespace: dict[str, list[Limit]] = {}
            for seen in self._limits.items.values():
                by_namespace.setdefault(seen.namespace, []).extend(seen.limits)
            self._limit_views = (self._limits.changes, {ns: tightest(all_) for ns, all_ in by_namespace.items()})
        return self._limit_views[1]


def tightest(limits: Iterable[Limit]) -> LimitRangeView:
    """Several LimitRanges of one namespace all hold: the highest minimum, the lowest maximum and ratio."""
    containers = [limit for limit in limits if limit.type == "Container"]
    pods = [limit for limit in limits if limit.type == "Pod"]
    return LimitRangeView(
        cpu_min=_most(limit.low.get("cpu") for limit in containers),
        cpu_max=_least(limit.high.get("cpu") for limit in containers),
        memory_min=_most(limit.low.get("memory") for limit in containers),
        memory_max=_least(limit.high.get("memory") for limit in containers),
        cpu_ratio=min((limit.cpu_ratio for limit in containers if limit.cpu_ratio is not None), default=None),
        pod_cpu_max=_least(limit.high.get("cpu") for limit in pods),
        pod_memory_max=_least(limit.high.get("memory") for limit in pods),
    )


def _most(values: Iterable[int | None]) -> int | None:
    return max((v for v in values if v is not None), default=None)


def _least(values: Iterable[int | None]) -> int | None:
    return min((v for v in values if v is not None), default=None)


def budget_views(budgets: Iterable[Budget], policies: Sequence[Policy]) -> tuple[BudgetView, ...]:
    """Each CapacityBudget with the workloads of its namespace that name it."""
    members: dict[WorkloadRef, list[WorkloadRef]] = {}
    for policy in policies:
        if policy.spec.budget is not None:
            members.setdefault(WorkloadRef(policy.ref.namespace, policy.spec.budget), []).append(policy.ref)
    return tuple(
        BudgetView(budget.ref, budget.spec.cpu, budget.spec.memory, tuple(members.get(budget.ref, ())))
        for budget in budgets
    )
