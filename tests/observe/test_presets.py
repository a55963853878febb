"""Each preset against a page of its server."""

from __future__ import annotations

import re

import pytest

from autoscaler.model.policy import LatencyObjective
from autoscaler.model.signal import Absent, Cause, Measured, Signals
from autoscaler.observe import presets
from autoscaler.observe.answers import Asked, PodAnswer, page_roles
from autoscaler.observe.counters import CounterMemory
from autoscaler.observe.exposition import read_page
from autoscaler.observe.names import UnknownPreset, resolve
from autoscaler.observe.pages import sample_of, wanted_metrics
from autoscaler.observe.prometheus import Prometheus, PrometheusSettings
from autoscaler.observe.prometheus_source import PrometheusSource
from autoscaler.observe.readings import reduce
from tests.observe import server_pages
from tests.observe.further_pages import FURTHER
from tests.observe.mock import mock_prometheus
from tests.observe.served import pod, policy, watched

PAGES = {**server_pages.PAGES, **FURTHER}
NO_REQUESTS = {"llamacpp"}
NO_HISTOGRAM = {"torchserve", "llamacpp"}
NO_FAILURES = {"kserve-server", "llamacpp"}
NO_IN_FLIGHT = {"kserve-server", "torchserve", "istio", "linkerd", "tensorflow"}


def signals(name: str, *texts: str) -> Signals:
    """What the preset reads from a pod's pages, ten seconds apart."""
    names = resolve(policy(signals={"preset": name}))
    memory, answer = CounterMemory(), PodAnswer()
    for place, text in enumerate(texts):
        page = read_page(text, wanted_metrics(names))
        sample = sample_of(page, names, "one", 10.0 * place, memory.last("pod"))
        answer = PodAnswer(sample, memory.fold("pod", sample))
    objective = LatencyObjective(target="500ms", within="99%")
    return reduce(Asked(names, objective, 30.0, "scrape", {"pod"}, page_roles(names)), {"pod": answer})


def test_every_preset_has_a_page_of_its_server() -> None:
    assert set(PAGES) == set(presets.every())


@pytest.mark.parametrize("name", PAGES)
def test_a_preset_reads_its_server_truly(name: str) -> None:
    """100 requests in ten seconds, 10 of them slow, and 20 failed ones that were fast."""
    page = PAGES[name]
    seen = signals(name, page(200, 0, 5, 3), page(300, 10, 25, 4))
    requests = seen.requests
    failed = 0 if name in NO_FAILURES else 20
    if name in NO_REQUESTS:
        assert isinstance(requests, Absent) and requests.cause is Cause.NOT_CONFIGURED
    else:
        assert isinstance(requests, Measured)
        includes = resolve(policy(signals={"preset": name})).requests_include_failures
        assert requests.value == pytest.approx((100 + (failed if includes else 0)) / 10)
    if failed:
        assert isinstance(seen.failures, Measured) and seen.failures.value == pytest.approx(2.0)
    if name in NO_HISTOGRAM:
        assert isinstance(seen.misses, Absent) and seen.misses.cause is Cause.NOT_CONFIGURED
    else:
        assert isinstance(seen.misses, Measured), seen.misses
        expected = (10 + failed) / (100 + failed)
        near = 0.05 if name == "triton" else 1e-6  # a summary only brackets the share
        assert seen.misses.value == pytest.approx(expected, abs=near)
        assert seen.misses.weight == pytest.approx(100 + failed)
    if name in NO_IN_FLIGHT:
        assert isinstance(seen.in_flight, Absent) and seen.in_flight.cause is Cause.NOT_CONFIGURED
    else:
        assert isinstance(seen.in_flight, Measured) and seen.in_flight.value == 4
    mean = seen.mean_latency
    if name in NO_REQUESTS:
        assert isinstance(mean, Absent) and mean.cause is Cause.NOT_CONFIGURED
        return
    assert isinstance(mean, Measured) and 0.07 < mean.value < 0.8


@pytest.mark.parametrize("name", PAGES)
def test_a_page_proposes_its_preset(name: str) -> None:
    assert presets.propose(PAGES[name](10, 1, 1, 2)) == name
    assert presets.propose(PAGES[name](10, 1, 1, 2).encode()) == name


def test_a_strange_page_proposes_nothing() -> None:
    assert presets.propose("go_goroutines 7\nprocess_cpu_seconds_total 3\n") is None
    assert presets.propose("<html>login</html>") is None


def test_a_server_behind_a_sidecar_is_proposed_by_its_own_names() -> None:
    """Istio merges its metrics with the server's; both presets fit, the one with more marks wins."""
    for name in ("vllm", "sglang", "tensorflow", "triton", "bentoml", "kserve-server"):
        for beside in ("istio", "linkerd", "fastapi", "http", "otel-http"):
            assert presets.propose(PAGES[beside](10, 1, 1, 2) + PAGES[name](10, 1, 1, 2)) == name


def test_a_server_without_a_latency_is_measured_by_what_is_beside_it() -> None:
    for name in ("torchserve", "llamacpp"):
        assert presets.propose(PAGES[name](10, 1, 1, 2)) == name
        assert presets.propose(PAGES[name](10, 1, 1, 2) + PAGES["istio"](10, 1, 1, 2)) == "istio"


@pytest.mark.parametrize("label", ["code", "status", "status_code"])
def test_plain_http_names_find_the_status_in_whatever_label(label: str) -> None:
    def page(*numbers: int) -> str:
        return PAGES["http"](*numbers).replace("code=", f"{label}=")

    seen = signals("http", page(200, 0, 5, 3), page(300, 10, 25, 4))
    assert isinstance(seen.misses, Measured) and seen.misses.value == pytest.approx(30 / 120)
    assert isinstance(seen.failures, Measured) and seen.failures.value == pytest.approx(2.0)


def test_triton_without_summaries_says_what_is_missing() -> None:
    def plain(text: str) -> str:
        return "\n".join(line for line in text.splitlines() if "summary" not in line) + "\n"

    seen = signals("triton", plain(PAGES["triton"](200, 0, 5, 3)), plain(PAGES["triton"](300, 10, 25, 4)))
    assert isinstance(seen.misses, Absent) and seen.misses.cause is Cause.NO_SUCH_METRIC
    assert isinstance(seen.requests, Measured) and isinstance(seen.mean_latency, Measured)
    assert seen.mean_latency.value == pytest.approx((90 * 0.1 + 10 * 0.8) / 100)


def test_an_optional_gauge_is_missed_only_once_it_was_there() -> None:
    def without(text: str) -> str:
        return "\n".join(line for line in text.splitlines() if "inprogress" not in line) + "\n"

    page = PAGES["fastapi"]
    never = signals("fastapi", without(page(200, 0, 5, 3)), without(page(300, 10, 25, 4)))
    assert isinstance(never.in_flight, Absent) and never.in_flight.cause is Cause.NOT_CONFIGURED
    gone = signals("fastapi", page(200, 0, 5, 3), without(page(300, 10, 25, 4)))
    assert isinstance(gone.in_flight, Absent) and gone.in_flight.cause is Cause.NO_SUCH_METRIC


def test_an_unknown_preset_names_the_near_one() -> None:
    with pytest.raises(UnknownPreset, match="did you mean triton"):
        presets.get("tritn")
    with pytest.raises(UnknownPreset, match="known are bentoml, envoy"):
        presets.get("???")


def test_names_set_by_hand_replace_the_presets() -> None:
    names = resolve(
        policy(
            signals={
                "preset": "vllm",
                "latency": {"histogram": "vllm:time_to_first_token_seconds", "labels": {"model_name": "=~llama.*"}},
                "inFlight": {"gauge": "my_queue"},
            }
        )
    )
    assert names.histogram is not None and names.histogram.metric == "vllm:time_to_first_token_seconds"
    assert [str(one) for one in names.in_flight] == ["my_queue"]
    assert names.requests[0].metric == "vllm:request_success_total"
    only = resolve(policy(signals={"latency": {"histogram": "latency_ms", "unit": "ms"}}))
    assert only.requests[0].metric == "latency_ms_count" and not only.in_flight


def suffixed(page: str) -> str:
    """As a library writes it that gives every counter the suffix of OpenMetrics."""
    counters = re.findall(r"# TYPE (\S+) counter", page)
    for name in (one for one in counters if not one.endswith("_total")):
        page = re.sub(rf"(?m)^{name}(?=[{{ ])", f"{name}_total", page)
    return page


@pytest.mark.parametrize("name", ["torchserve", "kserve-revision"])
def test_a_counter_may_have_the_suffix_of_openmetrics(name: str) -> None:
    page = PAGES[name]
    plain = signals(name, page(200, 0, 5, 3), page(300, 10, 25, 4))
    with_it = signals(name, suffixed(page(200, 0, 5, 3)), suffixed(page(300, 10, 25, 4)))
    assert with_it == plain and isinstance(plain.failures, Measured)


@pytest.mark.parametrize("name", PAGES)
async def test_prometheus_reads_a_page_as_the_scraper_does(name: str) -> None:
    """The same two pages, kept by a Prometheus: the same rates, misses and requests in flight."""
    page, now = PAGES[name], 1_000_000.0
    texts = (page(200, 0, 5, 3), page(300, 10, 25, 4))
    direct = signals(name, *texts)
    async with mock_prometheus() as (mock, url), Prometheus(PrometheusSettings(url=url)) as door:
        source = PrometheusSource(door, clock=lambda: mock.now)
        workload = watched(pod("p-5d8f7c9b6-aaaaa"), policy_=policy(signals={"preset": name}))
        for place, text in enumerate(texts):
            mock.now = now + 10.0 * place
            mock.scrape(text, namespace="serving", pod="p-5d8f7c9b6-aaaaa", instance="127.0.0.1:80", job="pods")
            told = (await source.read([workload], mock.now))[workload.ref]
    for wanted in ("requests", "misses", "failures", "in_flight"):
        one, other = getattr(direct, wanted), getattr(told, wanted)
        if isinstance(one, Measured):
            assert isinstance(other, Measured), (wanted, other)
            assert other.value == pytest.approx(one.value, abs=1e-6), wanted
        else:
            assert isinstance(other, Absent) and other.cause is one.cause, (wanted, one, other)
