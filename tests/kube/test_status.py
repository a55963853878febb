"""Status over the wire: when it is written, and what it says."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.kube.client import KubeClient
from autoscaler.kube.report import refused_status, status_of
from autoscaler.kube.status import StatusWriter
from autoscaler.model.plan import Plan, Resize, Want
from autoscaler.model.policy import Policy, PolicySpec
from autoscaler.model.reason import Code, because
from autoscaler.model.signal import Absent, Cause, Measured, Signals
from autoscaler.model.workload import (
    Container,
    Pod,
    Qos,
    Resources,
    ScaleView,
    TargetRef,
    WorkloadRef,
    WorkloadView,
)  # fmt: skip
from tests.kube.api_server import ApiServer

REF = WorkloadRef("serving", "web")
RESOURCES = "/apis/inference-autoscaler.dev/v1alpha1/namespaces/serving/inferenceautoscalers"


def policy(**spec: Any) -> Policy:
    whole = {
        "scaleTargetRef": {"name": "web"},
        "objective": {"latency": {"target": "500ms", "within": "99%"}},
        **spec,
    }
    return Policy(ref=REF, spec=PolicySpec.model_validate(whole), generation=3)


def pod(name: str, cpu: int, **more: Any) -> Pod:
    size = Resources(cpu, cpu, 2**30, 2**30)
    return Pod("serving", name, f"uid-{name}", (Container("server", size, size, size),), **more)


def view(**more: Any) -> WorkloadView:
    known: dict[str, Any] = {
        "ref": REF, "target": TargetRef("apps/v1", "Deployment", "web"), "scale": ScaleView(2, 2),
        "pods": (pod("a", 1000), pod("b", 2500)), "container": "server",
        "signals": Signals(misses=Measured(0.034, age_s=4.2, weight=100)),
    } | more  # fmt: skip
    return WorkloadView(**known)


STEADY = because(Code.STEADY, misses=0.001, allowed=0.01, have=3500, demand=2000)


def plan(reason: Any = STEADY, **more: Any) -> Plan:
    return Plan(REF, reason=reason, **more)


def conditions(status: Any) -> dict[str, tuple[str, str]]:
    return {c.type: (c.status, c.reason) for c in status.conditions}


def test_it_answers_a_persons_questions() -> None:
    want = Want(REF, 4000, 0, {"uid-a": 2000, "uid-b": 2000}, 2, STEADY)
    status = status_of(view(), policy(), plan(want=want), 1_790_000_000.0, "learned")
    assert status.observed_generation == 3
    assert status.target == "deployment/web"
    assert status.cpu == "1..2500m"
    assert status.objective is not None
    assert (status.objective.text, status.objective.measured) == ("99% within 500ms", "3.4% missed")
    assert status.containers[0].wanted is not None
    assert status.containers[0].wanted.cpu == "2"
    assert status.replicas is not None
    assert (status.replicas.current, status.replicas.ready, status.replicas.wanted) == (2, 2, 2)
    assert status.last_decision is not None
    assert (status.last_decision.action, status.last_decision.reason) == ("Hold", "WithinObjective")
    assert {truth for truth, _ in conditions(status).values()} == {"True", "False"}
    assert conditions(status)["ScalingLimited"] == ("False", "DesiredWithinRange")


@pytest.mark.parametrize(
    ("seen", "spec", "decided", "kind", "expected"),
    [
        (view(hold="deployment/web doesn't exist"), {}, plan(), "Ready", ("False", "Held")),
        (view(paused=True), {}, plan(), "Ready", ("False", "Paused")),
        (view(), {"mode": "Off"}, plan(), "Ready", ("False", "Off")),
        (view(), {"mode": "Off"}, plan(), "ScalingActive", ("False", "ScalingDisabled")),
        (view(), {"mode": "DryRun"}, plan(), "Ready", ("True", "DryRun")),
        (view(scale=None), {}, plan(), "AbleToScale", ("False", "NoScaleSubresource")),
        (view(scale=ScaleView(2, 2, other_owner="hpa/h")), {}, plan(), "AbleToScale", ("False", "OtherOwner")),
        (view(scale=ScaleView(0, 0)), {}, plan(), "ScalingActive", ("False", "ScalingDisabled")),
        (view(), {}, plan(because(Code.AT_MAX, wanted=9000, maximum=8000)), "ScalingLimited", ("True", "AtMaximum")),
        (view(), {}, plan(holds=(because(Code.NO_SIGNAL, signal="misses", why="x"),)), "ScalingActive",
         ("False", "NoSignal")),
        (view(pods=()), {}, plan(), "ResizePossible", ("Unknown", "NoPods")),
        (view(pods=(pod("a", 1000, qos=Qos.BEST_EFFORT),)), {}, plan(), "ResizePossible",
         ("False", "ResizeUnsupported")),
        (view(pods=(pod("a", 1000, static=True),)), {}, plan(), "ResizePossible", ("False", "ResizeUnsupported")),
    ],
)  # fmt: skip
def test_conditions_in_hpas_words(seen: Any, spec: Any, decided: Any, kind: str, expected: tuple[str, str]) -> None:
    assert conditions(status_of(seen, policy(**spec), decided, 1.0))[kind] == expected


def test_what_was_not_measured_is_said() -> None:
    blind = view(signals=Signals(misses=Absent(Cause.SOURCE_DOWN, "prometheus")))
    objective = status_of(blind, policy(), plan(), 1.0).objective
    assert objective is not None
    assert objective.measured is None
    assert objective.absent == "SourceDown: prometheus"


def test_a_resource_that_cannot_be_obeyed_says_why() -> None:
    status = refused_status(4, "spec.vertical.cpu: min is above max", 1.0)
    assert conditions(status) == {"Ready": ("False", "InvalidSpec")}


def status_at(at: float, seen: WorkloadView | None = None, decided: Plan | None = None) -> Any:
    return status_of(seen or view(), policy(), decided or plan(), at)


@pytest.mark.looptime
async def test_written_when_a_person_would_notice_and_not_oftener(server: ApiServer, client: KubeClient) -> None:
    await server.put(f"{RESOURCES}/web", {"metadata": {"name": "status"}})
    statuses = StatusWriter(client)
    for second in range(120):  # every second another measurement, nothing that a person would notice
        seen = view(signals=Signals(misses=Measured(second / 1000)))
        statuses.offer(REF, status_at(second, seen))
        await statuses.write_due()
        await asyncio.sleep(1)
    assert statuses.writes == 1
    resize = Resize(REF, pod("a", 1000), "server", Resources(), Resources(), because(Code.BREACH))
    for second in range(120, 160):  # every second another decision: noticeable, but not oftener than in 10 s
        decided = plan(actions=(resize,)) if second % 2 else plan()
        statuses.offer(REF, status_at(second, None, decided))
        await statuses.write_due()
        await asyncio.sleep(1)
    assert 2 <= statuses.writes <= 5


@pytest.mark.looptime
async def test_numbers_are_refreshed_after_a_while(server: ApiServer, client: KubeClient) -> None:
    await server.put(f"{RESOURCES}/web", {"metadata": {"name": "status"}})
    statuses = StatusWriter(client)
    for second in range(0, 1000, 5):
        statuses.offer(REF, status_at(second, view(signals=Signals(misses=Measured(second / 1e6)))))
        await statuses.write_due()
        await asyncio.sleep(5)
    assert 3 <= statuses.writes <= 5


@pytest.mark.looptime
async def test_a_condition_keeps_its_time_while_it_says_the_same(server: ApiServer, client: KubeClient) -> None:
    await server.put(f"{RESOURCES}/web", {"metadata": {"name": "status"}})
    first = StatusWriter(client)
    first.offer(REF, status_at(1_790_000_000.0))
    await first.write_due()
    on_server = server.bodies[-1]["status"]
    second = StatusWriter(client)  # another process, later
    second.seed(REF, on_server)
    second.offer(REF, status_at(1_790_009_999.0, replace(view(), hold="gone")))
    await second.write_due()
    times = {c["type"]: c["lastTransitionTime"] for c in server.bodies[-1]["status"]["conditions"]}
    before = {c["type"]: c["lastTransitionTime"] for c in on_server["conditions"]}
    assert times["Ready"] != before["Ready"]
    assert times["ResizePossible"] == before["ResizePossible"]
    method, path, query, headers = server.requests[-1]
    assert (method, path) == ("PATCH", f"{RESOURCES}/web/status")
    assert query == {"fieldManager": "inference-autoscaler", "force": "true"}
    assert headers["Content-Type"] == "application/apply-patch+yaml"


def test_growing_without_a_measured_objective_is_not_told_as_measured() -> None:
    rose = plan(because(Code.DEMAND, demand=1.0, wanted=1000, have=500))
    status = status_of(view(signals=Signals(misses=Absent(Cause.NAN, "requests_total"))), policy(), rose, 1.0)
    active = next(one for one in status.conditions if one.type == "ScalingActive")
    assert (active.status, active.reason) == (
        "False",
        "ObjectiveUnmeasured",
    ) and "NaN: requests_total" in active.message
    part = status_of(view(signals=Signals(misses=Measured(0.0, coverage=0.33))), policy(), rose, 1.0)
    assert "known for 33% of the pods" in part.objective.measured
