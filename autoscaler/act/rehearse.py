"""What `run` would send for these plans at this moment: everything but the sending, brakes and looks included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoscaler.act.apply import Applier, Sent
from autoscaler.act.brakes import FleetLimits
from autoscaler.act.ports import Patch, Result
from autoscaler.act.show import PrintingSink
from autoscaler.model.plan import Plan
from autoscaler.model.seen import Seen


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """``patches`` that would be sent, in order; ``held``: actions that would not be, each with its reason."""

    patches: tuple[Patch, ...]
    held: tuple[Sent, ...]


async def rehearse(
    plans: Sequence[Plan],
    seen: Seen,
    *,
    resources: Mapping[tuple[str, str], str] | None = None,
    limits: FleetLimits | None = None,
    minor: int | None = None,
) -> Rehearsal:
    """Nothing is sent and no clock is read: the time is the one of ``seen``. The order is the order of sending."""
    sink = PrintingSink()
    applier = Applier(sink, clock=lambda: seen.at, limits=limits, resources=resources, concurrency=1)
    applier.minor = minor
    sending = await applier.send(plans, seen)
    held = tuple(one for one in sending.sent if one.outcome.result not in (Result.PRINTED, Result.UNCHANGED))
    return Rehearsal(sink.taken(), held)
