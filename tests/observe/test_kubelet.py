"""The kubelet's figures through the node proxy, and metrics.k8s.io."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from autoscaler.model.signal import Absent, Cause, Measured, Reading, Signals
from autoscaler.observe.kubelet import ForeignClock, KubeletSource
from autoscaler.observe.metrics_api import MetricsApiSource
from tests.observe.served import pod, policy, watched

UID = "6f1c2d3e-0000-4000-8000-00000000000a"
NOW = 1_700_000_000.0


def row(metric: str, value: float, at: float, group: str, more: str = "") -> str:
    labels = f'container="server",id="{group}",namespace="serving",pod="web-0"{more}'
    return f"{metric}{{{labels}}} {value} {int(at * 1000)}\n"


def page(cpu: float, at: float, group: str = f"/kubepods/burstable/pod{UID}/aaa") -> str:
    return (
        row("container_cpu_usage_seconds_total", cpu, at, group, ',cpu="total"')
        + row("container_memory_working_set_bytes", 5e7, at, group)
        + row("container_memory_usage_bytes", 9e7, at, group)
    )


@dataclass
class Node:
    """A node whose page the test writes; ``behind``: its clock against ours, in seconds."""

    text: str = ""
    now: float = NOW
    asked: int = 0
    error: Exception | None = None
    source: KubeletSource = field(init=False)

    def __post_init__(self) -> None:
        self.source = KubeletSource(self.fetch, clock=lambda: self.now)

    async def fetch(self, path: str) -> bytes:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.text.encode()

    async def read(self, text: str | None = None, after: float = 15.0) -> Signals:
        self.text, self.now = (self.text if text is None else text), self.now + after
        workload = watched(pod("web-0", node="n1", uid=UID))
        return (await self.source.read([workload], self.now))[workload.ref]


def value(reading: Reading) -> float:
    assert isinstance(reading, Measured), reading
    return reading.value


async def test_a_restarted_container_is_not_doubled_and_other_pods_never_count() -> None:
    node = Node()
    old, new = f"/kubepods/pod{UID}/aaa", f"/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-bbb.scope"
    stranger = page(900, NOW + 30, "/kubepods/pod11111111-2222/ccc")
    await node.read(page(100, NOW + 15, old))
    restarted = await node.read(page(101, NOW + 20, old) + page(1, NOW + 29, new) + stranger)
    assert isinstance(restarted.cpu, Absent) and restarted.cpu.cause is Cause.COUNTER_RESET
    again = await node.read(page(101, NOW + 20, old) + page(8.5, NOW + 44, new) + stranger)
    assert value(again.cpu) == pytest.approx(0.5)
    assert value(again.pods[UID].memory_usage) == 9e7 and value(again.working_set) == 5e7


async def test_a_node_is_asked_every_ten_seconds_and_ages_between() -> None:
    node = Node()
    await node.read(page(1, NOW + 14))
    first = await node.read(page(2, NOW + 29))
    between = await node.read(after=4.0)
    assert node.asked == 2
    assert isinstance(first.cpu, Measured) and isinstance(between.cpu, Measured)
    assert between.cpu.age_s == pytest.approx(first.cpu.age_s + 4)


async def test_figures_that_stop_moving_go_stale() -> None:
    node = Node()
    await node.read(page(1, NOW + 14))
    await node.read(page(2, NOW + 29))
    for _ in range(3):
        seen = await node.read()
    assert isinstance(seen.cpu, Absent) and seen.cpu.cause is Cause.STALE


async def test_a_refusal_and_a_strange_page_are_told() -> None:
    node = Node(error=PermissionError("nodes/proxy is forbidden"))
    seen = await node.read()
    assert isinstance(seen.cpu, Absent) and seen.cpu.cause is Cause.SOURCE_DOWN and "forbidden" in seen.cpu.detail
    assert isinstance(seen.requests, Absent) and seen.requests.cause is Cause.NOT_CONFIGURED
    node.error = None
    seen = await node.read("<html>")
    assert isinstance(seen.cpu, Absent) and seen.cpu.cause is Cause.REFUSED


def test_a_clock_that_is_apart_does_not_make_figures_old() -> None:
    clock = ForeignClock()
    clock.saw(newest=80.0, at=100.0)  # twenty seconds behind, or twenty old: taken for behind
    assert clock.age(80.0, at=100.0) == 0.0 and clock.age(80.0, at=115.0) == 15.0
    frozen = ForeignClock()
    frozen.saw(newest=0.0, at=1000.0)
    assert frozen.age(0.0, at=1000.0) == 970.0


async def test_metrics_server_without_the_pod_has_nothing_to_say() -> None:
    body = json.dumps({"items": []}).encode()

    async def fetch(path: str) -> bytes:
        return body

    workload = watched(pod("web-0"))
    seen = (await MetricsApiSource(fetch, clock=lambda: 0.0).read([workload], NOW))[workload.ref]
    assert isinstance(seen.cpu, Absent) and seen.cpu.cause is Cause.NO_SUCH_METRIC


@pytest.mark.parametrize(("window", "age", "signals", "there"), [
    ("15s", 25.0, {}, True), ("15s", 35.0, {}, False), ("1m0s", 100.0, {}, True), ("1m0s", 125.0, {}, False),
    ("1m0s", 45.0, {"maxAge": "40s"}, False), ("1m0s", 35.0, {"maxAge": "40s"}, True),
])  # fmt: skip
async def test_metrics_server_is_believed_for_two_of_its_windows_unless_the_policy_says_how_long(
    window: str, age: float, signals: dict[str, object], there: bool
) -> None:
    taken = datetime.fromtimestamp(NOW, UTC).isoformat().replace("+00:00", "Z")
    usage = {"name": "server", "usage": {"cpu": "250m", "memory": "100Mi"}}
    item = {"metadata": {"name": "web-0"}, "timestamp": taken, "window": window, "containers": [usage]}

    async def fetch(path: str) -> bytes:
        return json.dumps({"items": [item]}).encode()

    workload = watched(pod("web-0"), policy_=policy(signals={"preset": "generic", **signals}))
    clock = [0.0]
    source = MetricsApiSource(fetch, clock=lambda: clock[0])
    first = (await source.read([workload], NOW))[workload.ref]
    assert isinstance(first.cpu, Measured) and first.cpu.value == 0.25
    clock[0] = age
    seen = (await source.read([workload], NOW + age))[workload.ref]
    assert isinstance(seen.cpu, Measured) is there, seen.cpu
    if isinstance(seen.cpu, Measured):
        assert seen.cpu.fresh(30.0) or signals
