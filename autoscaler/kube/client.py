"""The one door to the API server: deadline, pace, retry of what is safe, user agent, tokens and certificates.

``request`` answers for every HTTP status (the caller reads ``Response.refusal``) and raises ``Unreachable`` when no
answer came. ``stream`` is a watch: lines as they arrive, however long. Nothing else in the program connects to it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import tenacity

from autoscaler import __version__
from autoscaler.kube.answer import Response, Tally, lines, notice_dead_peer
from autoscaler.kube.connect import Access, find_access
from autoscaler.kube.credentials import CHECK_S
from autoscaler.kube.errors import THROTTLED, KubeError, NotLeading, Unreachable
from autoscaler.kube.fence import MAY_SEND
from autoscaler.kube.pace import READ, URGENT, Pace
from autoscaler.kube.session import Session

if TYPE_CHECKING:
    import aiohttp

USER_AGENT: Final = f"inference-autoscaler/{__version__}"
FIELD_MANAGER: Final = "inference-autoscaler"

JSON: Final = "application/json"
STRATEGIC_MERGE: Final = "application/strategic-merge-patch+json"
MERGE: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"

DEADLINE_S: Final = 10.0
CONNECT_S: Final = 5.0
_ATTEMPTS: Final = 4
_log = logging.getLogger(__name__)


class _Again(Exception):
    """This attempt may be repeated, not before ``after_s``."""

    def __init__(self, after_s: float, response: Response | None, error: KubeError | None) -> None:
        super().__init__()
        self.after_s = after_s
        self.response = response
        self.error = error


class KubeClient:
    """Talks to one API server. Use as an async context manager, or call ``close``.

    ``qps``/``burst``: requests per second on the average, and at once. ``jitter_s``: first back-off, doubled each time
    up to ten times as much, each wait drawn between 0 and that (full jitter). ``check_s``: how often certificates are
    looked at for a change.
    """

    def __init__(
        self, access: Access, *, qps: float = 50.0, burst: int = 200, jitter_s: float = 0.2, check_s: float = CHECK_S
    ) -> None:
        self._access = access
        self._session = Session(access, USER_AGENT, check_s=check_s)
        self.pace = Pace(qps, burst)
        self.tally = Tally()
        self.fence: Callable[[], float] = lambda: float("inf")
        """Seconds for which this process may still write (``Leadership.remaining``): asked right before each write is
        sent, and bounding it, so that a leader that was paused and wakes up sends nothing. Leases aren't fenced."""
        self._back_off = tenacity.wait_random_exponential(multiplier=jitter_s, max=jitter_s * 10)

    @property
    def namespace(self) -> str:
        """The context's or service account's own namespace."""
        return self._access.namespace

    @property
    def where(self) -> str:
        return self._access.where

    async def __aenter__(self) -> Self:
        await self._session.ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | Sequence[tuple[str, str]] | None = None,
        body: Any = None,
        content_type: str = JSON,
        *,
        deadline: float = DEADLINE_S,
        priority: float = 0.0,
        repeatable: bool | None = None,
    ) -> Response:
        """Send one request and return the answer, be it yes or no.

        ``path`` starts with / and is already percent-encoded. ``deadline`` (seconds) covers waiting for a turn and all
        attempts. ``priority``: who goes first when the pace is short, larger is sooner (see ``pace``). ``repeatable``:
        whether it may be sent again when nobody knows if the first arrived; by default only reads. A request that
        surely was not processed (no connection, throttled) is repeated either way. Raises Unreachable.
        """
        safe = method in ("GET", "HEAD") if repeatable is None else repeatable
        what = f"{method} {path}"
        try:
            async with asyncio.timeout(deadline):
                async for attempt in tenacity.AsyncRetrying(
                    retry=tenacity.retry_if_exception_type(_Again),
                    wait=self._wait,
                    stop=tenacity.stop_after_attempt(_ATTEMPTS),
                    reraise=True,
                ):
                    with attempt:
                        await self.pace.turn(priority)
                        return await self._attempt(method, path, query, body, content_type, safe, priority == URGENT)
        except TimeoutError:
            self.tally.count(method, None)
            raise Unreachable(f"{what}: no answer within {deadline:g}s") from None
        except _Again as last:
            if last.response is not None:
                return last.response
            assert last.error is not None
            raise last.error from None
        raise AssertionError("unreachable")

    def _wait(self, state: tenacity.RetryCallState) -> float:
        self.tally.retries += 1
        error = state.outcome.exception() if state.outcome else None
        asked = error.after_s if isinstance(error, _Again) else 0.0
        return asked + self._back_off(state)

    async def _attempt(
        self,
        method: str,
        path: str,
        query: Any,
        body: Any,
        content_type: str,
        safe: bool,
        urgent: bool,
        renewed: bool = False,
    ) -> Response:
        import aiohttp

        try:
            timeout = aiohttp.ClientTimeout(total=self._bound(method, path, urgent), sock_connect=CONNECT_S)
            turn = MAY_SEND.set(lambda: urgent or method in ("GET", "HEAD") or self.fence() > 0)
            try:
                answer = await self._send(method, path, query, body, content_type, timeout)
            finally:
                MAY_SEND.reset(turn)
            async with answer:
                response = Response(answer.status, answer.headers, await answer.read())
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
            if await self._session.reopened():
                raise _Again(0.0, None, Unreachable(f"{method} {path}: {error}")) from None
            raise Unreachable(f"{method} {path}: {error}") from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            # Nothing was sent. An API server that restarts is back in seconds.
            raise self._again(method, Unreachable(f"{method} {path}: {_plain_words(error)}")) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            lost = Unreachable(f"{method} {path}: {_plain_words(error)}")
            if safe:
                raise self._again(method, lost) from None
            self.tally.count(method, None)
            raise lost from None
        self.tally.count(method, response.status)
        if response.ok or response.status in (404, 409, 422):
            return response
        if response.status == 401 and not renewed and await self._session.renewed():
            return await self._attempt(method, path, query, body, content_type, safe, urgent, renewed=True)
        refusal = response.refusal
        if response.status == 429 and refusal is not None and refusal.word == THROTTLED:
            self.tally.throttled += 1
            wait = refusal.retry_after_s if refusal.retry_after_s is not None else 1.0
            self.pace.hold(wait)
            raise _Again(0.0, response, None)
        if safe and response.status in (500, 502, 503, 504):
            raise _Again((refusal.retry_after_s if refusal else None) or 0.0, response, None)
        return response

    def _bound(self, method: str, path: str, urgent: bool) -> float | None:
        """How long a request may take by the fence; None without bound. Raises NotLeading."""
        if urgent or method in ("GET", "HEAD"):
            return None
        left = self.fence()
        if left <= 0:
            raise NotLeading(f"{method} {path}: not sent, because this process doesn't lead")
        return None if left == float("inf") else left

    def _again(self, method: str, error: KubeError) -> _Again:
        self.tally.count(method, None)
        return _Again(0.0, None, error)

    async def _send(
        self, method: str, path: str, query: Any, body: Any, content_type: str, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        api = await self._session.ready()
        pairs = list(query.items()) if isinstance(query, Mapping) else list(query or ())
        headers = {"Accept": JSON}
        if body is not None:
            headers["Content-Type"] = content_type
        answer: aiohttp.ClientResponse = await api.call_api(
            path, method, query_params=pairs, header_params=headers, body=body, auth_settings=["BearerToken"],
            _preload_content=False, _request_timeout=timeout,
        )  # fmt: skip
        return answer

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str], *, open_within: float = DEADLINE_S
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Open a long answer (a watch) and give its lines in batches, as they arrive, without a limit on their length.

        The caller bounds the silence it accepts. Raises Unreachable, or a Refused when the answer is an error status.
        """
        import aiohttp

        try:
            async with asyncio.timeout(open_within):
                await self.pace.turn(READ)
                timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
                answer = await self._send("GET", path, query, None, JSON, timeout)
                if answer.status == 401 and await self._session.renewed():
                    answer.close()
                    answer = await self._send("GET", path, query, None, JSON, timeout)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.tally.count("WATCH", None)
            raise Unreachable(f"watch {path}: {_plain_words(error)}") from None
        self.tally.count("WATCH", answer.status)
        try:
            if answer.status != 200:
                async with asyncio.timeout(open_within):
                    response = Response(answer.status, answer.headers, await answer.read())
                response.expect(f"watch {path}")
            notice_dead_peer(answer)
            yield lines(answer.content)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"watch {path}: {_plain_words(error)}") from None
        finally:
            answer.close()


async def connect(
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    *,
    server: str | None = None,
    qps: float = 50.0,
    burst: int = 200,
) -> KubeClient:
    """A client ready to use. Raises KubeconfigError when no way leads to a cluster; asks nothing of the server."""
    client = KubeClient(find_access(kubeconfig, context, server), qps=qps, burst=burst)
    await client._session.ready()
    return client


def _plain_words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error}"
    return " ".join(str(error).replace(" ssl:default", "").split()) or type(error).__name__
