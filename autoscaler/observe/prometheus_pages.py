"""The servers' pages through Prometheus: all workloads that look for the same names, in one query."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from autoscaler.model.signal import Absent, Signals
from autoscaler.model.workload import WorkloadRef
from autoscaler.observe import latency, queries, series
from autoscaler.observe.answers import PROCESS_ROLES, PodAnswer, page_roles
from autoscaler.observe.counters import CounterMemory, Growth
from autoscaler.observe.merging import absent_signals
from autoscaler.observe.names import SignalNames, resolve
from autoscaler.observe.page_samples import PageSamples, bound_of
from autoscaler.observe.ports import Watched
from autoscaler.observe.prometheus import Answer, Prometheus
from autoscaler.observe.queries import BoundWanted, Scope
from autoscaler.observe.readings import reduce
from autoscaler.observe.rows import Row
from autoscaler.observe.shown import ShownLatency
from autoscaler.observe.told import Told, asked_of, capped_signals, running, scope_of, tell, tell_much, why_no_rows

EARLIER_S = 60.0
"""How far back a workload's first read looks for a baseline."""
BOUNDS_EVERY_S = 300.0


class PageGroup:
    """``members``: the workloads of this tick, set before each ``read``."""

    def __init__(self, prometheus: Prometheus, clock: Callable[[], float], names: SignalNames) -> None:
        self.names = names
        self.members: list[Watched] = []
        self._prometheus = prometheus
        self._clock = clock
        self._memory = CounterMemory()
        self._samples = PageSamples(names)
        self._rows = series.TargetRows(scope_of(prometheus, ()))
        self._primed: set[WorkloadRef] = set()
        self._roles = page_roles(names)
        self._bounds: dict[float, tuple[str, ...]] = {}
        self._bounds_at = -math.inf
        self._own_bounds: dict[WorkloadRef, tuple[float, dict[float, tuple[str, ...]]]] = {}
        self._shown = ShownLatency(prometheus, clock, names)

    def forget(self) -> None:
        """Keep only the members and their pods."""
        self._memory.prune({(pod.uid, watched.container) for watched in self.members for pod in watched.pods})
        refs = {watched.ref for watched in self.members}
        self._primed &= refs
        self._own_bounds = {ref: bounds for ref, bounds in self._own_bounds.items() if ref in refs}

    async def read(self, *, process: bool) -> dict[WorkloadRef, Signals]:
        """``process``: whether the servers' own CPU and memory are needed, for want of the kubelet's."""
        scope = scope_of(self._prometheus, self.members)
        why = await self._learn_bounds(scope)
        query = queries.page_query(self.names, scope, self._bounds_wanted(), process=process)
        self._roles = page_roles(self.names) if process else page_roles(self.names) - PROCESS_ROLES
        if why is not None:
            return {watched.ref: absent_signals(why) for watched in self.members}
        (answer, told), _ = await asyncio.gather(
            tell_much(self._prometheus, self._clock, query, self._rows), self._refresh_shown(scope)
        )
        if told.why is not None:
            return {watched.ref: absent_signals(told.why) for watched in self.members}
        new = {watched.ref for watched in self.members if watched.ref not in self._primed}
        if new and answer.rows:
            earlier, _ = await tell_much(self._prometheus, self._clock, query, self._rows, told.at - EARLIER_S)
            rows = series.by_pod(earlier.found)
            for watched in self.members:
                if watched.ref in new:
                    self._fold(watched, self.names, rows)
                    self._primed.add(watched.ref)
        rows = series.by_pod(answer.found)
        folded = {watched.ref: self._fold(watched, self.names, rows, told) for watched in self.members}
        await self._learn_own_bounds(folded)
        return {watched.ref: self._reduced(watched, folded[watched.ref], told) for watched in self.members}

    def _fold(
        self,
        watched: Watched,
        names: SignalNames,
        rows: Mapping[series.PodKey, list[series.Target]],
        told: Told | None = None,
    ) -> dict[str, PodAnswer]:
        """Each pod's rows into the memory of counters. ``told`` None: an earlier sample, for the baseline only."""
        answers: dict[str, PodAnswer] = {}
        port = resolve(watched.policy).port if watched.policy.spec.signals.scrape.port else None
        for pod in running(watched.pods):
            key = (pod.uid, watched.container)
            before = self._memory.last(key)
            found = rows.get((pod.namespace, pod.name), ())
            target = series.of_live_pod(pod, found, watched.container, port)
            if isinstance(target, Absent):
                answers[pod.uid] = PodAnswer(why=why_no_rows(target, told, before is not None))
                continue
            if (
                before is not None
                and before.at == target.at
                and before.incarnation == target.of(pod, watched.container)
            ):
                sample = before  # not scraped again since the last tick
            else:
                sample = self._samples.read(target, pod, watched.container, before)
            growth = self._memory.fold(key, sample)
            if told is not None:
                answers[pod.uid] = PodAnswer(sample, growth, age_s=max(0.0, told.at - sample.at))
        return answers

    def _reduced(self, watched: Watched, answers: Mapping[str, PodAnswer], told: Told) -> Signals:
        whole = self.names.histogram is not None  # its latencies come from all buckets, by a query of their own
        signals = reduce(asked_of(watched, self.names, self._roles), answers, latencies=not whole)
        if whole:
            shown, mean = self._shown.of(watched)
            signals = replace(signals, latency=shown, mean_latency=mean)
        return capped_signals(signals, told.partial) if told.partial else signals

    async def _refresh_shown(self, scope: Scope) -> None:
        if self._primed:  # not at the first read, which asks enough already
            pods = sum(len(watched.pods) for watched in self.members)
            await self._shown.refresh(scope, pods, self._usual_window())

    def _usual_window(self) -> float:
        """Seconds between two samples, as some of the pods show."""
        windows = [
            kept.window_s
            for watched in self.members[:20]
            for pod in watched.pods[:3]
            if isinstance(kept := self._memory.growth((pod.uid, watched.container)), Growth)
        ]
        return max(windows, default=0.0)

    # ------------------------------------------------------------------ bounds

    async def _learn_bounds(self, scope: Scope) -> Absent | None:
        now = self._clock()
        if self.names.histogram is None or (self._bounds and now - self._bounds_at < BOUNDS_EVERY_S):
            return None
        answer, told = await tell(self._prometheus, self._clock, queries.bounds_query(self.names, scope))
        if told.why is not None:
            return None if self._bounds else told.why
        self._bounds, self._bounds_at = _bounds_of(answer, self.names), now
        return None

    def _bounds_wanted(self) -> list[BoundWanted]:
        pods: dict[tuple[str, ...], list[str]] = {}
        for watched in self.members:
            objective = watched.policy.spec.objective.latency
            if objective is None or self.names.histogram is None:
                continue
            known = self._bounds_for(watched)
            bound = latency.objective_bound(known, objective.target)
            # without a bucket near the target, the bounds around it let the reading say which there are
            wanted = [known[bound]] if isinstance(bound, float) else list(known.values())[:2]
            for written in wanted:
                pods.setdefault(written, []).extend(pod.name for pod in watched.pods)
        return [BoundWanted(written, tuple(sorted(of))) for written, of in sorted(pods.items())]

    async def _learn_own_bounds(self, folded: Mapping[WorkloadRef, Mapping[str, PodAnswer]]) -> None:
        """A workload whose server has other bounds than the rest is asked for its own: one query a tick."""
        now = self._clock()
        for watched in self.members:
            objective = watched.policy.spec.objective.latency
            samples = [answer.sample for answer in folded[watched.ref].values() if answer.sample is not None]
            asked_at = self._own_bounds.get(watched.ref, (-math.inf, {}))[0]
            if self.names.histogram is None or objective is None or not samples or now - asked_at < BOUNDS_EVERY_S:
                continue
            bound = latency.objective_bound(self._bounds_for(watched), objective.target)
            if isinstance(bound, float) and any(bound in sample.buckets for sample in samples):
                continue
            query = queries.bounds_query(self.names, scope_of(self._prometheus, [watched]))
            answer, told = await tell(self._prometheus, self._clock, query)
            if told.why is None:
                self._own_bounds[watched.ref] = (now, _bounds_of(answer, self.names))
            return

    def _bounds_for(self, watched: Watched) -> dict[float, tuple[str, ...]]:
        """The workload's own bounds where it was asked for them, else the group's."""
        return self._own_bounds.get(watched.ref, (0.0, {}))[1] or self._bounds


def _bounds_of(answer: Answer[list[Row]], names: SignalNames) -> dict[float, tuple[str, ...]]:
    assert names.histogram is not None
    found: dict[float, list[str]] = {}
    for row in answer.rows:
        written = row.metric.get("le", "")
        bound = bound_of(written, names.histogram.unit)
        if math.isfinite(bound):
            found.setdefault(bound, []).append(written)
    return {bound: tuple(sorted(found[bound])) for bound in sorted(found)}
