"""How much is left where: nodes, quotas, budgets and the fleet's limit, while one tick hands it out."""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.decide.case import Case
from autoscaler.decide.sizes import request_share
from autoscaler.decide.standing import Member, size_of
from autoscaler.model.plan import Ledger
from autoscaler.model.policy import Controls
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.workload import WorkloadRef

PLENTY = 1 << 50


def _uncounted(member: Member) -> bool:
    """An infeasible desired size counts nowhere."""
    return member.pod.resize_pending == "Infeasible" or member.pod.resize_dialect == "Infeasible"


def _born(case: Case) -> dict[str, int]:
    """What a new pod asks of quotas by their keys, and of a budget (``size``): the template's container, and the others
    as they are. Empty where that is not known."""
    template, members = case.view.template, (*case.stand.serving, *case.stand.starting)
    if template is None or not members:
        return {}
    sized = members[0].container.name
    sizes = [template if one.name == sized else one.desired for one in members[0].pod.containers]
    requests, limits = sum(one.cpu_request or 0 for one in sizes), sum(one.cpu_limit or 0 for one in sizes)
    memory, most = sum(one.memory_request or 0 for one in sizes), sum(one.memory_limit or 0 for one in sizes)
    return {
        "requests.cpu": requests, "cpu": requests, "limits.cpu": limits, "requests.memory": memory, "memory": memory,
        "limits.memory": most, "size": size_of(template, case.policy.spec.vertical.cpu.controls) or 0,
    }  # fmt: skip


class Rooms:
    """Mutable while one allocation runs, and never seen outside it. Millicores."""

    def __init__(self, ledger: Ledger, cases: Sequence[Case]) -> None:
        self._ledger = ledger
        self.left: dict[str, int] = {}
        if ledger.nodes_known:
            for name, node in ledger.nodes.items():
                self.left[name] = node.cpu - ledger.committed_cpu.get(name, 0)
        self._quotas: list[tuple[str, str, str, int]] = []
        self._quota_left: list[int] = []
        for quota in ledger.quotas:
            for key, hard in sorted(quota.hard.items()):
                if key in ("requests.cpu", "cpu", "limits.cpu"):
                    self._quotas.append((quota.namespace, quota.name, key, hard))
                    self._quota_left.append(hard - quota.used.get(key, 0))
        self._budget_of: dict[WorkloadRef, int] = {}
        self._budgets: list[WorkloadRef] = []
        self._budget_left: list[int] = []
        if ledger.budgets:
            totals: dict[WorkloadRef, int] = {}
            for case in cases:
                stand = case.stand
                totals[case.ref] = (
                    stand.have + sum(m.size for m in stand.starting) + sum(m.size for m in stand.draining)
                )
            for budget in ledger.budgets:
                if budget.cpu is None:
                    continue
                for member in budget.members:
                    self._budget_of[member] = len(self._budgets)
                self._budgets.append(budget.ref)
                self._budget_left.append(budget.cpu - sum(totals.get(member, 0) for member in budget.members))
        for case in cases:
            for one in case.stand.serving:
                # A deferred size is taken back or lowered in this tick, and leaves what it holds in the ledger.
                if one.asked > one.size and one.pod.node in self.left and not _uncounted(one):
                    self.left[one.pod.node] += self._requests(case, one, one.asked - one.size)
        self._fleet_left = PLENTY if ledger.fleet_cpu_left is None else max(0, ledger.fleet_cpu_left)

    def give(self, case: Case, member: Member, amount: int) -> None:
        """A pod that shrinks leaves ``amount`` millicores of size to others."""
        requests = self._requests(case, member, amount)
        if member.pod.node in self.left:
            self.left[member.pod.node] += requests
        if case.ref in self._budget_of:
            self._budget_left[self._budget_of[case.ref]] += amount
        # A quota is freed late after a shrink: what is given back there counts when the server says so.

    def take(self, case: Case, member: Member, amount: int, step: int) -> tuple[int, Reason | None]:
        """Grant as many whole steps of ``amount`` as fit everywhere, and say what was in the way."""
        controls = case.policy.spec.vertical.cpu.controls
        share = request_share(member.container.desired, controls)
        node = member.pod.node
        allowed, reason = amount, None
        room = self.left.get(node)
        if room is not None and share > 0.0 and room < amount * share:
            allowed = int(max(0, room) / share)
            reason = because(Code.NODE_FULL, wanted=member.size + amount, free=max(0, room), node=node)
        for place, (namespace, name, key, _) in enumerate(self._quotas):
            if namespace != case.ref.namespace:
                continue
            weight = share if key != "limits.cpu" else (0.0 if controls is Controls.REQUESTS else 1.0)
            left = self._quota_left[place]
            if weight > 0.0 and left < allowed * weight:
                allowed = int(max(0, left) / weight)
                reason = because(
                    Code.QUOTA,
                    wanted=f"{round(amount * weight)}m more",
                    free=f"{max(0, left)}m",
                    quota=f"{name} ({key})",
                )
        budget = self._budget_of.get(case.ref)
        if budget is not None and self._budget_left[budget] < allowed:
            allowed = max(0, self._budget_left[budget])
            reason = because(Code.BUDGET, wanted=amount, granted=allowed, budget=str(self._budgets[budget]))
        if self._fleet_left < allowed:
            allowed = self._fleet_left
            reason = because(Code.FLEET_LIMIT, limit="cores added per minute")
        if allowed < amount:
            allowed = (member.size + allowed) // step * step - member.size
            allowed = max(0, allowed)
        if allowed > 0:
            if room is not None:
                self.left[node] = room - round(allowed * share)
            for place, (namespace, _, key, _) in enumerate(self._quotas):
                if namespace == case.ref.namespace:
                    weight = share if key != "limits.cpu" else (0.0 if controls is Controls.REQUESTS else 1.0)
                    self._quota_left[place] -= round(allowed * weight)
            if budget is not None:
                self._budget_left[budget] -= allowed
            self._fleet_left -= allowed
        return allowed, reason

    def births(self, case: Case) -> tuple[int | None, Reason | None]:
        """How many new pods quotas and the budget have room for, and which of them has least; None: not limited."""
        asked = _born(case)
        fewest: int | None = None
        why: Reason | None = None
        for place, (namespace, name, key, _) in enumerate(self._quotas):
            each = asked.get(key, 0)
            if namespace == case.ref.namespace and each > 0:
                room = max(0, self._quota_left[place])
                if fewest is None or room // each < fewest:
                    fewest = room // each
                    why = because(Code.QUOTA, wanted=f"{each}m for a new pod", free=f"{room}m", quota=f"{name} ({key})")
        for quota in self._ledger.quotas:
            for key, hard in sorted(quota.hard.items()):
                each = asked.get(key, 0)
                if quota.namespace == case.ref.namespace and key.endswith("memory") and each > 0:
                    room = max(0, hard - quota.used.get(key, 0))
                    if fewest is None or room // each < fewest:
                        fewest = room // each
                        said = f"{each >> 20}Mi for a new pod", f"{room >> 20}Mi", f"{quota.name} ({key})"
                        why = because(Code.QUOTA, wanted=said[0], free=said[1], quota=said[2])
        budget, size = self._budget_of.get(case.ref), asked.get("size", 0)
        if budget is not None and size > 0:
            room = max(0, self._budget_left[budget])
            if fewest is None or room // size < fewest:
                fewest = room // size
                why = because(Code.BUDGET, wanted=size, granted=room, budget=str(self._budgets[budget]))
        return fewest, why

    def around(self, case: Case, member: Member) -> int:
        """Millicores of requests the pod could have on its node now: what is free, and its own."""
        return self.left.get(member.pod.node, 0) + self._requests(case, member, member.size)

    def crowded(
        self, cases: Sequence[Case], growing: Sequence[Case]
    ) -> list[tuple[list[tuple[Case, Member]], tuple[float, float]]]:
        """Rooms too small for all that want to grow there: who is in each, and (cores they may have together, free)."""
        asked: dict[str, float] = {}
        for case in growing:
            assert case.want is not None
            for member in case.stand.serving:
                more = case.want.pods.get(member.pod.uid, member.size) - member.size
                if more > 0 and member.pod.node in self.left:
                    node = member.pod.node
                    asked[node] = asked.get(node, 0.0) + self._requests(case, member, more)
        found: list[tuple[list[tuple[Case, Member]], tuple[float, float]]] = []
        full = {node for node, wanted in asked.items() if wanted > self.left[node]}
        if full:
            inside: dict[str, list[tuple[Case, Member]]] = {node: [] for node in full}
            for case in cases:
                for member in case.stand.serving:
                    if member.pod.node in full:
                        inside[member.pod.node].append((case, member))
            for node, parts in inside.items():
                found.append((parts, self._together(parts, self.left[node])))
        for place, left in enumerate(self._budget_left):
            parts = [
                (case, member)
                for case in cases
                if self._budget_of.get(case.ref) == place
                for member in case.stand.serving
            ]
            wanted = sum(
                max(0, case.want.pods.get(member.pod.uid, member.size) - member.size)
                for case, member in parts
                if case.want is not None
            )
            if wanted > left:
                found.append((parts, self._together(parts, left)))
        return found

    @staticmethod
    def _together(parts: Sequence[tuple[Case, Member]], left: int) -> tuple[float, float]:
        held = sum(min(m.size, c.want.pods.get(m.pod.uid, m.size)) if c.want else m.size for c, m in parts)
        return (held + left) / 1000.0, float(left)

    def _requests(self, case: Case, member: Member, amount: int) -> int:
        return round(amount * request_share(member.container.desired, case.policy.spec.vertical.cpu.controls))
