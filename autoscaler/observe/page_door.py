"""The door to the pods' pages: where a page is, one session for all of them, and what is refused before it is read.

Where a page is: ``signals.scrape`` of the policy, else the pod's ``prometheus.io/port|path|scheme`` annotations, else
where the preset's server has it, else port 8000 and ``/metrics``; always of the pod's own IP.
``prometheus.io/scrape: "false"`` is obeyed unless the policy names a port. No redirect is followed, but to the same
page with a slash, and compressed answers are refused.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import aiohttp
from yarl import URL

from autoscaler.model.signal import Absent, Cause
from autoscaler.model.workload import Pod
from autoscaler.observe.exposition import MAX_LINE_BYTES, MAX_PAGE_BYTES, PageRefused, family_names
from autoscaler.observe.names import SignalNames

SOURCE = "scrape"
ACCEPT = "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1"
"""Text first: in OpenMetrics libraries add _total to counters that their servers' documentation writes without it."""
DEFAULT_PORT = 8000
DEFAULT_PATH = "/metrics"
MAX_NAMES = 50_000
REDIRECTS = frozenset({301, 302, 307, 308})


@dataclass(frozen=True, slots=True)
class ScrapeLimits:
    """``page_s``: one page, ``read_s``: all pages of one read, both in seconds; ``at_once``: open requests."""

    page_s: float = 2.0
    read_s: float = 4.0
    at_once: int = 64
    page_bytes: int = MAX_PAGE_BYTES


def new_session(limits: ScrapeLimits) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=limits.at_once, keepalive_timeout=20.0),
        headers={"Accept": ACCEPT, "Accept-Encoding": "identity", "User-Agent": "inference-autoscaler"},
        timeout=aiohttp.ClientTimeout(total=limits.page_s),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
    )


@asynccontextmanager
async def opened_page(
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
        async with (
            asyncio.timeout(bounds.page_s),
            new_session(bounds) as session,
            opened_page(session, url, None) as response,
        ):
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
        return Absent(Cause.REFUSED, f"{url}: {refused}", SOURCE)
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
        return Absent(Cause.SOURCE_DOWN, f"{url}: {str(error)[:120] or type(error).__name__}", SOURCE)


def page_url(pod: Pod, names: SignalNames, host: str | None = None) -> str | Absent:
    """Where this pod's page is, or why it can't be asked."""
    notes = pod.annotations
    if names.port is None and notes.get("prometheus.io/scrape", "true").lower() == "false":
        return Absent(Cause.NOT_CONFIGURED, "the pod says prometheus.io/scrape: false", SOURCE)
    address = host or pod.ip
    if not address:
        return Absent(Cause.SOURCE_DOWN, f"pod {pod.name} has no IP yet", SOURCE)
    written = notes.get("prometheus.io/port", "").strip()
    if names.port is None and written and not (written.isascii() and written.isdigit()):
        said = f"pod {pod.name}: annotation prometheus.io/port is {written[:20]!r}, not a number"
        return Absent(Cause.NOT_CONFIGURED, said, SOURCE)
    port = names.port or int(written or names.usual_port or DEFAULT_PORT)
    path = names.path or notes.get("prometheus.io/path") or names.usual_path or DEFAULT_PATH
    scheme = (names.scheme or notes.get("prometheus.io/scheme") or "http").lower()
    if not 0 < port < 65536 or scheme not in ("http", "https"):
        return Absent(Cause.NOT_CONFIGURED, f"pod {pod.name}: no page at {scheme}, port {port}", SOURCE)
    shown = f"[{address}]" if ":" in address else address
    return f"{scheme}://{shown}:{port}/{path.lstrip('/')}"
