"""What must hold for every plan: each rule raises AssertionError with what was seen and what was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autoscaler.decide.standing import size_of
from autoscaler.model.plan import Plan, Resize, Revert, Scale
from autoscaler.model.policy import Mode, Shrink
from autoscaler.model.reason import Reason
from autoscaler.model.seen import Seen, Subject
from autoscaler.model.workload import Pod, Resources, WorkloadRef
from tests.properties.cluster import QUOTA_KEYS, merged, qos_of, requests

Plans = Mapping[WorkloadRef, Plan]


def all_hold(seen: Seen, plans: Plans) -> None:
    assert set(plans) == {subject.view.ref for subject in seen.subjects}
    for subject in seen.subjects:
        plan = plans[subject.view.ref]
        legal(subject, plan)
        bounded(seen, subject, plan)
        replicas(subject, plan)
        reasoned(plan)
    shared(seen, plans)


def sized(plan: Plan) -> list[Resize | Revert]:
    return [action for action in plan.actions if isinstance(action, Resize | Revert)]


def after(action: Resize | Revert) -> Resources:
    return merged(action.before, action.after)


def legal(subject: Subject, plan: Plan) -> None:
    """What the API server would take: known pods once each, request ≤ limit, no side added, QoS class kept."""
    there = {pod.uid: pod for pod in subject.view.pods}
    touched = [action.pod.uid for action in sized(plan)]
    assert len(set(touched)) == len(touched), "a pod is resized twice in one tick"
    for action in sized(plan):
        pod = there[action.pod.uid]
        container = pod.container(action.container)
        assert container is not None
        assert action.container == subject.view.container
        assert action.before == container.desired
        new = after(action)
        assert new != container.desired, "nothing would change"
        for key in ("cpu_request", "cpu_limit", "memory_request", "memory_limit"):
            old = getattr(container.desired, key)
            value = getattr(new, key)
            assert value is None or value > 0
            assert old is not None or value is None, f"{key} is added"
        assert new.cpu_limit is None or (new.cpu_request or 0) <= new.cpu_limit
        assert new.memory_limit is None or (new.memory_request or 0) <= new.memory_limit
        containers = [replace(one, desired=new) if one.name == action.container else one for one in pod.containers]
        assert qos_of(containers) is pod.qos, "the QoS class changes"
        assert not pod.static
        assert not pod.deleting


def bounded(seen: Seen, subject: Subject, plan: Plan) -> None:
    """What grows ends within the maxima, what shrinks above the minima: policy, LimitRange, node."""
    spec = subject.policy.spec.vertical
    limits = seen.ledger.limit_ranges.get(subject.view.ref.namespace)
    if subject.policy.spec.mode is Mode.OFF:
        assert not plan.actions
    for action in plan.actions:
        if not isinstance(action, Resize):
            continue
        new, old = after(action), action.before
        size, was = size_of(new, spec.cpu.controls) or 0, size_of(old, spec.cpu.controls) or 0
        top = most(seen, subject)
        bottom = min(top, max(spec.cpu.min, (limits.cpu_min or 0) if limits is not None else 0))
        if size > was:
            assert size <= top, f"{size}m is above {top}m"
        if size < was:
            ungranted = action.pod.attempt is not None and not action.pod.attempt.granted
            assert size >= bottom or ungranted, f"{size}m is below {bottom}m: {action.reason}"
        if new.memory_limit != old.memory_limit and new.memory_limit is not None and old.memory_limit is not None:
            assert spec.memory.max is not None, "memory was to be left alone"
            if new.memory_limit > old.memory_limit:
                assert new.memory_limit <= spec.memory.max
            else:
                assert spec.memory.shrink is Shrink.WHEN_SAFE
                assert new.memory_limit >= (spec.memory.min or 0)


def most(seen: Seen, subject: Subject) -> int:
    """The largest size that policy, LimitRange and nodes allow, millicores."""
    limits = seen.ledger.limit_ranges.get(subject.view.ref.namespace)
    return min(
        subject.policy.spec.vertical.cpu.max or 1 << 40,
        (limits.cpu_max if limits is not None else None) or 1 << 40,
        max((node.cpu for node in seen.ledger.nodes.values()), default=1 << 40),
    )


def replicas(subject: Subject, plan: Plan) -> None:
    scale, rules, view = subject.view.scale, subject.policy.spec.horizontal, subject.view
    for action in plan.actions:
        if isinstance(action, Scale):
            assert scale is not None
            assert action.before == scale.desired != action.after
            assert rules.enabled
            if action.after > action.before:
                if rules.max_replicas is not None:  # else it is what was found at adoption, back to which it may go
                    assert action.after <= rules.max_replicas, f"{action.after} replicas"
            else:
                assert action.after >= max(1, rules.min_replicas or 1, view.pdb_floor or 0)
                assert {pod.uid for pod in action.victims} <= {pod.uid for pod in view.pods}


def reasoned(plan: Plan) -> None:
    """Every action, every hold and the tick itself has a reason, with all the numbers its sentence needs."""
    assert plan.reason is not None
    reasons: list[Reason] = [plan.reason, *plan.holds, *(action.reason for action in plan.actions)]
    for reason in reasons:
        assert reason.text
        assert "?" not in reason.text, f"{reason.code} lacks a number: {reason.text}"
        assert "nan" not in reason.text.split()
        assert not any(value != value for value in reason.numbers.values())


def shared(seen: Seen, plans: Plans) -> None:
    """No core and no byte is granted twice: not on a node, in a quota, a budget or the fleet's limit."""
    new: dict[str, tuple[Pod, Resources, str]] = {}
    for plan in plans.values():
        for action in sized(plan):
            assert action.pod.uid not in new
            new[action.pod.uid] = (action.pod, after(action), action.container)
    pods = [pod for subject in seen.subjects for pod in subject.view.pods]
    for node in seen.ledger.nodes.values():
        for key, committed, room in (
            ("cpu_request", seen.ledger.committed_cpu, node.cpu),
            ("memory_request", seen.ledger.committed_memory, node.memory),
        ):
            before = committed.get(node.name, 0)
            there = [pod for pod in pods if pod.node == node.name]
            then = before + sum(_asked(pod, new, key) - requests(pod, key) for pod in there)
            assert then <= max(before, room), f"{key}: {then} on {node.name} of {room}, {before} before"
    for quota in seen.ledger.quotas:
        for name, hard in quota.hard.items():
            key = QUOTA_KEYS[name]
            more = sum(
                max(0, (getattr(sizes, key) or 0) - (getattr(pod.container(container).desired, key) or 0))  # type: ignore[union-attr]
                for pod, sizes, container in new.values()
            )
            assert more <= max(0, hard - quota.used.get(name, 0)), f"{more} more of {name}, {hard} in all"
    for budget in seen.ledger.budgets:
        if budget.cpu is not None:
            before = then = 0
            for subject in seen.subjects:
                if subject.view.ref not in budget.members:
                    continue
                controls = subject.policy.spec.vertical.cpu.controls
                least = subject.policy.spec.vertical.cpu.min
                for pod in subject.view.pods:
                    was = pod.container(subject.view.container)
                    assert was is not None
                    holds = size_of(was.desired, controls) or 0
                    before += max(holds, least)  # nobody is kept below the minimum
                    then += (size_of(new[pod.uid][1], controls) or 0) if pod.uid in new else holds
            assert then <= max(before, budget.cpu), f"{then}m of a budget of {budget.cpu}m, {before}m before"
    if seen.ledger.fleet_cpu_left is not None:
        added = 0
        for subject in seen.subjects:
            controls = subject.policy.spec.vertical.cpu.controls
            for action in sized(plans[subject.view.ref]):
                old, size = size_of(action.before, controls) or 0, size_of(after(action), controls) or 0
                added += max(0, size - old)
        assert added <= seen.ledger.fleet_cpu_left


def _asked(pod: Pod, new: Mapping[str, tuple[Pod, Resources, str]], key: str) -> int:
    """What the node will reserve for the pod: a resized container the new size, the others what they hold."""
    if pod.uid not in new:
        return requests(pod, key)
    _, sizes, container = new[pod.uid]
    total = 0
    for one in pod.containers:
        if one.name == container:
            total += getattr(sizes, key) or 0
        else:
            total += max(getattr(size, key) or 0 for size in (one.desired, one.allocated, one.actual) if size)
    return total


def lost(seen: Seen, subject: Subject, plan: Plan) -> list[str]:
    """What the plan takes away: sizes below what the pods have, and replicas.

    A size never granted is not had, nor is one of a pod that no node has room for, and what is above the maximum is not
    there to be kept.
    """
    controls = subject.policy.spec.vertical.cpu.controls
    found = []
    for action in sized(plan):
        container = action.pod.container(action.container)
        assert container is not None
        had = container.actual or container.desired
        new = after(action)
        kept = min(size_of(had, controls) or 0, size_of(container.desired, controls) or 0, most(seen, subject))
        if (size_of(new, controls) or 0) < kept and not action.pod.unschedulable:
            found.append(f"CPU of {action.pod.name}: {action.reason}")
        if (new.memory or 0) < min(had.memory or 0, container.desired.memory or 0):
            found.append(f"memory of {action.pod.name}: {action.reason}")
    for one in plan.actions:
        if isinstance(one, Scale) and one.after < one.before:
            found.append(f"{one.before} replicas to {one.after}: {one.reason}")
    return found
