"""What `run` would send for these plans at this moment: everything but the sending, brakes and looks included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autoscaler.act.apply import Applier
from autoscaler.act.brakes import FleetLimits
from autoscaler.act.patches import patches
from autoscaler.act.ports import Patch
from autoscaler.act.show import PrintingSink
from autoscaler.act.spending import batches, gives, shortfall_of
from autoscaler.model.plan import Action, Plan, Resize, Revert
from autoscaler.model.reason import Reason
from autoscaler.model.seen import Seen


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """``patches`` that would be sent, in the order of sending; ``held``: what would not be, and why."""

    patches: tuple[Patch, ...]
    held: tuple[tuple[Action, Reason], ...]


def rehearse(
    plans: Sequence[Plan],
    seen: Seen,
    *,
    resources: Mapping[tuple[str, str], str] | None = None,
    limits: FleetLimits | None = None,
    minor: int | None = None,
) -> Rehearsal:
    """Nothing is sent and no clock is read: the time is the one of ``seen``, and so the same input gives the same."""
    applier = Applier(PrintingSink(), clock=lambda: seen.at, limits=limits)
    applier.minor = minor
    applier.start(seen)
    subjects = {subject.view.ref: subject for subject in seen.subjects}
    shown: list[Patch] = []
    held: list[tuple[Action, Reason]] = []
    due = sorted((plan for plan in plans if plan.actions), key=shortfall_of, reverse=True)
    for plan, action in _in_order(due):
        if isinstance(action, Resize | Revert):
            reason = applier.held(action, subjects.get(plan.ref), seen.ledger)
            if reason is not None:
                held.append((action, reason))
                continue
            applier.reserve(action)
            applier.freed(action)
        shown += patches(action, resources=resources)
    return Rehearsal(tuple(shown), tuple(held))


def _in_order(plans: Sequence[Plan]) -> Iterator[tuple[Plan, Action]]:
    """What is given back first, then the rest, as the applier sends it."""
    parts = [(plan, batches(plan.actions)) for plan in plans]
    for first in (True, False):
        for plan, groups in parts:
            giving = groups[:1] if gives(groups[0]) else []
            for batch in giving if first else groups[len(giving) :]:
                yield from ((plan, action) for action in batch)
