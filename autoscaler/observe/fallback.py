"""Several sources as one: each policy's order of fallback, signal by signal.

A source is asked only for the workloads for which the ones before it left something open. ``Measured.source`` says who
answered; a signal nobody could answer carries the first cause, with what the others said.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from autoscaler.model.signal import NOT_CONFIGURED, Absent, Cause, Measured, PodSignals, Reading, Signals
from autoscaler.model.workload import WorkloadRef
from autoscaler.observe.names import SignalNames, resolve
from autoscaler.observe.ports import MetricSource, Watched
from autoscaler.observe.readings import PROCESS
from autoscaler.observe.scrape import absent_signals

LOG = logging.getLogger(__name__)

READ_LASTS_S = 10.0
"""No read may hold up a tick longer; each source's own deadline is shorter."""

_READINGS = ("requests", "misses", "latency", "mean_latency", "failures", "in_flight", "cpu", "throttled", "pressure")
_READINGS += ("working_set",)
_OF_THE_PAGE = frozenset({"requests", "misses", "failures", "in_flight"})
_OF_THE_KUBELET = frozenset({"cpu", "working_set"})
_POD_READINGS = tuple(one.name for one in fields(PodSignals))

KUBELET_ONLY = frozenset({"kubelet", "metrics.k8s.io"})
"""Sources that know CPU and memory and nothing of requests."""


class Fallback:
    """``sources``: those the process has, by ``name``; a policy that names another one simply goes without it."""

    name = "fallback"

    def __init__(self, sources: Sequence[MetricSource], *, read_lasts_s: float = READ_LASTS_S) -> None:
        self._sources = {source.name: source for source in sources}
        self._read_lasts_s = read_lasts_s

    async def read(self, workloads: Sequence[Watched], at: float) -> Mapping[WorkloadRef, Signals]:
        found: dict[WorkloadRef, Signals] = {}
        orders = {watched.ref: self._order(watched) for watched in workloads}
        for place in range(max(map(len, orders.values()), default=0)):
            asked: dict[str, list[Watched]] = {}
            for watched in workloads:
                order = orders[watched.ref]
                if place < len(order) and self._open(watched, found.get(watched.ref), order[place]):
                    asked.setdefault(order[place], []).append(watched)
            names = list(asked)
            answers = await asyncio.gather(*(self._ask(name, asked[name], at) for name in names))
            for name, answer in zip(names, answers, strict=True):
                for watched in asked[name]:
                    found[watched.ref] = _merged(found.get(watched.ref), answer[watched.ref])
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
        return bool(wanted) and (so_far is None or any(not _settled(getattr(so_far, name)) for name in wanted))

    async def _ask(self, name: str, workloads: list[Watched], at: float) -> Mapping[WorkloadRef, Signals]:
        why = Absent(Cause.SOURCE_DOWN, f"no answer in {self._read_lasts_s:g}s", name)
        answer: Mapping[WorkloadRef, Signals] = {}
        try:
            async with asyncio.timeout(self._read_lasts_s):
                answer = await self._sources[name].read(workloads, at)
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


def _settled(reading: Reading) -> bool:
    """No other source can say it better: a value (of the container, not just of its process), or that nothing came."""
    if isinstance(reading, Measured):
        return not reading.source.endswith(f"({PROCESS})")
    return reading.cause is Cause.NO_TRAFFIC


def _merged(first: Signals | None, then: Signals) -> Signals:
    if first is None:
        return then
    merged = {name: _better(getattr(first, name), getattr(then, name)) for name in _READINGS}
    counts = first.counts if isinstance(first.requests, Measured) else then.counts
    custom = {name: _better(first.custom.get(name), then.custom.get(name)) for name in {*first.custom, *then.custom}}
    pods = {}
    for uid in {*first.pods, *then.pods}:
        mine, other = first.pods.get(uid), then.pods.get(uid)
        if mine is None or other is None:
            pods[uid] = mine or other or PodSignals()
        else:
            pods[uid] = PodSignals(
                **{name: _better(getattr(mine, name), getattr(other, name)) for name in _POD_READINGS}
            )
    return replace(then, counts=counts, custom=custom, pods=pods, **merged)


def _better(first: Reading | None, then: Reading | None) -> Reading:
    if first is None or then is None:
        return first or then or NOT_CONFIGURED
    if _settled(first):
        return first
    if isinstance(then, Measured):
        return first if isinstance(first, Measured) and not _settled(then) else then
    if isinstance(first, Measured) or then.cause is Cause.NOT_CONFIGURED:
        return first
    if first.cause is Cause.NOT_CONFIGURED or then.cause is Cause.NO_TRAFFIC:
        return then
    if first.source == then.source or len(first.detail) > 160:
        return first
    return Absent(first.cause, f"{first.detail}; {then.source}: {then.cause} {then.detail}"[:240], first.source)
