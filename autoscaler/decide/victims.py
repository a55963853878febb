"""Which pod goes first, how it is marked, and how long it serves on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from autoscaler.decide.case import Case
from autoscaler.decide.demand import usable
from autoscaler.decide.standing import Member
from autoscaler.model.plan import Action, AnnotatePod
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.signal import value_or
from autoscaler.model.workload import Pod

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
FIRST_TO_GO: Final = "-1000"
DRAINING: Final = "inference-autoscaler.dev/draining"
BY_ORDINAL: Final = frozenset({"StatefulSet", "LeaderWorkerSet"})
"""Kinds that always take away the pod with the highest number."""
DRAIN: Final = 3.0
"""Seconds at least between choosing a pod and taking it: those who obey the mark must have seen it."""


def candidates(case: Case) -> list[Member]:
    """Who may go, the first choice first: what never served; what the kind takes anyway."""
    unready = sorted(case.stand.starting, key=lambda member: -member.pod.created_at)
    if by_ordinal(case):
        return sorted((*case.stand.serving, *unready), key=lambda member: -ordinal(member.pod))[:1]
    return unready[:1] or ranked(case)


def by_ordinal(case: Case) -> bool:
    return case.view.target.kind in BY_ORDINAL


def marks(case: Case) -> Mapping[str, str]:
    """Annotations of the chosen pod: for gateways that stop sending to it, and for the ReplicaSet controller."""
    return {DRAINING: "true"} if by_ordinal(case) else {DRAINING: "true", DELETION_COST: FIRST_TO_GO}


def ranked(case: Case) -> list[Member]:
    """Who goes first: not ready, then of the fullest zone and node, then the least loaded, then the youngest."""
    serving = case.stand.serving
    zones = Counter(_zone(case, member.pod) for member in serving)
    nodes = Counter(member.pod.node for member in serving)

    def order(member: Member) -> tuple[float, ...]:
        pod = member.pod
        seen = case.view.signals.pods.get(pod.uid)
        load = value_or(seen.in_flight, 0.0) if seen is not None else 0.0
        return pod.ready, -zones[_zone(case, pod)], -nodes[pod.node], load or 0.0, -pod.created_at

    return sorted(serving, key=order)


def ordinal(pod: Pod) -> int:
    """The number at the end of the name, -1 without one."""
    found = re.search(r"-(\d+)$", pod.name)
    return int(found.group(1)) if found else -1


def drain_time(case: Case) -> float:
    """Seconds that a chosen pod serves on: at least the observed latency at the objective's percentile."""
    latency = usable(case.view.signals.latency, case.policy.spec.signals.max_age)
    return max(DRAIN, case.demand.target, latency or 0.0)


def grace(case: Case, pod: Pod) -> Reason | None:
    latency = usable(case.view.signals.latency, case.policy.spec.signals.max_age)
    if latency is None or pod.termination_grace_s >= latency:
        return None
    return because(Code.GRACE_SHORT, grace=pod.termination_grace_s, latency=latency, pod=pod.name)


def stray(case: Case, victim: str) -> list[Action]:
    """Marks on pods that are not chosen (any more): another process left them, or the load came back."""
    return unmark(case, lambda pod: pod.uid != victim)


def unmark(case: Case, which: Callable[[Pod], bool]) -> list[Action]:
    found: list[Action] = []
    stand = case.stand
    for member in (*stand.serving, *stand.starting, *stand.draining):
        pod = member.pod
        if DRAINING in pod.annotations and which(pod):
            gone: Mapping[str, str | None] = {DRAINING: None}
            if pod.annotations.get(DELETION_COST) == FIRST_TO_GO:
                gone = {DRAINING: None, DELETION_COST: None}
            why = because(Code.HELD, why=f"{pod.name} is kept")
            found.append(AnnotatePod(case.ref, pod, gone, why))
    return found


def _zone(case: Case, pod: Pod) -> str:
    return case.zones.get(pod.node, pod.node)
