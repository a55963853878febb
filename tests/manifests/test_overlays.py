"""Every overlay as kubectl renders it: valid against real schemas, restricted, with no more rights than it says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from autoscaler.model.policy import PolicySpec
from autoscaler.render import crd
from tests.manifests.test_crds import refusals

ROOT = Path(__file__).parents[2]
OVERLAYS = sorted(path.name for path in (ROOT / "manifests" / "overlays").iterdir())
RIGHTS = sorted(path.parent.name for path in (ROOT / "manifests" / "components").glob("*/role.yaml"))
"""Components that add a right to an overlay."""
WRITES = {"create", "update", "patch", "delete", "deletecollection", "*"}
Object = Mapping[str, Any]


@cache
def rendered(overlay: str) -> tuple[Object, ...]:
    return kustomized(ROOT / "manifests" / "overlays" / overlay)


def kustomized(folder: Path) -> tuple[Object, ...]:
    done = subprocess.run(
        [Path(sys.executable).parent / "kubectl", "kustomize", folder],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and not done.stderr, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def of(overlay: str, *kinds: str) -> list[Object]:
    return [each for each in rendered(overlay) if each["kind"] in kinds]


def rules(overlay: str) -> Iterator[Object]:
    for role in of(overlay, "Role", "ClusterRole"):
        yield from role["rules"]


def pod_specs(overlay: str) -> Iterator[Object]:
    for each in of(overlay, "Deployment"):
        yield each["spec"]["template"]["spec"]


def containers(pod: Object) -> list[Object]:
    return [*pod.get("initContainers", ()), *pod["containers"]]


def ours(pod: Object) -> Object:
    (found,) = (each for each in containers(pod) if each["name"].endswith("autoscaler"))
    return found


@pytest.mark.parametrize("version", ["1.33", "1.36"])
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_object_is_valid(overlay: str, version: str) -> None:
    for each in rendered(overlay):
        kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_names_are_given_once_and_everything_has_its_namespace(overlay: str) -> None:
    cluster_wide = {"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}
    seen = set()
    for each in rendered(overlay):
        where = each["metadata"].get("namespace")
        assert (where is None) == (each["kind"] in cluster_wide), each["metadata"]
        key = (each["kind"], where, each["metadata"]["name"])
        assert key not in seen
        seen.add(key)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_selectors_find_the_pods(overlay: str) -> None:
    (deployment,) = of(overlay, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"].items()
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels
    for each in of(overlay, "Service", "PodDisruptionBudget", "NetworkPolicy"):
        spec = each["spec"]
        selector = spec.get("podSelector") or spec["selector"]
        chosen = selector.get("matchLabels", selector)
        assert chosen and chosen.items() <= labels, each["kind"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_keep_the_restricted_standard(overlay: str) -> None:
    for pod in pod_specs(overlay):
        shared = pod.get("securityContext", {})
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        for each in containers(pod):
            own = each["securityContext"]
            assert own["allowPrivilegeEscalation"] is False
            assert own["capabilities"] == {"drop": ["ALL"]}
            assert own.get("runAsNonRoot", shared.get("runAsNonRoot")) is True
            assert own.get("runAsUser", shared.get("runAsUser")) != 0
            assert own.get("seccompProfile", shared.get("seccompProfile")) == {"type": "RuntimeDefault"}
            assert each["resources"]["requests"].keys() == {"cpu", "memory"}
        assert ours(pod)["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_bindings_hold_together(overlay: str) -> None:
    roles = {(each["kind"], each["metadata"]["name"]) for each in of(overlay, "Role", "ClusterRole")}
    accounts = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in of(overlay, "ServiceAccount")}
    bound = set()
    for each in of(overlay, "RoleBinding", "ClusterRoleBinding"):
        bound.add((each["roleRef"]["kind"], each["roleRef"]["name"]))
        for subject in each["subjects"]:
            assert (subject["namespace"], subject["name"]) in accounts
    assert bound == roles
    for pod in pod_specs(overlay):
        assert pod["serviceAccountName"] in {name for _, name in accounts}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_rule_is_a_wildcard_or_reaches_secrets(overlay: str) -> None:
    for rule in rules(overlay):
        said = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert not [each for each in said if "*" in each]
        assert not {"secrets", "pods/exec", "nodes/proxy"} & set(rule["resources"])


def test_the_dry_run_can_write_nothing() -> None:
    assert list(rules("dry-run"))
    for rule in rules("dry-run"):
        assert not WRITES & set(rule["verbs"]), rule
    (pod,) = pod_specs("dry-run")
    assert "--dry-run" in ours(pod)["args"]
    assert "--leader-elect" not in ours(pod)["args"], "a Lease would have to be written"


@pytest.mark.parametrize("overlay", ["namespaced", "sidecar"])
def test_one_namespace_means_nothing_cluster_wide(overlay: str) -> None:
    assert not of(overlay, "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Namespace")
    for rule in rules(overlay):
        assert "nodes" not in rule["resources"]


def test_the_model_server_has_no_token() -> None:
    (pod,) = pod_specs("sidecar")
    assert pod["automountServiceAccountToken"] is False
    secret = {each["name"] for each in pod["volumes"] if "projected" in each}
    assert secret
    for each in containers(pod):
        mounted = {mount["name"] for mount in each.get("volumeMounts", ())}
        assert bool(mounted & secret) == (each["name"].endswith("autoscaler"))
    assert ours(pod)["restartPolicy"] == "Always", "a native sidecar starts before the model server and ends after it"


def test_the_sidecars_role_names_its_own_deployment() -> None:
    (deployment,) = of("sidecar", "Deployment")
    scaling = [rule for rule in rules("sidecar") if "deployments/scale" in rule["resources"]]
    assert [rule["resourceNames"] for rule in scaling] == [[deployment["metadata"]["name"]]]
    for rule in rules("sidecar"):
        unnamed = WRITES & set(rule["verbs"]) and "resourceNames" not in rule
        assert not unnamed or rule["verbs"] == ["create"] or rule["resources"] == ["pods/resize"], rule


def policies(overlay: str) -> Iterator[Object]:
    yield from of(overlay, "InferenceAutoscaler")
    for each in of(overlay, "ConfigMap"):
        yield from (yaml.safe_load(text) for name, text in each["data"].items() if name == "policy.yaml")


def test_example_policies_are_read_by_the_program() -> None:
    found = [policy for overlay in OVERLAYS for policy in policies(overlay)]
    assert found
    for policy in found:
        assert PolicySpec.model_validate(policy["spec"]).objective.latency is not None
        assert not list(refusals(crd.policy_spec(), policy["spec"]))


def test_the_crds_come_with_the_cluster_overlays() -> None:
    for overlay in ("cluster", "dry-run"):
        assert {each["metadata"]["name"] for each in of(overlay, "CustomResourceDefinition")} == {
            each["metadata"]["name"] for each in crd.definitions().values()
        }


@pytest.mark.parametrize(
    ("overlay", "component"),
    [
        *(("cluster", component) for component in RIGHTS),
        *(
            ("namespaced", component) for component in RIGHTS if component != "kubelet-metrics"
        ),  # nodes have no namespace
    ],
)
def test_a_component_adds_its_right_and_nothing_else(overlay: str, component: str, tmp_path: Path) -> None:
    """Named in a copy of the overlay itself, which for one namespace makes Roles of all ClusterRoles."""
    manifests = Path(os.path.relpath(ROOT / "manifests", tmp_path.resolve()))
    original = ROOT / "manifests" / "overlays" / overlay
    copy = yaml.safe_load((original / "kustomization.yaml").read_text(encoding="utf-8"))
    copy["resources"] = [each.replace("../../", f"{manifests}/") for each in copy["resources"]]
    copy["components"] = [str(manifests / "components" / component)]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(copy))
    for file in original.glob("*.yaml"):
        if file.name != "kustomization.yaml":
            (tmp_path / file.name).write_text(file.read_text(encoding="utf-8"))
    found = kustomized(tmp_path)
    for each in found:
        kubernetes_validate.validate(each, "1.36", strict=True)
    before = {(each["kind"], each["metadata"]["name"]) for each in rendered(overlay)}
    added = [each for each in found if (each["kind"], each["metadata"]["name"]) not in before]
    kinds = ["ClusterRole", "ClusterRoleBinding"] if overlay == "cluster" else ["Role", "RoleBinding"]
    assert sorted(each["kind"] for each in added) == kinds
    assert len(found) == len(before) + 2
    (account,) = of(overlay, "ServiceAccount")
    subjects = next(each["subjects"] for each in added if each["kind"].endswith("Binding"))
    where = [(each["namespace"], each["name"]) for each in subjects if each["kind"] == "ServiceAccount"]
    assert where == [(account["metadata"]["namespace"], account["metadata"]["name"])]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_pods_are_kept_apart_and_enough_of_them_alive(overlay: str) -> None:
    (deployment,) = of(overlay, "Deployment")
    labels = deployment["spec"]["selector"]["matchLabels"]
    (pod,) = pod_specs(overlay)
    (preferred,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    term = preferred["podAffinityTerm"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"].items() <= labels.items()
    budgets = [each["spec"]["minAvailable"] for each in of(overlay, "PodDisruptionBudget")]
    assert budgets == ([1] if deployment["spec"]["replicas"] > 1 else []), "a budget of one for one blocks every drain"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_network_policy_lets_through_what_is_needed(overlay: str) -> None:
    (policy,) = of(overlay, "NetworkPolicy")
    (pod,) = pod_specs(overlay)
    named = {port["name"] for each in containers(pod) for port in each.get("ports", ())}
    entries = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
    assert entries == named, "its own page, and in a sidecar's pod the model server's"
    if "Egress" in policy["spec"]["policyTypes"]:
        anywhere = [rule for rule in policy["spec"]["egress"] if "to" not in rule]
        assert {port["port"] for rule in anywhere for port in rule["ports"]} >= {53, 443, 6443}
        (pages,) = (rule for rule in policy["spec"]["egress"] if "to" in rule)
        assert pages["to"] == [{"namespaceSelector": {}}]
        ranges = [range(port["port"], port.get("endPort", port["port"]) + 1) for port in pages["ports"]]
        for port in (80, 8000, 8002, 8080, 9090, 10902):  # model servers', Prometheus', Thanos' query
            assert any(port in each for each in ranges)
