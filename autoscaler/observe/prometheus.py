"""The door to Prometheus and to all that speak its query API: Thanos, Mimir, Cortex, VictoriaMetrics.

    async with Prometheus(PrometheusSettings(url="http://prometheus:9090")) as prometheus:
        answer = await prometheus.ask("up")          # raises Unavailable or QueryRefused

prometheus-api-client is synchronous: it runs in threads of its own, one connection a thread. Each query has one
deadline for everything (a server that drips bytes is cut off too), travels in the body of a POST (a query may be longer
than a URL may), and its answer is bounded in size and decoded straight into slim values.
"""

from __future__ import annotations

import asyncio
import io
import logging
import re
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import msgspec
import requests
import tenacity
import urllib3
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from autoscaler.observe.answer_body import AnswerBody, error_of
from autoscaler.observe.rows import Reading, Row

LOG = logging.getLogger(__name__)

SLACK_S = 0.5

T = TypeVar("T")


class Unavailable(Exception):
    """No usable answer: down, slow, overloaded, or not a Prometheus at all. Worth asking again."""


class QueryRefused(Exception):
    """The query or the credentials were refused. Asking again gives the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusSettings:
    """How to reach it. ``query_s`` and ``connect_s`` in seconds; files are read again when they change.

    ``pod_label`` and ``namespace_label``: how the scrape configuration calls them. ``replica_labels``: labels that tell
    apart the copies of a highly available pair which the query layer doesn't deduplicate. ``proxy``: URL of an
    HTTP proxy; what the environment says about proxies is left alone.
    """

    url: str
    bearer_token_file: Path | None = None
    username: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None
    client_certificate: tuple[Path, Path] | None = None
    insecure_skip_verify: bool = False
    proxy: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    query_s: float = 4.0
    connect_s: float = 1.0
    threads: int = 4
    answer_bytes: int = 128 * 2**20
    pod_label: str = "pod"
    namespace_label: str = "namespace"
    replica_labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """``warnings``: the answer is partial (a store behind Thanos or Cortex didn't answer)."""

    rows: T
    warnings: tuple[str, ...] = ()


class Prometheus:
    """One Prometheus; close it to end its threads."""

    def __init__(self, settings: PrometheusSettings) -> None:
        if urlsplit(settings.url).scheme not in ("http", "https"):
            raise ValueError(f"prometheus url {settings.url!r}: needs http:// or https://")
        self.settings = settings
        if settings.insecure_skip_verify:
            # said once, and not at every query
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
            LOG.warning("the certificate of Prometheus is not checked", extra={"fields": {"url": settings.url}})
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="prometheus")
        self._local = threading.local()
        self.queries = 0
        """Queries sent so far."""

    async def __aenter__(self) -> Prometheus:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def ask(self, query: str, at: float | None = None) -> Answer[list[Row]]:
        """An instant query, at the server's own present unless ``at`` (unix seconds) says otherwise.

        Tried twice where the first attempt failed fast. Raises Unavailable and QueryRefused.
        """
        return await self._asked(query, at, None)

    async def read(self, query: str, reading: Reading[T], at: float | None = None) -> Answer[T]:
        """As ``ask``, for answers of very many rows: ``reading`` makes something of them, piece by piece."""
        return await self._asked(query, at, reading)

    async def _asked(self, query: str, at: float | None, reading: Reading[T] | None) -> Answer[Any]:
        loop = asyncio.get_running_loop()
        try:
            # All attempts share one deadline; a little more where all threads hang in earlier queries.
            async with asyncio.timeout(self.settings.query_s + SLACK_S):
                return await loop.run_in_executor(self._threads, self._ask, query, at, reading)
        except TimeoutError:
            raise Unavailable(f"no answer in {self.settings.query_s + SLACK_S:g}s") from None

    def _ask(self, query: str, at: float | None, reading: Reading[T] | None) -> Answer[Any]:
        deadline = time.monotonic() + self.settings.query_s
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Unavailable),
            stop=tenacity.stop_after_attempt(2) | tenacity.stop_after_delay(self.settings.query_s / 2),
            wait=tenacity.wait_random(0, 0.2),
            reraise=True,
        )
        return attempts(self._once, query, at, reading, deadline)

    def _once(self, query: str, at: float | None, reading: Reading[T] | None, deadline: float) -> Answer[Any]:
        connection, adapter = self._connection()
        adapter.deadline, adapter.reading = deadline, reading
        params: dict[str, str] = {"timeout": f"{self.settings.query_s:g}s"}
        if at is not None:
            params["time"] = f"{at:.3f}"
        self.queries += 1
        try:
            rows = connection.custom_query(
                query, params=params, timeout=(self.settings.connect_s, self.settings.query_s)
            )
        except (PrometheusApiClientException, requests.RequestException, OSError, KeyError, ValueError) as error:
            raise self._told(error, adapter) from None
        return Answer(rows, adapter.warnings)

    def _told(self, error: Exception, adapter: _Adapter) -> Exception:
        """The client's many exceptions as one of two."""
        host = urlsplit(self.settings.url).netloc
        if isinstance(error, PrometheusApiClientException):
            said = adapter.error or f"HTTP {adapter.status}"
            if adapter.status in (400, 422):
                return QueryRefused(said)
            if adapter.status in (401, 403):
                return QueryRefused(f"{host} refuses the credentials (HTTP {adapter.status})")
            if adapter.status == 404:
                return Unavailable(f"{host} has no query API at {self.settings.url}")
            return Unavailable(f"{host}: {said}")
        if isinstance(error, requests.TooManyRedirects):
            return Unavailable(f"{host} redirects: name its final URL")
        if isinstance(error, requests.Timeout):
            return Unavailable(f"{host}: no answer in {self.settings.query_s:g}s")
        if isinstance(error, requests.exceptions.SSLError):
            return Unavailable(f"{host}: TLS: {_short(error)}")
        if isinstance(error, requests.ConnectionError):
            return Unavailable(f"{host}: can't connect: {_short(error)}")
        return Unavailable(f"{host}: {_short(error)}")

    def _connection(self) -> tuple[PrometheusConnect, _Adapter]:
        kept: tuple[PrometheusConnect, _Adapter] | None = getattr(self._local, "kept", None)
        if kept is None:
            settings = self.settings
            session = requests.Session()
            session.trust_env = False  # no surprise from .netrc: its password would replace the token
            if settings.proxy is not None:
                session.proxies = {"http": settings.proxy, "https": settings.proxy}
            session.max_redirects = 0
            session.verify = not settings.insecure_skip_verify
            if settings.ca_file is not None and not settings.insecure_skip_verify:
                session.verify = str(settings.ca_file)
            if settings.client_certificate is not None:
                session.cert = tuple(map(str, settings.client_certificate))  # type: ignore[assignment]
            url = settings.url.rstrip("/")
            connection = PrometheusConnect(
                url=url, headers=dict(settings.headers), retry=Retry(0), session=session, method="POST"
            )
            adapter = _Adapter(settings)
            session.mount(url, adapter)
            kept = self._local.kept = (connection, adapter)
        return kept


class _Adapter(HTTPAdapter):
    """Carries one thread's queries: query in the body, fresh credentials, one deadline, a bounded answer."""

    def __init__(self, settings: PrometheusSettings) -> None:
        super().__init__(max_retries=Retry(0), pool_connections=1, pool_maxsize=1)
        self._settings = settings
        self._secrets: dict[Path, tuple[int, str]] = {}
        self.deadline = 0.0
        self.reading: Reading[Any] | None = None
        self.warnings: tuple[str, ...] = ()
        self.status = 0
        self.error = ""

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        self.warnings, self.status, self.error = (), 0, ""
        address, _, query = (request.url or "").partition("?")
        request.prepare_body(query, None)
        request.url = address
        request.headers["Content-Type"] = "application/x-www-form-urlencoded"
        request.headers["User-Agent"] = "inference-autoscaler"
        request.headers["Accept-Encoding"] = "identity"
        if self._settings.bearer_token_file is not None:
            request.headers["Authorization"] = f"Bearer {self._secret(self._settings.bearer_token_file)}"
        elif self._settings.username is not None and self._settings.password_file is not None:
            secret = self._secret(self._settings.password_file)
            request.prepare_auth((self._settings.username.encode(), secret.encode()))  # UTF-8, where it isn't ASCII
        kwargs["stream"] = True
        response = super().send(request, *args, **kwargs)
        self.status = response.status_code
        return _Decoded(response, self._chunks(response), self)

    def _chunks(self, response: requests.Response) -> Iterator[bytes]:
        """The answer as it arrives. Raises requests' exceptions where it is too large, too slow or cut off."""
        received = 0
        try:
            while chunk := response.raw.read1(256 * 1024):  # a full read would wait for a dripping server
                received += len(chunk)
                if received > self._settings.answer_bytes:
                    raise requests.RequestException(f"answer larger than {self._settings.answer_bytes // 2**20} MiB")
                if time.monotonic() > self.deadline:
                    raise requests.Timeout
                yield chunk
        except urllib3.exceptions.HTTPError as cut:
            raise requests.ConnectionError(cut) from None
        except BaseException:
            response.close()
            raise

    def _secret(self, path: Path) -> str:
        """A secret's file, read again when it was written."""
        try:
            written = path.stat().st_mtime_ns
            kept = self._secrets.get(path)
            if kept is None or kept[0] != written:
                kept = self._secrets[path] = (written, path.read_text().strip())
        except OSError as error:
            raise requests.RequestException(f"can't read {path.name}: {error.strerror}") from None
        return kept[1]


class _Decoded(requests.Response):
    """An answer whose ``json()`` is already made of rows, or of what was to be made of them."""

    def __init__(self, plain: requests.Response, chunks: Iterator[bytes], adapter: _Adapter) -> None:
        super().__init__()
        self.status_code, self.headers, self.url = plain.status_code, plain.headers, plain.url
        self.request, self.reason, self.encoding = plain.request, plain.reason, plain.encoding
        self.raw = io.BytesIO()
        self._body = AnswerBody(chunks, plain.headers.get("Content-Type", "nothing").partition(";")[0])
        self._adapter = adapter
        if plain.status_code != 200:
            body = b"".join(chunks)
            self.raw, adapter.error = io.BytesIO(body), error_of(body)

    def json(self, **_: Any) -> Any:
        """What PrometheusConnect takes apart. Raises ValueError for anything that is no answer of a query API."""
        reading = self._adapter.reading
        try:
            rows = self._body.rows() if reading is None else reading(self._body.pieces())
        except msgspec.MsgspecError as wrong:
            raise ValueError(f"answers rows that can't be read: {wrong}") from None
        self._adapter.warnings = self._body.warnings
        return {"data": {"result": rows}}


def _short(error: Exception) -> str:
    said = str(error) or type(error).__name__
    if found := re.search(r"\[Errno -?\d+\] ([^'\")]+)", said):
        return found[1]
    return said.rsplit("Caused by ", 1)[-1].strip("()'\"")[:140]
