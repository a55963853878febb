"""How many requests a second this program may send, and whose turn it is.

A token bucket with a queue: when tokens are short, the waiter with the highest priority goes first (for resizes that is
the largest shortfall), then the oldest. ``hold`` obeys a server's Retry-After for everyone but the urgent.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from typing import Final

URGENT: Final = math.inf
"""Never waits: leadership renewals, without which all else is void."""
READ: Final = 1e12
"""Lists and watches: without sight nothing is decided."""
BACKGROUND: Final = -1.0
"""Events and status: only when nothing else wants to go."""


class Pace:
    """``qps`` tokens a second, at most ``burst`` saved up. Times are the running loop's."""

    def __init__(self, qps: float, burst: int) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(f"qps must be above 0 and burst at least 1, got qps {qps}, burst {burst}")
        self._qps = qps
        self._burst = float(burst)
        self._tokens = float(burst)
        self._filled_at: float | None = None
        self._held_until = -math.inf
        self._queue: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Requests that wait for a token now."""
        return sum(1 for _, _, turn in self._queue if not turn.done())

    async def turn(self, priority: float = 0.0) -> None:
        """Return when it is this request's turn."""
        if priority == URGENT:
            self._fill()
            self._tokens -= 1  # counted, so that the others pay for it, but never waited for
            return
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._queue, (-priority, next(self._order), turn))
        self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._tokens = min(self._burst, self._tokens + 1)  # the token was dealt but not used
                self._serve()
            raise

    def hold(self, seconds: float) -> None:
        """The server asked for silence: nobody but the urgent goes before that."""
        until = asyncio.get_running_loop().time() + seconds
        self._held_until = max(self._held_until, until)
        self._serve()

    def _fill(self) -> float:
        now = asyncio.get_running_loop().time()
        if self._filled_at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now
        return now

    def _serve(self) -> None:
        now = self._fill()
        while self._queue:
            turn = self._queue[0][2]
            if turn.done():
                heapq.heappop(self._queue)
                continue
            if now < self._held_until or self._tokens < 1:
                break
            heapq.heappop(self._queue)
            self._tokens -= 1
            turn.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._queue:
            wait = max(self._held_until - now, (1 - self._tokens) / self._qps, 0.001)
            self._timer = asyncio.get_running_loop().call_later(wait, self._serve)
