"""One tick's whole picture: what ``decide`` gets, and what a snapshot file holds."""

from __future__ import annotations

from dataclasses import dataclass, field

from autoscaler.model.plan import Ledger
from autoscaler.model.policy import Policy
from autoscaler.model.workload import WorkloadView


@dataclass(frozen=True, slots=True)
class Subject:
    """One workload with the policy that asks for it."""

    view: WorkloadView
    policy: Policy


@dataclass(frozen=True, slots=True)
class Seen:
    """``at``: the tick's time, unix seconds. ``brakes_open``: shrinking and consolidation are stopped fleet-wide."""

    at: float
    subjects: tuple[Subject, ...]
    ledger: Ledger = field(default_factory=Ledger)
    brakes_open: bool = False
    paused: bool = False
