"""What seeing a large cluster costs: decoding pods, the memory they keep, one tick's view.

    python benches/watch.py [--workloads 1000] [--pods 10]

Prints measured figures, nothing else; pods are as a 1.36 API server sends them, managedFields included.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import random
import resource
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from autoscaler.kube import kinds
from autoscaler.kube.client import KubeClient
from autoscaler.kube.connect import find_access
from autoscaler.kube.decode import PodSeen, decode_pod
from autoscaler.kube.watch import _PAGE_BODY
from autoscaler.model.policy import Policy, PolicySpec
from autoscaler.model.workload import Attempt, ResizeState, Resources, WorkloadRef
from autoscaler.observe.cluster import ClusterObserver

PAGE = 500
T0 = "2026-12-01T03:20:50Z"


def pod(workload: int, number: int, cpu: str = "1") -> dict[str, Any]:
    name = f"model-{workload}-6d5f9c7b4-{number:05d}"
    sizes = {"requests": {"cpu": cpu, "memory": "2Gi"}, "limits": {"cpu": cpu, "memory": "2Gi"}}
    conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
    fields = {
        "f:metadata": {"f:labels": {"f:app": {}}},
        "f:spec": {
            "f:containers": {
                'k:{"name":"server"}': {
                    ".": {},
                    "f:env": {f'k:{{"name":"E{n}"}}': {".": {}, "f:name": {}, "f:value": {}} for n in range(12)},
                }
            }
        },
    }
    return {
        "metadata": {
            "name": name, "generateName": name[:-5], "namespace": f"team-{workload % 20}",
            "uid": f"pod-{workload}-{number}",
            "resourceVersion": str(10_000 + number), "generation": 1, "creationTimestamp": T0,
            "labels": {"app": f"model-{workload}", "pod-template-hash": "6d5f9c7b4", "team": "vision"},
            "annotations": {"prometheus.io/port": "8002", "checksum/config": "0" * 64},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"model-{workload}-6d5f9c7b4",
                                 "uid": f"rs-{workload}", "controller": True, "blockOwnerDeletion": True}],
            "managedFields": [{"manager": m, "operation": "Update", "apiVersion": "v1", "time": T0,
                               "fieldsType": "FieldsV1", "fieldsV1": fields}
                              for m in ("kube-controller-manager", "kubelet")],
        },
        "spec": {
            "nodeName": f"node-{(workload * 7 + number) % 500}",
            "containers": [{"name": "server", "image": "registry.example/model:1", "resources": sizes,
                            "env": [{"name": f"E{n}", "value": "x" * 40} for n in range(12)],
                            "volumeMounts": [{"name": "models", "mountPath": "/models"}]}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}] * 2,
            "terminationGracePeriodSeconds": 30, "priority": 0, "schedulerName": "default-scheduler",
        },
        "status": {
            "phase": "Running", "qosClass": "Guaranteed", "podIP": f"10.{workload % 250}.{number % 250}.1",
            "observedGeneration": 1, "startTime": T0,
            "conditions": [{"type": c, "status": "True", "lastProbeTime": None, "lastTransitionTime": T0,
                            "observedGeneration": 1} for c in conditions],
            "containerStatuses": [{"name": "server", "ready": True, "started": True, "restartCount": 0,
                                   "state": {"running": {"startedAt": T0}}, "lastState": {},
                                   "imageID": "sha256:" + "0" * 64, "containerID": "containerd://" + "0" * 64,
                                   "allocatedResources": sizes["requests"], "resources": sizes}],
        },
    }  # fmt: skip


def decode_all(pages: list[bytes]) -> list[PodSeen]:
    return [decode_pod(raw) for page in pages for raw in _PAGE_BODY.decode(page).items or ()]


def best(work: Callable[[], object], times: int = 5) -> float:
    """Milliseconds of the fastest run."""
    runs = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        runs.append(time.perf_counter() - began)
    return min(runs) * 1000


def row(what: str, figure: str) -> None:
    print(f"{what:<62} {figure:>12}")


async def measure(workloads: int, pods_each: int) -> None:
    bodies = [pod(w, n) for w in range(workloads) for n in range(pods_each)]
    pages = [
        json.dumps({"metadata": {"resourceVersion": "9"}, "items": bodies[at : at + PAGE]}).encode()
        for at in range(0, len(bodies), PAGE)
    ]
    total = len(bodies)
    row(f"{total:,} pods as JSON", f"{sum(map(len, pages)) / 1e6:.1f} MB")
    del bodies
    gc.collect()
    row("decoded into values", f"{best(lambda: decode_all(pages), 3):.0f} ms")
    tracemalloc.start()
    kept = decode_all(pages)
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    row("memory the values keep", f"{size / 1e6:.1f} MB")
    row("one watch event, decoded", f"{best(lambda: decode_pod(json.dumps(pod(1, 1)).encode())):.3f} ms")

    observer = ClusterObserver(KubeClient(find_access(server="http://127.0.0.1:1")))
    fill(observer, workloads, pods_each, kept)
    spec = PolicySpec.model_validate({"scaleTargetRef": {"name": "x"}, "objective": {"cpu": {}}})
    policies = [
        Policy(
            ref=WorkloadRef(f"team-{w % 20}", f"model-{w}"),
            spec=spec.model_copy(
                update={"scale_target_ref": spec.scale_target_ref.model_copy(update={"name": f"model-{w}"})}
            ),
        )
        for w in range(workloads)
    ]
    began = time.perf_counter()
    subjects, ledger = observer.view(policies, {})
    row(f"first view of {workloads:,} workloads", f"{(time.perf_counter() - began) * 1000:.1f} ms")
    assert sum(len(s.view.pods) for s in subjects) == total and not any(s.view.hold for s in subjects)
    assert sum(ledger.committed_cpu.values()) == total * 1000
    row("view when nothing changed", f"{best(lambda: observer.view(policies, {})):.1f} ms")
    rng = random.Random(1)

    def churn() -> None:
        for _ in range(100):
            w, n = rng.randrange(workloads), rng.randrange(pods_each)
            fresh = pod(w, n, f"{rng.randrange(1, 9)}")
            fresh["metadata"]["resourceVersion"] = str(rng.randrange(10**6, 10**9))
            changed.append(fresh)

    changed: list[dict[str, Any]] = []
    churn()
    events = [decode_pod(json.dumps(body).encode()) for body in changed]
    for event in events:
        observer.known.pods.put(event)
    row("view when 100 pods changed", f"{best(lambda: observer.view(policies, {}), 1):.1f} ms")
    attempts = {
        f"pod-{w}-0": Attempt(ResizeState.SENT, Resources(cpu_request=2000, cpu_limit=2000), 0.0)
        for w in range(0, workloads, 10)
    }
    observer.view(policies, attempts)
    row(f"view with {len(attempts):,} resizes under way", f"{best(lambda: observer.view(policies, attempts)):.1f} ms")


async def over_http(workloads: int, pods_each: int) -> None:
    """List and watch everything from a server in another process, and look at this process as a whole."""
    context = multiprocessing.get_context("spawn")
    ports = context.Queue()
    server = context.Process(target=serve, args=(workloads, pods_each, ports), daemon=True)
    server.start()
    try:
        port = await asyncio.to_thread(ports.get)
        before = rss_mb()
        async with KubeClient(find_access(server=f"http://127.0.0.1:{port}")) as client:
            observer = ClusterObserver(client)
            began, cpu = time.perf_counter(), time.process_time()
            task = asyncio.create_task(observer.run())
            slowest = asyncio.create_task(longest_stall())
            assert await observer.wait_synced(120), observer.problems()
            assert len(observer.known.pods) == workloads * pods_each
            took, cpu = time.perf_counter() - began, time.process_time() - cpu
            slowest.cancel()
            row("listed over HTTP, all kinds", f"{took:.2f} s")
            row("CPU for that", f"{cpu:.2f} s")
            row("longest time that the event loop stood still", f"{stalls[0] * 1000:.0f} ms")
            row("resident memory of the process, before and after", f"{before:.0f} → {rss_mb():.0f} MB")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    finally:
        server.terminate()
        server.join()


stalls = [0.0]


async def longest_stall() -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.001)
        stalls[0] = max(stalls[0], time.perf_counter() - began - 0.001)


def rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def serve(workloads: int, pods_each: int, ports: Any) -> None:
    """Lists in pages and watches that say nothing."""
    bodies = [pod(w, n) for w in range(workloads) for n in range(pods_each)]
    deployments, sets = [], []
    for w in range(workloads):
        deployment, owned = target(w, pods_each)
        deployments.append(deployment)
        sets.append(owned)
    held = {"pods": bodies, "deployments": deployments, "replicasets": sets}

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            stream = web.StreamResponse()
            await stream.prepare(request)
            await asyncio.sleep(3600)
            return stream
        items = held.get(request.path.rsplit("/", 1)[-1], [])
        at = int(request.query.get("continue", "0"))
        meta = {"resourceVersion": "999999"} | ({"continue": str(at + PAGE)} if at + PAGE < len(items) else {})
        return web.json_response({"metadata": meta, "items": items[at : at + PAGE]})

    async def main() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        ports.put(runner.addresses[0][1])
        await asyncio.sleep(3600)

    asyncio.run(main())


def target(w: int, pods_each: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A Deployment and its ReplicaSet."""
    template = {"spec": {"containers": [{"name": "server", "resources": {"requests": {"cpu": "1"}}}]}}
    meta = {"name": f"model-{w}", "namespace": f"team-{w % 20}", "uid": f"deploy-{w}", "resourceVersion": "5"}
    owner = {"kind": "Deployment", "name": meta["name"], "uid": meta["uid"], "controller": True}
    owned = {**meta, "uid": f"rs-{w}", "name": f"model-{w}-6d5f9c7b4", "ownerReferences": [owner]}
    return (
        {"metadata": meta, "spec": {"replicas": pods_each, "template": template}, "status": {}},
        {"metadata": owned, "spec": {"replicas": pods_each}, "status": {}},
    )


def fill(observer: ClusterObserver, workloads: int, pods_each: int, pods: list[PodSeen]) -> None:
    """Put the objects where the reflectors would."""
    known = observer.known
    for reflector in observer.watches.needed:
        reflector.synced.set()
        reflector.heard_at = asyncio.get_running_loop().time()
    for number in range(500):
        body = {"metadata": {"name": f"node-{number}", "labels": {"topology.kubernetes.io/zone": f"z{number % 3}"}},
                "status": {"allocatable": {"cpu": "64", "memory": "256Gi"}}}  # fmt: skip
        known.nodes.put(kinds.decode_node(json.dumps(body).encode()))
    for w in range(workloads):
        deployment, owned = target(w, pods_each)
        known.targets.put(kinds.decode_deployment(json.dumps(deployment).encode()))
        known.replica_sets.put(kinds.decode_replica_set(json.dumps(owned).encode()))
    began = time.perf_counter()
    known.pods.replace(pods)
    row("pods filed by owner and node", f"{(time.perf_counter() - began) * 1000:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10, help="pods of each workload")
    arguments = parser.parse_args()
    asyncio.run(over_http(arguments.workloads, arguments.pods))
    asyncio.run(measure(arguments.workloads, arguments.pods))


if __name__ == "__main__":
    main()
