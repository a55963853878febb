"""observe → **decide** → act, the middle: all that was seen and remembered in, plans and new memories out.

For each workload: learn from what was seen, then say what it would like. Once for all: share what there is. For each
again: settle what was granted into actions. No clock, no I/O, no randomness: the same input gives the same plans.
"""

from __future__ import annotations

from collections.abc import Mapping

from autoscaler.decide import memory
from autoscaler.decide.allocate import allocate
from autoscaler.decide.case import Case
from autoscaler.decide.consider import consider, largest_node
from autoscaler.decide.history import History
from autoscaler.decide.queued import Queue
from autoscaler.decide.settle import settle
from autoscaler.decide.want import want
from autoscaler.model.plan import Plan
from autoscaler.model.seen import Seen
from autoscaler.model.workload import WorkloadRef


def decide(
    seen: Seen, past: Mapping[WorkloadRef, History]
) -> tuple[dict[WorkloadRef, Plan], dict[WorkloadRef, History]]:
    """One tick's plans for all workloads in ``seen``, and what to remember of them."""
    now = seen.at
    cases: list[Case] = []
    largest = largest_node(seen)
    zones = {name: node.zone for name, node in seen.ledger.nodes.items() if node.zone}
    queue = Queue(seen)
    for subject in sorted(seen.subjects, key=lambda one: one.view.ref):  # equal claims are served in this order
        case = consider(subject, past.get(subject.view.ref), seen, largest, zones, queue)
        if not case.frozen:
            case.want = want(case, now, seen.brakes_open)
            memory.wish(case, seen.ledger, now, seen.brakes_open)
        cases.append(case)
    memory.share(cases, seen.ledger)
    grants = allocate(cases, seen.ledger)
    plans: dict[WorkloadRef, Plan] = {}
    histories: dict[WorkloadRef, History] = {}
    for case in cases:
        plans[case.ref], histories[case.ref] = settle(case, grants[case.ref], now)
    return plans, histories
