"""A plan, as effects: requests through a sink, the largest shortfall first, each looked at again right before it goes.

One `Applier` lives as long as this process acts. Per tick: ``seen = applier.watch(seen)``, decide, ``await
applier.send(plans, seen)``; workloads in ``Sending.refused`` may be decided and sent again in the same tick.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from autoscaler.act.brakes import (
    Brakes,
    FleetLimits,
    Trial,
    breaker,
    cpu_left,
    failed,
    fleet_limit,
    judge,
    may_restart,
    resizes_left,
    spend,
    verdict,
)  # fmt: skip
from autoscaler.act.follower import Follower
from autoscaler.act.patches import patches
from autoscaler.act.ports import Outcome, Patch, Result, Sink
from autoscaler.act.preflight import preflight
from autoscaler.act.scene import Scene
from autoscaler.act.sizes import restarts
from autoscaler.act.spending import added, batches, cores, gives, shortfall_of
from autoscaler.model.plan import Action, AnnotatePod, Ledger, Plan, Resize, Revert
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.seen import Seen, Subject
from autoscaler.model.workload import Pod, WorkloadRef

CONCURRENCY: Final = 64
NO_LIMITS: Final = FleetLimits()
DONE: Final = frozenset({Result.ACCEPTED, Result.UNCHANGED, Result.PRINTED})

_REFUSALS: Final[Mapping[Code, Result]] = {
    Code.NODE_FULL: Result.NODE_CAPACITY,
    Code.QUOTA: Result.QUOTA,
    Code.LIMIT_RANGE: Result.LIMIT_RANGE,
    Code.UNSUPPORTED: Result.UNSUPPORTED,
    Code.REFUSED: Result.INVALID,
    Code.MEMORY_UNSAFE: Result.MEMORY_UNSAFE,
}
"""What is known before sending is remembered in the words the server would have used. HELD is not a refusal: later."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One action's end: the outcome of its request, or why none was made (``reason``)."""

    action: Action
    outcome: Outcome
    patch: Patch | None = None
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Sending:
    """All that one call sent, in no order across workloads. ``refused``: who should be decided again at once."""

    sent: tuple[Sent, ...] = ()
    refused: frozenset[WorkloadRef] = frozenset()


@dataclass(slots=True)
class _Tick:
    """What this tick has spent since its ledger was drawn."""

    at: float = -1.0
    cpu: dict[str, int] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    quota: dict[str, dict[str, int]] = field(default_factory=dict)
    restarting: dict[WorkloadRef, set[str]] = field(default_factory=dict)
    unanswered: dict[str, int] = field(default_factory=dict)
    """Millicores asked for, by pod uid, in requests that are on their way."""


class Applier:
    """Sends plans and remembers what became of them.

    ``sink`` is where patches go. ``limits``, ``look`` (the newest sight of a pod, None when it is gone) and ``learn``
    (told each object the server answers with) may be exchanged at any time. ``clock``: seconds on the tick's clock.
    ``resources``: discovered resource names by (apiVersion, kind). ``minor``: the server's minor version once known.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        clock: Callable[[], float],
        follower: Follower | None = None,
        limits: FleetLimits | None = None,
        look: Callable[[Pod], Pod | None] | None = None,
        learn: Callable[[Mapping[str, Any]], None] | None = None,
        resources: Mapping[tuple[str, str], str] | None = None,
        concurrency: int = CONCURRENCY,
    ) -> None:
        self.sink = sink
        self.limits = limits or FleetLimits()
        self.look = look
        self.minor: int | None = None
        self.learn = learn
        self.resources = resources or {}
        self.follower = follower or Follower()
        self.brakes = Brakes()
        self._clock = clock
        self._turns = asyncio.Semaphore(concurrency)
        self._tick = _Tick()
        self._trials: dict[str, Trial] = {}

    def watch(self, seen: Seen) -> Seen:
        """Follow what is under way on this sight, and put attempts, fleet limits and the breaker into it."""
        seen = self.follower.watch(seen)
        self._judge(seen)
        ledger = replace(
            seen.ledger,
            fleet_cpu_left=cpu_left(self.brakes, self.limits, seen.at),
            fleet_resizes_left=resizes_left(self.follower.in_flight(), self.limits),
        )
        opened = breaker(self.brakes, seen.at) is not None
        return replace(seen, ledger=ledger, brakes_open=seen.brakes_open or opened)

    def breaker(self, now: float) -> Reason | None:
        """Why shrinking and consolidation are stopped, or None."""
        return breaker(self.brakes, now)

    def _judge(self, seen: Seen) -> None:
        """Count how resizes ended; a shrink is judged by the misses of the minute that follows it."""
        subjects = {subject.view.ref: subject for subject in seen.subjects}
        for record in self.follower.ended():
            bad = failed(record)
            if bad is None:
                continue
            subject = subjects.get(record.workload)
            trial = Trial.of(record, subject, seen.at) if not bad and subject is not None else None
            if trial is None:
                self.brakes = judge(self.brakes, not bad, seen.at)
            else:
                self._trials[record.uid] = trial
        for uid, trial in list(self._trials.items()):
            good = verdict(trial, subjects.get(trial.workload), seen.at)
            if good is not None:
                del self._trials[uid]
                self.brakes = judge(self.brakes, good, seen.at)

    def start(self, seen: Seen) -> None:
        """A new ledger: what was spent on the one before is in it."""
        if self._tick.at != seen.at:
            self._tick = _Tick(at=seen.at)

    async def send(self, plans: Sequence[Plan], seen: Seen) -> Sending:
        """Send all actions: workloads side by side, the largest shortfall first; one workload's in their order.

        What all of them give back goes before what any of them takes, for it may be the same room. Consecutive resizes
        of a workload go together. Cancelling it cancels what has not been answered yet.
        """
        self.start(seen)
        subjects = {subject.view.ref: subject for subject in seen.subjects}
        due = sorted((plan for plan in plans if plan.actions), key=shortfall_of, reverse=True)
        parts = [(plan, batches(plan.actions)) for plan in due]
        giving = [(plan, groups[:1]) for plan, groups in parts if gives(groups[0])]
        taking = [(plan, groups[1:] if gives(groups[0]) else groups) for plan, groups in parts]
        sent: list[Sent] = []
        for turn in (giving, taking):
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._carry_out(plan, groups, subjects.get(plan.ref), seen.ledger))
                    for plan, groups in turn
                    if groups
                ]
            sent += [one for task in tasks for one in task.result()]
        refused = frozenset(one.action.workload for one in sent if _decides_anew(one))
        return Sending(tuple(sent), refused)

    async def _carry_out(
        self, plan: Plan, groups: list[list[Action]], subject: Subject | None, ledger: Ledger
    ) -> list[Sent]:
        urgent, _ = shortfall_of(plan)
        sent: list[Sent] = []
        for batch in groups:
            if len(batch) == 1:
                sent.append(await self._act(batch[0], subject, ledger, urgent))
                continue
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._act(one, subject, ledger, urgent)) for one in batch]
            sent.extend(task.result() for task in tasks)
        return sent

    async def _act(self, action: Action, subject: Subject | None, ledger: Ledger, priority: float) -> Sent:
        async with self._turns:
            if not isinstance(action, Resize | Revert):
                return await self._send(action, priority)
            timeout = float(subject.policy.spec.resize.timeout_seconds) if subject is not None else 60.0
            reason = self.held(action, subject, ledger)
            if reason is not None:
                return self._not_sent(action, reason, timeout)
            self.reserve(action)
            self._tick.unanswered[action.pod.uid] = max(0, cores(action))
            try:
                one = await self._send(action, priority)
            finally:
                self._tick.unanswered.pop(action.pod.uid, None)
            now = self._clock()
            if one.patch is not None:
                self.follower.sent(action, one.outcome, now, timeout)
            if one.outcome.result is not Result.ACCEPTED:
                self._release(action)
            else:
                self.brakes = spend(self.brakes, cores(action), now)
                self.freed(action)
            return one

    def held(self, action: Resize | Revert, subject: Subject | None, ledger: Ledger) -> Reason | None:
        """Every reason not to send this now, on the newest sight of its pod."""
        now, tick = self._clock(), self._tick
        pod = action.pod if self.look is None else self.look(action.pod)
        if pod is None:
            return because(Code.HELD, why=f"{action.pod.name} is gone")
        signals = subject.view.signals.pods.get(pod.uid) if subject is not None else None
        scene = Scene(
            action, pod, ledger, now, signals, tick.at, tick.cpu.get(pod.node, 0), tick.memory.get(pod.node, 0),
            tick.quota.get(pod.namespace, {}), self.minor,
        )  # fmt: skip
        reason = preflight(scene)
        if reason is not None or isinstance(action, Revert):
            return reason
        container = pod.container(action.container)
        if subject is not None and container is not None and restarts(container, scene.change):
            chosen = tick.restarting.setdefault(action.workload, set())
            reason = may_restart(
                pod, subject.view, self.follower.of(action.workload), now=now, restarting=chosen,
                max_unavailable=subject.policy.spec.resize.max_unavailable,
            )  # fmt: skip
            if reason is not None:
                return reason
            chosen.add(pod.uid)
        if self.limits == NO_LIMITS:
            return None
        on_way = tick.unanswered
        return fleet_limit(
            self.brakes, self.limits, milli=cores(action), now=now, unanswered=sum(on_way.values()),
            in_flight=self.follower.in_flight() + len(on_way),
        )  # fmt: skip

    def reserve(self, action: Resize | Revert, sign: int = 1) -> None:
        """Between this check and the answer nobody else may spend the same room."""
        cpu, memory, quota = added(action)
        node, namespace, tick = action.pod.node, action.pod.namespace, self._tick
        tick.cpu[node] = tick.cpu.get(node, 0) + sign * max(0, cpu)
        tick.memory[node] = tick.memory.get(node, 0) + sign * max(0, memory)
        spent = tick.quota.setdefault(namespace, {})
        for key, more in quota.items():
            spent[key] = spent.get(key, 0) + sign * max(0, more)

    def freed(self, action: Resize | Revert) -> None:
        """CPU requests that an accepted shrink gives back are free for what is sent after it; memory is not, yet.

        An infeasible size was counted nowhere, so taking it back frees nothing.
        """
        cpu, _, _ = added(action)
        if cpu < 0 and "Infeasible" not in (action.pod.resize_pending, action.pod.resize_dialect):
            self._tick.cpu[action.pod.node] = self._tick.cpu.get(action.pod.node, 0) + cpu

    def _release(self, action: Resize | Revert) -> None:
        self.reserve(action, -1)
        self._tick.restarting.get(action.workload, set()).discard(action.pod.uid)

    def _not_sent(self, action: Resize | Revert, reason: Reason, timeout: float) -> Sent:
        word = _REFUSALS.get(reason.code)
        if word is not None:
            self.follower.refuse(action, word.value, reason.text, self._clock(), timeout, asked=False)
        return Sent(action, Outcome(word or Result.SKIPPED, reason.text), None, reason)

    async def _send(self, action: Action, priority: float) -> Sent:
        last: Sent | None = None
        for patch in patches(action, resources=self.resources):
            outcome = await self.sink.send(replace(patch, priority=priority))
            last = Sent(action, outcome, patch)
            if outcome.body is not None and self.learn is not None:
                self.learn(outcome.body)
            # Who may not mark pods leaves it to the controller which goes; the number stands nevertheless.
            unmarked = isinstance(patch.action, AnnotatePod) and outcome.result is Result.FORBIDDEN
            if outcome.result not in DONE and not unmarked:
                break
        return last or Sent(action, Outcome(Result.UNCHANGED, "nothing to change"))


def _decides_anew(one: Sent) -> bool:
    """A refusal that another size or replicas can answer; not what only time or a person can."""
    if one.reason is not None:
        return one.reason.code in _REFUSALS
    return one.outcome.result in (
        Result.NODE_CAPACITY, Result.QUOTA, Result.LIMIT_RANGE, Result.INVALID, Result.WEBHOOK, Result.UNSUPPORTED,
        Result.DISRUPTION_BUDGET,
    )  # fmt: skip
