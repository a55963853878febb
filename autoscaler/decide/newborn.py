"""Pods that don't serve yet: the learned size at once, and a size that fits for those no node has room for.

New pods are born at the template's size. One that is bound gets what its peers were decided to have before it serves.
One that can't be scheduled is lowered (never raised): to the learned size, or to the most that some node has free, and
is placed then. Where no smaller size would be placed either, the reason says what is in the way.
"""

from __future__ import annotations

from dataclasses import replace

from autoscaler.decide.case import Case
from autoscaler.decide.rooms import Rooms
from autoscaler.decide.sizes import request_share, resized, unchanged
from autoscaler.decide.standing import Member
from autoscaler.model.plan import Action, Evict, Grant, Ledger, Resize, Revert
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.workload import ResizeRestart, ResizeState

ENDED_WELL = frozenset({ResizeState.COMPLETE, ResizeState.REVERTED, ResizeState.SUPERSEDED})


def allot(case: Case, rooms: Rooms, ledger: Ledger) -> tuple[dict[str, int], list[Reason]]:
    """Millicores for each starting pod that should have another size than it was born with, after the serving ones."""
    sizes: dict[str, int] = {}
    why: list[Reason] = []
    if case.frozen or not case.policy.spec.vertical.enabled:
        return sizes, why
    step = case.policy.spec.vertical.cpu.step
    for member in case.stand.starting:
        if not _may_be_sized(member) or member.pod.uid in case.kept:
            continue
        learned = learned_of(case, member)
        if not member.pod.node:
            if member.pod.unschedulable:
                size, reason = _placed(case, member, learned, rooms, ledger)
                if size is not None:
                    sizes[member.pod.uid] = size
                if reason is not None:
                    why.append(reason)
        elif learned > member.size:
            extra, reason = rooms.take(case, member, learned - member.size, step)
            if extra:
                sizes[member.pod.uid] = member.size + extra
            if reason is not None:
                why.append(reason)
    return sizes, why


def learned_of(case: Case, member: Member) -> int:
    """The size that pods of this pod's template were decided to have; 0 where none is known (it is learned anew)."""
    learned = case.past.sizes.learned
    peers = [one.size for one in case.stand.serving if one.pod.template_hash == member.pod.template_hash]
    if peers:
        learned = min(learned, max(peers)) if learned else min(peers)  # after a restart the peers' sizes tell
    elif case.stand.serving or case.past.cost.done <= 0.0:  # others serve with another template, or it is a new one
        return 0
    return max(case.low, min(case.high, learned)) if learned else 0


def settle(case: Case, grant: Grant) -> tuple[list[Resize], list[Reason]]:
    """The starting pods' part of a grant as actions."""
    actions: list[Resize] = []
    holds: list[Reason] = []
    controls = case.policy.spec.vertical.cpu.controls
    for member in case.stand.starting:
        size = grant.starting.get(member.pod.uid, member.size)
        if size == member.size:
            continue
        after = resized(member.pod, member.container.desired, size, controls)
        if isinstance(after, str):
            holds.append(because(Code.UNSUPPORTED, why=after))
        elif not unchanged(after):
            reason = because(Code.NEW_POD, have=member.size, wanted=size)
            if size < member.size:
                reason = because(Code.FITS, pod=member.pod.name, have=member.size, wanted=size)
            container = member.container
            actions.append(Resize(case.ref, member.pod, container.name, container.desired, after, reason))
    return actions, holds


def joined(actions: tuple[Action, ...], born: list[Resize]) -> tuple[Action, ...]:
    """Both lists, one resize a pod: more CPU travels with more memory and waits for a memory shrink."""
    extra = {one.pod.uid: one for one in born}
    both: list[Action] = []
    for action in actions:
        more = extra.pop(action.pod.uid, None) if isinstance(action, Resize | Revert | Evict) else None
        grows = isinstance(action, Resize) and (action.after.memory or 0) >= (action.before.memory or 0)
        if more is not None and isinstance(action, Resize) and grows:
            cpu = more.after
            action = replace(action, after=replace(action.after, cpu_request=cpu.cpu_request, cpu_limit=cpu.cpu_limit))
        both.append(action)
    return (*both, *extra.values())


def _may_be_sized(member: Member) -> bool:
    """Neither something of ours under way or refused, nor a restart of a server that is just loading its model."""
    attempt, container = member.pod.attempt, member.container
    if attempt is not None and (attempt.reverts is not None or attempt.state not in ENDED_WELL):
        return False
    if member.pod.resize_pending or member.pod.resizing or member.asked != member.size:
        return False
    return not (container.running and container.cpu_restart is ResizeRestart.RESTART_CONTAINER)


def _placed(case: Case, member: Member, learned: int, rooms: Rooms, ledger: Ledger) -> tuple[int | None, Reason | None]:
    """A smaller size at which some node takes the pod; None where there is none or nothing is known of the nodes.

    What a scheduler looks at beside CPU and memory (selectors, taints, affinity) isn't seen here: a pod that would fit
    already waits for something else, and no size helps.
    """
    top = min(member.size, learned) if learned else member.size
    share = request_share(member.container.desired, case.policy.spec.vertical.cpu.controls)
    others = _cpu(member) - (member.container.desired.cpu_request or 0)
    memory = sum(one.desired.memory_request or 0 for one in member.pod.containers)
    if not ledger.nodes_known:  # the learned size is the only one there is a reason for
        return (top, None) if top < member.size else (None, None)
    open_nodes = [node for node in ledger.nodes.values() if node.ready and not node.unschedulable]
    fitting = [node.name for node in open_nodes if node.memory - ledger.committed_memory.get(node.name, 0) >= memory]
    if not fitting:
        return None, because(Code.UNPLACED, pod=member.pod.name, why="no node has the memory it requests free")
    best = max(fitting, key=lambda name: (rooms.left.get(name, 0), name))
    free = max(0, rooms.left.get(best, 0))
    if free >= _cpu(member):
        return None, because(Code.UNPLACED, pod=member.pod.name, why=f"{best} has room for it: not for want of CPU")
    if share <= 0.0:
        return None, because(Code.UNPLACED, pod=member.pod.name, why="its CPU request is not ours to lower")
    step = case.policy.spec.vertical.cpu.step
    fits = int(max(0, free - others) / share + 1e-6)
    size = top if top <= fits else max(case.low, fits // step * step)
    if size > fits or size >= member.size:
        least = max(1, round(case.low * share)) + others
        return None, because(
            Code.UNPLACED, pod=member.pod.name, why=f"{best} has {free}m of CPU free, its smallest size takes {least}m"
        )
    rooms.left[best] = free - others - round(size * share)
    return size, None


def _cpu(member: Member) -> int:
    """Millicores that all containers of the pod request."""
    return sum(one.desired.cpu_request or 0 for one in member.pod.containers)
