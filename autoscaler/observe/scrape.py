"""Signals straight from the pods' own pages, without Prometheus: one scrape of each pod a read.

    source = ScrapeSource()
    async with source:
        await source.read(watched, at)      # the first read of a pod is its baseline: rates come with the second

Where each page is, and what is refused before it is read, is in ``page_door``. A page may mean harm: size, time and the
number of pages read at once are bounded; what passes a bound is an absent signal with that reason.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

import aiohttp

from autoscaler.model.signal import Absent, Cause, Signals
from autoscaler.model.workload import Pod, WorkloadRef
from autoscaler.observe.answers import Asked, PodAnswer, expected_pods, page_roles
from autoscaler.observe.counters import CounterMemory
from autoscaler.observe.exposition import Page, PageRefused, PageScanner, PageTooLarge
from autoscaler.observe.merging import absent_signals
from autoscaler.observe.names import SignalNames, resolve
from autoscaler.observe.page_door import SOURCE, ScrapeLimits, new_session, opened_page, page_url
from autoscaler.observe.pages import sample_of, wanted_metrics
from autoscaler.observe.ports import Watched
from autoscaler.observe.readings import reduce

BARRED_S = (5.0, 30.0)
"""A page that passes a bound is left alone for the first, then twice as long each time, up to the second: reading one
to its bound costs as much as a thousand good ones."""


class ScrapeSource:
    """``host``: scrape this address instead of the pods' own (a sidecar says 127.0.0.1). ``tls``: for https pages."""

    name = SOURCE

    def __init__(
        self,
        *,
        limits: ScrapeLimits | None = None,
        host: str | None = None,
        tls: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or ScrapeLimits()
        self._host = host
        self._tls = tls
        self._clock = clock
        self._memory = CounterMemory()
        self._barred: dict[tuple[WorkloadRef, str], tuple[float, float, Absent]] = {}
        """Until when, for how long, and why."""
        self._session: aiohttp.ClientSession | None = None
        self._others: list[ScrapeSource] = []

    def again(self) -> ScrapeSource:
        """Closed with this one."""
        other = ScrapeSource(limits=self.limits, host=self._host, tls=self._tls, clock=self._clock)
        self._others.append(other)
        return other

    async def __aenter__(self) -> ScrapeSource:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        for other in self._others:
            await other.close()
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def read(self, workloads: Sequence[Watched], at: float) -> Mapping[WorkloadRef, Signals]:
        """Scrapes every active pod of the workloads once, then reduces what came back."""
        chosen: list[tuple[Watched, SignalNames, tuple[Pod, ...]]] = []
        found: dict[WorkloadRef, Signals] = {}
        for watched in workloads:
            try:
                names = resolve(watched.policy)
            except ValueError as wrong:
                found[watched.ref] = absent_signals(Absent(Cause.NOT_CONFIGURED, str(wrong), self.name))
                continue
            pods = tuple(pod for pod in watched.pods if pod.active and pod.phase == "Running")
            chosen.append((watched, names, pods))
        answers = await self._scrape_all(chosen)
        for watched, names, pods in chosen:
            asked = Asked(
                names=names,
                objective=watched.policy.spec.objective.latency,
                max_age_s=watched.policy.spec.signals.max_age,
                age_fixed=watched.policy.spec.signals.max_age_set,
                source=self.name,
                expected={pod.uid for pod in expected_pods(pods)},
                roles=page_roles(names),
            )
            found[watched.ref] = reduce(asked, answers[watched.ref])
        return found

    async def _scrape_all(
        self, chosen: Sequence[tuple[Watched, SignalNames, tuple[Pod, ...]]]
    ) -> dict[WorkloadRef, dict[str, PodAnswer]]:
        answers: dict[WorkloadRef, dict[str, PodAnswer]] = {watched.ref: {} for watched, _, _ in chosen}
        work = [(watched, names, pod) for watched, names, pods in chosen for pod in pods]
        queue = iter(work)

        async def worker() -> None:
            for watched, names, pod in queue:  # one iterator for all workers: each pod is taken once
                answers[watched.ref][pod.uid] = await self._scrape_pod(watched, names, pod)

        try:
            async with asyncio.timeout(self.limits.read_s), asyncio.TaskGroup() as group:
                for _ in range(min(self.limits.at_once, len(work))):
                    group.create_task(worker())
        except TimeoutError:
            late = Absent(Cause.SOURCE_DOWN, f"not scraped within {self.limits.read_s:g}s", self.name)
            for watched, _, pod in work:
                answers[watched.ref].setdefault(pod.uid, PodAnswer(why=late))
        live = {(watched.ref, pod.uid) for watched, _, pods in chosen for pod in pods}
        self._memory.prune(live)
        self._barred = {key: barred for key, barred in self._barred.items() if key in live}
        return answers

    async def _scrape_pod(self, watched: Watched, names: SignalNames, pod: Pod) -> PodAnswer:
        url = page_url(pod, names, self._host)
        if isinstance(url, Absent):
            return PodAnswer(why=url)
        key = (watched.ref, pod.uid)
        until, barred_s, why = self._barred.get(key, (0.0, 0.0, None))
        if why is not None and self._clock() < until:
            return PodAnswer(why=why)
        try:
            async with asyncio.timeout(self.limits.page_s):
                page, at = await self._fetch(url, names)
        except PageTooLarge as large:
            wait = min(max(BARRED_S[0], 2 * barred_s), BARRED_S[1])
            why = Absent(Cause.REFUSED, f"{url}: {large}, left alone for {wait:g}s", self.name)
            self._barred[key] = (self._clock() + wait, wait, why)
            return PodAnswer(why=why)
        except PageRefused as refused:
            return PodAnswer(why=Absent(Cause.REFUSED, f"{url}: {refused}", self.name))
        except TimeoutError:
            return PodAnswer(why=Absent(Cause.SOURCE_DOWN, f"{url}: no page in {self.limits.page_s:g}s", self.name))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            said = str(error) or type(error).__name__
            return PodAnswer(why=Absent(Cause.SOURCE_DOWN, f"{url}: {said[:120]}", self.name))
        self._barred.pop(key, None)
        sample = sample_of(page, names, incarnation(pod, watched.container), at, self._memory.last(key))
        growth = self._memory.fold(key, sample)
        return PodAnswer(sample, growth, age_s=max(0.0, self._clock() - sample.at))

    async def _fetch(self, url: str, names: SignalNames) -> tuple[Page, float]:
        if self._session is None:
            self._session = new_session(self.limits)
        at = self._clock()
        async with opened_page(self._session, url, self._tls) as response:
            scanner = PageScanner(
                wanted_metrics(names),
                max_bytes=self.limits.page_bytes,
                openmetrics="openmetrics" in response.headers.get("Content-Type", ""),
            )
            async for chunk in response.content.iter_chunked(64 * 1024):
                scanner.feed(chunk)
        return scanner.finish(), at


def incarnation(pod: Pod, container: str) -> tuple[str, float | None, int]:
    """What changes when a pod's counters begin again at zero."""
    found = pod.container(container) or (pod.containers[0] if pod.containers else None)
    return (pod.uid, found.started_at, found.restart_count) if found else (pod.uid, None, 0)
