"""Leadership by a Lease: at most one process acts, another takes over within 15 s of a crash and at once on a release.

Clocks of two machines are never compared. A follower counts, on its own monotonic clock, how long the Lease hasn't
*changed*; a leader counts from the moment it *sent* its last successful renewal, which is earlier than any follower can
have seen it. Since a leader's right to write (``remaining``) ends well before the Lease does, a leader that was paused,
cut off or frozen has stopped writing before anybody else begins.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Final

from autoscaler.kube.answer import Response
from autoscaler.kube.client import KubeClient
from autoscaler.kube.discovery import collection_path, object_path
from autoscaler.kube.errors import KubeError
from autoscaler.kube.pace import URGENT

LEASE_S: Final = 10.0
"""A Lease that hasn't changed for so long is free. Takeover after a crash: this plus one look."""
WRITE_S: Final = 7.0
"""A leader writes for so long after the renewal it last sent. The rest is for requests under way to arrive or die."""
RENEW_S: Final = 2.5
LOOK_S: Final = 1.0
_API: Final = "coordination.k8s.io/v1"
_log = logging.getLogger(__name__)


def micro_time(at: datetime) -> str:
    """``metav1.MicroTime``: exactly six fractional digits, or the server refuses it."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Leadership:
    """Holds, wants or has lost the Lease ``namespace/name``. ``identity`` must differ between processes, also between
    two lives of one pod."""

    def __init__(
        self, client: KubeClient, namespace: str, name: str, identity: str, *,
        lease_s: float = LEASE_S, write_s: float = WRITE_S, renew_s: float = RENEW_S, look_s: float = LOOK_S,
    ) -> None:  # fmt: skip
        if not renew_s < write_s < lease_s:
            raise ValueError(f"need renew {renew_s:g}s < write {write_s:g}s < lease {lease_s:g}s")
        self.identity = identity
        self.holder = ""
        """Who leads as far as is known; empty when nobody does."""
        self.transitions = 0
        self.trouble = ""
        self._stood_by = ""
        self._client = client
        self._collection = collection_path(_API, "leases", namespace)
        self._path = object_path(_API, "leases", namespace, name)
        self._name, self._told = name, f"{namespace}/{name}"
        self._lease_s, self._write_s, self._renew_s, self._look_s = lease_s, write_s, renew_s, look_s
        self._lease: dict[str, Any] = {}
        self._seen: tuple[str, float] = ("", 0.0)
        self._sent: tuple[float, float] | None = None

    def remaining(self) -> float:
        """Seconds for which this process may still write; 0 when it doesn't lead."""
        if self._sent is None:
            return 0.0
        loop_at, boot_at = self._sent
        # The second clock also runs while the machine sleeps.
        passed = max(asyncio.get_running_loop().time() - loop_at, _boot_clock() - boot_at)
        return max(0.0, self._write_s - passed)

    def valid(self) -> bool:
        """Whether this process may write now."""
        return self.remaining() > 0.0

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Lead again and again: wait for the Lease, run ``work`` while it is held, cancel ``work`` and wait for its end
        when it is lost. Returns when ``work`` does, raises what it raises. On cancellation the work is cancelled first,
        then the Lease is released, so that another process takes over at once."""
        try:
            while True:
                await self.acquire()
                if await self._lead(work):
                    return
                taken = self.holder not in ("", self.identity)
                _log.warning("lost the leadership: %s", f"{self.holder} has it" if taken else "not renewed in time")
        finally:
            await self.release()

    async def acquire(self) -> None:
        """Wait until this process leads."""
        while not await self._try():  # noqa: ASYNC110
            await asyncio.sleep(self._look_s)
        self._stood_by = ""
        _log.info("leading as %s", self.identity)

    async def _lead(self, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Whether ``work`` came to its end by itself."""
        working = asyncio.create_task(work(), name="work of the leader")
        try:
            while self.valid():
                await asyncio.wait({working}, timeout=self._renew_s)
                if working.done():
                    working.result()
                    return True
                if not await self._renew():
                    return False
            return False
        finally:
            working.cancel()
            await asyncio.wait({working})
            if not working.cancelled() and (error := working.exception()) is not None and not self.valid():
                _log.error("the work ended badly after the leadership was lost: %s", error)

    async def _try(self) -> bool:
        """One look at the Lease, and a grab for it when it is free."""
        try:
            answer = await self._client.request("GET", self._path, deadline=self._renew_s * 2, priority=URGENT)
            if answer.status == 404:
                return await self._write("POST", self._collection, self._claimed({}))
            self._lease = answer.expect("read the lease").json()
        except KubeError as error:
            self._complain(error)
            return False
        self._observe()
        spec = self._lease.get("spec") or {}
        # A claim of our own whose answer was lost is simply written again.
        if self.holder not in ("", self.identity) and not self._expired(spec):
            self.trouble = ""
            if self._stood_by != self.holder:
                _log.info("standing by: %s holds the lease %s", self.holder, self._told)
            self._stood_by = self.holder
            return False
        return await self._write("PUT", self._path, self._claimed(spec))

    def _observe(self) -> None:
        meta, spec = self._lease.get("metadata") or {}, self._lease.get("spec") or {}
        self.holder = spec.get("holderIdentity") or ""
        self.transitions = spec.get("leaseTransitions") or 0
        version = f"{meta.get('uid')}/{meta.get('resourceVersion')}"
        if version != self._seen[0]:
            self._seen = (version, asyncio.get_running_loop().time())

    def _expired(self, spec: dict[str, Any]) -> bool:
        return asyncio.get_running_loop().time() - self._seen[1] > (spec.get("leaseDurationSeconds") or self._lease_s)

    def _claimed(self, spec: dict[str, Any]) -> dict[str, Any]:
        now = micro_time(datetime.now(UTC))
        ours = spec.get("holderIdentity") == self.identity
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._lease_s),
            "acquireTime": spec.get("acquireTime") if ours and spec.get("acquireTime") else now,
            "renewTime": now,
            "leaseTransitions": (spec.get("leaseTransitions") or 0) + (0 if ours or not spec else 1),
        }

    async def _renew(self) -> bool:
        """Renew, insisting until the right to write has run out. False when the Lease is another's, or time is up."""
        while True:
            left = self.remaining()
            if left <= 0:
                self._sent = None
                return False
            if await self._write("PUT", self._path, self._claimed(self._lease.get("spec") or {}), within=left):
                return True
            if self.holder not in ("", self.identity):
                self._sent = None
                return False
            await asyncio.sleep(min(0.5, left))

    async def _write(self, method: str, path: str, spec: dict[str, Any], within: float | None = None) -> bool:
        """Put a claim; on a conflict, look who was faster. The right to write starts when the claim is *sent*."""
        meta = self._lease.get("metadata") if method == "PUT" else None
        body = {
            "apiVersion": _API, "kind": "Lease",
            "metadata": {"name": self._name} | ({"resourceVersion": meta["resourceVersion"]} if meta else {}),
            "spec": spec,
        }  # fmt: skip
        sent = (asyncio.get_running_loop().time(), _boot_clock())
        deadline = min(self._renew_s, within) if within is not None else self._renew_s
        try:
            answer = await self._client.request(method, path, None, body, deadline=deadline, priority=URGENT)
            if answer.status in (404, 409):
                await self._look_after_conflict()
                return False
            self._lease = answer.expect("write the lease").json()
        except KubeError as error:
            self._complain(error)
            return False
        self._observe()
        self._sent = sent
        self.trouble = ""
        return True

    async def _look_after_conflict(self) -> None:
        answer = await self._client.request("GET", self._path, deadline=self._renew_s, priority=URGENT)
        if answer.status == 404:
            self._lease, self.holder = {}, ""
            return
        self._lease = answer.expect("read the lease").json()
        self._observe()

    async def release(self) -> None:
        """Let go, if held. The work must have ended. Never raises for the server's sake, and takes 3 s at most."""
        held, self._sent = self._sent is not None and self.holder == self.identity, None
        if not held:
            return
        try:
            async with asyncio.timeout(3.0):
                answer = await self._let_go()
                if answer.status == 409:  # a renewal whose answer was cancelled has arrived all the same
                    await self._look_after_conflict()
                    if self.holder != self.identity:
                        return
                    answer = await self._let_go()
        except (KubeError, TimeoutError) as error:
            _log.warning("could not release the leadership: %s", error)
            return
        if answer.ok:
            self.holder = ""
            _log.info("released the leadership")

    async def _let_go(self) -> Response:
        spec = {**(self._lease.get("spec") or {}), "holderIdentity": "", "leaseDurationSeconds": 1}
        spec["renewTime"] = micro_time(datetime.now(UTC))
        body = {
            "apiVersion": _API, "kind": "Lease",
            "metadata": {"name": self._name, "resourceVersion": self._lease["metadata"]["resourceVersion"]},
            "spec": spec,
        }  # fmt: skip
        return await self._client.request("PUT", self._path, None, body, deadline=3.0, priority=URGENT)

    def _complain(self, error: KubeError) -> None:
        if str(error) != self.trouble:
            _log.warning("leadership: %s", error)
        self.trouble = str(error)


def _boot_clock() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
