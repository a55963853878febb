"""The order of fallback, signal by signal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.model.signal import Absent, Cause, Measured, Signals
from autoscaler.model.workload import WorkloadRef
from autoscaler.observe.fallback import Fallback
from autoscaler.observe.ports import Watched
from autoscaler.observe.scrape import ScrapeSource
from tests.observe.served import Server, pages, pod, policy, watched

DOWN = Absent(Cause.SOURCE_DOWN, "connection refused", "prometheus")


@dataclass
class Told:
    """A source that says what it is told to say."""

    name: str
    signals: Signals
    asked: list[WorkloadRef] = field(default_factory=list)
    error: Exception | None = None

    async def read(self, workloads: Sequence[Watched], at: float) -> Mapping[WorkloadRef, Signals]:
        self.asked += [one.ref for one in workloads]
        if self.error:
            raise self.error
        return {one.ref: self.signals for one in workloads}


def _of(source: str, *names: str) -> Signals:
    return Signals(**{name: Measured(1.0, source=source) for name in names})  # type: ignore[arg-type]


PAGE = ("requests", "misses", "failures", "in_flight")


async def test_the_first_that_has_a_signal_answers_for_it() -> None:
    down = Signals(**dict.fromkeys((*PAGE, "cpu", "working_set"), DOWN))  # type: ignore[arg-type]
    sources = [
        Told("prometheus", down),
        Told("scrape", _of("scrape", *PAGE)),
        Told("kubelet", _of("kubelet", "cpu", "working_set")),
    ]
    workload = watched(pod("a"))
    seen = (await Fallback(sources).read([workload], 0.0))[workload.ref]
    assert isinstance(seen.misses, Measured) and seen.misses.source == "scrape"
    assert isinstance(seen.cpu, Measured) and seen.cpu.source == "kubelet"


async def test_what_is_settled_is_not_asked_again() -> None:
    first = Told("prometheus", _of("prometheus", *PAGE, "cpu", "working_set"))
    second = Told("scrape", _of("scrape", *PAGE))
    workload = watched(pod("a"))
    await Fallback([second, first]).read([workload], 0.0)
    assert first.asked == [workload.ref] and not second.asked


async def test_no_traffic_is_an_answer() -> None:
    quiet = Signals(
        requests=Measured(0.0), misses=Absent(Cause.NO_TRAFFIC), failures=Measured(0.0), in_flight=Measured(0.0),
        cpu=Measured(0.1), working_set=Measured(1.0),
    )  # fmt: skip
    second = Told("scrape", _of("scrape", *PAGE))
    workload = watched(pod("a"))
    seen = (await Fallback([Told("prometheus", quiet), second]).read([workload], 0.0))[workload.ref]
    assert isinstance(seen.misses, Absent) and not second.asked


async def test_the_containers_cpu_beats_the_processes() -> None:
    scraped = Signals(cpu=Measured(0.3, source="scrape (process)"))
    sources = [Told("scrape", scraped), Told("kubelet", _of("kubelet", "cpu", "working_set"))]
    workload = watched(pod("a"))
    seen = (await Fallback(sources).read([workload], 0.0))[workload.ref]
    assert isinstance(seen.cpu, Measured) and seen.cpu.source == "kubelet"
    alone = (await Fallback(sources[:1]).read([workload], 0.0))[workload.ref]
    assert isinstance(alone.cpu, Measured) and "process" in alone.cpu.source


async def test_the_policys_order_and_a_source_that_breaks() -> None:
    broken = Told("prometheus", Signals(), error=RuntimeError("bug"))
    sources = [broken, Told("scrape", _of("scrape", *PAGE))]
    workload = watched(pod("a"), policy_=policy(signals={"preset": "generic", "sources": ["scrape", "prometheus"]}))
    seen = (await Fallback(sources).read([workload], 0.0))[workload.ref]
    assert isinstance(seen.requests, Measured) and isinstance(seen.cpu, Absent)
    assert seen.cpu.cause is Cause.SOURCE_DOWN and "bug" in seen.cpu.detail
    none = watched(pod("a"), policy_=policy(signals={"preset": "generic", "sources": ["kubelet"]}))
    nobody = (await Fallback(sources).read([none], 0.0))[none.ref]
    assert isinstance(nobody.requests, Absent) and nobody.requests.cause is Cause.NOT_CONFIGURED


async def test_policies_of_different_orders_leave_each_others_counters_alone() -> None:
    """The same source comes first for one workload and second for the other: both have rates."""
    servers = {"a": Server(), "b": Server()}
    async with pages({name: server.page for name, server in servers.items()}) as port, ScrapeSource() as scraper:
        both = Fallback([Told("prometheus", Signals()), scraper])
        first, second = (
            watched(
                pod(f"{name}-5d8f7c9b6-aaaaa", port, path=f"/{name}"),
                policy_=policy(name, signals={"preset": "generic", "sources": sources}),
            )
            for name, sources in (("a", ["scrape"]), ("b", ["prometheus", "scrape"]))
        )
        for _ in range(3):
            for server in servers.values():
                server.serve(10, 0.1)
            seen = await both.read([first, second], 0.0)
        for workload in (first, second):
            assert isinstance(seen[workload.ref].requests, Measured), seen[workload.ref].requests
