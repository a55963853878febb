"""The last look before a write leaves the process: whether it may still be sent.

Between the decision to send and the first byte on the socket lie a few turns of the event loop: a turn of the pace, a
connection, a task. A process that is frozen there and wakes up after another has taken over would send what it had in
hand. So the question is asked once more in the very step that writes; what is turned down there never leaves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import aiohttp

MAY_SEND: Final[ContextVar[Callable[[], bool]]] = ContextVar("may_send")
"""Set around a request that is fenced; the task that writes it inherits it."""


def fence_requests(session: aiohttp.ClientSession) -> None:
    """Let every request of this session with a body ask ``MAY_SEND`` as its last step."""
    session._request_class = _request_class()


@functools.cache
def _request_class() -> type[aiohttp.ClientRequest]:
    import aiohttp

    class FencedRequest(aiohttp.ClientRequest):
        async def write_bytes(self, writer: Any, conn: Any, content_length: int | None = None) -> None:
            may_send = MAY_SEND.get(None)
            if may_send is None or may_send():
                await super().write_bytes(writer, conn, content_length)
                return
            # Headers wait for the body to go out with it; closing drops both, and who waits for the answer hears it.
            if conn.protocol is not None:
                conn.protocol.set_exception(
                    aiohttp.ClientConnectionError("not sent, because this process doesn't lead")
                )
            conn.close()

    return FencedRequest
