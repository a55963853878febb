"""The cluster as a tick sees it: each policy's workload with its pods, and the ledger. Watches only; asks nothing anew.

Pods belong to a target by the chain of owner references, never by a selector alone: selectors match foreign pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from autoscaler.kube.client import KubeClient
from autoscaler.kube.decode import pod_from, with_wanted
from autoscaler.kube.seen import TargetSeen
from autoscaler.model.plan import Ledger
from autoscaler.model.policy import Budget, Policy
from autoscaler.model.seen import Subject
from autoscaler.model.workload import Attempt, TargetRef, WorkloadRef, WorkloadView
from autoscaler.observe.foreign import ForeignTargets
from autoscaler.observe.known import Known
from autoscaler.observe.ledger import Books
from autoscaler.observe.views import Surroundings, hold_for_target, view_of
from autoscaler.observe.watches import Scope as Scope
from autoscaler.observe.watches import Watches


class ClusterSeen(NamedTuple):
    """One tick's sight. The subjects' views have no signals yet."""

    subjects: tuple[Subject, ...]
    ledger: Ledger


@dataclass(slots=True)
class _Kept:
    """A view as it was built, valid while ``stamp`` is."""

    policy: Policy
    stamp: tuple[Any, ...]
    view: WorkloadView
    attempts: tuple[Attempt | None, ...] = ()
    with_attempts: WorkloadView | None = None


class ClusterObserver:
    """Run ``run`` as a task; then ``view`` is a pure look at what the watches know.

    ``preset_container``: the usual container name of a policy's preset, for pods with several containers.
    """

    def __init__(
        self,
        client: KubeClient,
        scope: Scope | None = None,
        *,
        preset_container: Callable[[Policy], str] = lambda policy: "",
    ) -> None:
        self.scope = scope or Scope()
        self._preset_container = preset_container
        self._kept: dict[WorkloadRef, _Kept] = {}
        self.known = Known()
        self.watches = Watches(client, self.scope, self.known)
        self._books = Books(self.known.commitments, self.known.nodes, self.known.quotas, self.known.limits)
        self.foreign = ForeignTargets(client)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.watches.run(), name="watch the cluster")
            tasks.create_task(self.foreign.run(), name="read other kinds")

    async def wait_synced(self, timeout: float | None = None) -> bool:
        """Wait for the first sight of everything; False when ``timeout`` seconds passed. ``problems`` says why."""
        return await self.watches.wait_synced(timeout)

    @property
    def synced(self) -> bool:
        """Pods and targets were listed."""
        return self.watches.synced

    def age(self) -> float:
        """Seconds since the cluster was surely seen; infinite before the first time."""
        return self.watches.age()

    def problems(self) -> tuple[str, ...]:
        """What can't be seen, each as one sentence; empty when all is well."""
        return self.watches.problems()

    def learn(self, body: Mapping[str, Any]) -> None:
        """Take in an object the server just answered a request with: it is newer than what the watch has told yet."""
        match body.get("kind"):
            case "Pod":
                try:
                    self.known.pods.put(pod_from(body))
                except ValueError:
                    return
            case "Scale":
                self._learn_scale(body)

    def _learn_scale(self, body: Mapping[str, Any]) -> None:
        meta, spec = body.get("metadata") or {}, body.get("spec") or {}
        known = self.known.targets.items.get(meta.get("uid", ""))
        if known is not None:
            version = meta.get("resourceVersion", "")
            self.known.targets.put(replace(known, replicas=spec.get("replicas") or 0, resource_version=version))

    def view(
        self, policies: Sequence[Policy], attempts: Mapping[str, Attempt], budgets: Iterable[Budget] = ()
    ) -> ClusterSeen:
        """What this tick sees. ``attempts`` by pod uid: our resizes, to be shown on their pods and, while open, counted
        in the ledger. Every policy gets a subject; one that can't be decided on has ``view.hold``."""
        self.foreign.wanted((p.ref.namespace, p.target) for p in policies if not _watched_kind(p.target))
        attempted = {root for uid in attempts for root in self.known.roots(uid)}
        claims: dict[tuple[str, TargetRef], list[Policy]] = {}
        for policy in policies:
            claims.setdefault((policy.ref.namespace, policy.target), []).append(policy)
        # In whole seconds, so that views of a cluster that is heard all the time are handed out as they are.
        age = float(int(min(self.age(), 1e9)))
        subjects = []
        extra: dict[str, tuple[int, int]] = {}
        for policy in policies:
            view = self._view(policy, claims[policy.ref.namespace, policy.target], attempts, attempted, extra, age)
            subjects.append(Subject(view, policy))
        if len(self._kept) > len(policies):
            live = {policy.ref for policy in policies}
            self._kept = {ref: kept for ref, kept in self._kept.items() if ref in live}
        nodes_known = self.watches.nodes_known
        return ClusterSeen(tuple(subjects), self._books.write(extra, policies, budgets, nodes_known=nodes_known))

    def _view(
        self,
        policy: Policy,
        claims: Sequence[Policy],
        attempts: Mapping[str, Attempt],
        attempted: set[str],
        extra: dict[str, tuple[int, int]],
        age: float,
    ) -> WorkloadView:
        target = self.target(policy.ref.namespace, policy.target)
        rival = next((p for p in claims if p.ref != policy.ref), None)
        root = target.uid if target is not None else ""
        stamp = (
            self.known.touched(root), root, self.known.surroundings, rival.ref if rival else None, self.synced,
            self.foreign.changes if not _watched_kind(policy.target) else 0,
        )  # fmt: skip
        kept = self._kept.get(policy.ref)
        if kept is None or kept.policy is not policy or kept.stamp != stamp:
            kept = _Kept(policy, stamp, self._build(policy, target, rival))
            self._kept[policy.ref] = kept
        if kept.view.seen_age_s != age:
            kept.view, kept.with_attempts = replace(kept.view, seen_age_s=age), None
        if root not in attempted:
            return kept.view
        return self._with_attempts(kept, attempts, extra)

    def _with_attempts(
        self, kept: _Kept, attempts: Mapping[str, Attempt], extra: dict[str, tuple[int, int]]
    ) -> WorkloadView:
        ours = tuple(attempts.get(pod.uid) for pod in kept.view.pods)
        if kept.with_attempts is None or kept.attempts != ours:
            pods = tuple(
                pod if attempt is None else replace(pod, attempt=attempt)
                for pod, attempt in zip(kept.view.pods, ours, strict=True)
            )
            kept.attempts, kept.with_attempts = ours, replace(kept.view, pods=pods)
        for pod, attempt in zip(kept.view.pods, ours, strict=True):
            if attempt is not None and attempt.open and pod.node:
                seen = self.known.pods.items[pod.uid]
                cpu, memory = with_wanted(seen, kept.view.container, attempt.wanted)
                before = extra.get(pod.node, (0, 0))
                extra[pod.node] = (before[0] + cpu - seen.cpu, before[1] + memory - seen.memory)
        return kept.with_attempts

    def _build(self, policy: Policy, target: TargetSeen | None, rival: Policy | None) -> WorkloadView:
        hold = ""
        if not self.synced:
            hold = "the cluster has not been read yet"
        elif self.scope.namespace not in (None, policy.ref.namespace):
            hold = f"namespace {policy.ref.namespace} is not watched, only {self.scope.namespace}"
        elif rival is not None:
            hold = f"{policy.target} is wanted twice, also by {rival.ref}: keep one policy for it"
        elif target is None:
            hold = self._unseen(policy) or hold_for_target(policy)
        around = Surroundings(
            pods=self.known.pods_of(target) if target is not None else (),
            sets=self.known.sets_of(target) if target is not None else (),
            scalers=self.known.scalers_of(policy.ref.namespace, policy.target),
            disruption=self.known.disruption_in(policy.ref.namespace),
            zones=self.known.zones,
        )
        return view_of(policy, target, around, self._preset_container(policy), hold)

    def _unseen(self, policy: Policy) -> str:
        """Why a target can't be seen, which is not the same as being gone; empty when it simply isn't there."""
        if not _watched_kind(policy.target):
            return self.foreign.why(policy.ref.namespace, policy.target)
        plural = f"{policy.target.kind.lower()}s"
        why = self.watches.why(plural)
        return f"{plural} can't be read: {why}" if why else ""

    def target(self, namespace: str, ref: TargetRef) -> TargetSeen | None:
        """The target as it was last seen; None when there is none."""
        return self.known.target(namespace, ref) if _watched_kind(ref) else self.foreign.seen(namespace, ref)


_WATCHED = {("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("apps/v1", "ReplicaSet")}


def _watched_kind(ref: TargetRef) -> bool:
    return (ref.api_version, ref.kind) in _WATCHED
