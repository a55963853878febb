# ruff: noqa: E501
"""What a tick costs: 1,000 workloads with 10,000 pods, steady and with 100 of them breaching at once.

    python benches/tick.py [WORKLOADS] [PODS_EACH]

The whole loop runs on a real observer filled through its watches' own decoders; metrics come from a source that answers
at once, patches go to a sink that accepts at once. So the figures are ours: reading, deciding, checking, remembering.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Mapping, Sequence

import msgspec

from autoscaler.act.apply import Applier
from autoscaler.act.ports import Outcome, Patch, Result
from autoscaler.kube import kinds
from autoscaler.kube.client import KubeClient
from autoscaler.kube.connect import find_access
from autoscaler.kube.decode import decode_pod
from autoscaler.loop import Clock, ControlLoop
from autoscaler.model.policy import Policy, PolicySpec
from autoscaler.model.signal import Counts, Measured, Signals
from autoscaler.model.workload import WorkloadRef
from autoscaler.observe.cluster import ClusterObserver
from autoscaler.observe.policy_files import Policies
from autoscaler.observe.ports import Watched

CORES = 1.0


def named(number: int) -> str:
    """The workload of this number."""
    return f"model-{number:04d}"


def pod(number: int, place: int, node: str) -> bytes:
    size = {"cpu": "1", "memory": "1Gi"}
    workload = named(number)
    meta = {"name": f"{workload}-5d8f7c9b6-{place:05d}", "namespace": "serving", "uid": f"uid-{number}-{place}", "resourceVersion": "1",
            "generation": 1, "creationTimestamp": "2024-01-01T00:00:00Z", "labels": {"app": workload},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{workload}-a",
                                 "uid": f"rs-{workload}", "controller": True}]}  # fmt: skip
    spec = {"nodeName": node, "containers": [{"name": "server", "resources": {"requests": size, "limits": size}}]}
    status = {"phase": "Running", "qosClass": "Guaranteed", "podIP": "10.0.0.1", "observedGeneration": 1,
              "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"}],
              "containerStatuses": [{"name": "server", "ready": True, "restartCount": 0, "allocatedResources": size,
                                     "resources": {"requests": size, "limits": size},
                                     "state": {"running": {"startedAt": "2024-01-01T00:00:00Z"}}}]}  # fmt: skip
    return json.dumps({"kind": "Pod", "metadata": meta, "spec": spec, "status": status}).encode()


def fill(observer: ClusterObserver, workloads: int, each: int) -> None:
    """Put objects into the observer's stores as its watches would."""
    known = observer.known
    nodes = max(1, workloads * each // 20)
    for number in range(nodes):
        body = {"metadata": {"name": f"n{number}", "uid": f"n{number}", "resourceVersion": "1"},
                "status": {"allocatable": {"cpu": "64", "memory": "256Gi"},
                           "conditions": [{"type": "Ready", "status": "True"}]}}  # fmt: skip
        known.nodes.put(kinds.decode_node(msgspec.Raw(json.dumps(body).encode())))
    for number in range(workloads):
        name = named(number)
        template = {
            "spec": {
                "containers": [{"name": "server", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}]
            }
        }
        meta = {"name": name, "namespace": "serving", "uid": f"d-{name}", "resourceVersion": "1", "generation": 1}
        spec = {"replicas": each, "selector": {"matchLabels": {"app": name}}, "template": template}
        status = {
            "observedGeneration": 1,
            "replicas": each,
            "updatedReplicas": each,
            "readyReplicas": each,
            "availableReplicas": each,
        }
        known.targets.put(
            kinds.decode_deployment(
                msgspec.Raw(json.dumps({"metadata": meta, "spec": spec, "status": status}).encode())
            )
        )
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": f"d-{name}", "controller": True}
        rs = {"metadata": {"name": f"{name}-a", "namespace": "serving", "uid": f"rs-{name}", "resourceVersion": "1",
                           "ownerReferences": [owner]}, "spec": {"replicas": each}}  # fmt: skip
        known.replica_sets.put(kinds.decode_replica_set(msgspec.Raw(json.dumps(rs).encode())))
        for place in range(each):
            known.pods.put(decode_pod(msgspec.Raw(pod(number, place, f"n{(number * each + place) % nodes}"))))
    for reflector in (*observer.watches.needed, *observer.watches.optional):
        reflector.synced.set()
        reflector.heard_at = asyncio.get_running_loop().time()


class AtOnce:
    """Answers for everybody; those in ``breaching`` miss half of their requests and are throttled."""

    name = "bench"

    def __init__(self, each: int) -> None:
        self.breaching: frozenset[str] = frozenset()
        self._each = each

    async def read(self, workloads: Sequence[Watched], at: float) -> Mapping[WorkloadRef, Signals]:
        return {watched.ref: self._signals(watched.ref) for watched in workloads}

    def _signals(self, ref: WorkloadRef) -> Signals:
        busy = ref.name in self.breaching
        return Signals(
            requests=Measured((40.0 if not busy else 60.0) * self._each, window_s=5.0), counts=Counts.COMPLETIONS,
            misses=Measured(0.5 if busy else 0.0, window_s=5.0, weight=200.0 * self._each),
            in_flight=Measured(self._each * (50.0 if busy else 1.0)),
            cpu=Measured(self._each * (1.0 if busy else 0.55), age_s=5.0, window_s=15.0),
            throttled=Measured(0.9 if busy else 0.0, age_s=5.0, window_s=15.0),
        )  # fmt: skip


class Accepting:
    def __init__(self) -> None:
        self.sent = 0

    async def send(self, patch: Patch) -> Outcome:
        self.sent += 1
        return Outcome(Result.ACCEPTED)


async def main(workloads: int, each: int) -> None:
    client = KubeClient(find_access(server="http://127.0.0.1:1"))
    observer = ClusterObserver(client)
    fill(observer, workloads, each)
    spec = PolicySpec.model_validate({
        "scaleTargetRef": {"name": "x"}, "objective": {"latency": {"target": "500ms", "within": "99%"}},
        "signals": {"preset": "generic"}, "vertical": {"cpu": {"min": "1", "max": "4"}}, "horizontal": {"maxReplicas": each + 5},
    })  # fmt: skip
    policies = tuple(
        Policy(ref=WorkloadRef("serving", named(n)), origin="bench", spec=spec.model_copy(
            update={"scale_target_ref": spec.scale_target_ref.model_copy(update={"name": named(n)})}))
        for n in range(workloads)
    )  # fmt: skip
    clock, sink, source = Clock(), Accepting(), AtOnce(each)
    loop = ControlLoop(observer, source, Applier(sink, clock=clock.now), clock, Policies(policies))
    took, cpu = [], []
    for _ in range(8):
        await asyncio.sleep(0.6)
        began, used = time.perf_counter(), time.process_time()
        tick = await loop.tick()
        took.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    assert not tick.sent, tick.sent[:1]
    holds = {str(hold.code) for plan in tick.plans.values() for hold in (*plan.holds, plan.reason) if hold is not None}
    source.breaching = frozenset(named(n) for n in range(workloads // 10))
    await asyncio.sleep(0.6)
    began, used = time.perf_counter(), time.process_time()
    tick = await loop.tick()
    breach, breach_cpu = time.perf_counter() - began, time.process_time() - used
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    steady = sorted(took[2:])[len(took[2:]) // 2]
    print(f"{workloads} workloads, {workloads * each} pods ({', '.join(sorted(holds))})")
    of_core = sorted(cpu[2:])[len(cpu[2:]) // 2]
    print(f"steady tick                                {steady * 1000:8.0f} ms (first: {took[0] * 1000:.0f} ms)")
    print(f"  of it CPU                                {of_core * 1000:8.0f} ms: {of_core / 5:.1%} of a core at 5 s")
    print(f"  of it deciding                           {tick.decided_s * 1000:8.0f} ms")
    print(
        f"{workloads // 10} breaching: read to last of {sink.sent:5} patches {breach * 1000:8.0f} ms, {breach_cpu * 1000:.0f} ms CPU"
    )
    print(f"peak memory of the process                 {memory:8.0f} MiB")
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, int(sys.argv[2]) if len(sys.argv) > 2 else 10))
