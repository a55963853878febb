"""The API server as a sink: a patch becomes a request, the answer becomes an outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from autoscaler.act.ports import Outcome, Patch, Result
from autoscaler.kube.answer import Response
from autoscaler.kube.errors import Unreachable
from autoscaler.model.plan import Evict, Scale

DEADLINE_S: Final = 5.0


class Door(Protocol):
    """What is needed of a client to the API server (``kube.client.KubeClient``)."""

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = ...,
        *,
        deadline: float = ...,
        priority: float = ...,
        repeatable: bool | None = None,
    ) -> Response: ...


class ApiSink:
    """Sends patches to an API server. Never raises for what a server says or doesn't say.

    ``valid`` is asked right before each request: False (leadership lost) and nothing is sent.
    """

    def __init__(self, door: Door, *, valid: Callable[[], bool] = lambda: True, deadline: float = DEADLINE_S) -> None:
        self._door = door
        self._valid = valid
        self._deadline = deadline

    async def send(self, patch: Patch) -> Outcome:
        if not self._valid():
            return Outcome(Result.SKIPPED, "no longer the leader")
        try:
            response = await self._door.request(
                patch.verb.value,
                patch.path,
                patch.query,
                dict(patch.body),
                patch.content_type,
                deadline=self._deadline,
                priority=patch.priority,
                repeatable=_repeatable(patch),
            )
            refusal = response.refusal
            if refusal is None:
                body = response.json()
                return Outcome(_accepted(patch, body), status=response.status, body=body)
        except Unreachable as error:
            return Outcome(Result.UNAVAILABLE, str(error))
        return Outcome(Result(refusal.word), refusal.message, refusal.status, refusal.retry_after_s)


def _repeatable(patch: Patch) -> bool:
    """Setting the same values twice changes nothing; a second eviction or versioned scale would meet a conflict."""
    action = patch.action
    if isinstance(action, Evict):
        return False
    return not (isinstance(action, Scale) and "metadata" in patch.body and "resourceVersion" in patch.body["metadata"])


def _accepted(patch: Patch, body: Any) -> Result:
    """A write that changed nothing keeps the resourceVersion."""
    pod = getattr(patch.action, "pod", None)
    version = body.get("metadata", {}).get("resourceVersion") if isinstance(body, dict) else None
    if pod is not None and pod.resource_version and version == pod.resource_version:
        return Result.UNCHANGED
    return Result.ACCEPTED
