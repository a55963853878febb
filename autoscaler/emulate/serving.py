"""Pods that serve: what runs inside them is a queue under a CPU quota, so latency depends on the cores they have.

One Fleet per workload: its pods, its load, its balancing (`queueing/live.py`). Pods of no fleet idle.
"""

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from autoscaler.emulate.amounts import NANO, parse
from autoscaler.emulate.load import Load
from autoscaler.emulate.podrun import PodRun
from autoscaler.emulate.spec import ServiceSpec
from autoscaler.emulate.timeline import Timeline
from autoscaler.queueing.live import BUCKETS, PodCounters, ServingPods

Json = dict[str, Any]
TICK = 0.25  # seconds between advances when nobody looks


@dataclass(slots=True)
class Process:
    """The server in one pod, since its container last started."""

    key: str  # name among the fleet's serving pods
    namespace: str
    name: str
    uid: str
    container: str
    started_at: float
    cores: float | None  # its CPU limit
    memory_limit: int | None
    first_limit: int | None
    startup_cpu: float = 0.0
    serving: bool = False
    last: PodCounters | None = None  # counters of a process that has ended
    peak: int = 0


class Fleet:
    """All processes of one workload. Times are loop seconds."""

    def __init__(self, name: str, service: ServiceSpec, load: Load, *, begin: float, node_cores: float) -> None:
        self.name = name
        self.service = service
        self.load = load
        self.node_cores = node_cores
        self._zero = begin
        self._dice = random.Random(f"{name}")
        self.processes: dict[tuple[str, str], Process] = {}
        self.pods = ServingPods(
            threads=service.threads,
            parallelism=service.parallelism,
            balance=service.balance,
            queue_limit=service.queue_limit,
            batch=service.batch,
            batch_cpu=service.batch_cpu,
            batch_wait=service.batch_wait,
            bounds=service.buckets or BUCKETS,
        )
        self.offered = 0

    def set_load(self, load: Load, now: float) -> None:
        """From now on; the new schedule's time begins now."""
        self.advance(now)
        self.load = load
        self._load_zero = now - self._zero

    _load_zero = 0.0

    def advance(self, now: float) -> None:
        """Let requests come and be served up to `now`."""
        to = now - self._zero
        begin = self.pods.now
        if to <= begin:
            return
        shift = self._load_zero
        for at in self.load.between(begin - shift, to - shift):
            self.pods.offer(at + shift, self._work(), self.service.wait)
            self.offered += 1
        self.pods.advance(to)

    def _work(self) -> float:
        mean, variation = self.service.work, self.service.work_variation
        if not variation:
            return mean
        sigma = math.sqrt(math.log1p(variation * variation))
        return mean * self._dice.lognormvariate(-sigma * sigma / 2, sigma)

    def start(self, process: Process, now: float) -> None:
        self.advance(now)
        self.processes[process.namespace, process.name] = process

    def serve(self, process: Process, now: float) -> None:
        """Ready: it takes its share of the requests."""
        self.advance(now)
        if not process.serving:
            process.serving = True
            self.pods.add_pod(process.key, at=self.pods.now, limit=process.cores, cores=self.node_cores)

    def resize(self, process: Process, cores: float | None, now: float) -> None:
        self.advance(now)
        process.cores = cores
        if process.serving and process.key in self.pods.pods:
            self.pods.set_limit(process.key, cores)

    def stop(self, process: Process, now: float, *, drain: bool) -> float:
        """Takes no more requests. Returns the seconds until what it has is served."""
        self.advance(now)
        if not process.serving or process.key not in self.pods.pods:
            return 0.0
        counters = self.pods.pods[process.key]
        inside = counters.in_flight
        process.last = counters
        process.serving = False
        self.pods.remove_pod(process.key, drain=drain)
        if not drain or not inside:
            return 0.0
        cores = min(process.cores or self.node_cores, self.service.threads * self.service.parallelism)
        return self.service.wait + self.service.work + inside * self.service.work / max(0.01, cores)

    def counters(self, process: Process) -> PodCounters:
        """Of a process, zeros while it starts."""
        found = self.pods.pods.get(process.key) if process.serving else process.last
        return found or PodCounters(latency_buckets=[0] * (len(self.pods.bounds) + 1))

    def working_set(self, process: Process, now: float) -> int:
        """Bytes: what it starts with, plus requests inside, plus what it leaks."""
        service = self.service
        leaked = service.leak * (now - process.started_at)
        start = service.memory or int(0.4 * (process.first_limit or 500 * 2**20))
        used = int(start + service.memory_per_request * self.counters(process).in_flight + leaked)
        process.peak = max(process.peak, used)
        return used


class Around(Protocol):
    """What serving needs of the cluster."""

    def announce(self, pod: Json, run: PodRun, process: Process) -> None:
        """A process listens: give it an address."""
        ...

    def withdraw(self, process: Process) -> None: ...

    def out_of_memory(self, process: Process) -> None: ...


class Serving:
    """What the kubelets' pods run; see `inside.py` for the calls."""

    def __init__(self, timeline: Timeline, around: Around, *, startup: float) -> None:
        self.timeline = timeline
        self.around = around
        self._startup = startup
        self.fleets: dict[tuple[str, str], Fleet] = {}  # (namespace, value of the app label)
        self._memory: dict[str, tuple[int, int]] = {}  # pod name -> (working set, page cache) as set
        self._clock = 0
        timeline.after(TICK, self._tick)

    def fleet_of(self, pod: Json) -> Fleet | None:
        metadata = pod["metadata"]
        app = (metadata.get("labels") or {}).get("app", "")
        return self.fleets.get((metadata.get("namespace", ""), app))

    def process_of(self, pod: Json) -> tuple[Fleet, Process] | None:
        fleet = self.fleet_of(pod)
        if fleet is None:
            return None
        process = fleet.processes.get((pod["metadata"].get("namespace", ""), pod["metadata"]["name"]))
        return (fleet, process) if process is not None and process.uid == pod["metadata"]["uid"] else None

    def processes(self) -> Iterable[tuple[Fleet, Process]]:
        for fleet in self.fleets.values():
            for process in fleet.processes.values():
                yield fleet, process

    # -- what the kubelet tells and asks

    def startup_seconds(self, pod: Json) -> float:
        """A fixed part, and CPU work at the size the container has: new pods are as slow as their template is small."""
        fleet = self.fleet_of(pod)
        if fleet is None:
            return self._startup
        service = fleet.service
        if not service.startup_cpu:
            return service.startup
        limit = _cores(_limits(pod, service.container))
        cores = min(limit if limit is not None else fleet.node_cores, service.startup_cores)
        return service.startup + service.startup_cpu / max(0.01, cores)

    def started(self, pod: Json, run: PodRun) -> None:
        fleet = self.fleet_of(pod)
        if fleet is None:
            return
        now = self.timeline.now()
        metadata = pod["metadata"]
        name = fleet.service.container or next(iter(run.containers))
        container = run.containers.get(name) or next(iter(run.containers.values()))
        restarts = sum(one.restarts for one in run.containers.values())
        limits = container.actual.get("limits") or {}
        process = Process(
            f"{run.uid}/{restarts}", metadata["namespace"], metadata["name"], run.uid, container.name, now,
            _cores(limits), _memory(limits), _memory(_limits(pod, container.name)),
            startup_cpu=fleet.service.startup_cpu,
        )  # fmt: skip
        fleet.start(process, now)
        self.around.announce(pod, run, process)

    def ready(self, pod: Json, run: PodRun) -> None:
        if (found := self.process_of(pod)) is not None:
            found[0].serve(found[1], self.timeline.now())

    def resized(self, pod: Json, run: PodRun) -> None:
        if (found := self.process_of(pod)) is None:
            return
        fleet, process = found
        limits = run.containers[process.container].actual.get("limits") or {}
        process.memory_limit = _memory(limits)
        fleet.resize(process, _cores(limits), self.timeline.now())

    def stopped(self, pod: Json, run: PodRun, *, drain: bool) -> float:
        if (found := self.process_of(pod)) is None:
            return 0.0
        fleet, process = found
        seconds = fleet.stop(process, self.timeline.now(), drain=drain)
        if drain:
            # It may still be scraped while it drains.
            self.timeline.after(seconds + 0.05, self._forget, fleet, process)
        else:
            self._forget(fleet, process)
        return seconds

    def _forget(self, fleet: Fleet, process: Process) -> None:
        key = process.namespace, process.name
        if fleet.processes.get(key) is process:
            del fleet.processes[key]
        self.around.withdraw(process)

    def memory_usage(self, pod: Json, container: str) -> int:
        """With page cache, as the kubelet compares it."""
        working_set, page_cache = self.memory_of(pod, container)
        return working_set + page_cache

    def memory_of(self, pod: Json, container: str) -> tuple[int, int]:
        """(working set, page cache) in bytes."""
        if (set_by_hand := self._memory.get(pod["metadata"]["name"])) is not None:
            return set_by_hand
        if (found := self.process_of(pod)) is None or found[1].container != container:
            return 2**20, 0
        fleet, process = found
        return fleet.working_set(process, self.timeline.now()), fleet.service.page_cache

    def set_memory(self, pod: str, working_set: int, page_cache: int) -> None:
        self._memory[pod] = (working_set, page_cache)

    def unset_memory(self, pod: str) -> None:
        self._memory.pop(pod, None)

    # -- time

    def _tick(self) -> None:
        now = self.timeline.now()
        for fleet in self.fleets.values():
            fleet.advance(now)
        self._clock += 1
        if self._clock % 2 == 0:
            self._look_at_memory(now)
        self.timeline.after(TICK, self._tick)

    def _look_at_memory(self, now: float) -> None:
        for fleet in self.fleets.values():
            for process in list(fleet.processes.values()):
                if process.memory_limit is None:
                    continue
                by_hand = self._memory.get(process.name)
                used = by_hand[0] if by_hand is not None else fleet.working_set(process, now)
                if used > process.memory_limit:
                    self.around.out_of_memory(process)


def _limits(pod: Json, container: str) -> Json:
    containers = pod["spec"]["containers"]
    found = next((one for one in containers if one["name"] == container), containers[0])
    limits: Json = (found.get("resources") or {}).get("limits") or {}
    return limits


def _cores(limits: Json) -> float | None:
    return parse(limits["cpu"]).nano / NANO if "cpu" in limits else None


def _memory(limits: Json) -> int | None:
    return parse(limits["memory"]).whole if "memory" in limits else None


Reader = Callable[[str], str | None]
