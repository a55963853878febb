"""What a person sees of the custom resources, with a real kubectl."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autoscaler.emulate.cluster import ClusterSpec, EmulatedCluster
from autoscaler.emulate.kinds import ROLE
from autoscaler.kube.client import MERGE, KubeClient
from autoscaler.kube.connect import find_access
from autoscaler.kube.report import stamp
from autoscaler.model.policy import API_VERSION
from autoscaler.model.status import Condition, ObjectiveStatus, PolicyStatus, ReplicasStatus
from tests.manifests.test_overlays import OVERLAYS, ROOT, rendered
from tests.scenarios.stage import POLICY

CRDS = ROOT / "manifests" / "crds"
STATUS = PolicyStatus(
    target="deployment/resnet",
    cpu="1500m",
    objective=ObjectiveStatus(text="99% within 250ms", measured="0.4% missed"),
    replicas=ReplicasStatus(current=3),
    conditions=(Condition(type="Ready", status="True", reason="Deciding", last_transition_time=stamp(0)),),
)


class Kubectl:
    def __init__(self, cluster: EmulatedCluster, config: Path) -> None:
        self.cluster, self._config = cluster, config

    async def __call__(self, *words: str, code: int = 0, given: str = "") -> str:
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).parent / "kubectl", f"--kubeconfig={self._config}", *words,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        async with asyncio.timeout(60):
            out, _ = await process.communicate(given.encode())
        assert process.returncode == code, out.decode()
        return out.decode()


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with EmulatedCluster(ClusterSpec()) as cluster:
        cluster.plane.add_namespace("serving")
        yield Kubectl(cluster, cluster.kubeconfig(tmp_path / "config", namespace="serving"))


async def test_get_ia_answers_at_a_glance(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", str(CRDS / "inferenceautoscalers.yaml"), "-f", str(CRDS / "capacitybudgets.yaml"))
    await kubectl("apply", "-f", "-", given=POLICY)
    path = f"/apis/{API_VERSION}/namespaces/serving/inferenceautoscalers/resnet/status"
    body = {"status": STATUS.model_dump(mode="json", by_alias=True, exclude_none=True)}
    async with KubeClient(find_access(server=kubectl.cluster.url)) as client:
        (await client.request("PATCH", path, body=body, content_type=MERGE)).expect("write the status")
    head, row = (await kubectl("get", "ia")).splitlines()
    assert head.split() == ["NAME", "TARGET", "MODE", "OBJECTIVE", "MISSES", "REPLICAS", "CPU", "READY", "AGE"]
    shown = " ".join(row.split())
    assert shown.startswith("resnet resnet Auto ")
    assert " 99% within 250ms 0.4% missed 3 1500m True " in shown
    assert "Deciding" in await kubectl("describe", "ia", "resnet")


async def test_the_crds_are_applied_twice_without_a_change(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", str(CRDS / "inferenceautoscalers.yaml"))
    assert "unchanged" in await kubectl("apply", "-f", str(CRDS / "inferenceautoscalers.yaml"))


async def test_explain_reaches_every_field(kubectl: Kubectl) -> None:
    said = await kubectl("explain", "ia.spec.vertical.cpu")
    for words in (
        "GROUP:      inference-autoscaler.dev",
        "FIELDS:",
        "  min\t",
        "  controls\t",
        "RequestsOnly",
        "Sizes are multiples",
    ):
        assert words in said, said
    assert "    DryRun\n" in await kubectl("explain", "ia.spec.mode")
    whole = await kubectl("explain", "ia", "--recursive")
    for field in ("scaleTargetRef", "percentile", "histogram", "maxUnavailable", "observedGeneration", "lastDecision"):
        assert f" {field}\t" in whole, field
    assert "memory" in await kubectl("explain", "capacitybudgets.spec")


async def test_what_is_wrong_is_said_before_anything_is_stored(kubectl: Kubectl) -> None:
    said = await kubectl("apply", "-f", "-", given=POLICY.replace("within: 99%", "within: 990%"), code=1)
    assert 'spec.objective.latency.within: Invalid value: "990%": write a share such as 99%' in said
    said = await kubectl("apply", "-f", "-", given=POLICY.replace("within:", "witin:"), code=1)
    assert 'unknown field "spec.objective.latency.witin"' in said
    assert "No resources found" in await kubectl("get", "ia")


@pytest.mark.parametrize("overlay", OVERLAYS)
async def test_every_overlay_is_applied_first_to_look_then_for_good(kubectl: Kubectl, overlay: str) -> None:
    """Strictly, as kubectl asks for: a field that the server doesn't know is refused."""
    kubectl.cluster.plane.add_namespace("inference-autoscaler")
    folder = str(ROOT / "manifests" / "overlays" / overlay)
    there = len(kubectl.cluster.plane.store.all(ROLE.storage))
    looked = (await kubectl("apply", "-k", folder, "--dry-run=server")).splitlines()
    assert len([line for line in looked if line.endswith("(server dry run)")]) == len(rendered(overlay))
    assert len(kubectl.cluster.plane.store.all(ROLE.storage)) == there
    await kubectl("apply", "-k", folder)
    again = (await kubectl("apply", "-k", folder)).splitlines()
    assert len(again) == len(rendered(overlay))
    changed = [line for line in again if not line.endswith("unchanged")]
    assert not [line for line in changed if "poddisruptionbudget" not in line], "whose selector kubectl always replaces"
