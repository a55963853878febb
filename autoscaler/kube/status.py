"""Status of custom resources: written when a person would notice the difference, at most once in 10 s for a workload.

Server-side apply with our field manager: conditions are a map by type on the server, so those of others stay. A
condition keeps its transition time until its status changes, also across a restart of this program (``seed``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from autoscaler.kube.client import FIELD_MANAGER, KubeClient
from autoscaler.kube.discovery import object_path
from autoscaler.kube.errors import KubeError, NoRight
from autoscaler.kube.pace import BACKGROUND
from autoscaler.model.policy import API_VERSION
from autoscaler.model.status import BudgetStatus, PolicyStatus
from autoscaler.model.workload import WorkloadRef

APPLY: Final = "application/apply-patch+yaml"
KIND: Final = "InferenceAutoscaler"
PLURAL: Final = "inferenceautoscalers"
GAP_S: Final = 10.0
"""Between two writes of one workload's status."""
REFRESH_S: Final = 300.0
"""How old numbers that nobody waits for (measurement, age, learned state) may get."""
RIGHTLESS_S: Final = 600.0
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Resource:
    """One resource's status: what is on the server, what should be, and when it was last written."""

    wanted: dict[str, Any] = field(default_factory=dict)
    written: dict[str, Any] = field(default_factory=dict)
    written_at: float = float("-inf")


class StatusWriter:
    """``offer`` what is true now, as often as you like; ``write_due`` writes what is due."""

    def __init__(self, client: KubeClient, kind: str = KIND, plural: str = PLURAL) -> None:
        self._client, self._kind, self._plural = client, kind, plural
        self._resources: dict[WorkloadRef, _Resource] = {}
        self._barred_until = float("-inf")
        self.writes = 0

    def seed(self, ref: WorkloadRef, status: Mapping[str, Any]) -> None:
        """The status as it stands on the server, at the start: conditions go on from there."""
        if ref not in self._resources and status:
            self._resources[ref] = _Resource(written=dict(status))

    def known(self, ref: WorkloadRef) -> bool:
        """Whether the server has a status of this resource already."""
        return ref in self._resources and bool(self._resources[ref].written)

    def forget(self, ref: WorkloadRef) -> None:
        self._resources.pop(ref, None)

    def offer(self, ref: WorkloadRef, status: PolicyStatus | BudgetStatus) -> None:
        """What the status should say. Not yet a request."""
        kept = self._resources.setdefault(ref, _Resource())
        body = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        body["conditions"] = _continued(kept.wanted or kept.written, body.get("conditions", []))
        _keep_decision(kept.wanted or kept.written, body)
        kept.wanted = body

    def due(self, now: float) -> list[WorkloadRef]:
        """Whose status would be written now: noticeable changes first, then those whose numbers grew old."""
        ready = [(ref, r) for ref, r in self._resources.items() if r.wanted and now - r.written_at >= GAP_S]
        noticed = [ref for ref, r in ready if essence(r.wanted) != essence(r.written)]
        stale = [
            ref for ref, r in ready
            if r.wanted != r.written and now - r.written_at >= REFRESH_S and ref not in set(noticed)
        ]  # fmt: skip
        return noticed + stale

    async def write_due(self) -> None:
        """Write what is due, one after another, after everything more urgent. Never raises for the server's sake."""
        now = asyncio.get_running_loop().time()
        if now < self._barred_until:
            return
        for ref in self.due(now):
            kept = self._resources.get(ref)
            if kept is not None and not await self._write(ref, kept):
                return

    async def run(self, every_s: float = 1.0) -> None:
        """Write until cancelled."""
        while True:
            await self.write_due()
            await asyncio.sleep(every_s)

    async def _write(self, ref: WorkloadRef, kept: _Resource) -> bool:
        """False when it is no use to go on now."""
        status = kept.wanted
        body = {
            "apiVersion": API_VERSION, "kind": self._kind, "metadata": {"name": ref.name, "namespace": ref.namespace},
            "status": status,
        }  # fmt: skip
        path = object_path(API_VERSION, self._plural, ref.namespace, ref.name, "status")
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        kept.written_at = asyncio.get_running_loop().time()  # a failure also waits its gap
        try:
            answer = await self._client.request("PATCH", path, query, body, APPLY, priority=BACKGROUND, repeatable=True)
            if answer.status == 404:
                kept.written_at += REFRESH_S  # the resource is gone, which its watch will tell as well
                return True
            answer.expect(f"write the status of {self._kind} {ref}")
        except NoRight as error:
            _log.warning("statuses are not written: %s", error)
            self._barred_until = kept.written_at + RIGHTLESS_S
            return False
        except KubeError as error:
            _log.info("status not written: %s", error)
            return False
        kept.written = status
        self.writes += 1
        return True


def essence(status: Mapping[str, Any]) -> dict[str, Any]:
    """What a person would notice: everything but times, ages, measured numbers and learned state."""
    passing = ("learned", "objective", "lastDecision", "wantedCpu")
    kept = {key: value for key, value in status.items() if key not in passing}
    objective = status.get("objective") or {}
    kept["objective"] = (objective.get("text"), objective.get("absent"))
    decision = status.get("lastDecision") or {}
    kept["lastDecision"] = (decision.get("action"), decision.get("reason"))
    kept["conditions"] = [(c.get("type"), c.get("status"), c.get("reason")) for c in status.get("conditions") or ()]
    kept["containers"] = [(c.get("name"), c.get("desired"), c.get("actual")) for c in status.get("containers") or ()]
    if "members" in status:
        kept["members"] = [(m.get("name"), m.get("cpu"), m.get("memory")) for m in status["members"]]
    return kept


def _continued(before: Mapping[str, Any], conditions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The transition time belongs to the status: it stays while that does."""
    since = {c.get("type"): c for c in before.get("conditions") or () if c.get("lastTransitionTime")}
    return [
        {**c, "lastTransitionTime": since[c["type"]]["lastTransitionTime"]}
        if c["type"] in since and since[c["type"]].get("status") == c["status"]
        else c
        for c in conditions
    ]


def _keep_decision(before: Mapping[str, Any], body: dict[str, Any]) -> None:
    """A decision that says the same again was taken when it was first taken."""
    old, new = before.get("lastDecision"), body.get("lastDecision")
    if old and new and new["action"] == "Hold" and (old.get("action"), old.get("reason")) == ("Hold", new["reason"]):
        body["lastDecision"] = old
