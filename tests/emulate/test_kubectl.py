"""The real kubectl on an emulated cluster: what a person would type, and the errors they would read."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autoscaler.emulate.cluster import EmulatedCluster
from tests.emulate.conftest import small

KUBECTL = shutil.which("kubectl", path=str(Path(sys.executable).parent)) or shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl: it comes with the dev dependencies")


class Kubectl:
    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    async def __call__(self, *args: str, stdin: str = "") -> tuple[int, str, str]:
        assert KUBECTL is not None
        process = await asyncio.create_subprocess_exec(
            KUBECTL, "--kubeconfig", str(self.kubeconfig), "--cache-dir", str(self.kubeconfig.parent / "cache"), *args,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await process.communicate(stdin.encode())
        return process.returncode or 0, out.decode(), err.decode()

    async def ok(self, *args: str, stdin: str = "") -> str:
        code, out, err = await self(*args, stdin=stdin)
        assert code == 0, f"kubectl {' '.join(args)}: {err}"
        return out

    async def refused(self, *args: str) -> str:
        code, _, err = await self(*args)
        assert code != 0, f"kubectl {' '.join(args)} went through"
        return err


@pytest.fixture
async def cluster() -> AsyncIterator[EmulatedCluster]:
    async with EmulatedCluster(small(startup=0.0)) as running:
        await running.settled()
        yield running


@pytest.fixture
def kubectl(cluster: EmulatedCluster, tmp_path: Path) -> Kubectl:
    return Kubectl(cluster.kubeconfig(tmp_path / "config", namespace="serving"))


def patch(cpu: str, **more: str) -> str:
    requests = {"cpu": cpu} | more
    return json.dumps({"spec": {"containers": [{"name": "server", "resources": {"requests": requests}}]}})


async def test_reading(cluster: EmulatedCluster, kubectl: Kubectl) -> None:
    pod = cluster.pods("serving")[0]["metadata"]["name"]
    listed, wide, yaml, described, nodes, raw, version = await asyncio.gather(
        kubectl.ok("get", "pods"),
        kubectl.ok("get", "deployments,replicasets", "-o", "wide"),
        kubectl.ok("get", "pod", pod, "-o", "yaml"),
        kubectl.ok("describe", "pod", pod),
        kubectl.ok("get", "nodes", "-o", "jsonpath={.items[*].status.allocatable.cpu}"),
        kubectl.ok("get", "--raw", "/api/v1/namespaces/serving/pods?limit=1"),
        kubectl.ok("version"),
    )
    assert listed.splitlines()[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [line.split()[1:3] for line in listed.splitlines()[1:]] == [["1/1", "Running"]] * 2
    assert "deployment.apps/web" in wide
    assert "example.com/server:1" in wide
    assert "allocatedResources:" in yaml
    assert "Scheduled" in described
    assert "QoS Class:" in described
    assert nodes == "4"
    assert json.loads(raw)["metadata"]["remainingItemCount"] == 1
    assert "Server Version: v1.36" in version


async def test_resizing_and_waiting_for_it(cluster: EmulatedCluster, kubectl: Kubectl) -> None:
    pod = cluster.pods("serving")[0]["metadata"]["name"]
    out = await kubectl.ok("patch", "pod", pod, "--subresource", "resize", "--patch", patch("600m"))
    assert out == f"pod/{pod} patched\n"
    path = "{.status.containerStatuses[0].resources.requests.cpu}"
    await kubectl.ok("wait", f"pod/{pod}", f"--for=jsonpath={path}=600m", "--timeout=10s")
    same = await kubectl.ok("patch", "pod", pod, "--subresource", "resize", "--patch", patch("0.6"))
    assert same == f"pod/{pod} patched (no change)\n"
    dry = ("--dry-run=server", "-o", "jsonpath={.spec.containers[0].resources.requests.cpu}")
    assert await kubectl.ok("patch", "pod", pod, "--subresource", "resize", "--patch", patch("700m"), *dry) == "700m"
    assert await kubectl.ok("get", "pod", pod, "--subresource", "resize", "-o", "name") == f"pod/{pod}\n"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (patch("64"), "must be less than or equal to cpu limit of 1"),
        (patch("abc"), "quantities must match the regular expression"),
        (patch("1", memory="512Mi"), "Pod QOS Class may not change as a result of resizing"),
        (patch("500m", **{"nvidia.com/gpu": "1"}), "only cpu and memory resources are mutable"),
        (
            '{"spec":{"containers":[{"name":"server","resources":{"limits":null}}]}}',
            "resource limits cannot be removed",
        ),
        (
            '{"spec":{"containers":[{"name":"nope","resources":{}}]}}',
            "containers may not be added or removed on resize",
        ),
        ('{"metadata":{"uid":"x"}}', "field is immutable"),
        ('{"metadata":{"resourceVersion":"1"}}', "the object has been modified"),
    ],
)
async def test_refusals_are_the_real_texts(cluster: EmulatedCluster, kubectl: Kubectl, body: str, text: str) -> None:
    pod = cluster.pods("serving")[0]["metadata"]["name"]
    assert text in await kubectl.refused("patch", "pod", pod, "--subresource", "resize", "--patch", body)


async def test_beyond_the_node_is_403_and_a_missing_pod_404(cluster: EmulatedCluster, kubectl: Kubectl) -> None:
    pod = cluster.pods("serving")[0]["metadata"]["name"]
    sides = {"requests": {"cpu": "64"}, "limits": {"cpu": "64"}}
    body = json.dumps({"spec": {"containers": [{"name": "server", "resources": sides}]}})
    beyond, missing, plain = await asyncio.gather(
        kubectl.refused("patch", "pod", pod, "--subresource", "resize", "--patch", body),
        kubectl.refused("patch", "pod", "nope", "--subresource", "resize", "--patch", patch("1")),
        kubectl.refused("patch", "pod", pod, "--patch", patch("1")),
    )
    assert "node didn't have enough allocatable resources: cpu, requested: 64000, allocatable: 4000" in beyond
    assert 'pods "nope" not found' in missing
    assert "pod updates may not change fields other than" in plain


async def test_scaling_and_rollout(cluster: EmulatedCluster, kubectl: Kubectl) -> None:
    assert await kubectl.ok("scale", "deployment", "web", "--replicas=3") == "deployment.apps/web scaled\n"
    await kubectl.ok("rollout", "status", "deployment/web", "--timeout=10s")
    await kubectl.ok("wait", "--for=condition=Ready", "pod", "-l", "app=web", "--timeout=10s")
    assert len(cluster.pods("serving")) == 3
    wrong = await kubectl.refused("scale", "deployment", "web", "--replicas=5", "--current-replicas=7")
    assert "Expected replicas to be 7, was 3" in wrong
    scale = ("patch", "deployment", "web", "--subresource", "scale", "--type", "merge", "--patch")
    await kubectl.ok(*scale, '{"spec":{"replicas":1}}')
    await cluster.settled()
    assert len(cluster.pods("serving")) == 1
    assert "must be greater than or equal to 0" in await kubectl.refused(*scale, '{"spec":{"replicas":-1}}')


async def test_writing_objects_and_asking_for_rights(cluster: EmulatedCluster, kubectl: Kubectl) -> None:
    policy = """
apiVersion: inference-autoscaler.dev/v1alpha1
kind: InferenceAutoscaler
metadata: {name: web, namespace: serving}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, objective: {latency: {target: 500ms}}}
"""
    assert "created" in await kubectl.ok("apply", "-f", "-", stdin=policy)
    assert "configured" in await kubectl.ok("apply", "-f", "-", stdin=policy.replace("spec: {", "spec: {mode: 'Off', "))
    assert "web" in await kubectl.ok("get", "ia")
    pod = cluster.pods("serving")[0]["metadata"]["name"]
    await kubectl.ok("annotate", "pod", pod, "example.com/note=x")
    await kubectl.ok("label", "deployment", "web", "tier=front")
    yes, rights, names = await asyncio.gather(
        kubectl.ok("auth", "can-i", "patch", "pods", "--subresource=resize"),
        kubectl.ok("auth", "can-i", "--list"),
        kubectl.ok("api-resources", "-o", "name"),
    )
    assert yes == "yes\n"
    assert "*.*" in rights
    assert "inferenceautoscalers.inference-autoscaler.dev" in names.split()
    assert "deleted" in await kubectl.ok("delete", "pod", pod)
    assert await kubectl.ok("explain", "pods")


async def test_the_first_look_of_the_installing_page(cluster: EmulatedCluster, kubectl: Kubectl) -> None:
    """Word for word: the namespace, then the overlay as a server's dry run, then the CRDs alone."""
    manifests = Path(__file__).parents[2] / "manifests"
    made = await kubectl.ok("create", "namespace", "inference-autoscaler")
    assert made == "namespace/inference-autoscaler created\n"
    shown = await kubectl.ok("apply", "-k", str(manifests / "overlays" / "cluster"), "--dry-run=server")
    assert "deployment.apps/inference-autoscaler created (server dry run)" in shown
    assert "inferenceautoscalers" in await kubectl.ok("apply", "-k", str(manifests / "crds"))


async def test_watching(cluster: EmulatedCluster, kubectl: Kubectl) -> None:
    watching = asyncio.create_task(kubectl("get", "pods", "--watch-only", "-o", "name", "--request-timeout=2s"))
    await cluster.until(lambda: bool(cluster.audit.of("watch", "pods")), what="kubectl's watch")
    pod = cluster.pods("serving")[0]["metadata"]["name"]
    await kubectl.ok("patch", "pod", pod, "--subresource", "resize", "--patch", patch("600m"))
    _, out, _ = await watching
    assert out.splitlines().count(f"pod/{pod}") == 3  # patched, in progress, done
