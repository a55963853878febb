"""The roles proved both ways: with them alone everything works, and everything in them is used."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from autoscaler.emulate.authorize import ADMIN_TOKEN, Rule, rules_of
from autoscaler.emulate.cluster import ClusterSpec, EmulatedCluster
from autoscaler.kube.client import KubeClient
from autoscaler.kube.connect import find_access
from autoscaler.model.plan import Scale
from autoscaler.model.policy import API_VERSION, GROUP
from autoscaler.render import crd
from tests.manifests.test_crds import refusals
from tests.manifests.test_overlays import OVERLAYS, ROOT, of
from tests.scenarios.stage import NAMESPACE, POLICY, Stage, cluster_spec, staged

OWN = "inference-autoscaler"
TOKEN = "the-daemon"
KUBELET = {("get", "", "nodes/proxy")}
Right = tuple[str, str, str]
MARK: Right = ("patch", "", "pods")
"""Only a scale-in marks pods: those that are to go first."""
KINDS = {"resnet": "Deployment", "bert": "StatefulSet", "whisper": "ReplicaSet"}
EVERY_SOURCE = POLICY.replace(", sources: [scrape]", "")
NEIGHBOURS = tuple(
    {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{"name": version, "served": True, "storage": True}],
        },
    }
    for group, version, kind, plural in (
        ("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler", "verticalpodautoscalers"),
        ("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects"),
    )
)  # fmt: skip
"""Other autoscalers' definitions, as where they are installed."""
FROM_FILE, *RESOURCES = KINDS


def role_rules(overlay: str, namespace: str = OWN) -> list[Rule]:
    """As the bindings give them: cluster roles everywhere, roles in their namespace."""
    found: list[Rule] = []
    for role in of(overlay, "Role", "ClusterRole"):
        found += rules_of(role, namespace=namespace if role["kind"] == "Role" else None)
    return found


def granted(overlay: str) -> set[Right]:
    return {
        (verb, group, resource)
        for rule in role_rules(overlay) for verb in rule.verbs for group in rule.groups for resource in rule.resources
    }  # fmt: skip


def used(cluster: EmulatedCluster) -> set[Right]:
    return {
        (entry.verb, entry.group, f"{entry.resource}/{entry.subresource}".rstrip("/"))
        for entry in cluster.audit
        if entry.user == TOKEN and entry.resource and entry.code != 403
    }  # fmt: skip


def denied(cluster: EmulatedCluster) -> set[Right]:
    return {
        (entry.verb, entry.group, f"{entry.resource}/{entry.subresource}".rstrip("/"))
        for entry in cluster.audit
        if entry.user == TOKEN and entry.code == 403
    }  # fmt: skip


def scaled_in(stage: Stage) -> bool:
    scales = (one.action for tick in stage.ticks for one in tick.sent if isinstance(one.action, Scale))
    return any(action.after < action.before for action in scales)


async def as_admin(stage: Stage, method: str, path: str, body: Any) -> dict[str, Any]:
    async with KubeClient(find_access(server=stage.cluster.url)) as client:
        answer = await client.request(method, path, body=body)
        found: dict[str, Any] = answer.expect(f"{method} {path}").json()
        return found


def three_kinds() -> ClusterSpec:
    """The same service as a Deployment, a StatefulSet and a ReplicaSet of its own."""
    spec = cluster_spec(20.0, node_cpu="64")
    (deployment,) = spec.workloads
    others = [replace(deployment, name=name, kind=kind) for name, kind in KINDS.items() if name != deployment.name]
    return replace(spec, workloads=[deployment, *others])


def policy_for(name: str) -> dict[str, Any]:
    policy: dict[str, Any] = yaml.safe_load(POLICY)
    policy["metadata"]["name"] = name
    policy["spec"]["scaleTargetRef"] = {"kind": KINDS[name], "name": name}
    policy["spec"]["signals"] = {"preset": "generic"}  # every source, in the usual order
    policy["spec"]["horizontal"]["behavior"] = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    return policy


async def a_working_life(stage: Stage) -> None:
    """A policy from a file and two as resources, a breach, more than size can serve, and all back again."""
    path = f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/inferenceautoscalers"
    budget = {"apiVersion": API_VERSION, "kind": "CapacityBudget", "metadata": {"name": "all"}, "spec": {"cpu": "64"}}
    await as_admin(stage, "POST", path.replace("inferenceautoscalers", "capacitybudgets"), budget)
    for name in RESOURCES:
        await as_admin(stage, "POST", path, policy_for(name))
    await asyncio.sleep(20)
    for load, seconds in ((260.0, 90), (10.0, 600)):
        for name in KINDS:
            stage.cluster.workload(name).load = load  # type: ignore[assignment]
        await asyncio.sleep(seconds)


@pytest.mark.looptime
async def test_the_cluster_roles_are_enough_and_nothing_in_them_is_spare(tmp_path: Path) -> None:
    async with staged(
        three_kinds(), tmp_path, policy=yaml.safe_dump(policy_for(FROM_FILE)), token=TOKEN,
        rules=role_rules("cluster"), spaces=(OWN,),
        definitions=NEIGHBOURS, resources=True, leader={"elect": True, "namespace": OWN}, interval=5.0,
    ) as stage:  # fmt: skip
        await a_working_life(stage)
        assert denied(stage.cluster) == KUBELET, "only by the component that has to be chosen"
        assert used(stage.cluster) - granted("cluster") == set()
        assert granted("cluster") - used(stage.cluster) == (set() if scaled_in(stage) else {MARK})
        for name in RESOURCES:
            stored = stage.cluster.plane.store.get((GROUP, "inferenceautoscalers"), NAMESPACE, name)
            assert stored is not None
            assert not list(refusals(crd.policy_status(), stored.body["status"], "status"))


def test_the_kubelets_own_figures_take_a_right_that_has_to_be_chosen() -> None:
    component = ROOT / "manifests" / "components" / "kubelet-metrics" / "role.yaml"
    role = next(yaml.safe_load_all(component.read_text(encoding="utf-8")))
    found = {(v, g, r) for rule in rules_of(role) for v in rule.verbs for g in rule.groups for r in rule.resources}
    assert found == KUBELET
    assert not any(KUBELET & granted(overlay) for overlay in OVERLAYS)


@pytest.mark.looptime
async def test_the_dry_run_works_with_roles_that_cant_write_and_writes_nothing(tmp_path: Path) -> None:
    async with staged(
        cluster_spec(80.0), tmp_path, policy=EVERY_SOURCE, token=TOKEN, rules=role_rules("dry-run"), spaces=(OWN,),
        definitions=NEIGHBOURS, resources=True, dry_run=True, leader={"namespace": OWN},
    ) as stage:  # fmt: skip
        await asyncio.sleep(40)
        assert any(tick.sent for tick in stage.ticks), "it says what it would do"
        assert denied(stage.cluster) == KUBELET
        assert not [entry for entry in stage.cluster.audit.writes() if entry.user == TOKEN]
        assert used(stage.cluster) == granted("dry-run")
        assert stage.cores() == [0.5, 0.5]


@pytest.mark.looptime
async def test_one_namespace_is_enough_for_its_own_workloads(tmp_path: Path) -> None:
    async with staged(
        cluster_spec(80.0), tmp_path, token=TOKEN, rules=role_rules("namespaced", NAMESPACE),
        namespace=NAMESPACE, resources=True, leader={"elect": True, "namespace": NAMESPACE},
    ) as stage:  # fmt: skip
        await asyncio.sleep(60)
        assert max(stage.cores()) > 0.5
        assert {resource for _, _, resource in denied(stage.cluster)} <= {"nodes"}


def test_admin_is_somebody_else() -> None:
    assert ADMIN_TOKEN != TOKEN
