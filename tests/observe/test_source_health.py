"""Which sources answer, in the log, on /metrics and in /readyz."""

from __future__ import annotations

import logging

import pytest
from prometheus_client import generate_latest

from autoscaler.model.signal import Absent, Cause, Measured, Signals
from autoscaler.observe.fallback import Fallback
from autoscaler.observe.merging import absent_signals
from autoscaler.observe.source_health import LASTS_READS, missed, who_answers, why_down
from autoscaler.serve.metrics import OwnMetrics
from tests.observe.served import pod, watched
from tests.observe.test_fallback import PAGE, Told, _of

DOWN = absent_signals(Absent(Cause.SOURCE_DOWN, "connection refused", "prometheus"))
CLOSED = absent_signals(Absent(Cause.REFUSED, "forbidden", "kubelet"))


async def test_a_source_that_goes_and_comes_is_told_once_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "autoscaler")
    whole = _of("prometheus", *PAGE, "cpu", "working_set")
    first, workload = Told("prometheus", whole), watched(pod("a"))
    both, shown = Fallback([first, Told("scrape", _of("scrape", *PAGE))]), OwnMetrics()

    async def read(times: int) -> list[str]:
        caplog.clear()
        for _ in range(times):
            await both.read([workload], 0.0)
        shown.heard(both.health.down)
        return [record.getMessage() for record in caplog.records]

    def page() -> str:
        return generate_latest(shown.registry).decode()

    assert await read(3) == []
    assert 'source_up{source="prometheus"} 1.0' in page() and 'source="scrape"' not in page()  # nobody asked it
    first.signals = DOWN
    assert await read(LASTS_READS - 1) == []
    assert await read(5) == ["a source doesn't answer"]
    assert 'source_up{source="prometheus"} 0.0' in page() and 'source_up{source="scrape"} 1.0' in page()
    assert missed(both.health.down) == ["prometheus"]
    assert who_answers(both.health.down) == "prometheus: SourceDown: connection refused; scrape: answers"
    first.signals = whole
    assert await read(3) == ["a source answers again"]
    assert missed(both.health.down) == []


def test_what_counts_as_no_answer() -> None:
    assert why_down([DOWN, DOWN]) == "SourceDown: connection refused"
    assert why_down([DOWN, Signals(cpu=Measured(0.0))]) == ""
    assert why_down([DOWN, Signals(misses=Absent(Cause.NO_TRAFFIC))]) == ""
    assert why_down([Signals()]) is None


def test_kubelets_that_are_closed_are_told_and_no_fault() -> None:
    down = {"kubelet": why_down([CLOSED]) or "", "scrape": ""}
    assert missed(down) == [] and "kubelet: QueryRefused" in who_answers(down)
    assert missed({"kubelet": "SourceDown: no page"}) == ["kubelet"]
