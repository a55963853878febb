"""The kubelet's figures through Prometheus: CPU, throttling, pressure and memory of all containers in one query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autoscaler.model.signal import Absent, Cause, Signals
from autoscaler.model.workload import WorkloadRef
from autoscaler.observe import queries, series
from autoscaler.observe.answers import KUBELET_ROLES, PodAnswer
from autoscaler.observe.counters import CounterMemory, PodSample
from autoscaler.observe.names import SignalNames
from autoscaler.observe.ports import Watched
from autoscaler.observe.prometheus import Prometheus
from autoscaler.observe.readings import reduce
from autoscaler.observe.told import SOURCE, Told, asked_of, capped_signals, running, scope_of, tell_much, why_no_rows

EARLIER_S = 60.0
"""How far back a workload's first read looks for a baseline."""
MANY_CONTAINERS = 100
NO_NAMES = SignalNames()


class KubeletFigures:
    """Asked every ``every_s`` seconds at most: between two samples of the kubelet there is nothing new."""

    def __init__(self, prometheus: Prometheus, clock: Callable[[], float], every_s: float) -> None:
        self._prometheus = prometheus
        self._clock = clock
        self._every_s = every_s
        self._memory = CounterMemory()
        self._rows = series.GroupRows(scope_of(prometheus, ()))
        self._samples: dict[str, PodSample | Absent] = {}
        self._told = Told()
        self._primed: set[WorkloadRef] = set()

    @property
    def answering(self) -> bool:
        """Whether the last answer had figures: then nobody needs those of the servers' own processes."""
        return any(isinstance(sample, PodSample) for sample in self._samples.values()) and self._told.why is None

    def forget(self, workloads: Sequence[Watched]) -> None:
        """Keep only these workloads and their pods."""
        self._memory.prune({(pod.uid, watched.container) for watched in workloads for pod in watched.pods})
        self._primed &= {watched.ref for watched in workloads}

    async def read(self, workloads: Sequence[Watched]) -> dict[WorkloadRef, Signals]:
        if not workloads:
            return {}
        new = {watched.ref for watched in workloads if watched.ref not in self._primed}
        elapsed = self._clock() - self._told.asked_at
        if new or elapsed >= self._every_s or self._told.why is not None:
            await self._refresh(workloads, new)
            elapsed = self._clock() - self._told.asked_at
        told = self._told
        if told.why is not None:
            down = Signals(cpu=told.why, throttled=told.why, pressure=told.why, working_set=told.why)
            return {watched.ref: down for watched in workloads}
        found = {}
        for watched in workloads:
            answers: dict[str, PodAnswer] = {}
            for pod in running(watched.pods):
                sample = self._samples.get(pod.uid)
                if sample is None:
                    answers[pod.uid] = PodAnswer(why=Absent(Cause.NO_SUCH_METRIC, "no kubelet figures yet", SOURCE))
                elif isinstance(sample, Absent):
                    answers[pod.uid] = PodAnswer(why=why_no_rows(sample, told, False))
                else:
                    growth = self._memory.growth((pod.uid, watched.container))
                    age = max(0.0, told.at + elapsed - sample.at)
                    answers[pod.uid] = PodAnswer(sample, growth, age_s=age)
            asked = asked_of(watched, NO_NAMES, KUBELET_ROLES)
            signals = reduce(asked, answers)
            found[watched.ref] = capped_signals(signals, told.partial) if told.partial else signals
        return found

    async def _refresh(self, workloads: Sequence[Watched], new: set[WorkloadRef]) -> None:
        scope = scope_of(self._prometheus, workloads)
        names = sorted({watched.container for watched in workloads})
        containers = names if all(names) and len(names) <= MANY_CONTAINERS else []
        query = queries.kubelet_query(scope, containers)
        answer, told = await tell_much(self._prometheus, self._clock, query, self._rows)
        self._told = told
        if told.why is not None:
            return
        if new and answer.rows:
            earlier, before = await tell_much(self._prometheus, self._clock, query, self._rows, told.at - EARLIER_S)
            if before.why is None:
                self._fold(workloads, series.by_container(earlier.found), new)
        self._samples = self._fold(workloads, series.by_container(answer.found), None)
        self._primed |= new

    def _fold(
        self,
        workloads: Sequence[Watched],
        rows: Mapping[series.ContainerKey, list[series.ContainerRows]],
        only: set[WorkloadRef] | None,
    ) -> dict[str, PodSample | Absent]:
        samples: dict[str, PodSample | Absent] = {}
        for watched in workloads:
            if only is not None and watched.ref not in only:
                continue
            for pod in running(watched.pods):
                container = watched.container or (pod.containers[0].name if pod.containers else "")
                found = rows.get((pod.namespace, pod.name, container), ())
                sample = series.container_sample(pod, container, found)
                samples[pod.uid] = sample
                if not isinstance(sample, Absent):
                    self._memory.fold((pod.uid, watched.container), sample)
        return samples
