"""Several sources as one: each policy's order of fallback, signal by signal.

A source is asked only for the workloads for which the ones before it left something open. ``Measured.source`` says who
answered; a signal nobody could answer carries the first cause, with what the others said. Policies differ in their
orders, so a source may be read twice in a tick, first for some workloads and then for others: each such turn has a
memory of its own, lest one forget what the other has counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from autoscaler.model.signal import Absent, Cause, Signals
from autoscaler.model.workload import WorkloadRef
from autoscaler.observe.merging import absent_signals, merged, settled
from autoscaler.observe.names import SignalNames, resolve
from autoscaler.observe.ports import MetricSource, RememberingSource, Watched
from autoscaler.observe.source_health import SourceHealth

LOG = logging.getLogger(__name__)

READ_LASTS_S = 10.0
"""No read may hold up a tick longer; each source's own deadline is shorter."""

_OF_THE_PAGE = frozenset({"requests", "misses", "failures", "in_flight"})
_OF_THE_KUBELET = frozenset({"cpu", "working_set"})

KUBELET_ONLY = frozenset({"kubelet", "metrics.k8s.io"})
"""Sources that know CPU and memory and nothing of requests."""


class Fallback:
    """``sources``: those the process has, by ``name``; a policy that names another one simply goes without it."""

    name = "fallback"

    def __init__(self, sources: Sequence[RememberingSource], *, read_lasts_s: float = READ_LASTS_S) -> None:
        self._sources = {source.name: source for source in sources}
        self._turns: dict[str, dict[int, MetricSource]] = {}
        """By the source's name and its place in the order."""
        self._read_lasts_s = read_lasts_s
        self.health = SourceHealth()

    async def read(self, workloads: Sequence[Watched], at: float) -> Mapping[WorkloadRef, Signals]:
        found: dict[WorkloadRef, Signals] = {}
        said: dict[str, list[Signals]] = {}
        orders = {watched.ref: self._order(watched) for watched in workloads}
        for place in range(max(map(len, orders.values()), default=0)):
            asked: dict[str, list[Watched]] = {}
            for watched in workloads:
                order = orders[watched.ref]
                if place < len(order) and self._open(watched, found.get(watched.ref), order[place]):
                    asked.setdefault(order[place], []).append(watched)
            names = list(asked)
            answers = await asyncio.gather(*(self._ask(name, place, asked[name], at) for name in names))
            for name, answer in zip(names, answers, strict=True):
                said.setdefault(name, []).extend(answer.values())
                for watched in asked[name]:
                    found[watched.ref] = merged(found.get(watched.ref), answer[watched.ref])
        self.health.begin()
        for name, signals in said.items():
            self.health.answered(name, signals)
        nobody = Absent(Cause.NOT_CONFIGURED, "none of signals.sources is set up in this process")
        return {watched.ref: found.get(watched.ref) or absent_signals(nobody) for watched in workloads}

    def _order(self, watched: Watched) -> list[str]:
        named = [str(source) for source in watched.policy.spec.signals.sources]
        return [name for name in dict.fromkeys(named) if name in self._sources]

    def _open(self, watched: Watched, so_far: Signals | None, source: str) -> bool:
        """Whether ``source`` could still answer something."""
        try:
            wanted = _wanted(resolve(watched.policy), watched)
        except ValueError:
            return so_far is None
        if source in KUBELET_ONLY:
            wanted &= _OF_THE_KUBELET
        return bool(wanted) and (so_far is None or any(not settled(getattr(so_far, name)) for name in wanted))

    def _at(self, name: str, place: int) -> MetricSource:
        turns = self._turns.setdefault(name, {})
        if place not in turns:
            turns[place] = self._sources[name].again() if turns else self._sources[name]
        return turns[place]

    async def _ask(self, name: str, place: int, workloads: list[Watched], at: float) -> Mapping[WorkloadRef, Signals]:
        why = Absent(Cause.SOURCE_DOWN, f"no answer in {self._read_lasts_s:g}s", name)
        answer: Mapping[WorkloadRef, Signals] = {}
        try:
            async with asyncio.timeout(self._read_lasts_s):
                answer = await self._at(name, place).read(workloads, at)
        except TimeoutError:
            LOG.warning("%s gave no answer in %gs", name, self._read_lasts_s)
        except Exception as error:
            LOG.exception("%s failed", name)
            why = Absent(Cause.SOURCE_DOWN, f"{type(error).__name__}: {str(error)[:80]}", name)
        return {watched.ref: answer.get(watched.ref) or absent_signals(why) for watched in workloads}


def _wanted(names: SignalNames, watched: Watched) -> frozenset[str]:
    """The readings this workload's policy asks for."""
    wanted = set(_OF_THE_KUBELET)
    if names.requests or names.queries.requests:
        wanted.add("requests")
    if names.failures or names.queries.failures:
        wanted.add("failures")
    if names.in_flight or names.queries.in_flight:
        wanted.add("in_flight")
    if watched.policy.spec.objective.latency and (names.histogram or names.summary or names.queries.misses):
        wanted.add("misses")
    return frozenset(wanted)
