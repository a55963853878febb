"""What is played: one service on a small cluster, its objective, and a load that rises twice and falls.

Every number here is an input of the play; what the demo prints is measured while it runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.emulate.cluster import ClusterSpec, LoadSpec, NodeSpec, ServiceSpec, WorkloadSpec

NAMESPACE, NAME = "serving", "resnet"
TARGET_S, WITHIN = 0.25, 0.99
INTERVAL_S = 1.0
REPLICAS, MOST_REPLICAS, MOST_CORES = 2, 4, 3
HPA_TARGET, HPA_MOST = 0.7, MOST_REPLICAS * MOST_CORES  # the same cores for both, at most
WORK_S = 0.04
"""CPU-seconds of a request."""
START_UP_S = 15.0
"""From the start of a container to Ready: loading the model. The first pods have done so before the play begins."""

POLICY = f"""\
apiVersion: inference-autoscaler.dev/v1alpha1
kind: InferenceAutoscaler
metadata: {{name: {NAME}, namespace: {NAMESPACE}}}
spec:
  scaleTargetRef: {{kind: Deployment, name: {NAME}}}
  objective:
    latency: {{target: {TARGET_S * 1000:.0f}ms, within: {WITHIN:.0%}}}
  signals: {{preset: generic, sources: [scrape, kubelet]}}
  vertical:
    cpu: {{min: 250m, max: "{MOST_CORES}"}}
    behavior: {{shrink: {{stabilizationWindowSeconds: 10}}}}
  horizontal:
    minReplicas: {REPLICAS}
    maxReplicas: {MOST_REPLICAS}
    behavior: {{scaleDown: {{stabilizationWindowSeconds: 10}}}}
"""


@dataclass(frozen=True, slots=True)
class Phase:
    """From ``at`` seconds on there are ``rate`` requests per second."""

    at: float
    rate: float
    what: str


PHASES = (
    Phase(0.0, 18.0, "a quiet load"),
    Phase(12.0, 55.0, "the load steps up: more than the pods have, less than they may get"),
    Phase(40.0, 155.0, "the load steps up again: more than size can serve"),
    Phase(75.0, 12.0, "the load is gone"),
)
LENGTH_S = 115.0


def phase_at(seconds: float) -> Phase:
    return next((phase for phase in reversed(PHASES) if phase.at <= seconds), PHASES[0])


def cluster_spec() -> ClusterSpec:
    """The same for everybody: two nodes, two pods of one core. The load begins later, for all at the same moment."""
    return ClusterSpec(
        nodes=[NodeSpec("node-1", cpu="8", memory="32Gi"), NodeSpec("node-2", cpu="8", memory="32Gi")],
        workloads=[
            WorkloadSpec(
                NAME, namespace=NAMESPACE, replicas=REPLICAS, cpu="1", memory="1Gi",
                service=ServiceSpec(work=WORK_S, work_variation=0.3, threads=8, queue_limit=16, startup=0.2),
                load=LoadSpec(steps=[]),
            )
        ],
    )  # fmt: skip
