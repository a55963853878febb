"""CPU, throttling, pressure and memory straight from the kubelets, where no Prometheus has them.

The kubelet's page is read through the API server's node proxy (``/api/v1/nodes/NODE/proxy/metrics/cadvisor``; the right
is ``nodes/proxy``). ``fetch`` is the door to the API server: a path to the body, raising anything for a refusal. The
figures have the node's own timestamps, ten to fifteen seconds apart, so a node is asked every ten seconds at most. Ages
are taken by ``ForeignClock``.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.model.signal import Absent, Cause, Signals
from autoscaler.model.workload import WorkloadRef
from autoscaler.observe.answers import KUBELET_ROLES, Asked, PodAnswer, expected_pods
from autoscaler.observe.counters import CounterMemory
from autoscaler.observe.exposition import PageRefused, PageScanner
from autoscaler.observe.names import SignalNames
from autoscaler.observe.ports import Watched
from autoscaler.observe.queries import KUBELET_METRICS
from autoscaler.observe.readings import reduce
from autoscaler.observe.series import ContainerKey, ContainerRows, container_sample

Fetch = Callable[[str], Awaitable[bytes]]

EVERY_S = 10.0
NODE_PAGE_BYTES = 64 * 2**20
NODE_SERIES = 200_000
AT_ONCE = 16


CLOCKS_DIFFER_S = 30.0
"""Clocks in one cluster are never further apart than this: figures that seem older are."""


class ForeignClock:
    """Ages of samples stamped by another clock.

    That clock is as far behind ours as the freshest timestamp it ever showed was, at best, in the last pages: the
    freshest of a node's many containers is young. What has stopped moving therefore ages, be the clocks apart or not.
    """

    def __init__(self) -> None:
        self._behind: deque[float] = deque(maxlen=30)

    def saw(self, newest: float, at: float) -> None:
        self._behind.append(at - newest)

    def age(self, stamp: float, at: float) -> float:
        """Seconds between ``stamp`` (its clock) and ``at`` (ours, unix seconds)."""
        behind = min(self._behind, default=0.0)
        return max(0.0, at - stamp - min(behind, CLOCKS_DIFFER_S))


@dataclass(slots=True)
class _Node:
    """What one node's page told last. ``asked_at``: our monotonic clock; times of samples: the node's clock."""

    asked_at: float = float("-inf")
    rows: dict[ContainerKey, list[ContainerRows]] = field(default_factory=dict)
    why: Absent | None = None
    clock: ForeignClock = field(default_factory=ForeignClock)


class KubeletSource:
    """``clock``: monotonic seconds; it says when a node is due again."""

    name = "kubelet"

    def __init__(self, fetch: Fetch, *, clock: Callable[[], float] = time.monotonic, node_s: float = 3.0) -> None:
        self._fetch = fetch
        self._clock = clock
        self._node_s = node_s
        self._nodes: dict[str, _Node] = {}
        self._memory = CounterMemory()

    def again(self) -> KubeletSource:
        return KubeletSource(self._fetch, clock=self._clock, node_s=self._node_s)

    async def read(self, workloads: Sequence[Watched], at: float) -> Mapping[WorkloadRef, Signals]:
        pods = [
            (watched, pod) for watched in workloads for pod in watched.pods if pod.active and pod.phase == "Running"
        ]
        await self._refresh({pod.node for _, pod in pods if pod.node}, at)
        found: dict[WorkloadRef, Signals] = {}
        for watched in workloads:
            answers: dict[str, PodAnswer] = {}
            for pod in watched.pods:
                if not pod.active or pod.phase != "Running":
                    continue
                node = self._nodes.get(pod.node)
                container = watched.container or (pod.containers[0].name if pod.containers else "")
                if node is None or node.why is not None:
                    why = node.why if node else Absent(Cause.SOURCE_DOWN, f"{pod.name} is on no node yet", self.name)
                    answers[pod.uid] = PodAnswer(why=why)
                    continue
                sample = container_sample(pod, container, node.rows.get((pod.namespace, pod.name, container), ()))
                if isinstance(sample, Absent):
                    answers[pod.uid] = PodAnswer(why=sample)
                    continue
                growth = self._memory.fold((watched.ref, pod.uid), sample)
                answers[pod.uid] = PodAnswer(sample, growth, age_s=node.clock.age(sample.at, at))
            asked = Asked(
                names=SignalNames(),
                objective=None,
                max_age_s=watched.policy.spec.signals.max_age,
                age_fixed=watched.policy.spec.signals.max_age_set,
                source=self.name,
                expected={pod.uid for pod in expected_pods(watched.pods)},
                roles=KUBELET_ROLES,
            )
            found[watched.ref] = reduce(asked, answers)
        self._memory.prune({(watched.ref, pod.uid) for watched, pod in pods})
        return found

    async def _refresh(self, nodes: set[str], at: float) -> None:
        self._nodes = {name: kept for name, kept in self._nodes.items() if name in nodes}
        due = [name for name in nodes if self._clock() - self._node(name).asked_at >= EVERY_S or self._node(name).why]
        queue = iter(sorted(due))

        async def worker() -> None:
            for name in queue:
                await self._ask(name, at)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(due))):
                group.create_task(worker())

    def _node(self, name: str) -> _Node:
        return self._nodes.setdefault(name, _Node())

    async def _ask(self, name: str, at: float) -> None:
        node = self._node(name)
        node.asked_at = self._clock()
        try:
            async with asyncio.timeout(self._node_s):
                page = await self._fetch(f"/api/v1/nodes/{name}/proxy/metrics/cadvisor")
            rows, newest = _rows(page)
        except TimeoutError:
            node.why = Absent(Cause.SOURCE_DOWN, f"node {name}: no page in {self._node_s:g}s", self.name)
        except PageRefused as refused:
            node.why = Absent(Cause.REFUSED, f"node {name}: {refused}", self.name)
        except Exception as error:
            # the door raises its own errors; whichever it is, this node has told nothing
            node.why = Absent(Cause.SOURCE_DOWN, f"node {name}: {str(error)[:120] or type(error).__name__}", self.name)
        else:
            node.rows, node.why = rows, None
            node.clock.saw(newest, at)


def _rows(page: bytes) -> tuple[dict[ContainerKey, list[ContainerRows]], float]:
    """A cAdvisor page by container and cgroup, and the freshest timestamp on it."""
    scanner = PageScanner(KUBELET_METRICS.values(), max_bytes=NODE_PAGE_BYTES, max_series=NODE_SERIES)
    scanner.feed(page)
    found = scanner.finish()
    rows: dict[ContainerKey, dict[str, ContainerRows]] = {}
    newest = float("-inf")
    for role, metric in KUBELET_METRICS.items():
        for series in found.matching(metric):
            labels = series.labels
            container = labels.get("container", "")
            if series.at is not None:
                newest = max(newest, series.at)
            if not container or container == "POD" or labels.get("cpu", "total") != "total":
                continue
            key = (labels.get("namespace", ""), labels.get("pod", ""), container)
            group = labels.get("id", "")
            figures = rows.setdefault(key, {}).setdefault(group, ContainerRows(group))
            figures.numbers[role] = series.value
            if role == "cpu" and series.at is not None:
                figures.at = series.at
    if not found.series:
        raise PageRefused("not a kubelet's cadvisor page")
    if newest == float("-inf"):
        raise PageRefused("its figures have no timestamps")
    return {key: list(of.values()) for key, of in rows.items()}, newest
