"""What comes back through the door: an answer, the lines of a watch, and a count of both."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from autoscaler.kube.errors import Refusal, Unreachable, read_refusal

if TYPE_CHECKING:
    import aiohttp


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, whatever its status. ``headers`` are case-insensitive; ``body`` is undecoded."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def refusal(self) -> Refusal | None:
        """What the server says against it; None when it said yes."""
        return None if self.ok else read_refusal(self.status, self.body, self.headers)

    def json(self) -> Any:
        """The decoded body. Raises Unreachable for a body cut off or not JSON: no API server answered that."""
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError as error:
            raise Unreachable(f"the answer is not JSON ({error}): is this an API server?") from None

    def expect(self, what: str) -> Response:
        """Itself when the server said yes; else raises the matching ``Refused``."""
        refusal = self.refusal
        if refusal is not None:
            raise refusal.raised(what)
        return self


@dataclass(slots=True)
class Tally:
    """What went through the door, for the program's own metrics: by (method, status or 'none'), and retries."""

    requests: dict[tuple[str, str], int] = field(default_factory=dict)
    retries: int = 0
    throttled: int = 0

    def count(self, method: str, status: int | None) -> None:
        key = (method, "none" if status is None else str(status))
        self.requests[key] = self.requests.get(key, 0) + 1


async def lines(content: aiohttp.StreamReader) -> AsyncIterator[list[bytes]]:
    rest: list[bytes] = []
    async for chunk in content.iter_any():
        if b"\n" not in chunk:
            rest.append(chunk)
            continue
        *whole, last = (b"".join(rest) + chunk if rest else chunk).split(b"\n")
        rest = [last] if last else []
        yield [line for line in whole if line.strip()]
    if rest and b"".join(rest).strip():
        yield [b"".join(rest)]


def notice_dead_peer(answer: aiohttp.ClientResponse) -> None:
    """Let the kernel probe an idle watch: a peer that vanished without a word is noticed in about half a minute."""
    connection = answer.connection
    transport = connection.transport if connection is not None else None
    raw = transport.get_extra_info("socket") if transport is not None else None
    if raw is None:
        return
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
