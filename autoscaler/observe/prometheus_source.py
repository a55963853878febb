"""Signals through Prometheus: a constant number of queries a tick, whatever the number of workloads.

Per set of metric names (a preset): one query for all pods' pages, one in five minutes for the histogram's bounds, one
in half a minute for the percentile that is shown. For all together: one for the kubelet's figures, which are no fresher
than ten seconds however often one asks. A workload's first read asks for a minute ago as well, so that it has rates at
once. Queries that users wrote are their own (``user_queries.py``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from autoscaler.model.signal import Absent, Cause, Signals
from autoscaler.model.workload import WorkloadRef
from autoscaler.observe.merging import absent_signals, merged
from autoscaler.observe.names import Queries, SignalNames, resolve
from autoscaler.observe.ports import Watched
from autoscaler.observe.prometheus import Prometheus
from autoscaler.observe.prometheus_kubelet import KubeletFigures
from autoscaler.observe.prometheus_pages import PageGroup
from autoscaler.observe.told import SOURCE
from autoscaler.observe.user_queries import UserQueries

KUBELET_EVERY_S = 10.0


class PrometheusSource:
    """``clock``: monotonic seconds. ``confine``: whether a workload's own queries may read only its namespace.

    ``kubelet_every_s``: the kubelet's figures are asked for no more often.
    """

    name = SOURCE

    def __init__(
        self,
        prometheus: Prometheus,
        *,
        clock: Callable[[], float],
        confine: Callable[[Watched], bool] = lambda watched: False,
        kubelet_every_s: float = KUBELET_EVERY_S,
    ) -> None:
        self._prometheus = prometheus
        self._clock, self._confine, self._kubelet_every_s = clock, confine, kubelet_every_s
        self._users = UserQueries(prometheus, confine)
        self._kubelet = KubeletFigures(prometheus, clock, kubelet_every_s)
        self._groups: dict[SignalNames, PageGroup] = {}

    def again(self) -> PrometheusSource:
        return PrometheusSource(
            self._prometheus, clock=self._clock, confine=self._confine, kubelet_every_s=self._kubelet_every_s
        )

    async def read(self, workloads: Sequence[Watched], at: float) -> Mapping[WorkloadRef, Signals]:
        found: dict[WorkloadRef, Signals] = {}
        usable = []
        for watched in workloads:
            try:
                resolve(watched.policy)
                usable.append(watched)
            except ValueError as wrong:
                found[watched.ref] = absent_signals(Absent(Cause.NOT_CONFIGURED, str(wrong), SOURCE))
        self._regroup(usable)
        groups = list(self._groups.values())
        kubelet, users, pages = await asyncio.gather(
            self._kubelet.read(usable),
            self._users.read(usable),
            asyncio.gather(*(group.read(process=not self._kubelet.answering) for group in groups)),
        )
        from_pages = {ref: signals for page in pages for ref, signals in page.items()}
        for watched in usable:
            signals = merged(kubelet.get(watched.ref), from_pages.get(watched.ref, Signals()))
            found[watched.ref] = users.over(watched, signals)
        self._kubelet.forget(usable)
        for group in groups:
            group.forget()
        return found

    def _regroup(self, workloads: Sequence[Watched]) -> None:
        for group in self._groups.values():
            group.members = []
        for watched in workloads:
            names = resolve(watched.policy)
            if _of_page(names):
                bare = replace(names, port=None, path=None, scheme=None, queries=Queries())
                if bare not in self._groups:
                    self._groups[bare] = PageGroup(self._prometheus, self._clock, bare)
                self._groups[bare].members.append(watched)
        self._groups = {names: group for names, group in self._groups.items() if group.members}


def _of_page(names: SignalNames) -> bool:
    return bool(names.histogram or names.summary or names.requests or names.in_flight or names.failures or names.busy_s)
