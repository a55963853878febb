"""What people are told in the cluster: Events on the target and its policy, and the status of custom resources.

Nothing here is waited for by a tick, and nothing of it is written in a dry run.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from autoscaler.act.apply import Sent
from autoscaler.act.ports import Result
from autoscaler.act.sizes import changes, overlay, spell
from autoscaler.decide.history import History, compact, restore
from autoscaler.kube.budget_report import budget_status, refused_budget
from autoscaler.kube.events import EventWriter, Occurrence, Regarding
from autoscaler.kube.lasting import LearnedSizes
from autoscaler.kube.learned import Kept, LearnedState
from autoscaler.kube.report import refused_status, status_of
from autoscaler.kube.status import StatusWriter
from autoscaler.loop import Tick
from autoscaler.model.plan import Action, AnnotatePod, Evict, Resize, Revert, Scale
from autoscaler.model.policy import API_VERSION, Mode, Policy
from autoscaler.model.reason import Code
from autoscaler.model.seen import Subject
from autoscaler.model.workload import WorkloadRef
from autoscaler.observe.policy_files import Policies
from autoscaler.observe.policy_object import BUDGET_KIND, POLICY_KIND
from autoscaler.observe.resources import Obeyed, ResourceSeen
from autoscaler.parts import Parts

NOTABLE: Final = frozenset(
    {Code.NO_SIGNAL, Code.STALE, Code.NOT_CPU_BOUND, Code.INELASTIC, Code.UNREACHABLE, Code.AT_MAX, Code.NODE_FULL,
     Code.QUOTA, Code.LIMIT_RANGE, Code.BUDGET, Code.LEAK, Code.MEMORY_UNSAFE, Code.NOT_COMING, Code.OTHER_OWNER,
     Code.BREAKER, Code.UNSUPPORTED, Code.BY_HAND, Code.HELD, Code.NO_ROOM_TO_CONSOLIDATE, Code.GRACE_SHORT,
     Code.MIN_BEYOND}
)  # fmt: skip
"""States that a person should hear of when they begin."""
BLIND: Final = frozenset({Code.NO_SIGNAL, Code.STALE})
LASTS_S: Final = 30.0
"""For so long without a break a workload must be blind before people hear of it: every start and takeover begins blind,
for rates need two looks, and a scrape that fails once is no news."""
QUIET_S: Final = 300.0
"""A state that went away for less than this has not begun anew."""


class Reporter:
    """``instance`` names this process. ``run`` writes; ``tell`` only takes note."""

    def __init__(self, parts: Parts, instance: str) -> None:
        self._parts = parts
        self.events = EventWriter(parts.client, instance)
        self.statuses = StatusWriter(parts.client)
        self.budgets = StatusWriter(parts.client, BUDGET_KIND, "capacitybudgets")
        self.sizes = LearnedSizes(parts.client)
        self.state = LearnedState(parts.client, parts.namespace)
        self._stands: dict[tuple[WorkloadRef, Code], float] = {}
        self._heard: dict[tuple[WorkloadRef, Code], float] = {}

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.events.run(), name="write events")
            tasks.create_task(self.sizes.run(), name="write learned sizes")
            tasks.create_task(self.state.run(), name="keep what was learned")
            if self._parts.resources is not None:
                tasks.create_task(self.statuses.run(), name="write statuses")
                tasks.create_task(self.budgets.run(), name="write budgets' statuses")

    async def finish(self) -> None:
        """Write what waits, at the end."""
        await self.state.write_due(last=True)
        await self.events.flush()
        if self._parts.resources is not None:
            await self.statuses.write_due()
            await self.budgets.write_due()

    def tell(self, tick: Tick, histories: Mapping[WorkloadRef, History], files: Policies) -> None:
        """Take note of one tick."""
        subjects = {subject.view.ref: subject for subject in tick.seen.subjects}
        for subject in tick.seen.subjects:
            if subject.policy.spec.mode is Mode.AUTO:
                self.sizes.see(subject.view, subject.policy, tick.seen.at)
        by_workload: dict[WorkloadRef, list[Sent]] = {}
        for one in tick.sent:
            by_workload.setdefault(one.action.workload, []).append(one)
        for ref, sent in by_workload.items():
            if ref in subjects:
                self._acted(subjects[ref], sent)
        self._states(tick, subjects)
        by_file = [policy.ref for policy in files.policies if policy.spec.mode is Mode.AUTO]  # a dry run writes nothing
        self.state.see(lambda: {ref: compact(histories[ref]) for ref in by_file if ref in histories})
        if self._parts.resources is not None:
            self._say_statuses(self._parts.resources.mixed(files), subjects, tick, histories)

    def _say_statuses(
        self,
        obeyed: Obeyed,
        subjects: Mapping[WorkloadRef, Subject],
        tick: Tick,
        histories: Mapping[WorkloadRef, History],
    ) -> None:
        for ref, resource in obeyed.resources.items():
            subject, plan = subjects.get(ref), tick.plans.get(ref)
            self.statuses.seed(ref, resource.status)
            if subject is not None and plan is not None:
                if self._only_just_blind(ref, tick.seen.at) and self.statuses.known(ref):
                    continue  # a start or a takeover: what stands there is truer than what is not yet seen
                history = histories.get(ref)
                learned = learned_text(history) if history is not None else None
                self.statuses.offer(ref, status_of(subject.view, subject.policy, plan, tick.seen.at, learned))
        assert self._parts.resources is not None
        for resource in self._parts.resources.seen():
            problem = obeyed.refused.get(resource.uid)
            if resource.kind == BUDGET_KIND:
                self._say_budget(resource, problem, subjects, tick)
            elif problem is not None:
                told = refused_status(resource.generation, problem, tick.seen.at, _refusal(resource, problem))
                self.statuses.seed(resource.ref, resource.status)
                self.statuses.offer(resource.ref, told)

    def _say_budget(
        self, resource: ResourceSeen, problem: str | None, subjects: Mapping[WorkloadRef, Subject], tick: Tick
    ) -> None:
        self.budgets.seed(resource.ref, resource.status)
        shared = next((one for one in tick.seen.ledger.budgets if one.ref == resource.ref), None)
        if problem is not None:
            told = refused_budget(resource.generation, problem, _refusal(resource, problem), tick.seen.at)
        elif shared is None:
            return  # new since this tick's picture
        else:
            views = {ref: subject.view for ref, subject in subjects.items()}
            told = budget_status(shared, resource.generation, views, tick.plans, tick.seen.at)
        self.budgets.offer(resource.ref, told)

    def _acted(self, subject: Subject, sent: list[Sent]) -> None:
        """One Event for all that was done alike, in one tick, for one reason."""
        alike: dict[tuple[str, str, str, bool], list[Action]] = {}
        for one in sent:
            fine = one.outcome.result in (Result.ACCEPTED, Result.UNCHANGED)
            if isinstance(one.action, AnnotatePod) or one.outcome.result in (Result.SKIPPED, Result.PRINTED):
                continue
            why = one.action.reason.text if fine else f"{one.outcome.result.value}: {one.outcome.message}"
            alike.setdefault((_change(one.action), one.action.reason.code.value, why, fine), []).append(one.action)
        for (change, code, why, fine), actions in alike.items():
            alone = isinstance(actions[0], Scale | Evict)
            pods = "" if alone else f" of {len(actions)} pod{'s' if len(actions) > 1 else ''}"
            verb = type(actions[0]).__name__
            note = f"{change}{pods}: {why}" if fine else f"{change}{pods} was refused: {why}"
            self._write(subject, code if fine else f"{verb}Refused", verb, note, warning=not fine)

    def _only_just_blind(self, ref: WorkloadRef, now: float) -> bool:
        return any(now - self._stands.get((ref, code), -math.inf) < LASTS_S for code in BLIND)

    def _states(self, tick: Tick, subjects: Mapping[WorkloadRef, Subject]) -> None:
        """An Event for each state that begins, and for blindness once it has lasted."""
        now = tick.seen.at
        standing = {
            (ref, reason.code): reason
            for ref, plan in tick.plans.items() if ref in subjects
            for reason in (plan.reason, *plan.holds) if reason is not None and reason.code in NOTABLE
        }  # fmt: skip
        self._stands = {key: self._stands.get(key, now) for key in standing}
        self._heard = {key: at for key, at in self._heard.items() if now - at <= QUIET_S}
        for key, reason in standing.items():
            if reason.code in BLIND and now - self._stands[key] < LASTS_S:
                continue  # not yet
            if key not in self._heard:
                self._write(subjects[key[0]], reason.code.value, "Hold", reason.text, warning=True)
            self._heard[key] = now

    def _write(self, subject: Subject, reason: str, action: str, note: str, *, warning: bool) -> None:
        view, policy = subject.view, subject.policy
        if policy.spec.mode is Mode.DRY_RUN:
            return  # an Event about what was not done would mislead
        target = self._parts.observer.target(view.ref.namespace, view.target)
        about = Regarding(
            view.target.api_version,
            view.target.kind,
            view.ref.namespace,
            view.target.name,
            target.uid if target else "",
        )
        places = [about]
        if self._parts.resources is not None and _in_cluster(policy):
            resource = next((r for r in self._parts.resources.seen() if r.ref == view.ref), None)
            if resource is not None:
                places.append(Regarding(API_VERSION, POLICY_KIND, view.ref.namespace, view.ref.name, resource.uid))
        for place in places:
            self.events.tell(Occurrence(place, reason, action, note, "Warning" if warning else "Normal"))


def _change(action: Action) -> str:
    match action:
        case Resize() | Revert():
            change = changes(action.before, action.after)
            verb = "resized" if isinstance(action, Resize) else "reverted"
            return f"{verb} {spell(action.before)} to {spell(overlay(action.before, change))}"
        case Scale():
            return f"scaled from {action.before} to {action.after} replicas"
        case Evict():
            return "evicted"
        case AnnotatePod():
            return "annotated"


def learned_text(history: History) -> str:
    """What was learned, as the status carries it over a restart."""
    return json.dumps(compact(history), separators=(",", ":"), sort_keys=True)


def _refusal(resource: ResourceSeen, problem: str) -> str:
    """In one word: what is wrong with it itself, or between it and others."""
    if resource.made is None:
        return "InvalidSpec"
    return "BudgetNotFound" if problem.startswith("spec.budget: ") else "Conflict"


def _in_cluster(policy: Policy) -> bool:
    return policy.origin.startswith(f"{POLICY_KIND} ")


def remembered(policy: Policy, parts: Parts, state: Mapping[WorkloadRef, Kept], learning_until: float) -> History:
    """What this workload's memory starts with: what its resource's status kept, or else ``state``; nothing shrinks
    until then."""
    kept: Any = state.get(policy.ref, {})
    if _in_cluster(policy):
        assert parts.resources is not None
        status = next((r.status for r in parts.resources.seen() if r.ref == policy.ref), {})
        try:
            kept = json.loads(status.get("learned") or "{}")
        except ValueError:
            kept = {}
    known = restore(kept if isinstance(kept, dict) else {})
    return msgspec.structs.replace(known, learning_until=learning_until)
