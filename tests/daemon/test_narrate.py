"""What the log tells of holds: each state when it begins, and nothing of what comes and goes at rest."""

from __future__ import annotations

import logging

import pytest

from autoscaler.loop import Tick
from autoscaler.model.plan import Plan
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.seen import Seen
from autoscaler.model.workload import WorkloadRef
from autoscaler.narrate import Narrator

REF = WorkloadRef("serving", "resnet")
STEADY = because(Code.STEADY, misses=0.0, allowed=0.01, have=1000, demand=500.0)
SMALL = because(Code.TOLERANCE, wanted=1040.0, have=1000)
SOON = because(Code.STABILIZING, wanted=900, have=1000, left=40.0)
FULL = because(Code.NODE_FULL, wanted=2000, free=100, node="n1")


def lines(caplog: pytest.LogCaptureFixture, *looks: tuple[Reason, ...]) -> list[str]:
    narrator = Narrator()
    with caplog.at_level(logging.INFO, "autoscaler.tick"):
        for reason, *holds in looks:
            plan = Plan(REF, holds=tuple(holds), reason=reason)
            narrator.tell(Tick(seen=Seen(0.0, (), None), plans={REF: plan}, sent=()))  # type: ignore[arg-type,call-arg]
    return [record.fields["reason"] for record in caplog.records]  # type: ignore[attr-defined]


def test_what_comes_and_goes_at_rest_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    assert lines(caplog, (STEADY,), (STEADY, SMALL), (STEADY,), (STEADY, SOON), (STEADY, SMALL)) == ["WithinObjective"]


def test_a_state_is_told_when_it_begins_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    told = lines(caplog, (STEADY,), (STEADY, FULL), (STEADY, FULL, SMALL), (STEADY,), (STEADY, SMALL))
    assert told == ["WithinObjective", "NodeFull,WithinObjective", "WithinObjective"]
