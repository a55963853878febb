"""Signals straight from the pods' own pages, without Prometheus: one scrape of each pod a read.

    source = ScrapeSource()
    async with source:
        await source.read(watched, at)      # the first read of a pod is its baseline: rates come with the second

Where the page is: ``signals.scrape`` of the policy, else the pod's ``prometheus.io/port|path|scheme`` annotations, else
where the preset's server has it, else port 8000 and ``/metrics``; always of the pod's own IP.
``prometheus.io/scrape: "false"`` is obeyed unless the policy names a port.
A page may mean harm: no redirect is followed (but to the same page with a slash), compressed answers are refused, and
size, time and the number of pages read at once are bounded; what passes a bound is an absent signal with that reason.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType

import aiohttp
from yarl import URL

from autoscaler.model.signal import Absent, Cause, Signals
from autoscaler.model.workload import Pod, WorkloadRef
from autoscaler.observe.answers import Asked, PodAnswer, expected_pods, page_roles
from autoscaler.observe.counters import CounterMemory
from autoscaler.observe.exposition import (
    MAX_LINE_BYTES,
    MAX_PAGE_BYTES,
    Page,
    PageRefused,
    PageScanner,
    PageTooLarge,
    family_names,
)
from autoscaler.observe.merging import absent_signals
from autoscaler.observe.names import SignalNames, resolve
from autoscaler.observe.pages import sample_of, wanted_metrics
from autoscaler.observe.ports import Watched
from autoscaler.observe.readings import reduce

ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
DEFAULT_PORT = 8000
DEFAULT_PATH = "/metrics"
MAX_NAMES = 50_000
BARRED_S = (5.0, 30.0)
"""A page that passes a bound is left alone for the first, then twice as long each time, up to the second: reading one
to its bound costs as much as a thousand good ones."""
REDIRECTS = frozenset({301, 302, 307, 308})


@dataclass(frozen=True, slots=True)
class ScrapeLimits:
    """``page_s``: one page, ``read_s``: all pages of one read, both in seconds; ``at_once``: open requests."""

    page_s: float = 2.0
    read_s: float = 4.0
    at_once: int = 64
    page_bytes: int = MAX_PAGE_BYTES


class ScrapeSource:
    """``host``: scrape this address instead of the pods' own (a sidecar says 127.0.0.1). ``tls``: for https pages."""

    name = "scrape"

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

    async def __aenter__(self) -> ScrapeSource:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
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
        return PodAnswer(sample, growth, age_s=max(0.0, self._clock() - at))

    async def _fetch(self, url: str, names: SignalNames) -> tuple[Page, float]:
        if self._session is None:
            self._session = _session(self.limits)
        at = self._clock()
        async with _page(self._session, url, self._tls) as response:
            scanner = PageScanner(
                wanted_metrics(names),
                max_bytes=self.limits.page_bytes,
                openmetrics="openmetrics" in response.headers.get("Content-Type", ""),
            )
            async for chunk in response.content.iter_chunked(64 * 1024):
                scanner.feed(chunk)
        return scanner.finish(), at


def _session(limits: ScrapeLimits) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=limits.at_once, keepalive_timeout=20.0),
        headers={"Accept": ACCEPT, "Accept-Encoding": "identity", "User-Agent": "inference-autoscaler"},
        timeout=aiohttp.ClientTimeout(total=limits.page_s),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
    )


@asynccontextmanager
async def _page(
    session: aiohttp.ClientSession, url: str, tls: ssl.SSLContext | None
) -> AsyncIterator[aiohttp.ClientResponse]:
    """A response that may be a page of metrics. Raises PageRefused where it is none, OSError for a server's error."""
    trust = tls if tls is not None else True
    async with AsyncExitStack() as open_:
        response = await open_.enter_async_context(session.get(url, allow_redirects=False, ssl=trust))
        if response.status in REDIRECTS and _with_slash(response):
            response = await open_.enter_async_context(session.get(url + "/", allow_redirects=False, ssl=trust))
        if response.status >= 500:
            raise OSError(f"HTTP {response.status}")
        if 300 <= response.status < 400:
            where = response.headers.get("Location", "")[:60]
            raise PageRefused(f"HTTP {response.status}: leads to {where!r}, redirects are not followed")
        if response.status != 200:
            raise PageRefused(f"HTTP {response.status}")
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise PageRefused("compressed although that was not asked for")
        kind = response.headers.get("Content-Type", "")
        if "html" in kind:
            raise PageRefused("an HTML page, not metrics")
        if "protobuf" in kind:
            raise PageRefused("in the protobuf format although text was asked for")
        yield response


def _with_slash(response: aiohttp.ClientResponse) -> bool:
    """Whether it leads to the same page of the same server, with a slash at the end: frameworks that have the page
    mounted below them do that. No other redirect is followed: a pod must not choose what this process asks."""
    try:
        leads = response.url.join(URL(response.headers.get("Location", "")))
    except ValueError:
        return False
    return not response.url.path.endswith("/") and leads == response.url.with_path(response.url.path + "/")


async def names_on_page(pod: Pod, names: SignalNames, limits: ScrapeLimits | None = None) -> set[str] | Absent:
    """What families a pod's page shows, to tell which server it is; no sample of it is kept."""
    url, bounds = page_url(pod, names), limits or ScrapeLimits()
    if isinstance(url, Absent):
        return url
    shown: set[str] = set()
    try:
        async with asyncio.timeout(bounds.page_s), _session(bounds) as session, _page(session, url, None) as response:
            size, rest = 0, b""
            async for chunk in response.content.iter_chunked(64 * 1024):
                size += len(chunk)
                if size > bounds.page_bytes or len(rest) > MAX_LINE_BYTES:
                    raise PageRefused(f"larger than {bounds.page_bytes / 2**20:.3g} MiB, or without lines")
                whole, _, rest = (rest + chunk).rpartition(b"\n")
                shown |= family_names(whole)
                if len(shown) > MAX_NAMES:
                    raise PageRefused(f"more than {MAX_NAMES} names")
            return shown | family_names(rest)
    except PageRefused as refused:
        return Absent(Cause.REFUSED, f"{url}: {refused}", ScrapeSource.name)
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
        return Absent(Cause.SOURCE_DOWN, f"{url}: {str(error)[:120] or type(error).__name__}", ScrapeSource.name)


def page_url(pod: Pod, names: SignalNames, host: str | None = None) -> str | Absent:
    """Where this pod's page is, or why it can't be asked."""
    notes = pod.annotations
    if names.port is None and notes.get("prometheus.io/scrape", "true").lower() == "false":
        return Absent(Cause.NOT_CONFIGURED, "the pod says prometheus.io/scrape: false", ScrapeSource.name)
    address = host or pod.ip
    if not address:
        return Absent(Cause.SOURCE_DOWN, f"pod {pod.name} has no IP yet", ScrapeSource.name)
    written = notes.get("prometheus.io/port", "").strip()
    if names.port is None and written and not (written.isascii() and written.isdigit()):
        said = f"pod {pod.name}: annotation prometheus.io/port is {written[:20]!r}, not a number"
        return Absent(Cause.NOT_CONFIGURED, said, ScrapeSource.name)
    port = names.port or int(written or names.usual_port or DEFAULT_PORT)
    path = names.path or notes.get("prometheus.io/path") or names.usual_path or DEFAULT_PATH
    scheme = (names.scheme or notes.get("prometheus.io/scheme") or "http").lower()
    if not 0 < port < 65536 or scheme not in ("http", "https"):
        return Absent(Cause.NOT_CONFIGURED, f"pod {pod.name}: no page at {scheme}, port {port}", ScrapeSource.name)
    shown = f"[{address}]" if ":" in address else address
    return f"{scheme}://{shown}:{port}/{path.lstrip('/')}"


def incarnation(pod: Pod, container: str) -> tuple[str, float | None, int]:
    """What changes when a pod's counters begin again at zero."""
    found = pod.container(container) or (pod.containers[0] if pod.containers else None)
    return (pod.uid, found.started_at, found.restart_count) if found else (pod.uid, None, 0)
