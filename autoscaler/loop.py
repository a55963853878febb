"""One tick: observe everything, decide, act; refusals are decided on once more before the tick ends.

The parts come in through ports, so the daemon, ``plan`` and the tests run this same function on an API server, a
printer or an emulated cluster.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from autoscaler.act.apply import Applier, Sending, Sent
from autoscaler.act.ports import Outcome, Patch, Sink
from autoscaler.decide.decision import decide
from autoscaler.decide.history import History
from autoscaler.model.plan import Plan
from autoscaler.model.policy import Budget, Mode, Policy
from autoscaler.model.seen import Seen, Subject
from autoscaler.model.workload import Attempt, WorkloadRef
from autoscaler.observe.cluster import ClusterSeen
from autoscaler.observe.policy_files import Policies
from autoscaler.observe.ports import MetricSource, Watched

ROUNDS: Final = 2
"""Decisions in one tick: the first, and one more for those that were refused."""


class Clock:
    """Unix seconds that never jump: the epoch at the start plus the loop's monotonic time."""

    def __init__(self, epoch: float | None = None, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self._zero = self._loop.time()
        self._epoch = time.time() if epoch is None else epoch

    def now(self) -> float:
        return self._epoch + (self._loop.time() - self._zero)

    def at(self, loop_time: float) -> float:
        """The unix time of a moment on the loop's clock."""
        return self._epoch + (loop_time - self._zero)


class Observer(Protocol):
    """The cluster as the loop needs it (``observe.cluster.ClusterObserver``)."""

    def view(
        self, policies: Sequence[Policy], attempts: Mapping[str, Attempt], budgets: Iterable[Budget] = ()
    ) -> ClusterSeen: ...
    def learn(self, body: Mapping[str, Any]) -> None: ...


class Routed:
    """A sink for the whole fleet: workloads whose mode is DryRun go to the printer, the others to the cluster."""

    def __init__(self, cluster: Sink, printer: Sink, dry: Callable[[WorkloadRef], bool]) -> None:
        self._cluster, self._printer, self._dry = cluster, printer, dry

    async def send(self, patch: Patch) -> Outcome:
        return await (self._printer if self._dry(patch.action.workload) else self._cluster).send(patch)


@dataclass(frozen=True, slots=True)
class Tick:
    """What one tick saw, decided and did. ``took_s``: seconds from begin to end; ``decided_s`` of it deciding."""

    seen: Seen
    plans: Mapping[WorkloadRef, Plan]
    sent: tuple[Sent, ...] = ()
    took_s: float = 0.0
    decided_s: float = 0.0
    past: Mapping[WorkloadRef, History] = field(default_factory=dict)
    """What was remembered *before* this tick: with ``seen`` it is all that the decision took."""


class ControlLoop:
    """Holds what lasts between ticks: the policies, the histories, and what is in flight (in the applier)."""

    def __init__(
        self, observer: Observer, source: MetricSource, applier: Applier, clock: Clock, policies: Policies | None = None
    ) -> None:
        self.observer, self.source, self.applier, self.clock = observer, source, applier, clock
        self.policies = policies or Policies()
        self.past: dict[WorkloadRef, History] = {}
        self.paused = False
        """A person has paused everything."""
        self.begin: Callable[[Policy], History] = lambda policy: History()
        """What the memory of a workload that was not known before starts with."""

    def dry(self, ref: WorkloadRef) -> bool:
        """Whether this workload's plans are only shown."""
        return any(policy.ref == ref and policy.spec.mode is Mode.DRY_RUN for policy in self.policies.policies)

    async def observe(self) -> Seen:
        """The cluster and the signals, as one picture. Never raises for a source that is down."""
        first = self._cluster()
        watched = [Watched(s.view.ref, s.policy, s.view.pods, s.view.container) for s in first.subjects]
        signals = await self.source.read(watched, self.clock.now())
        now = self._cluster()  # looked at again: reading took a while
        subjects = tuple(
            Subject(replace(s.view, signals=signals[s.view.ref]), s.policy) if s.view.ref in signals else s
            for s in now.subjects
        )
        return Seen(self.clock.now(), subjects, now.ledger, paused=self.paused)

    async def tick(self) -> Tick:
        """Observe, decide, act."""
        began = self.clock.now()
        for policy in self.policies.policies:
            if policy.ref not in self.past:
                self.past[policy.ref] = self.begin(policy)
        before = dict(self.past)
        seen = self.applier.watch(await self.observe())
        started = time.perf_counter()
        plans, past = decide(seen, self.past)
        decided = time.perf_counter() - started
        self.past = past
        sending = await self._send(plans.values(), seen)
        sent, all_plans = list(sending.sent), dict(plans)
        for _ in range(ROUNDS - 1):
            if not sending.refused:
                break
            sending = await self._again(seen, sending.refused, all_plans)
            sent += sending.sent
        return Tick(seen, all_plans, tuple(sent), self.clock.now() - began, decided, before)

    async def _again(self, seen: Seen, refused: frozenset[WorkloadRef], plans: dict[WorkloadRef, Plan]) -> Sending:
        """Decide once more on the same signals, with what the refusals taught, and send only the refused."""
        signals = {s.view.ref: s.view.signals for s in seen.subjects}
        now = self._cluster()
        subjects = tuple(
            Subject(replace(s.view, signals=signals.get(s.view.ref, s.view.signals)), s.policy) for s in now.subjects
        )
        look = self.applier.watch(replace(seen, at=self.clock.now(), subjects=subjects, ledger=now.ledger))
        decided, past = decide(look, self.past)
        for ref in refused & decided.keys():
            plans[ref] = decided[ref]
            self.past[ref] = past[ref]
        return await self._send([decided[ref] for ref in sorted(refused & decided.keys())], look)

    async def _send(self, plans: Iterable[Plan], seen: Seen) -> Sending:
        sending = await self.applier.send(list(plans), seen)
        for one in sending.sent:
            if one.outcome.body is not None:
                self.observer.learn(one.outcome.body)
        return sending

    def _cluster(self) -> ClusterSeen:
        attempts = {uid: record.attempt for uid, record in self.applier.follower.records.items()}
        return self.observer.view(self.policies.policies, attempts, self.policies.budgets)
