"""Signals through Prometheus: a constant number of queries a tick, whatever the number of workloads.

Per set of metric names (a preset): one query for all pods' pages, one in five minutes for the histogram's bounds, one
in half a minute for the percentile that is shown. For all together: one for the kubelet's figures, which are no fresher
than ten seconds however often one asks. A workload's first read asks for a minute ago as well, so that it has rates at
once. Queries that users wrote are their own (``user_queries.py``).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.model.signal import Absent, Cause, Measured, Reading, Signals
from autoscaler.model.workload import Pod, WorkloadRef
from autoscaler.observe import latency, queries, series
from autoscaler.observe.answers import KUBELET_ROLES, Asked, PodAnswer, expected_pods
from autoscaler.observe.counters import CounterMemory, Growth, PodSample
from autoscaler.observe.merging import absent_signals, merged
from autoscaler.observe.names import SignalNames, resolve
from autoscaler.observe.ports import Watched
from autoscaler.observe.prometheus import Answer, Prometheus, QueryRefused, Unavailable
from autoscaler.observe.queries import BoundWanted, Scope
from autoscaler.observe.readings import reduce
from autoscaler.observe.user_queries import UserQueries

LOG = logging.getLogger(__name__)

EARLIER_S = 60.0
KUBELET_EVERY_S = 10.0
BOUNDS_EVERY_S = 300.0
SHOW_EVERY_S = 30.0
SHOW_WINDOW_S = 60.0
PARTIAL = 0.99
"""Coverage of what came with a warning: nobody knows how much is missing."""


@dataclass(slots=True)
class _Group:
    """All workloads that look for the same names. Times by the clock of this process."""

    names: SignalNames
    members: list[Watched] = field(default_factory=list)
    bounds: dict[float, tuple[str, ...]] = field(default_factory=dict)
    bounds_at: float = -math.inf
    shown: dict[tuple[str, str], dict[float, float]] = field(default_factory=dict)
    shown_at: float = -math.inf
    shown_window_s: float = SHOW_WINDOW_S


@dataclass(slots=True)
class _Told:
    """What one query gave: rows by pod or container, the server's time, or why there is nothing."""

    at: float = 0.0
    asked_at: float = -math.inf
    why: Absent | None = None
    partial: str = ""


class PrometheusSource:
    """``clock``: monotonic seconds. ``confine``: whether a workload's own queries may read only its namespace.

    ``kubelet_every_s``: the kubelet's figures are asked for no more often.
    """

    name = "prometheus"

    def __init__(
        self,
        prometheus: Prometheus,
        *,
        clock: Callable[[], float],
        confine: Callable[[Watched], bool] = lambda watched: False,
        kubelet_every_s: float = KUBELET_EVERY_S,
    ) -> None:
        self._kubelet_every_s = kubelet_every_s
        self._prometheus = prometheus
        self._clock = clock
        self._users = UserQueries(prometheus, confine)
        self._pages = CounterMemory()
        self._containers = CounterMemory()
        self._groups: dict[SignalNames, _Group] = {}
        self._kubelet = _Told()
        self._kubelet_samples: dict[str, PodSample | Absent] = {}
        self._own_bounds: dict[WorkloadRef, dict[float, tuple[str, ...]]] = {}
        self._primed: set[tuple[str, WorkloadRef]] = set()

    async def read(self, workloads: Sequence[Watched], at: float) -> Mapping[WorkloadRef, Signals]:
        found: dict[WorkloadRef, Signals] = {}
        usable = []
        for watched in workloads:
            try:
                resolve(watched.policy)
                usable.append(watched)
            except ValueError as wrong:
                found[watched.ref] = absent_signals(Absent(Cause.NOT_CONFIGURED, str(wrong), self.name))
        groups = self._grouped(usable)
        kubelet, users, pages = await asyncio.gather(
            self._read_kubelet(usable),
            self._users.read(usable),
            asyncio.gather(*(self._read_group(group) for group in groups)),
        )
        from_pages = {ref: signals for page in pages for ref, signals in page.items()}
        for watched in usable:
            signals = merged(kubelet.get(watched.ref), from_pages.get(watched.ref, Signals()))
            found[watched.ref] = users.over(watched, signals)
        self._forget(usable)
        return found

    def _grouped(self, workloads: Sequence[Watched]) -> list[_Group]:
        for group in self._groups.values():
            group.members = []
        for watched in workloads:
            names = resolve(watched.policy)
            if _of_page(names):
                bare = replace(names, port=None, path=None, scheme=None, queries=type(names.queries)())
                self._groups.setdefault(bare, _Group(bare)).members.append(watched)
        self._groups = {names: group for names, group in self._groups.items() if group.members}
        return list(self._groups.values())

    def _forget(self, workloads: Sequence[Watched]) -> None:
        uids = {(watched.ref, pod.uid) for watched in workloads for pod in watched.pods}
        self._pages.prune(uids)
        self._containers.prune(uids)
        refs = {watched.ref for watched in workloads}
        self._primed = {(kind, ref) for kind, ref in self._primed if ref in refs}
        self._own_bounds = {ref: bounds for ref, bounds in self._own_bounds.items() if ref in refs}

    def _scope(self, workloads: Sequence[Watched]) -> Scope:
        settings = self._prometheus.settings
        names = tuple(sorted({pod.name for watched in workloads for pod in watched.pods}))
        return Scope(
            namespaces=tuple(sorted({watched.ref.namespace for watched in workloads})),
            pods=names if len(names) <= queries.FEW_PODS else (),
            pod=settings.pod_label,
            namespace=settings.namespace_label,
            replicas=settings.replica_labels,
        )

    async def _ask(self, query: str, at: float | None = None) -> tuple[Answer, _Told]:
        """An answer, or none with the cause; never raises for a source that is down."""
        told = _Told(asked_at=self._clock())
        try:
            answer = await self._prometheus.ask(query, at)
        except QueryRefused as refused:
            told.why = Absent(Cause.REFUSED, str(refused)[:200], self.name)
        except Unavailable as down:
            told.why = Absent(Cause.SOURCE_DOWN, str(down)[:200], self.name)
        else:
            told.at = answer.rows[0].value[0] if answer.rows else 0.0
            if answer.warnings:
                told.partial = "; ".join(answer.warnings)[:160]
            return answer, told
        return Answer([]), told

    # ------------------------------------------------------------------ the servers' pages

    async def _read_group(self, group: _Group) -> dict[WorkloadRef, Signals]:
        scope = self._scope(group.members)
        why = await self._learn_bounds(group, scope)
        query = queries.page_query(group.names, scope, self._bounds_wanted(group))
        answer, told = (Answer([]), _Told(why=why)) if why else await self._ask(query)
        if told.why is not None:
            return {watched.ref: absent_signals(told.why) for watched in group.members}
        new = {watched.ref for watched in group.members if ("page", watched.ref) not in self._primed}
        if new and answer.rows:
            earlier, _ = await self._ask(query, told.at - EARLIER_S)
            rows = series.targets(earlier.rows, scope)
            for watched in group.members:
                if watched.ref in new:
                    self._fold_pages(watched, group.names, rows)
                    self._primed.add(("page", watched.ref))
        rows = series.targets(answer.rows, scope)
        folded = {watched.ref: self._fold_pages(watched, group.names, rows, told) for watched in group.members}
        await self._learn_own_bounds(group, folded)
        await self._learn_shown(group, scope)
        return {watched.ref: self._reduced(watched, group, folded[watched.ref], told) for watched in group.members}

    def _fold_pages(
        self,
        watched: Watched,
        names: SignalNames,
        rows: Mapping[series.PodKey, list[series.Target]],
        told: _Told | None = None,
    ) -> dict[str, PodAnswer]:
        """Each pod's rows into the memory of counters. ``told`` None: an earlier sample, for the baseline only."""
        answers: dict[str, PodAnswer] = {}
        port = resolve(watched.policy).port if watched.policy.spec.signals.scrape.port else None
        for pod in _running(watched.pods):
            key = (watched.ref, pod.uid)
            before = self._pages.last(key)
            found = rows.get((pod.namespace, pod.name), ())
            target = series.of_live_pod(pod, found, watched.container, port)
            if isinstance(target, Absent):
                answers[pod.uid] = PodAnswer(why=self._why(target, told, before is not None))
                continue
            sample = series.page_sample(target, names, pod, watched.container, before)
            growth = self._pages.fold(key, sample)
            if told is not None:
                answers[pod.uid] = PodAnswer(sample, growth, age_s=max(0.0, told.at - sample.at))
        return answers

    def _why(self, absent: Absent, told: _Told | None, was_there: bool) -> Absent:
        if told is not None and told.partial:
            return Absent(Cause.PARTIAL, told.partial, self.name)
        if absent.cause is Cause.NO_SUCH_METRIC and was_there:
            return Absent(Cause.STALE, absent.detail + " any more", self.name)
        return Absent(absent.cause, absent.detail, self.name)

    def _reduced(self, watched: Watched, group: _Group, answers: Mapping[str, PodAnswer], told: _Told) -> Signals:
        signals = reduce(self._asked(watched, group.names), answers)
        shown = self._shown(watched, group)
        if shown is not None:
            signals = replace(signals, latency=shown)
        elif isinstance(signals.latency, Measured) or group.names.histogram is not None:
            signals = replace(signals, latency=Absent(Cause.TOO_SHORT, "shown every half a minute", self.name))
        return _capped(signals, told.partial) if told.partial else signals

    def _asked(self, watched: Watched, names: SignalNames) -> Asked:
        return Asked(
            names=names,
            objective=watched.policy.spec.objective.latency,
            max_age_s=watched.policy.spec.signals.max_age,
            source=self.name,
            expected={pod.uid for pod in expected_pods(watched.pods)},
        )

    # ------------------------------------------------------------------ bounds

    async def _learn_bounds(self, group: _Group, scope: Scope) -> Absent | None:
        now = self._clock()
        if group.names.histogram is None or (group.bounds and now - group.bounds_at < BOUNDS_EVERY_S):
            return None
        answer, told = await self._ask(queries.bounds_query(group.names, scope))
        if told.why is not None:
            return None if group.bounds else told.why
        group.bounds, group.bounds_at = _bounds_of(answer, group.names), now
        return None

    def _bounds_wanted(self, group: _Group) -> list[BoundWanted]:
        pods: dict[tuple[str, ...], list[str]] = {}
        for watched in group.members:
            objective = watched.policy.spec.objective.latency
            if objective is None or group.names.histogram is None:
                continue
            known = self._own_bounds.get(watched.ref, group.bounds)
            bound = latency.objective_bound(known, objective.target)
            # without a bucket near the target, the bounds around it let the reading say which there are
            wanted = [known[bound]] if isinstance(bound, float) else list(known.values())[:2]
            for written in wanted:
                pods.setdefault(written, []).extend(pod.name for pod in watched.pods)
        return [BoundWanted(written, tuple(sorted(of))) for written, of in sorted(pods.items())]

    async def _learn_own_bounds(self, group: _Group, folded: Mapping[WorkloadRef, Mapping[str, PodAnswer]]) -> None:
        """A workload whose server has other bounds than the rest is asked for its own: one a tick."""
        if group.names.histogram is None:
            return
        for watched in group.members:
            samples = [answer.sample for answer in folded[watched.ref].values() if answer.sample is not None]
            if watched.ref in self._own_bounds or watched.policy.spec.objective.latency is None or not samples:
                continue
            if all(not sample.buckets for sample in samples):
                answer, told = await self._ask(queries.bounds_query(group.names, self._scope([watched])))
                if told.why is None and answer.rows:
                    self._own_bounds[watched.ref] = _bounds_of(answer, group.names)
                    return

    # ------------------------------------------------------------------ the percentile that is shown

    async def _learn_shown(self, group: _Group, scope: Scope) -> None:
        now = self._clock()
        if group.names.histogram is None or now - group.shown_at < SHOW_EVERY_S:
            return
        windows = [
            kept.window_s
            for watched in group.members[:20]
            for pod in watched.pods[:3]
            if isinstance(kept := self._pages.growth((watched.ref, pod.uid)), Growth)
        ]
        group.shown_window_s = max(SHOW_WINDOW_S, 2.5 * max(windows, default=0.0))
        answer, told = await self._ask(queries.show_query(group.names, scope, group.shown_window_s))
        group.shown_at = now if answer.rows else now - SHOW_EVERY_S + KUBELET_EVERY_S
        if told.why is not None:
            return
        group.shown = {}
        for row in answer.rows:
            key = (row.metric.get(scope.namespace, ""), row.metric.get("stem", ""))
            bound = series.bound_of(row.metric.get("le", ""), group.names.histogram.unit)
            if math.isfinite(row.number) and not math.isnan(bound):
                group.shown.setdefault(key, {})[bound] = row.number

    def _shown(self, watched: Watched, group: _Group) -> Reading | None:
        objective = watched.policy.spec.objective.latency
        stems = {queries.stem(pod.name) for pod in watched.pods}
        if objective is None or len(stems) != 1 or group.names.histogram is None:
            return None
        buckets = group.shown.get((watched.ref.namespace, stems.pop()))
        if not buckets:
            return None
        value, note = latency.percentile([buckets], objective.within)
        if isinstance(value, Absent):
            return Absent(value.cause, value.detail, self.name)
        age = max(0.0, self._clock() - group.shown_at)
        return Measured(value, age, group.shown_window_s, source=self.name, note=note)

    # ------------------------------------------------------------------ the kubelet's figures

    async def _read_kubelet(self, workloads: Sequence[Watched]) -> dict[WorkloadRef, Signals]:
        if not workloads:
            return {}
        new = {watched.ref for watched in workloads if ("kubelet", watched.ref) not in self._primed}
        elapsed = self._clock() - self._kubelet.asked_at
        if new or elapsed >= self._kubelet_every_s or self._kubelet.why is not None:
            await self._ask_kubelet(workloads, new)
            elapsed = self._clock() - self._kubelet.asked_at
        told = self._kubelet
        if told.why is not None:
            down = Signals(cpu=told.why, throttled=told.why, pressure=told.why, working_set=told.why)
            return {watched.ref: down for watched in workloads}
        found = {}
        for watched in workloads:
            answers: dict[str, PodAnswer] = {}
            for pod in _running(watched.pods):
                sample = self._kubelet_samples.get(pod.uid)
                if sample is None:
                    answers[pod.uid] = PodAnswer(why=Absent(Cause.NO_SUCH_METRIC, "no kubelet figures yet", self.name))
                elif isinstance(sample, Absent):
                    answers[pod.uid] = PodAnswer(why=self._why(sample, told, False))
                else:
                    growth = self._containers.growth((watched.ref, pod.uid))
                    age = max(0.0, told.at + elapsed - sample.at)
                    answers[pod.uid] = PodAnswer(sample, growth, age_s=age)
            asked = replace(self._asked(watched, SignalNames()), roles=KUBELET_ROLES)
            signals = reduce(asked, answers)
            found[watched.ref] = _capped(signals, told.partial) if told.partial else signals
        return found

    async def _ask_kubelet(self, workloads: Sequence[Watched], new: set[WorkloadRef]) -> None:
        scope = self._scope(workloads)
        names = sorted({watched.container for watched in workloads})
        containers = names if all(names) and len(names) <= 100 else []
        query = queries.kubelet_query(scope, containers)
        answer, told = await self._ask(query)
        self._kubelet = told
        if told.why is not None:
            return
        if new and answer.rows:
            earlier, before = await self._ask(query, told.at - EARLIER_S)
            if before.why is None:
                self._fold_containers(workloads, series.container_rows(earlier.rows, scope), new)
        self._kubelet_samples = self._fold_containers(workloads, series.container_rows(answer.rows, scope), None)
        self._primed |= {("kubelet", ref) for ref in new}

    def _fold_containers(
        self,
        workloads: Sequence[Watched],
        rows: Mapping[series.ContainerKey, list[series.ContainerRows]],
        only: set[WorkloadRef] | None,
    ) -> dict[str, PodSample | Absent]:
        samples: dict[str, PodSample | Absent] = {}
        for watched in workloads:
            if only is not None and watched.ref not in only:
                continue
            for pod in _running(watched.pods):
                container = watched.container or (pod.containers[0].name if pod.containers else "")
                found = rows.get((pod.namespace, pod.name, container), ())
                sample = series.container_sample(pod, container, found)
                samples[pod.uid] = sample
                if not isinstance(sample, Absent):
                    self._containers.fold((watched.ref, pod.uid), sample)
        return samples


def _running(pods: Sequence[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.active and pod.phase == "Running"]


def _of_page(names: SignalNames) -> bool:
    return bool(names.histogram or names.summary or names.requests or names.in_flight or names.failures or names.busy_s)


def _bounds_of(answer: Answer, names: SignalNames) -> dict[float, tuple[str, ...]]:
    assert names.histogram is not None
    found: dict[float, list[str]] = {}
    for row in answer.rows:
        written = row.metric.get("le", "")
        bound = series.bound_of(written, names.histogram.unit)
        if math.isfinite(bound):
            found.setdefault(bound, []).append(written)
    return {bound: tuple(sorted(found[bound])) for bound in sorted(found)}


def _capped(signals: Signals, partial: str) -> Signals:
    """Values that came with a warning are not whole, and say so."""

    def capped(reading: Reading) -> Reading:
        if isinstance(reading, Measured) and reading.source == PrometheusSource.name:
            return replace(reading, coverage=min(reading.coverage, PARTIAL), note=f"partial: {partial}"[:160])
        return reading

    return replace(
        signals,
        requests=capped(signals.requests),
        misses=capped(signals.misses),
        failures=capped(signals.failures),
        in_flight=capped(signals.in_flight),
        cpu=capped(signals.cpu),
        throttled=capped(signals.throttled),
        pressure=capped(signals.pressure),
        working_set=capped(signals.working_set),
    )
