"""The pods behind the API: queues under a quota, their pages, what the kubelet measures of them. Virtual time."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.emulate.cluster import ClusterSpec, EmulatedCluster, LoadSpec, NodeSpec, ServiceSpec, WorkloadSpec
from autoscaler.emulate.load import Load
from tests.emulate.conftest import Ask, Json

looptime_only = pytest.mark.looptime


def serving(*, replicas: int = 1, cpu: str = "1", rate: float = 0.0, **service: Any) -> ClusterSpec:
    workload = WorkloadSpec(
        "resnet", namespace="serving", replicas=replicas, cpu=cpu, memory="512Mi", cpu_limit=cpu, memory_limit="512Mi",
        service=ServiceSpec(**({"work": 0.02} | service)), load=LoadSpec(steps=[(0.0, rate)], even=True),
    )  # fmt: skip
    return ClusterSpec(nodes=[NodeSpec("node-1", cpu="8", memory="16Gi")], workloads=[workload])


async def page(session: aiohttp.ClientSession, pod: Json) -> dict[str, float]:
    """A pod's samples, from the address a scraper finds."""
    notes = pod["metadata"]["annotations"]
    url = f"http://{pod['status']['podIP']}:{notes['prometheus.io/port']}{notes['prometheus.io/path']}"
    async with session.get(url) as response:
        assert response.status == 200
        lines = (await response.text()).splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def share_within(samples: dict[str, float], bound: str) -> float:
    inside = samples[f'request_duration_seconds_bucket{{code="200",le="{bound}"}}']
    return inside / samples['request_duration_seconds_count{code="200"}']


@looptime_only
async def test_a_resize_makes_requests_faster(session: aiohttp.ClientSession, asked: Ask) -> None:
    async with EmulatedCluster(serving(cpu="500m", rate=30.0)) as cluster:
        await cluster.settled()
        await asyncio.sleep(20.0)
        (pod,) = cluster.workload("resnet").pods()
        slow = await page(session, pod)
        assert share_within(slow, "0.5") < 0.5
        assert slow["requests_in_flight"] > 50  # 30 requests of 20 ms need 0.6 cores; there are 0.5
        await asked(cluster).resize(pod, requests={"cpu": "2"}, limits={"cpu": "2"})
        await asyncio.sleep(20.0)
        before = await page(session, pod)
        await asyncio.sleep(20.0)
        after = await page(session, pod)
        within = {name: after[name] - before[name] for name in after if "bucket" in name or "count" in name}
        assert share_within(within, "0.05") == 1.0
        assert after["requests_in_flight"] <= 2


@looptime_only
async def test_more_replicas_share_the_load_and_leaving_pods_finish_their_requests(asked: Ask) -> None:
    async with EmulatedCluster(serving(replicas=1, rate=0.0, wait=0.2, threads=32)) as cluster:
        await cluster.settled()
        workload = cluster.workload("resnet")
        workload.load = 40.0
        scale = "/apis/apps/v1/namespaces/serving/deployments/resnet/scale"
        for replicas in (3, 1):
            merge = "application/merge-patch+json"
            await asked(cluster)("PATCH", scale, {"spec": {"replicas": replicas}}, content_type=merge)
            await asyncio.sleep(30.0)
        offered, served, dropped = workload.totals()
        assert (offered >= 2399, dropped) == (True, 0)
        assert offered - served < 20


@looptime_only
async def test_a_new_pod_starts_as_slowly_as_its_template_is_small(asked: Ask) -> None:
    took = []
    for cpu in ("500m", "2"):
        async with EmulatedCluster(serving(cpu=cpu, startup=1.0, startup_cpu=10.0)) as cluster:
            begin = asyncio.get_running_loop().time()
            await cluster.settled()
            took.append(asyncio.get_running_loop().time() - begin)
    assert 20.5 < took[0] < 23
    assert 5.5 < took[1] < 8


@looptime_only
async def test_beyond_its_memory_limit_a_pod_is_killed_until_the_limit_is_raised(asked: Ask) -> None:
    async with EmulatedCluster(serving()) as cluster:
        await cluster.settled()
        (pod,) = cluster.workload("resnet").pods()
        cluster.set_memory(pod["metadata"]["name"], 600 * 2**20)
        await asyncio.sleep(120.0)
        (pod,) = cluster.workload("resnet").pods()
        status = pod["status"]["containerStatuses"][0]
        killed = status["restartCount"]
        assert killed >= 2
        assert status["lastState"]["terminated"]["reason"] == "OOMKilled"
        await asked(cluster).resize(pod, requests={"memory": "1Gi"}, limits={"memory": "1Gi"})
        await asyncio.sleep(400.0)
        await cluster.settled()
        (pod,) = cluster.workload("resnet").pods()
        rested = pod["status"]["containerStatuses"][0]["restartCount"]
        await asyncio.sleep(300.0)
        (pod,) = cluster.workload("resnet").pods()
        assert pod["status"]["containerStatuses"][0]["restartCount"] == rested <= killed + 1


@looptime_only
async def test_a_restarted_container_keeps_its_address_and_counts_from_zero(session: aiohttp.ClientSession) -> None:
    async with EmulatedCluster(serving(rate=20.0)) as cluster:
        await cluster.settled()
        await asyncio.sleep(10.0)
        (pod,) = cluster.workload("resnet").pods()
        count = 'requests_total{code="200"}'
        before = (await page(session, pod))[count]
        cluster.crash("serving", pod["metadata"]["name"])
        await asyncio.sleep(2.0)
        (again,) = cluster.workload("resnet").pods()
        assert again["metadata"]["annotations"] == pod["metadata"]["annotations"]
        assert (await page(session, again))[count] < before


@looptime_only
async def test_the_kubelets_figures_are_old_by_design(asked: Ask) -> None:
    async with EmulatedCluster(serving(replicas=3, rate=30.0)) as cluster:
        await cluster.settled()
        await asyncio.sleep(60.0)
        ask = asked(cluster)
        ages = []
        for _ in range(40):
            await asyncio.sleep(1.0)
            text = (await ask("GET", "/api/v1/nodes/node-1/proxy/metrics/cadvisor"))["text"]
            lines = [line for line in text.splitlines() if line.startswith("container_cpu_usage_seconds_total{")]
            assert len(lines) == 3
            stamps = [int(line.rsplit(" ", 1)[1]) / 1000 for line in lines]
            ages += [cluster.plane.timeline.wall() - stamp for stamp in stamps]
        assert max(ages) > 9.0
        assert max(ages) < 16.5
        assert "container_cpu_cfs_throttled_periods_total" in text
        listed = await ask("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/serving/pods")
        cores = [int(one["containers"][0]["usage"]["cpu"][:-1]) / 1e9 for one in listed["items"]]
        assert sum(cores) == pytest.approx(0.6, rel=0.25)


@looptime_only
@pytest.mark.parametrize(
    "fault", ["stale", "nan", "inf", "negative", "reset", "no-histogram", "html", "missing", "refused"]
)
async def test_pages_can_be_wrong_in_every_way(fault: str, session: aiohttp.ClientSession) -> None:
    async with EmulatedCluster(serving(rate=20.0)) as cluster:
        await cluster.settled()
        await asyncio.sleep(5.0)
        (pod,) = cluster.workload("resnet").pods()
        good = await page(session, pod)
        cluster.faults.pages["resnet"] = fault
        url = f"http://127.0.0.1:{pod['metadata']['annotations']['prometheus.io/port']}/metrics"
        if fault == "refused":
            with pytest.raises(aiohttp.ClientError):
                await session.post(url)
        elif fault in ("html", "missing"):
            async with session.get(url) as response:
                assert (response.status, response.content_type) == (
                    (200, "text/html") if fault == "html" else (404, "text/plain")
                )
        else:
            first = await page(session, pod)
            await asyncio.sleep(5.0)
            second = await page(session, pod)
            count = 'requests_total{code="200"}'
            value = second[count]
            held = {
                "stale": value == first[count] >= good[count],
                "nan": value != value,
                "inf": value == float("inf"),
                "negative": value < 0,
                "reset": 0 < value < good[count] + 100,
                "no-histogram": not any("bucket" in name for name in second),
            }
            assert held[fault]
        cluster.faults.pages.clear()
        assert (await page(session, pod))['requests_total{code="200"}'] >= 0


@looptime_only
async def test_one_port_for_all_pages_when_there_are_many_pods(session: aiohttp.ClientSession) -> None:
    shared = serving(replicas=3, rate=30.0)
    async with EmulatedCluster(
        ClusterSpec(nodes=shared.nodes, workloads=shared.workloads, shared_pages=True)
    ) as cluster:
        await cluster.settled()
        await asyncio.sleep(5.0)
        pods = cluster.workload("resnet").pods()
        assert len({pod["metadata"]["annotations"]["prometheus.io/port"] for pod in pods}) == 1
        assert all([(await page(session, pod))['requests_total{code="200"}'] > 0 for pod in pods])


@given(
    steps=st.lists(st.tuples(st.floats(0, 20), st.floats(0, 30)), max_size=4),
    cuts=st.lists(st.floats(0, 30), max_size=6),
    even=st.booleans(),
    ramp=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_arrivals_are_in_order_and_inside_what_was_asked_for(
    steps: list[tuple[float, float]], cuts: list[float], even: bool, ramp: bool
) -> None:
    load = Load(steps, even=even, ramp=ramp)
    edges = sorted({0.0, *cuts, 30.0})
    for begin, end in itertools.pairwise(edges):
        arrivals = list(load.between(begin, end))
        assert arrivals == sorted(arrivals)
        assert all(begin <= at <= end for at in arrivals)


def test_an_even_load_gives_its_rate_however_it_is_cut() -> None:
    whole = len(list(Load([(0.0, 7.0)], even=True).between(0.0, 100.0)))
    load = Load([(0.0, 7.0)], even=True)
    pieces = sum(len(list(load.between(at / 10, (at + 1) / 10))) for at in range(1000))
    assert whole == pytest.approx(700, abs=1)
    assert pieces == pytest.approx(700, abs=1)
