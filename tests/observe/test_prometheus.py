"""Through Prometheus: whose series count, how answers fail, what users asked for, how many queries it takes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from autoscaler.model.signal import Absent, Cause, Measured, Signals
from autoscaler.observe.ports import Watched
from autoscaler.observe.prometheus import Prometheus, PrometheusSettings, QueryRefused, Unavailable
from autoscaler.observe.prometheus_source import PrometheusSource
from tests.observe.mock import MockPrometheus, mock_prometheus
from tests.observe.served import Server, pod, policy, serving, watched

NAME = "resnet-5d8f7c9b6-aaaaa"


class Rig:
    def __init__(self, mock: MockPrometheus, prometheus: Prometheus) -> None:
        self.mock, self.prometheus = mock, prometheus
        self.source = PrometheusSource(prometheus, clock=lambda: mock.now)
        self.server = Server()

    def scrape(
        self, seconds: float = 15.0, name: str = NAME, instance: str = "127.0.0.1:80", job: str = "pods"
    ) -> None:
        self.mock.now += seconds
        self.mock.scrape(self.server.page(), namespace="serving", pod=name, instance=instance, job=job)

    async def read(self, *workloads: Watched) -> Signals:
        asked = workloads or (watched(pod(NAME)),)
        return (await self.source.read(asked, self.mock.now))[asked[0].ref]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with mock_prometheus() as (mock, url), Prometheus(PrometheusSettings(url=url)) as prometheus:
        yield Rig(mock, prometheus)


async def test_the_first_read_has_rates_from_the_minute_before(rig: Rig) -> None:
    rig.scrape()
    rig.server.serve(60, 0.1)
    rig.scrape(60.0)
    seen = await rig.read()
    assert isinstance(seen.requests, Measured) and seen.requests.value == pytest.approx(1.0)


async def test_between_two_scrapes_the_last_growth_grows_older(rig: Rig) -> None:
    rig.scrape()
    await rig.read()
    rig.server.serve(30, 0.1)
    rig.scrape()
    first = await rig.read()
    rig.mock.now += 5
    second = await rig.read()
    assert isinstance(first.requests, Measured) and isinstance(second.requests, Measured)
    assert second.requests.value == first.requests.value == 2.0
    assert second.requests.age_s == pytest.approx(first.requests.age_s + 5)


async def test_series_of_other_pods_and_other_lives_never_count(rig: Rig) -> None:
    """A deleted pod, a pod of someone else, an earlier address of the same name, a second scrape of the same target."""
    for _ in range(2):
        rig.server.serve(30, 0.1)
        rig.scrape()
        for name, instance, job in (
            ("resnet-5d8f7c9b6-zzzzz", "10.0.0.9:80", "pods"),
            (NAME, "10.9.9.9:80", "pods"),
            (NAME, "127.0.0.1:80", "pods-again"),
        ):
            rig.scrape(0.0, name, instance, job)
        seen = await rig.read()
    assert isinstance(seen.requests, Measured) and seen.requests.value == pytest.approx(2.0)
    assert seen.requests.coverage == 1.0 and isinstance(seen.misses, Measured) and seen.misses.weight == 30


async def test_samples_from_before_the_containers_start_are_stale(rig: Rig) -> None:
    rig.scrape()
    restarted = watched(pod(NAME, started_at=rig.mock.now + 30))
    rig.mock.now += 31
    seen = await rig.read(restarted)
    assert isinstance(seen.requests, Absent) and seen.requests.cause is Cause.STALE


async def test_a_warning_makes_values_partial(rig: Rig) -> None:
    rig.scrape()
    await rig.read()
    rig.server.serve(30, 0.1)
    rig.scrape()
    rig.mock.warnings = ["store s1 did not answer"]
    seen = await rig.read()
    assert isinstance(seen.requests, Measured) and seen.requests.coverage < 1 and "s1" in seen.requests.note
    unseen = await rig.read(watched(pod(NAME), pod("resnet-5d8f7c9b6-bbbbb")))
    assert isinstance(unseen.pods["uid-resnet-5d8f7c9b6-bbbbb"].requests, Absent)
    assert unseen.pods["uid-resnet-5d8f7c9b6-bbbbb"].requests.cause is Cause.PARTIAL


async def test_queries_do_not_grow_with_the_workloads(rig: Rig) -> None:
    many = [watched(pod(f"m{n}-5d8f7c9b6-aaaaa"), policy_=policy(f"m{n}")) for n in range(60)]
    counts = []
    for workloads in (many[:2], many):
        for _ in range(3):
            rig.mock.now += 15
            for one in workloads:
                rig.mock.scrape(rig.server.page(), namespace="serving", pod=one.pods[0].name, instance="127.0.0.1:80")
            before = len(rig.mock.queries)
            await rig.read(*workloads)
            counts.append(len(rig.mock.queries) - before)
    assert max(counts) <= 5  # the first read of new workloads looks back; it is two or three after that
    assert max(counts[4:]) <= 3


async def test_a_workload_with_its_own_bounds_is_found_out(rig: Rig) -> None:
    rig.scrape()
    strange = "odd-5d8f7c9b6-aaaaa"
    workloads = (watched(pod(strange), policy_=policy("odd")), watched(pod(NAME)))
    for turn in range(4):
        rig.server.serve(20, 0.1)
        page = rig.server.page().replace('le="0.5"', 'le="0.45"')
        rig.scrape()
        rig.mock.scrape(page, namespace="serving", pod=strange, instance="127.0.0.1:80", job="pods")
        seen = await rig.read(*workloads)
        if turn == 3:
            assert isinstance(seen.misses, Measured) and seen.misses.value == 0.0
            assert seen.misses.note in ("", "counted at 0.45s")


async def test_users_queries_bring_their_age_and_only_one_number(rig: Rig) -> None:
    rig.server.in_flight = 6
    rig.scrape()
    metrics = [
        {"name": "queue", "query": "sum(requests_in_flight)", "target": {"type": "AverageValue", "value": 2}},
        {"name": "many", "query": "requests_total", "target": {"type": "Value", "value": 2}},
        {"name": "none", "query": "sum(absent_metric)", "target": {"type": "Value", "value": 2}},
    ]
    rig.server.fail(1)
    rig.scrape()
    rig.mock.now += 4
    asked = watched(pod(NAME), pod("resnet-5d8f7c9b6-bbbbb"), policy_=policy(objective={"metrics": metrics}))
    seen = await rig.read(asked)
    queue = seen.custom["queue"]
    assert isinstance(queue, Measured) and queue.value == 3.0 and queue.age_s == pytest.approx(4.0)
    many, none = seen.custom["many"], seen.custom["none"]
    assert isinstance(many, Absent) and many.cause is Cause.CONTRADICTORY
    assert isinstance(none, Absent) and none.cause is Cause.NO_SUCH_METRIC


async def test_a_users_query_lasts_for_two_scrapes_of_what_it_reads(rig: Rig) -> None:
    metrics = [{"name": "queue", "query": "sum(requests_in_flight)", "target": {"type": "Value", "value": 2}}]
    usual = watched(pod(NAME), policy_=policy(objective={"metrics": metrics}))
    strict = watched(
        pod(NAME), policy_=policy(objective={"metrics": metrics}, signals={"preset": "generic", "maxAge": "20s"})
    )
    for _ in range(3):
        rig.scrape(60.0)
        for workload in (usual, strict):
            fresh = (await rig.read(workload)).custom["queue"]
            assert isinstance(fresh, Measured)
    rig.mock.now += 50
    late = (await rig.read(usual)).custom["queue"]
    assert isinstance(late, Measured) and late.age_s == pytest.approx(50.0) and late.fresh(30.0)
    told = (await rig.read(strict)).custom["queue"]
    assert isinstance(told, Absent) and told.cause is Cause.STALE
    rig.mock.now += 80
    gone = (await rig.read(usual)).custom["queue"]
    assert isinstance(gone, Absent) and gone.cause is Cause.STALE


async def test_windows_follow_the_scrape_intervals_of_each_job_also_when_they_change(rig: Rig) -> None:
    """Ten requests a second on two servers; one is scraped every 5 s and later 30 s, the other 60 s and later 10 s."""
    fast, slow = (watched(pod(f"{name}-5d8f7c9b6-aaaaa"), policy_=policy(name)) for name in ("fast", "slow"))
    windows: dict[str, list[float]] = {"fast": [], "slow": []}
    for turn in range(80):
        rig.server.serve(50, 0.1)
        rig.mock.now += 5.0
        for name, every in (("fast", 1 if turn < 40 else 6), ("slow", 12 if turn < 40 else 2)):
            if turn % every == 0:
                rig.scrape(0.0, f"{name}-5d8f7c9b6-aaaaa", job=name)
        seen = await rig.source.read([fast, slow], rig.mock.now)
        for workload in (fast, slow):
            signals, name = seen[workload.ref], workload.ref.name
            if turn < 2 or (name == "slow" and turn < 24):
                continue  # a baseline, and a pace, take their scrapes
            assert isinstance(signals.requests, Measured), (turn, name, signals.requests)
            assert signals.requests.value == pytest.approx(10.0) and signals.requests.fresh(30.0), (turn, name)
            assert isinstance(signals.misses, Measured) and signals.misses.value == 0.0
            windows[name].append(signals.requests.window_s)
    assert set(windows["fast"][:30]) == {5.0} and windows["fast"][-1] == 30.0
    assert windows["slow"][0] == 60.0 and set(windows["slow"][-30:]) == {10.0}


async def test_a_tenants_query_stays_in_its_namespace(rig: Rig) -> None:
    rig.source = PrometheusSource(rig.prometheus, clock=lambda: rig.mock.now, confine=lambda _: True)
    rig.scrape()
    metrics = [
        {"name": "own", "query": "sum(requests_in_flight)", "target": {"type": "Value", "value": 2}},
        {"name": "spy", "query": 'sum(secrets{namespace="kube-system"})', "target": {"type": "Value", "value": 2}},
    ]
    seen = await rig.read(watched(pod(NAME), policy_=policy(objective={"metrics": metrics})))
    assert isinstance(seen.custom["own"], Measured)
    assert isinstance(seen.custom["spy"], Absent) and seen.custom["spy"].cause is Cause.REFUSED
    assert not any("kube-system" in query for query in rig.mock.queries)
    assert all('namespace="serving"' in query for query in rig.mock.queries if "age 0" in query)


async def test_credentials_headers_and_the_query_travel_as_they_should(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    seen: list[tuple[str, str, str]] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        form = await request.post()
        seen.append((request.headers["Authorization"], request.headers["X-Scope-OrgID"], str(form["query"])))
        assert not request.query_string
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": []}})

    async with serving(answer) as port:
        settings = PrometheusSettings(
            url=f"http://127.0.0.1:{port}/", bearer_token_file=token, headers={"X-Scope-OrgID": "t1"}, threads=1
        )
        async with Prometheus(settings) as prometheus:
            await prometheus.ask('up{a="b c"}')
            token.write_text("second\n")
            await prometheus.ask("up")
    assert seen == [("Bearer first", "t1", 'up{a="b c"}'), ("Bearer second", "t1", "up")]


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (lambda: web.Response(status=503), Unavailable, "HTTP 503"),
        (lambda: web.Response(text="<html>", content_type="text/html"), Unavailable, "answers text/html"),
        (lambda: web.Response(status=302, headers={"Location": "http://x/"}), Unavailable, "redirects"),
        (lambda: web.Response(status=401), QueryRefused, "refuses the credentials"),
        (lambda: web.Response(status=404), Unavailable, "no query API"),
        (lambda: web.json_response({"status": "error", "error": "too deep"}, status=422), QueryRefused, "too deep"),
        (lambda: web.Response(body=b" " * 3_000_000), Unavailable, "larger than"),
    ],
)
async def test_answers_that_are_none_are_one_of_two_errors(answer, error: type[Exception], said: str) -> None:  # type: ignore[no-untyped-def]
    async def handle(_: web.BaseRequest) -> web.StreamResponse:
        return answer()

    async with serving(handle) as port:
        settings = PrometheusSettings(url=f"http://127.0.0.1:{port}", query_s=1.0, answer_bytes=2**20)
        async with Prometheus(settings) as prometheus:
            with pytest.raises(error, match=said):
                await prometheus.ask("up")


async def test_a_dripping_server_is_cut_off() -> None:
    async def drip(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" ")
        except ConnectionError:
            return response

    async with serving(drip) as port:
        settings = PrometheusSettings(url=f"http://127.0.0.1:{port}", query_s=0.3)
        async with Prometheus(settings) as prometheus:
            with pytest.raises(Unavailable, match=r"no answer in|larger"):
                await prometheus.ask("up")
