"""A restart: what was learned about the workloads of policy files is there again, and nothing shrinks before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from autoscaler.daemon import Daemon
from autoscaler.decide.history import compact
from autoscaler.emulate.faults import Trouble
from autoscaler.kube.learned import NAME as STATE
from autoscaler.kube.learned import OWNER
from autoscaler.loop import Tick
from autoscaler.model.plan import Resize, Scale
from autoscaler.observe import policy_files
from autoscaler.parts import opened
from autoscaler.reload import Reloading
from tests.manifests.test_rights import as_admin
from tests.scenarios.stage import NAMESPACE, POLICY, Stage, cluster_spec, staged

HERE: dict[str, Any] = {"leader": {"elect": False, "namespace": NAMESPACE}}
PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
HASH = "pod-template-hash"
FIXED = POLICY.replace("maxReplicas: 6", "maxReplicas: 2")


def kept(stage: Stage) -> dict[str, Any]:
    found = stage.cluster.plane.store.get(("", "configmaps"), NAMESPACE, STATE)
    assert found is not None
    learned: dict[str, Any] = json.loads(found.body["data"]["serving.resnet"])
    return learned


async def killed(stage: Stage) -> None:
    """As by kill -9: nothing is wound up."""
    stage.running.cancel()
    await asyncio.wait({stage.running})


@asynccontextmanager
async def again(stage: Stage) -> AsyncIterator[Stage]:
    """Another life of the daemon on the same cluster."""
    settings = stage.daemon.settings
    file = Path(settings.policy[0])
    files = Reloading([file], lambda: policy_files.load([file]), policy_files.load([file]))
    ticks: list[Tick] = []
    async with opened(settings, epoch=stage.cluster.plane.timeline.wall()) as parts:
        daemon = Daemon(settings, parts, files, on_tick=ticks.append)
        stop = asyncio.Event()
        running = asyncio.create_task(daemon.run(stop))
        try:
            yield Stage(stage.cluster, daemon, stop, running, ticks)
        finally:
            stop.set()
            await asyncio.wait({running})


def shrunk(ticks: list[Tick]) -> list[Any]:
    return [
        one.action for tick in ticks for one in tick.sent
        if (isinstance(one.action, Resize) and (one.action.after.cpu or 0) < (one.action.before.cpu or 0))
        or (isinstance(one.action, Scale) and one.action.after < one.action.before)
    ]  # fmt: skip


@pytest.mark.looptime
async def test_after_a_kill_it_decides_as_before(tmp_path: Path) -> None:
    async with staged(cluster_spec(60.0), tmp_path, **HERE) as stage:
        await asyncio.sleep(300)
        await killed(stage)
        before = compact(stage.daemon.loop.past[stage.ticks[-1].seen.subjects[0].view.ref])
        sizes, replicas = stage.cores(), stage.replicas()
        assert kept(stage)["cost.work"] == pytest.approx(before["cost.work"], rel=0.05)
        async with again(stage) as second:
            await asyncio.sleep(3)
            ref = second.ticks[-1].seen.subjects[0].view.ref
            restored = second.ticks[0].past[ref]
            assert restored.cost.work == pytest.approx(before["cost.work"], rel=0.05)
            assert compact(restored).keys() == kept(stage).keys()
            await asyncio.sleep(55)
            assert not shrunk(second.ticks)
            await asyncio.sleep(120)
            assert second.replicas() == replicas
            assert sum(second.cores()) == pytest.approx(sum(sizes), rel=0.25)


@pytest.mark.looptime
async def test_a_quiet_load_is_not_believed_before_it_was_watched(tmp_path: Path) -> None:
    async with staged(cluster_spec(80.0), tmp_path, **HERE) as stage:
        await asyncio.sleep(150)
        sizes = stage.cores()
        await killed(stage)
        stage.load = 2.0
        async with again(stage) as second:
            await asyncio.sleep(58)
            assert not shrunk(second.ticks)
            assert second.cores() == sizes
            await asyncio.sleep(300)
            assert shrunk(second.ticks)


@asynccontextmanager
async def with_kept(tmp_path: Path, load: float, learned: Callable[[Stage], dict[str, Any]]) -> AsyncIterator[Stage]:
    """A life that begins with this state, left by one before."""
    async with staged(cluster_spec(10.0), tmp_path, policy=FIXED, **HERE) as stage:
        await killed(stage)
        meta = {"name": STATE, "labels": OWNER}
        await as_admin(
            stage, "POST", PATH,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta,
             "data": {"serving.resnet": json.dumps(learned(stage))}},
        )  # fmt: skip
        stage.load = load
        async with again(stage) as second:
            yield second


@pytest.mark.looptime
async def test_what_pods_can_t_use_is_not_bought_again(tmp_path: Path) -> None:
    def ceiling(stage: Stage) -> dict[str, Any]:
        return {"elastic.ceiling": 1000.0, "elastic.template": stage.pods()[0]["metadata"]["labels"][HASH]}

    async with with_kept(tmp_path, 160.0, ceiling) as stage:
        await asyncio.sleep(120)
        assert 0.5 < max(stage.cores()) <= 1.1  # a little room above
    async with staged(cluster_spec(160.0), tmp_path, policy=FIXED, **HERE) as stage:
        await asyncio.sleep(120)
        assert max(stage.cores()) > 1.3, "without it they grow"


@pytest.mark.looptime
async def test_what_was_refused_is_not_asked_for_again(tmp_path: Path) -> None:
    def refusals(stage: Stage) -> dict[str, Any]:
        keys = [f"{pod['metadata']['uid']}@{pod['spec']['nodeName']}" for pod in stage.pods()]
        now = stage.cluster.plane.timeline.wall()
        return {
            "sizes.refused": dict.fromkeys(keys, 900), "sizes.refused_why": dict.fromkeys(keys, "Unsupported"),
            "sizes.refused_at": dict.fromkeys(keys, now),
        }  # fmt: skip

    async with with_kept(tmp_path, 160.0, refusals) as stage:
        await asyncio.sleep(300)
        assert stage.cores() == [0.5, 0.5]


@pytest.mark.looptime
async def test_a_bar_on_shrinking_outlives_its_process(tmp_path: Path) -> None:
    def barred(stage: Stage) -> dict[str, Any]:
        return {"sizes.barred_until": stage.cluster.plane.timeline.wall() + 700.0}

    async with with_kept(tmp_path, 2.0, barred) as stage:
        await asyncio.sleep(690)
        assert not shrunk(stage.ticks)
        await asyncio.sleep(200)
        assert shrunk(stage.ticks)


@pytest.mark.looptime
async def test_it_is_written_seldom_and_dropped_with_its_policy(tmp_path: Path) -> None:
    async with staged(cluster_spec(60.0), tmp_path, **HERE) as stage:
        await asyncio.sleep(900)
        writes = [e.at for e in stage.cluster.audit.writes() if e.resource == "configmaps"]
        assert 1 <= len(writes) <= 10
        assert all(later - earlier >= 55.0 for earlier, later in pairwise(writes))
        (tmp_path / "policy.yaml").write_text(POLICY.replace("name: resnet, namespace", "name: other, namespace"))
        await asyncio.sleep(900)
        found = stage.cluster.plane.store.get(("", "configmaps"), NAMESPACE, STATE)
        assert found is not None
        assert set(found.body["data"]) == {"serving.other"}


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("labels", "data", "told"),
    [
        ({"app.kubernetes.io/managed-by": "inference-autoscaler"}, {"serving.resnet": "{oops", "x": "1"},
         "not understood and ignored: serving.resnet, x"),
        ({}, {"serving.resnet": '{"cost.work": 9.0}'}, "is not this program's"),
    ],
)  # fmt: skip
async def test_broken_or_foreign_content_is_one_line(
    tmp_path: Path, labels: dict[str, str], data: dict[str, str], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with staged(cluster_spec(60.0), tmp_path, **HERE) as stage:
        await killed(stage)
        if stage.cluster.plane.store.get(("", "configmaps"), NAMESPACE, STATE) is not None:
            await as_admin(stage, "DELETE", f"{PATH}/{STATE}", None)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": STATE, "labels": labels}, "data": data}
        await as_admin(stage, "POST", PATH, body)
        caplog.clear()
        async with again(stage) as second:
            await asyncio.sleep(100)
            said = [record.getMessage() for record in caplog.records if told in record.getMessage()]
            assert len(said) == 1
            assert max(second.cores()) > 0.5
            stored = stage.cluster.plane.store.get(("", "configmaps"), NAMESPACE, STATE)
            assert stored is not None
            assert (stored.body["data"] == data) == (not labels)


@pytest.mark.looptime
async def test_as_long_as_it_can_t_be_read_nothing_shrinks(tmp_path: Path) -> None:
    async with staged(cluster_spec(80.0), tmp_path, **HERE) as stage:
        await asyncio.sleep(150)
        sizes = stage.cores()
        await killed(stage)
        stage.load = 2.0
        trouble = Trouble(f"GET .*configmaps/{STATE}", code=500)
        stage.cluster.faults.troubles.append(trouble)
        async with again(stage) as second:
            await asyncio.sleep(300)
            assert second.ticks
            assert not shrunk(second.ticks)
            assert second.cores() == sizes
            stage.cluster.faults.troubles.remove(trouble)
            await asyncio.sleep(20)
            ref = second.ticks[-1].seen.subjects[0].view.ref
            assert second.ticks[-1].past[ref].cost.work == pytest.approx(0.02, rel=0.4)
            await asyncio.sleep(400)
            assert shrunk(second.ticks)
