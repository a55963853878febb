"""The wire form of every action."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.act.patches import patches, plural
from autoscaler.emulate.patch import strategic_merge
from autoscaler.model.plan import AnnotatePod, Evict, Scale
from autoscaler.model.workload import Resources, TargetRef
from tests.act.made import GI, REF, SIZE, WHY, container, pod, resize, revert


def only(action: Any) -> Any:
    (patch,) = patches(action)
    return patch


def test_a_resize_is_a_strict_strategic_merge_of_one_container_and_the_changed_keys() -> None:
    patch = only(resize(pod(), Resources(cpu_request=1000, cpu_limit=2000, memory_request=GI)))
    assert (patch.verb, patch.path) == ("PATCH", "/api/v1/namespaces/serving/pods/resnet-1/resize")
    assert patch.content_type == "application/strategic-merge-patch+json"
    assert patch.query == {"fieldManager": "inference-autoscaler", "fieldValidation": "Strict"}
    assert patch.body == {
        "metadata": {"uid": "uid-resnet-1"},
        "spec": {"containers": [{"name": "server", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}]},
    }


def test_nothing_to_change_is_no_request() -> None:
    assert patches(resize(pod(), Resources(cpu_request=500))) == ()
    assert patches(Scale(REF, TargetRef("apps/v1", "Deployment", "resnet"), "serving", 3, 3, WHY)) == ()


def test_a_sidecar_is_patched_among_the_init_containers() -> None:
    one = pod(container("server"), container("proxy", sidecar=True))
    patch = only(resize(one, Resources(cpu_limit=1500), of="proxy"))
    assert list(patch.body["spec"]) == ["initContainers"]


def test_a_revert_puts_back_the_allocated_values() -> None:
    one = pod(container(size=Resources(4000, 4000, GI, 2 * GI)))
    patch = only(revert(one, Resources(cpu_request=500, cpu_limit=1000)))
    assert patch.body["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}


_AMOUNTS = st.none() | st.integers(10, 64_000)
_BYTES = st.none() | st.integers(2**22, 2**40)


@given(st.builds(Resources, _AMOUNTS, _AMOUNTS, _BYTES, _BYTES))
def test_everything_else_of_the_pod_stays_byte_for_byte(after: Resources) -> None:
    spec = {
        "containers": [
            {"name": "other", "image": "o", "resources": {"limits": {"cpu": "1", "hugepages-2Mi": "64Mi"}}},
            {
                "name": "server",
                "image": "s",
                "env": [{"name": "A", "value": "b"}],
                "resources": {
                    "limits": {"cpu": "1", "memory": "2Gi", "nvidia.com/gpu": "1", "ephemeral-storage": "1Gi"},
                    "requests": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1", "ephemeral-storage": "1Gi"},
                },
            },
        ]
    }
    before: dict[str, Any] = {"metadata": {"name": "resnet-1", "uid": "uid-resnet-1"}, "spec": spec}
    for patch in patches(resize(pod(container("other"), container("server")), after)):
        merged = strategic_merge(before, patch.body)
        assert merged["metadata"] == before["metadata"]
        assert merged["spec"]["containers"][0] == spec["containers"][0]
        server = merged["spec"]["containers"][1]
        for side in ("limits", "requests"):
            for key in ("nvidia.com/gpu", "ephemeral-storage"):
                assert server["resources"][side][key] == spec["containers"][1]["resources"][side][key]
        del server["resources"]
        assert server == {key: value for key, value in spec["containers"][1].items() if key != "resources"}


def test_replicas_go_through_the_scale_subresource_with_the_version_decided_on() -> None:
    patch = only(Scale(REF, TargetRef("apps/v1", "Deployment", "resnet"), "serving", 2, 3, WHY, "77"))
    assert patch.path == "/apis/apps/v1/namespaces/serving/deployments/resnet/scale"
    assert patch.content_type == "application/merge-patch+json"
    assert patch.body == {"metadata": {"resourceVersion": "77"}, "spec": {"replicas": 3}}


def test_a_custom_kind_is_scaled_under_its_discovered_name() -> None:
    target = TargetRef("example.dev/v1", "Lens", "x")
    (patch,) = patches(Scale(REF, target, "serving", 2, 3, WHY), resources={("example.dev/v1", "Lens"): "lenses"})
    assert patch.path == "/apis/example.dev/v1/namespaces/serving/lenses/x/scale"


@pytest.mark.parametrize(
    ("kind", "name"),
    [("Deployment", "deployments"), ("Policy", "policies"), ("Gateway", "gateways"), ("Ingress", "ingresses")],
)
def test_plurals(kind: str, name: str) -> None:
    assert plural(kind) == name


def test_scale_in_marks_its_victims_first_and_each_once() -> None:
    first, second = pod(name="a"), pod(name="b", deletion_cost=-1000)
    marks, scale = patches(
        Scale(REF, TargetRef("apps/v1", "Deployment", "resnet"), "serving", 3, 1, WHY, victims=(first, second))
    )
    assert marks.path == "/api/v1/namespaces/serving/pods/a"
    assert marks.body["metadata"]["annotations"] == {"controller.kubernetes.io/pod-deletion-cost": "-1000"}
    assert scale.body == {"spec": {"replicas": 1}}


def test_an_eviction_names_the_pod_it_was_decided_for() -> None:
    patch = only(Evict(REF, pod(), WHY))
    assert (patch.verb, patch.path) == ("POST", "/api/v1/namespaces/serving/pods/resnet-1/eviction")
    assert patch.body["apiVersion"] == "policy/v1"
    assert patch.body["deleteOptions"] == {"preconditions": {"uid": "uid-resnet-1"}}


def test_annotations_are_merged_and_removed_with_null() -> None:
    patch = only(AnnotatePod(REF, pod(annotations={"b": "1"}), {"a": "1", "b": None}, WHY))
    assert patch.path == "/api/v1/namespaces/serving/pods/resnet-1"
    assert patch.body == {"metadata": {"uid": "uid-resnet-1", "annotations": {"a": "1", "b": None}}}
    assert pod().containers[0].desired == SIZE
