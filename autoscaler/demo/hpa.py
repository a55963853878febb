"""The Horizontal Pod Autoscaler beside which ours is shown: its rules, its 15 s, its defaults."""

from __future__ import annotations

import asyncio
import copy

from autoscaler.demo.scene import HPA_MOST, HPA_TARGET, NAMESPACE, REPLICAS
from autoscaler.emulate.cluster import EmulatedCluster, Handle
from autoscaler.emulate.kinds import DEPLOYMENT
from autoscaler.emulate.podspec import is_ready
from autoscaler.model.quantity import parse_cpu
from autoscaler.simulate.controllers.hpa_rules import SYNC_S, Behavior, PodUse, Stabilizer, replicas_wanted


async def run_hpa(cluster: EmulatedCluster, workload: Handle) -> None:
    """Until cancelled. CPU comes from the emulated kubelet's samples, as metrics-server would hand it on."""
    stabilizer = Stabilizer(Behavior(least=REPLICAS, most=HPA_MOST))
    while True:
        await asyncio.sleep(SYNC_S)
        deployment = copy.deepcopy(cluster.object("Deployment", NAMESPACE, workload.name))
        current = int(deployment["spec"].get("replicas", 0))
        pods = [pod for pod in workload.pods() if "deletionTimestamp" not in pod["metadata"]]
        wanted = replicas_wanted(current, [_use(cluster, pod) for pod in pods], HPA_TARGET)
        allowed = stabilizer.allow(cluster.plane.timeline.now(), current, wanted)
        if allowed != current:
            deployment["spec"]["replicas"] = allowed
            deployment["metadata"]["generation"] = deployment["metadata"].get("generation", 1) + 1
            cluster.plane.put_object(DEPLOYMENT, deployment)


def _use(cluster: EmulatedCluster, pod: dict[str, object]) -> PodUse:
    """Cores used over cores requested. A pod without a sample yet counts as the HPA's replica calculator says."""
    metadata, spec = pod["metadata"], pod["spec"]
    assert isinstance(metadata, dict) and isinstance(spec, dict)
    if not is_ready(pod):
        return PodUse(None, False)
    sample = cluster.measurements.samples.get((metadata["namespace"], metadata["name"]))
    if sample is None or sample.uid != metadata["uid"] or sample.cpu_rate is None:
        return PodUse(None, False)
    requested = parse_cpu(spec["containers"][0]["resources"]["requests"]["cpu"])
    return PodUse(sample.cpu_rate * 1000 / requested, True)
