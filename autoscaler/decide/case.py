"""One workload under decision: its view and policy with what was learned and worked out on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autoscaler.decide.demand import Demand
from autoscaler.decide.history import History
from autoscaler.decide.standing import Standing
from autoscaler.model.plan import Want
from autoscaler.model.policy import Policy
from autoscaler.model.reason import Reason
from autoscaler.model.workload import WorkloadRef, WorkloadView


@dataclass(slots=True)
class Case:
    ref: WorkloadRef
    view: WorkloadView
    policy: Policy
    past: History
    stand: Standing
    demand: Demand
    want: Want | None = None
    low: int = 0
    """Bounds of a pod's size in millicores."""
    high: int = 0
    top: int = 0
    """The upper bound that is written down somewhere, without what was learned: ``high`` is never more."""
    ceiling: int | None = None
    """Millicores that a pod was seen to be able to use; None: no limit was seen."""
    may_give: bool = False
    """Whether others may have what it holds beyond its part: its signals are whole and no guard bars a shrink."""
    share: dict[str, int] = field(default_factory=dict)
    """Most that a pod gets of a crowded room, by uid."""
    refused: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By uid, for pods that were refused for want of room: (the most to ask for, unless there is more room than)."""
    kept: Mapping[str, Reason] = field(default_factory=dict)
    """Why a pod is left as somebody else has sized it, by uid."""
    zones: Mapping[str, str] = field(default_factory=dict)
    """The zone of each node."""
    frozen: bool = False
    """Nothing may be done: a guard spoke before anything was estimated."""

    @property
    def usable(self) -> int:
        """Millicores in all that the serving pods have and can use."""
        have = self.stand.have
        return have if self.ceiling is None else min(have, self.ceiling * self.stand.count)
