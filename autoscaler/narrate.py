"""What a tick did, told in the log: every action with its numbers, and every hold when it begins."""

from __future__ import annotations

import logging
from typing import Any

from autoscaler.act.apply import Sent
from autoscaler.act.ports import Result
from autoscaler.act.sizes import changes, spell
from autoscaler.loop import Tick
from autoscaler.model.plan import Action, AnnotatePod, Evict, Plan, Resize, Revert, Scale
from autoscaler.model.reason import Code, Reason
from autoscaler.model.workload import WorkloadRef
from autoscaler.serve.metrics import kind_of

LOG = logging.getLogger("autoscaler.tick")
_RESTING = frozenset(
    {Code.STEADY, Code.ON_TARGET, Code.IDLE, Code.TOLERANCE, Code.STABILIZING, Code.REPLICAS_STABILIZING, Code.LEARNING,
     Code.BARRED, Code.DRAINING}
)  # fmt: skip
"""At rest these come and go with chance: told where they stand beside something new, and no news themselves."""
_FINE = frozenset({Result.ACCEPTED, Result.UNCHANGED, Result.PRINTED})


def change(action: Action) -> dict[str, Any]:
    """The object and what becomes of it, as fields."""
    match action:
        case Resize() | Revert():
            after = changes(action.before, action.after)
            return {
                "pod": action.pod.name,
                "container": action.container,
                "to": spell(after),
                "from": spell(action.before),
            }
        case Scale():
            return {"target": str(action.target), "from": action.before, "to": action.after}
        case Evict():
            return {"pod": action.pod.name}
        case AnnotatePod():
            return {"pod": action.pod.name, "annotations": dict(action.annotations)}


class Narrator:
    """Remembers the last reason told of each workload, so that a hold is told once and not every tick."""

    def __init__(self) -> None:
        self._told: dict[WorkloadRef, str] = {}

    def tell(self, tick: Tick) -> None:
        for one in tick.sent:
            self._sent(one)
        for ref, plan in tick.plans.items():
            self._held(ref, plan)
        for gone in [ref for ref in self._told if ref not in tick.plans]:
            del self._told[gone]

    def _sent(self, one: Sent) -> None:
        result = one.outcome.result
        level = logging.INFO if result in _FINE or result is Result.SKIPPED else logging.WARNING
        verb = f"would {kind_of(one.action)}" if result is Result.PRINTED else kind_of(one.action)
        fields: dict[str, Any] = {"workload": str(one.action.workload), **change(one.action)}
        fields |= {"reason": one.action.reason.code.value, "why": one.action.reason.text}
        if result not in _FINE:
            fields |= {"result": result.value, "answer": one.reason or one.outcome.message}
        LOG.log(level, "%s", verb, extra={"fields": fields})

    def _held(self, ref: WorkloadRef, plan: Plan) -> None:
        reasons: list[Reason] = [*([plan.reason] if plan.reason is not None else []), *plan.holds]
        codes = ",".join(sorted({reason.code.value for reason in reasons}))
        state = ",".join(sorted({reason.code.value for reason in reasons if reason.code not in _RESTING}))
        if plan.actions or not reasons or self._told.get(ref) == state:
            if plan.actions:
                self._told.pop(ref, None)
            return
        self._told[ref] = state
        why = "; ".join(dict.fromkeys(reason.text for reason in reasons))
        LOG.info("hold", extra={"fields": {"workload": str(ref), "reason": codes, "why": why}})
