"""``vertical.template: Annotate``: the learned size written on the workload, for whoever keeps its template in Git.

New pods are born at the template's size, whatever the running ones have learned. The template itself belongs to its
owner; what is written here is an annotation that says what the template should ask for.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from autoscaler.kube.client import FIELD_MANAGER, MERGE, KubeClient
from autoscaler.kube.decode import OWN_PREFIX
from autoscaler.kube.discovery import Discovery
from autoscaler.kube.errors import KubeError, NoRight
from autoscaler.kube.pace import BACKGROUND
from autoscaler.model import quantity
from autoscaler.model.policy import Policy
from autoscaler.model.workload import Resources, TargetRef, WorkloadRef, WorkloadView

LEARNED: Final = f"{OWN_PREFIX}learned-resources"
"""Annotation: JSON, container name to ``requests`` and ``limits`` as a template writes them."""
SETTLED_S: Final = 600.0
"""A size that all pods kept for so long is worth a commit in somebody's repository."""
RIGHTLESS_S: Final = 600.0
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Kept:
    """The size seen last, since when (unix seconds), and what the annotation says as far as is known."""

    target: TargetRef
    text: str
    since: float
    written: str = ""


class LearnedSizes:
    """``see`` every tick; ``write_due`` writes what has settled. Never raises for the server's sake."""

    def __init__(self, client: KubeClient, discovery: Discovery | None = None) -> None:
        self._client = client
        self._discovery = discovery or Discovery(client)
        self._kept: dict[WorkloadRef, _Kept] = {}
        self._now = 0.0
        self._barred_until = float("-inf")

    def see(self, view: WorkloadView, policy: Policy, at: float) -> None:
        """Take note of one workload at ``at`` (unix seconds)."""
        self._now = at
        if policy.spec.vertical.template != "Annotate" or view.hold:
            self._kept.pop(view.ref, None)
            return
        text = learned_text(view)
        if text is None:
            return
        kept = self._kept.get(view.ref)
        if kept is None:
            self._kept[view.ref] = _Kept(view.target, text, at)
        elif kept.text != text:
            kept.text, kept.since = text, at

    def due(self) -> list[WorkloadRef]:
        return [
            ref for ref, kept in self._kept.items() if kept.text != kept.written and self._now - kept.since >= SETTLED_S
        ]

    async def write_due(self) -> None:
        if self._now < self._barred_until:
            return
        for ref in self.due():
            kept = self._kept[ref]
            try:
                await self._write(ref, kept)
            except NoRight as error:
                _log.warning("learned sizes are not written to workloads: %s", error)
                self._barred_until = self._now + RIGHTLESS_S
                return
            except KubeError as error:
                _log.info("learned size not written: %s", error)
                kept.since = self._now  # tried again when it has stood for as long once more

    async def _write(self, ref: WorkloadRef, kept: _Kept) -> None:
        resource = await self._discovery.kind(kept.target.api_version, kept.target.kind)
        if resource is None:
            raise KubeError(f"the server has no {kept.target.kind} in {kept.target.api_version}")
        text = kept.text
        answer = await self._client.request(
            "PATCH",
            resource.path(ref.namespace, kept.target.name),
            {"fieldManager": FIELD_MANAGER},
            {"metadata": {"annotations": {LEARNED: text}}},
            MERGE,
            priority=BACKGROUND,
            repeatable=True,
        )
        answer.expect(f"annotate {kept.target} in {ref.namespace}")
        kept.written = text

    async def run(self, every_s: float = 10.0) -> None:
        """Write until cancelled."""
        while True:
            await self.write_due()
            await asyncio.sleep(every_s)


def learned_text(view: WorkloadView) -> str | None:
    """What the annotation says: the largest size that any serving pod was granted. None while a resize is under way."""
    sizes: list[Resources] = []
    for pod in view.pods:
        container = pod.container(view.container)
        if not pod.active or container is None:
            continue
        if pod.attempt is not None and pod.attempt.open:
            return None
        sizes.append(container.desired)
    if not sizes:
        return None
    sides = {
        "requests": _side([(size.cpu_request, size.memory_request) for size in sizes]),
        "limits": _side([(size.cpu_limit, size.memory_limit) for size in sizes]),
    }
    said = {name: side for name, side in sides.items() if side}
    return json.dumps({view.container: said}, separators=(",", ":"))


def _side(amounts: list[tuple[int | None, int | None]]) -> Mapping[str, Any]:
    cpu = [milli for milli, _ in amounts if milli is not None]
    memory = [size for _, size in amounts if size is not None]
    found = {"cpu": quantity.format_cpu(max(cpu))} if cpu else {}
    return found | ({"memory": quantity.format_memory(max(memory))} if memory else {})
