"""The program's own endpoints over a real socket, its metrics and its log lines."""

from __future__ import annotations

import io
import json
import logging

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from autoscaler.model.plan import Plan, Want
from autoscaler.model.policy import Policy, PolicySpec
from autoscaler.model.reason import Code, because
from autoscaler.model.seen import Subject
from autoscaler.model.signal import Absent, Cause, Measured, Signals
from autoscaler.model.workload import Container, Pod, Resources, TargetRef, WorkloadRef, WorkloadView
from autoscaler.serve import logs
from autoscaler.serve.health import Health
from autoscaler.serve.http import serving
from autoscaler.serve.metrics import OwnMetrics

REF = WorkloadRef("serving", "resnet")
POLICY = Policy(
    ref=REF,
    spec=PolicySpec.model_validate({"scaleTargetRef": {"name": "resnet"}, "objective": {"cpu": {}}}),
)


def subject(misses: Measured | Absent) -> Subject:
    pod = Pod("serving", "resnet-1", "u1", (Container("server", Resources(cpu_request=500, cpu_limit=1500)),))
    view = WorkloadView(
        REF, TargetRef("apps/v1", "Deployment", "resnet"), None, (pod,), Signals(misses=misses), "server"
    )
    return Subject(view, POLICY)


async def test_ready_only_when_every_needed_condition_holds_and_the_detail_says_which() -> None:
    health, metrics = Health(), OwnMetrics()
    async with (
        serving("127.0.0.1:0", health, metrics) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):

        async def ready() -> tuple[int, dict[str, object]]:
            async with client.get("/readyz") as answer:
                return answer.status, await answer.json()

        assert (await ready())[0] == 503  # nothing is known yet
        health.say("cluster", True, "seen 1s ago")
        health.say("policies", False, "p.yaml[doc 1]: min is above max; the last good ones are in use", needed=False)
        status, body = await ready()
        assert status == 200
        assert body["checks"]["policies"]["detail"].startswith("p.yaml")  # type: ignore[index]
        health.say("cluster", False, "unseen for 31s")
        assert (await ready())[0] == 503
        async with client.get("/healthz") as answer:
            assert answer.status == 200
        health.alive = lambda: False
        async with client.get("/healthz") as answer:
            assert answer.status == 503


async def test_a_workloads_series_come_and_go_with_it() -> None:
    metrics = OwnMetrics()
    want = Want(REF, 3000.0, 500.0, {"u1": 3000}, None, because(Code.STEADY), demand=2000.0)
    plan = Plan(REF, holds=(because(Code.TOLERANCE), because(Code.TOLERANCE)), want=want)
    async with serving("127.0.0.1:0", Health(), metrics) as port, aiohttp.ClientSession() as client:

        async def page() -> dict[str, list[tuple[dict[str, str], float]]]:
            async with client.get(f"http://127.0.0.1:{port}/metrics") as answer:
                families = list(text_string_to_metric_families(await answer.text()))
            return {s.name: [(t.labels, t.value) for t in f.samples] for f in families for s in f.samples}

        metrics.saw([subject(Measured(0.02, age_s=3.0))], {REF: plan})
        seen = await page()
        labels = {"namespace": "serving", "workload": "resnet"}
        assert seen["autoscaler_misses_ratio"] == [(labels, 0.02)]
        assert seen["autoscaler_desired_cores"] == [(labels, 1.5)]
        assert seen["autoscaler_demand_cores"] == [(labels, 2.0)]
        assert seen["autoscaler_held"] == [({"reason": "ChangeTooSmall"}, 1.0)]
        metrics.saw([subject(Absent(Cause.SOURCE_DOWN))], {REF: plan})
        assert "autoscaler_misses_ratio" not in await page()  # unknown is not the last known value
        metrics.saw([], {})
        assert "autoscaler_desired_cores" not in await page()


async def test_off_serves_nothing() -> None:
    async with serving("off", Health(), OwnMetrics()) as port:
        assert port is None


@pytest.fixture
def log_to() -> object:
    root = logging.getLogger()
    before, level, ours = list(root.handlers), root.level, logging.getLogger("autoscaler").level
    yield io.StringIO()
    root.handlers[:] = before
    root.setLevel(level)
    logging.getLogger("autoscaler").setLevel(ours)


def test_json_lines_hold_the_fields_and_no_line_break(log_to: io.StringIO) -> None:
    logs.configure("auto", "info", log_to)
    logging.getLogger("autoscaler.loop").info("resized\n%s", "x", extra={"fields": {"reason": Code.BREACH, "level": 3}})
    logging.getLogger("autoscaler.loop").debug("not shown")
    logging.getLogger("aiohttp").info("not ours")
    lines = log_to.getvalue().splitlines()
    assert len(lines) == 1
    line = json.loads(lines[0])
    assert line["message"] == "resized\nx"
    assert (line["level"], line["level_"], line["reason"]) == ("info", 3, "ObjectiveMissed")
    assert line["time"].endswith("Z")


def test_text_shows_the_fields_after_the_message(log_to: io.StringIO) -> None:
    logs.configure("text", "info", log_to)
    logging.getLogger("autoscaler").info("sent", extra={"fields": {"pod": "a", "why": "two words"}})
    assert log_to.getvalue().rstrip().endswith('info    sent pod=a why="two words"')
