"""Everything that will happen, in loop time, behind one timer.

The emulated cluster reads no clock but `loop.time()`, so a test that makes the loop's time virtual makes the
cluster's time virtual with it. Timestamps in objects are that time mapped onto the wall clock of the start.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any


class Deed:
    """One thing that will be done at `when`; `cancel()` makes it not happen."""

    __slots__ = ("act", "args", "when")

    def __init__(self, when: float, act: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.when = when
        self.act: Callable[..., None] | None = act
        self.args = args

    def cancel(self) -> None:
        self.act = None
        self.args = ()


class Timeline:
    """A heap of deeds and one loop timer: no task and no timer per pod, and nothing left behind after `close()`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, epoch: float | None = None) -> None:
        self._loop = loop
        self._heap: list[tuple[float, int, Deed]] = []
        self._order = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._zero = loop.time()
        self._epoch = time.time() if epoch is None else epoch

    def now(self) -> float:
        """Loop time in seconds."""
        return self._loop.time()

    def wall(self) -> float:
        """Unix time in seconds as this cluster sees it."""
        return self._epoch + (self._loop.time() - self._zero)

    def stamp(self) -> str:
        """Now as `metav1.Time` is written: whole seconds, Z."""
        return datetime.fromtimestamp(self.wall(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def micro_stamp(self) -> str:
        """Now as `metav1.MicroTime` is written: exactly six fractional digits."""
        return datetime.fromtimestamp(self.wall(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def after(self, delay: float, act: Callable[..., None], *args: Any) -> Deed:
        """Do `act(*args)` in `delay` seconds; deeds of the same instant happen in the order they were asked for."""
        deed = Deed(self._loop.time() + max(0.0, delay), act, args)
        if not self._closed:
            heapq.heappush(self._heap, (deed.when, next(self._order), deed))
            self._wind()
        return deed

    def close(self) -> None:
        self._closed = True
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wind(self) -> None:
        while self._heap and self._heap[0][2].act is None:
            heapq.heappop(self._heap)
        if not self._heap:
            return
        when = self._heap[0][0]
        if self._timer is not None:
            if self._timer.when() <= when and not self._timer.cancelled():
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._loop.time()
        # The loop may fire a timer up to its clock's resolution early.
        while self._heap and self._heap[0][0] <= now + 1e-6:
            deed = heapq.heappop(self._heap)[2]
            if deed.act is not None:
                try:
                    deed.act(*deed.args)
                except Exception as trouble:
                    # One broken deed must not stop the cluster's clock; the loop's handler makes it visible.
                    self._loop.call_exception_handler(
                        {"message": f"emulated cluster: {trouble!r}", "exception": trouble}
                    )
        self._wind()
