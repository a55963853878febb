"""Sharing memory, once per tick for all workloads: no byte is granted twice, and the refusal says what was short.

Growth is granted within node room, ResourceQuota (requests and limits), LimitRange and CapacityBudget, higher priority
first, then those that were killed. As much as fits beats all or nothing. What a shrink gives back counts when it is
seen to be free: a shrink may fail, and a quota is freed late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from autoscaler.decide.case import Case
from autoscaler.decide.memory_size import MI, limit_of, members, resized
from autoscaler.decide.standing import Member
from autoscaler.model.plan import Ledger
from autoscaler.model.quantity import format_memory
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.workload import WorkloadRef

LEAST: Final = 32 * MI
"""A growth that only so little is left of is not worth a resize."""
REQUESTS: Final = frozenset({"memory", "requests.memory"})


class Rooms:
    """What is left where, in bytes. Mutable while one tick hands it out, and never seen outside it."""

    def __init__(self, ledger: Ledger, cases: Sequence[Case]) -> None:
        self._limits = ledger.limit_ranges
        self.nodes: dict[str, int] = {}
        if ledger.nodes_known:
            self.nodes = {name: ledger.free_memory(name) or 0 for name in ledger.nodes}
        self._quotas: dict[tuple[str, str, str], int] = {
            (quota.namespace, quota.name, key): hard - quota.used.get(key, 0)
            for quota in ledger.quotas
            for key, hard in quota.hard.items()
            if key in REQUESTS or key == "limits.memory"
        }
        self._budget_of: dict[WorkloadRef, WorkloadRef] = {}
        self._budgets: dict[WorkloadRef, int] = {}
        limited = [budget for budget in ledger.budgets if budget.memory is not None]
        if limited:
            held = {case.ref: _held(case) for case in cases}
            for budget in limited:
                self._budgets[budget.ref] = (budget.memory or 0) - sum(held.get(one, 0) for one in budget.members)
                self._budget_of |= dict.fromkeys(budget.members, budget.ref)

    def take(self, case: Case, member: Member, to: int) -> tuple[int, Reason | None]:
        """The limit this pod may have, up to ``to`` (its own: nothing is left), and what was in the way."""
        size = limit_of(member)
        allowed, reason = to, None
        for most, said in self._caps(case, member, to):
            if most < allowed:
                allowed, reason = most, said
        if allowed < to:
            allowed = allowed // MI * MI
            if allowed - size < min(LEAST, to - size):
                return size, reason
        self._spend(case, member, allowed)
        return allowed, reason

    def _caps(self, case: Case, member: Member, to: int) -> list[tuple[int, Reason]]:
        size, pod, namespace = limit_of(member), member.pod, case.ref.namespace
        found: list[tuple[int, Reason]] = []
        limits = self._limits.get(namespace)
        if limits is not None and limits.memory_max is not None:
            found.append((limits.memory_max, _said(Code.LIMIT_RANGE, to, limits.memory_max)))
        if limits is not None and limits.pod_memory_max is not None:
            others = sum(one.desired.memory_limit or 0 for one in member.pod.containers) - size
            most = limits.pod_memory_max - others
            found.append((most, _said(Code.LIMIT_RANGE, to, most)))
        more = _request(member, to) - _request(member, size)
        room = self.nodes.get(pod.node)
        if room is not None and more > 0:
            reason = because(
                Code.NODE_FULL, wanted=f"{pod.name}: {_amount(more)} more memory", free=_amount(room), node=pod.node
            )
            found.append((_most(member, room), reason))
        for (space, name, key), left in self._quotas.items():
            if space != namespace:
                continue
            asked, most = (more, _most(member, left)) if key in REQUESTS else (to - size, size + max(0, left))
            if asked > 0:
                reason = because(
                    Code.QUOTA,
                    wanted=f"{pod.name}: {_amount(asked)} more memory",
                    free=_amount(left),
                    quota=f"{name} ({key})",
                )
                found.append((most, reason))
        budget = self._budget_of.get(case.ref)
        if budget is not None:
            left = max(0, self._budgets[budget])
            reason = because(
                Code.BUDGET,
                wanted=f"{pod.name}: {_amount(to - size)} more memory",
                granted=_amount(left),
                budget=str(budget),
            )
            found.append((size + left, reason))
        return found

    def _spend(self, case: Case, member: Member, to: int) -> None:
        size, node = limit_of(member), member.pod.node
        more = max(0, _request(member, to) - _request(member, size))
        if node in self.nodes:
            self.nodes[node] -= more
        for space, name, key in self._quotas:
            if space == case.ref.namespace:
                self._quotas[space, name, key] -= more if key in REQUESTS else to - size
        budget = self._budget_of.get(case.ref)
        if budget is not None:
            self._budgets[budget] -= to - size


def share(cases: Sequence[Case], ledger: Ledger) -> None:
    """Turn the memory wishes of all workloads into what they get; what they don't is a hold with its reason."""
    asking = [case for case in cases if not case.frozen and case.want is not None and case.want.memory]
    if not asking:
        return
    rooms = Rooms(ledger, cases)
    given: dict[WorkloadRef, dict[str, int]] = {case.ref: {} for case in asking}
    short: dict[WorkloadRef, list[Reason]] = {case.ref: [] for case in asking}
    turns: list[tuple[tuple[int, bool, int], Case, Member, int]] = []
    for case in asking:
        assert case.want is not None
        for member in members(case):
            to = case.want.memory.get(member.pod.uid)
            if to is None:
                continue
            if to <= limit_of(member):
                given[case.ref][member.pod.uid] = to
                continue
            killed = case.want.memory_reasons[member.pod.uid].code is Code.OOM
            turns.append(((-case.policy.spec.priority, not killed, to - limit_of(member)), case, member, to))
    for _, case, member, to in sorted(turns, key=lambda turn: turn[0]):
        allowed, reason = rooms.take(case, member, to)
        if allowed > limit_of(member):
            given[case.ref][member.pod.uid] = allowed
        if reason is not None:
            short[case.ref].append(reason)
    for case in asking:
        _grant(case, given[case.ref], short[case.ref])


def _grant(case: Case, given: Mapping[str, int], short: Sequence[Reason]) -> None:
    assert case.want is not None
    case.want = replace(case.want, memory=given, holds=(*case.want.holds, *short))


def _held(case: Case) -> int:
    stand = case.stand
    return sum(one.container.desired.memory or 0 for one in (*stand.serving, *stand.starting, *stand.draining))


def _request(member: Member, limit: int) -> int:
    """Bytes of request at this limit; a container without a request costs no room."""
    return resized(member, limit).memory_request or 0


def _most(member: Member, more: int) -> int:
    """The largest limit whose request grows by at most ``more``."""
    now = member.container.desired
    if not now.memory_request or not now.memory_limit:
        return 1 << 60
    if more <= 0:
        return now.memory_limit
    return int((now.memory_request + more - 1) * now.memory_limit / now.memory_request)


def _said(code: Code, wanted: int, allowed: int) -> Reason:
    return because(code, wanted=f"memory limit {_amount(wanted)}", allowed=f"at most {_amount(allowed)}")


def _amount(value: int) -> str:
    return format_memory(max(0, value) // MI * MI)
