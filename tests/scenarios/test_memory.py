"""Memory over the wire: an OOM is answered and proven, a shrink below usage is refused before anything is sent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from autoscaler.emulate.authorize import ADMIN_TOKEN, Rule
from autoscaler.model.quantity import parse_memory
from autoscaler.model.reason import Code, Reason
from tests.scenarios.stage import NAMESPACE, POLICY, Stage, cluster_spec, staged

GI, MI = 2**30, 2**20
EVERY_SOURCE = POLICY.replace(", sources: [scrape]", "")
"""Usage with page cache is the kubelet's to tell."""
GROW = EVERY_SOURCE.replace('max: "2"}}', 'max: "2"}, memory: {min: 512Mi, max: 2Gi}}')
SHRINK = EVERY_SOURCE.replace('max: "2"}}', 'max: "2"}, memory: {min: 256Mi, max: 2Gi, shrink: WhenSafe}}')


def limits(stage: Stage) -> list[int]:
    return [parse_memory(pod["spec"]["containers"][0]["resources"]["limits"]["memory"]) for pod in stage.pods()]


def names(stage: Stage) -> list[str]:
    return [pod["metadata"]["name"] for pod in stage.pods()]


def actual(stage: Stage) -> list[int]:
    statuses = [pod["status"]["containerStatuses"][0] for pod in stage.pods()]
    return [parse_memory(status["resources"]["limits"]["memory"]) for status in statuses]


def holds(stage: Stage, code: Code, since: float = 0.0) -> list[Reason]:
    """Since so many seconds ago (0: ever)."""
    first = stage.ticks[-1].seen.at - since if since else 0.0
    found = [(tick.seen.at, hold) for tick in stage.ticks for plan in tick.plans.values() for hold in plan.holds]
    return [hold for at, hold in found if hold.code is code and at >= first]


def changes(stage: Stage) -> list[Reason]:
    """Why memory was changed, in order, as sent."""
    sent = [one.action for tick in stage.ticks for one in tick.sent]
    return [one.reason for one in sent if getattr(getattr(one, "after", None), "memory_limit", None) is not None]


async def create(stage: Stage, path: str, body: dict[str, object]) -> None:
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    url = f"{stage.cluster.url}/api/v1/namespaces/{NAMESPACE}/{path}"
    async with aiohttp.ClientSession() as client, client.post(url, json=body, headers=headers) as answer:
        assert answer.status == 201, await answer.text()


@pytest.mark.looptime
async def test_an_oom_kill_is_answered_with_more_memory_for_all(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, policy=GROW, interval=5.0) as stage:
        await asyncio.sleep(30)
        assert set(limits(stage)) == {GI}
        stage.cluster.oom_kill(NAMESPACE, names(stage)[0])
        await asyncio.sleep(90)
        assert min(limits(stage)) >= int(1.2 * GI) - MI
        assert max(limits(stage)) <= 2 * GI
        statuses = [pod["status"]["containerStatuses"][0] for pod in stage.pods()]
        assert all(status["ready"] for status in statuses)
        assert stage.restarts() == 1, "the kill itself"


@pytest.mark.looptime
async def test_a_shrink_below_usage_is_refused_and_nothing_is_sent(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, policy=SHRINK, interval=5.0) as stage:
        for name in names(stage):
            stage.cluster.set_memory(name, 300 * MI, page_cache=700 * MI)
        await asyncio.sleep(400)
        assert set(limits(stage)) == {GI}
        held = [hold for tick in stage.ticks for plan in tick.plans.values() for hold in plan.holds]
        refused = [hold for hold in held if hold.code is Code.MEMORY_UNSAFE]
        assert refused
        assert refused[-1].numbers["usage"] >= 1000 * MI, "page cache included"


@pytest.mark.looptime
async def test_what_is_not_used_is_taken_back_in_steps_without_a_restart(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, policy=SHRINK, interval=5.0) as stage:
        for name in names(stage):
            stage.cluster.set_memory(name, 300 * MI)
        await asyncio.sleep(1500)
        assert max(limits(stage)) < GI
        assert min(limits(stage)) >= 400 * MI
        assert stage.restarts() == 0
        patches = [e for e in stage.cluster.audit.of("patch", "pods", "resize") if e.code == 200]
        assert patches
        assert NAMESPACE in {entry.namespace for entry in patches}


@pytest.mark.looptime
async def test_a_maximum_lowered_below_usage_is_refused_with_its_numbers_and_nothing_is_sent(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, policy=SHRINK, interval=5.0) as stage:
        for name in names(stage):
            stage.cluster.set_memory(name, 350 * MI, page_cache=600 * MI)
        await asyncio.sleep(100)
        (tmp_path / "policy.yaml").write_text(SHRINK.replace("max: 2Gi", "max: 700Mi"))
        await asyncio.sleep(200)
        assert set(limits(stage)) == set(actual(stage)) == {GI}
        assert changes(stage) == []
        refused = holds(stage, Code.MEMORY_UNSAFE, since=100.0)
        assert refused, "it is told as long as it lasts"
        told = refused[-1].numbers
        assert told["wanted"] == 700 * MI
        assert told["usage"] == 950 * MI
        assert 0.0 <= told["age"] < 20.0
        assert told["margin"] == 100 * MI
        assert refused[-1].text.startswith("limit 700Mi refused: usage 950Mi with page cache (")
        assert stage.restarts() == 0


async def shrinking(stage: Stage) -> str:
    """The pod whose shrink has just been accepted, and not yet applied: now its usage rises.

    Woken by the change itself, so that no time passes in which the kubelet could apply it.
    """
    for name in names(stage):
        stage.cluster.set_memory(name, 350 * MI, page_cache=100 * MI)
    await stage.cluster.until(lambda: min(limits(stage)) < GI, within=300, what="a shrink")
    ((name, limit),) = [(n, one) for n, one in zip(names(stage), limits(stage), strict=True) if one < GI]
    assert actual(stage) == [GI, GI]
    stage.cluster.set_memory(name, 600 * MI, page_cache=limit - 550 * MI, seen=True)
    return name


def resizing(stage: Stage) -> list[str]:
    """What the kubelet says of resizes in progress."""
    conditions = [one for pod in stage.pods() for one in pod["status"]["conditions"]]
    return [one.get("reason", "") for one in conditions if one["type"] == "PodResizeInProgress"]


def shrunk_at(stage: Stage) -> list[float]:
    """When memory was shrunk, unix seconds."""
    return [
        tick.seen.at for tick in stage.ticks for one in tick.sent
        if getattr(one.action, "reason", None) is not None and one.action.reason.code is Code.MEMORY_SHRINK
    ]  # fmt: skip


@pytest.mark.looptime
async def test_usage_that_rises_after_the_decision_is_noticed_and_the_shrink_taken_back(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, policy=SHRINK, interval=5.0) as stage:
        name = await shrinking(stage)
        await stage.cluster.until(lambda: "Error" in resizing(stage), within=30, what="the kubelet's refusal")
        assert min(limits(stage)) < min(actual(stage)) == GI, "accepted, and the kubelet won't apply it"
        await stage.cluster.until(lambda: limits(stage) == [GI, GI], within=30, what="taking it back")
        await stage.cluster.until(lambda: not resizing(stage), within=10, what="the end of the resize")
        assert actual(stage) == [GI, GI]
        assert [reason.code for reason in changes(stage)] == [Code.MEMORY_SHRINK, Code.REVERT]
        assert "below current usage" in changes(stage)[-1].text
        assert stage.restarts() == 0
        stage.cluster.set_memory(name, 350 * MI)
        back = stage.ticks[-1].seen.at
        await stage.cluster.until(lambda: min(limits(stage)) < GI, within=1800, what="another try")
        await asyncio.sleep(1)  # the tick that asked has ended
        first, *_, last = shrunk_at(stage)
        assert first < back
        assert last - back >= 890, "none is tried for a quarter of an hour"
        assert holds(stage, Code.BARRED, since=last - back)


@pytest.mark.looptime
async def test_cpu_that_waits_behind_a_stuck_shrink_comes_when_it_is_taken_back(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, policy=SHRINK, interval=2.0) as stage:
        await shrinking(stage)
        stage.load = 80.0
        await asyncio.sleep(90)
        assert set(limits(stage)) == set(actual(stage)) == {GI}
        assert stage.actual_cores() == stage.cores()
        assert min(stage.actual_cores()) > 0.8
        assert stage.restarts() == 0


@pytest.mark.looptime
async def test_a_leak_stops_at_the_maximum_with_a_reason(tmp_path: Path) -> None:
    spec = cluster_spec(20.0, memory=600 * MI, leak=float(4 * MI))
    async with staged(spec, tmp_path, policy=GROW, interval=5.0) as stage:
        await asyncio.sleep(330)
        assert set(limits(stage)) == set(actual(stage)) == {2 * GI}
        assert stage.restarts() == 0, "it was given memory as long as there was some"
        assert Code.MEMORY_GROW in {reason.code for reason in changes(stage)}
        (told, *_) = holds(stage, Code.LEAK, since=30.0)
        assert "without end, stopped at the maximum 2Gi" in told.text
        before = len(changes(stage))
        await asyncio.sleep(300)
        assert stage.restarts() > 0
        assert max(limits(stage)) == 2 * GI
        assert len(changes(stage)) == before, "no size is asked for beyond it"


@pytest.mark.looptime
async def test_a_quota_that_is_short_is_told_and_never_asked_against(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, policy=GROW, interval=5.0) as stage:
        quota = {"metadata": {"name": "team"}, "spec": {"hard": {"limits.memory": f"{2 * GI + 150 * MI}"}}}
        await create(stage, "resourcequotas", quota)
        await asyncio.sleep(30)
        stage.cluster.oom_kill(NAMESPACE, names(stage)[0])
        await asyncio.sleep(60)
        assert sum(limits(stage)) == 2 * GI + 150 * MI, "as much as fits, and the two of them not twice"
        assert sum(actual(stage)) == sum(limits(stage))
        assert "team (limits.memory)" in holds(stage, Code.QUOTA, since=30.0)[-1].text
        assert {entry.code for entry in stage.cluster.audit.of("patch", "pods", "resize")} == {200}


@pytest.mark.looptime
async def test_a_second_kill_within_a_minute_recreates_the_pod_which_is_born_with_more(tmp_path: Path) -> None:
    async with staged(cluster_spec(20.0), tmp_path, policy=GROW, interval=5.0) as stage:
        await asyncio.sleep(30)
        first = names(stage)[0]
        stage.cluster.oom_kill(NAMESPACE, first)
        await asyncio.sleep(30)
        grown = limits(stage)
        assert min(grown) > GI
        stage.cluster.oom_kill(NAMESPACE, first)
        await asyncio.sleep(60)
        evicted = stage.cluster.audit.of("create", "pods", "eviction")
        assert [(entry.name, entry.code) for entry in evicted] == [(first, 201)]
        assert first not in names(stage)
        assert sorted(limits(stage)) == sorted(actual(stage)) == sorted(grown), "no growth without end"
        assert all(pod["status"]["containerStatuses"][0]["ready"] for pod in stage.pods())


@pytest.mark.looptime
async def test_who_may_not_evict_adds_a_replica_and_says_why(tmp_path: Path) -> None:
    rules = [
        Rule(("*",), ("*",), ("get", "list", "watch")),
        Rule(("",), ("pods/resize",), ("patch",)),
        Rule(("apps",), ("deployments/scale",), ("patch",)),
    ]
    async with staged(cluster_spec(20.0), tmp_path, policy=GROW, token="t", rules=rules, interval=5.0) as stage:
        await asyncio.sleep(30)
        first = names(stage)[0]
        for _ in range(8):
            stage.cluster.oom_kill(NAMESPACE, first)
            await asyncio.sleep(30)
        assert {entry.code for entry in stage.cluster.audit.of("create", "pods", "eviction")} == {403}
        assert stage.replicas() == 3
        assert max(limits(stage)) < int(1.3 * GI)
        assert any("no right to evict" in hold.text for hold in holds(stage, Code.HELD, since=30.0))
