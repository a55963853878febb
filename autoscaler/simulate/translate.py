"""From what was scraped of the made-up cluster to the values that decisions are functions of.

The daemon builds the same values from the API server and Prometheus. Times get an epoch, since a tick's clock is unix
seconds; pods that were there at the start were created an hour before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autoscaler.model.plan import BudgetView, Ledger
from autoscaler.model.signal import Absent, Cause, Measured, PodSignals, Reading, Signals
from autoscaler.model.workload import (
    Attempt,
    Container,
    Node,
    Pod,
    ResizeState,
    Resources,
    ScaleView,
    TargetRef,
    WorkloadRef,
    WorkloadView,
)
from autoscaler.simulate.cluster import Cluster, SimulatedPod
from autoscaler.simulate.visible import CpuSeen, PodSeen, Seen

EPOCH = 1_600_000_000.0
BEFORE_S = 3600.0
MEMORY = 2**30  # bytes, the same for each pod, never changed
SOURCE = "simulated"
CONTAINER = "server"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_NO_SAMPLE = Absent(Cause.TOO_SHORT, "two samples are needed", SOURCE)
_NO_TRAFFIC = Absent(Cause.NO_TRAFFIC, "nothing ended", SOURCE)
_NO_PODS = Absent(Cause.NO_PODS, "no pod was scraped", SOURCE)


def size(milli: int) -> Resources:
    """Requests and limits alike: a Guaranteed pod."""
    return Resources(milli, milli, MEMORY, MEMORY)


class Translator:
    """Keeps the values of pods that have not changed."""

    def __init__(self, refs: tuple[WorkloadRef, ...]) -> None:
        self.refs = refs
        self.annotations: dict[str, dict[str, str]] = {}
        self._pods: dict[str, tuple[tuple[object, ...], Pod]] = {}
        self._attempts: dict[str, Attempt] = {}

    def view(self, seen: Seen, cluster: Cluster) -> WorkloadView:
        """One workload with its pods and signals."""
        ref = self.refs[seen.workload]
        pods = tuple(self.pod(one.pod, ref) for one in seen.pods)
        current = sum(1 for one in seen.pods if not one.pod.draining)
        return WorkloadView(
            ref=ref,
            target=TargetRef("apps/v1", "Deployment", ref.name),
            scale=ScaleView(desired=seen.replicas, current=current, template_hash="1"),
            pods=pods,
            signals=signals(seen),
            container=CONTAINER,
            template=size(cluster.templates[seen.workload]),
        )

    def pod(self, pod: SimulatedPod, ref: WorkloadRef) -> Pod:
        key: tuple[object, ...] = (pod.desired, pod.allocated, pod.ready_at, pod.node, pod.draining, pod.deferred)
        notes = self.annotations.get(pod.uid)
        key += (len(notes) if notes else 0,)
        known = self._pods.get(pod.uid)
        if known is not None and known[0] == key:
            return known[1]
        made = self._make(pod, ref, notes or {})
        if len(self._pods) > 10_000:
            self._pods.clear()
        self._pods[pod.uid] = (key, made)
        return made

    def _make(self, pod: SimulatedPod, ref: WorkloadRef, notes: Mapping[str, str]) -> Pod:
        now_running = pod.ready_at is not None
        container = Container(
            name=CONTAINER,
            desired=size(pod.desired),
            allocated=size(pod.allocated),
            actual=size(pod.allocated) if now_running else None,
            running=now_running,
            ready=now_running,
            started_at=_time(pod.ready_at) if now_running else None,
        )
        return Pod(
            namespace=ref.namespace,
            name=f"{ref.name}-{pod.number}",
            uid=pod.uid,
            containers=(container,),
            node=pod.node.name if pod.node is not None else "",
            phase="Running" if now_running else "Pending",
            ready=now_running and not pod.draining,
            created_at=_time(pod.created_at, ready_at=pod.ready_at),
            scheduled_at=_time(pod.created_at, ready_at=pod.ready_at) if pod.node is not None else None,
            ready_at=_time(pod.ready_at) if now_running else None,
            deleting=pod.draining,
            resource_version=str(pod.desired),
            resize_pending="Deferred" if pod.deferred else "",
            unschedulable=pod.node is None,
            template_hash="1",
            deletion_cost=int(notes[DELETION_COST]) if DELETION_COST in notes else None,
            annotations=dict(notes),
            attempt=self._attempt(pod),
        )

    def _attempt(self, pod: SimulatedPod) -> Attempt | None:
        """The life of the newest resize, as far as the pod's three sizes tell it."""
        last = self._attempts.get(pod.uid)
        if pod.desired != pod.allocated:
            wanted = Resources(cpu_request=pod.desired, cpu_limit=pod.desired)
            state = ResizeState.DEFERRED if pod.deferred else ResizeState.SENT
            attempt = Attempt(state, wanted, EPOCH + pod.asked_at, before=size(pod.allocated))
        elif last is not None and last.open:
            attempt = replace(last, state=ResizeState.COMPLETE, granted=True, until=EPOCH + pod.asked_at)
        else:
            return last
        self._attempts[pod.uid] = attempt
        return attempt


def _time(at: float | None, *, ready_at: float | None = None) -> float:
    """On the tick's clock; what was there at the start is older."""
    at = at or 0.0
    return EPOCH - BEFORE_S if at == 0.0 and (ready_at is None or ready_at == 0.0) else EPOCH + at


def signals(seen: Seen) -> Signals:
    """All readings of one workload, with age, window and coverage."""
    ready = [one for one in seen.pods if one.serving]
    scraped = [one for one in seen.pods if one.scraped]
    if not scraped:
        return Signals(requests=_NO_PODS, misses=_NO_PODS, in_flight=_NO_PODS, cpu=_NO_PODS, throttled=_NO_PODS)
    coverage = max(sum(1 for one in ready if one.scraped) / len(ready), 0.001) if ready else 1.0
    window = seen.window

    def fast(value: float, weight: float = 0.0) -> Reading:
        return Measured(value, 0.0, window, coverage, weight, SOURCE)

    ended = seen.requests + seen.failures
    missed = seen.missed
    sampled = [one.cpu for one in ready if one.cpu is not None]
    return Signals(
        requests=fast(seen.requests),
        misses=_NO_TRAFFIC if missed is None else fast(missed, ended * window),
        mean_latency=fast(seen.latency / seen.requests) if seen.requests > 0 else _NO_TRAFFIC,
        failures=fast(seen.failures),
        failures_apart=True,
        in_flight=Measured(float(seen.in_flight), 0.0, 0.0, 1.0, 0.0, SOURCE),
        cpu=_slow(sampled, len(ready), seen.at, sum(sample.cores for sample in sampled)),
        throttled=_slow(sampled, len(ready), seen.at, _mean([sample.throttled for sample in sampled])),
        pods={one.pod.uid: _of_pod(one, window, seen.at) for one in seen.pods if one.scraped},
    )


def _slow(sampled: list[CpuSeen], ready: int, at: float, value: float) -> Reading:
    if not sampled or not ready:
        return _NO_SAMPLE
    age = max(at - sample.at for sample in sampled)
    window = _mean([sample.window for sample in sampled])
    return Measured(value, age, window, len(sampled) / ready, 0.0, SOURCE)


def _of_pod(one: PodSeen, window: float, at: float) -> PodSignals:
    cpu: Reading = _NO_SAMPLE
    throttled: Reading = _NO_SAMPLE
    if one.cpu is not None:
        cpu = Measured(one.cpu.cores, at - one.cpu.at, one.cpu.window, 1.0, 0.0, SOURCE)
        throttled = Measured(one.cpu.throttled, at - one.cpu.at, one.cpu.window, 1.0, 0.0, SOURCE)
    return PodSignals(
        requests=Measured(one.requests, 0.0, window, 1.0, 0.0, SOURCE),
        in_flight=Measured(float(one.in_flight), 0.0, 0.0, 1.0, 0.0, SOURCE),
        cpu=cpu,
        throttled=throttled,
    )


def ledger(cluster: Cluster, budgets: tuple[BudgetView, ...] = ()) -> Ledger:
    """What the scheduler would count on each node, and what all may have together."""
    nodes = {node.name: Node(node.name, node.capacity, 2**50) for node in cluster.nodes}
    return Ledger(
        nodes=nodes,
        committed_cpu={node.name: node.capacity - node.free for node in cluster.nodes},
        committed_memory={node.name: MEMORY * len(node.pods) for node in cluster.nodes},
        budgets=budgets,
    )


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
