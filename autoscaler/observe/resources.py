"""Policies and budgets that are custom resources: watched, read by the same function as files, mixed with theirs.

A resource that can't be obeyed is no error of the program: it is left out, and why is told for its status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from autoscaler.kube.client import KubeClient
from autoscaler.kube.discovery import collection_path
from autoscaler.kube.seen import Named
from autoscaler.kube.store import Store
from autoscaler.kube.watch import Kind, Reflector
from autoscaler.model.policy import API_VERSION, Budget, Policy
from autoscaler.model.workload import WorkloadRef
from autoscaler.observe.known import Share
from autoscaler.observe.policy_files import Policies, conflicts
from autoscaler.observe.policy_object import BUDGET_KIND, POLICY_KIND, PolicyError, read_object

_NO_FILES: Final = Policies()
_PLURALS: Final = {POLICY_KIND: "inferenceautoscalers", BUDGET_KIND: "capacitybudgets"}


@dataclass(frozen=True, slots=True)
class ResourceSeen(Named):
    """One custom resource. ``made``: what it asks for; None when it can't be read, for the reasons in ``problems``.

    ``status``: as it stands on the server, which is where conditions and learned state come back from after a restart.
    """

    kind: str = POLICY_KIND
    generation: int = 0
    made: Policy | Budget | None = None
    problems: tuple[str, ...] = ()
    status: Mapping[str, Any] = field(default_factory=dict)
    created: str = ""

    @property
    def label(self) -> str:
        """How it is named to a person, and the origin of what it makes."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def ref(self) -> WorkloadRef:
        return WorkloadRef(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Obeyed:
    """Files and resources together. ``refused``: resources that aren't obeyed, by uid, and why in a sentence."""

    policies: tuple[Policy, ...] = ()
    budgets: tuple[Budget, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[WorkloadRef, ResourceSeen] = field(default_factory=dict)
    """The InferenceAutoscaler that each policy came from; policies of files are not in here."""


def decode_resource(raw: bytes | msgspec.Raw) -> ResourceSeen:
    """One object of the API server. What its spec gets wrong is kept as ``problems``, never raised."""
    value = msgspec.json.decode(raw)
    meta = value.get("metadata") or {}
    namespace, name, kind = meta.get("namespace", ""), meta.get("name", ""), value.get("kind") or POLICY_KIND
    made: Policy | Budget | None = None
    problems: tuple[str, ...] = ()
    label = f"{kind} {namespace}/{name}"
    try:
        made = read_object({**value, "kind": kind, "apiVersion": API_VERSION}, label, namespace)
    except PolicyError as error:
        problems = tuple(line.removeprefix(f"{label}: ") for line in error.lines)
    return ResourceSeen(
        namespace, name, meta.get("uid", ""), meta.get("resourceVersion", ""), kind, meta.get("generation") or 0, made,
        problems, value.get("status") or {}, meta.get("creationTimestamp", ""),
    )  # fmt: skip


class CustomResources:
    """Run ``run`` as a task; ``mixed`` is then a pure look at what the watches know."""

    def __init__(self, client: KubeClient, namespace: str | None = None) -> None:
        """``namespace`` None: those of the whole cluster."""
        self._store: Store[ResourceSeen] = Store()
        self._reflectors = [
            Reflector(
                client,
                Kind(plural, collection_path(API_VERSION, plural, namespace), decode_resource),
                Share(self._store, kind),
            )
            for kind, plural in _PLURALS.items()
        ]
        self._mixed: tuple[int, Policies, Obeyed] | None = None

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors:
                tasks.create_task(reflector.run(), name=f"watch {reflector.kind.name}")

    async def wait_settled(self) -> None:
        """Until both kinds were listed, or it is known that they can't be."""
        await asyncio.gather(*(each.settled.wait() for each in self._reflectors))

    @property
    def synced(self) -> bool:
        """Both kinds were listed once; before that "no resources" means nothing."""
        return all(each.synced.is_set() for each in self._reflectors)

    def problems(self) -> tuple[str, ...]:
        """What can't be seen, each as one sentence."""
        return tuple(f"{each.kind.name} are not read: {each.trouble}" for each in self._reflectors if each.trouble)

    def seen(self) -> tuple[ResourceSeen, ...]:
        """All resources as they stand, obeyed or not."""
        return tuple(self._store.items.values())

    def mixed(self, files: Policies = _NO_FILES) -> Obeyed:
        """Everything to be obeyed now. A file wins over a resource of the same name or target, an older resource over a
        younger one; the other is refused and told so."""
        if self._mixed is None or self._mixed[:2] != (self._store.changes, files):
            self._mixed = (self._store.changes, files, mix(files, self._store.items.values()))
        return self._mixed[2]


def mix(files: Policies, resources: Iterable[ResourceSeen]) -> Obeyed:
    """Pure; the order of ``resources`` doesn't matter."""
    refused = {}
    standing = []
    for seen in sorted(resources, key=lambda each: (each.created, each.ref)):
        if seen.made is None:
            refused[seen.uid] = "; ".join(seen.problems)
        else:
            standing.append(seen)
    while True:
        policies = (*files.policies, *(s.made for s in standing if isinstance(s.made, Policy)))
        budgets = (*files.budgets, *(s.made for s in standing if isinstance(s.made, Budget)))
        told = conflicts(policies, budgets)
        blamed = {seen.uid: lines for seen in standing if (lines := _about(seen, told))}
        if not blamed:
            break
        refused |= {uid: "; ".join(lines) for uid, lines in blamed.items()}
        standing = [seen for seen in standing if seen.uid not in blamed]
    return Obeyed(policies, budgets, refused, {seen.ref: seen for seen in standing if seen.kind == POLICY_KIND})


def _about(seen: ResourceSeen, problems: Sequence[str]) -> list[str]:
    """The lines about one resource, without the label that its status doesn't need."""
    return [line.removeprefix(f"{seen.label}: ") for line in problems if line.startswith(f"{seen.label}: ")]
