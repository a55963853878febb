"""Objects as servers of many versions send them → the values that decisions take."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.kube import kinds, neighbours
from autoscaler.kube.decode import PodSeen, decode_pod, pod_from, with_wanted
from autoscaler.kube.selectors import matches, render
from autoscaler.kube.wire import Requirement, Selector, when
from autoscaler.model.quantity import format_cpu, format_memory
from autoscaler.model.workload import Qos, ResizeRestart, Resources
from tests.kube.objects import T0, deployment, node, pod, replica_set

GI = 2**30


def read(body: dict[str, Any]) -> PodSeen:
    raw = json.dumps(body).encode()
    seen = decode_pod(raw)
    assert pod_from(body) == seen  # an answer to a patch reads the same as the watch
    return seen


def test_three_sizes() -> None:
    seen = read(
        pod(
            "p", requests={"cpu": "3", "memory": "2Gi"}, limits={"cpu": "4", "memory": "2Gi"},
            allocated={"cpu": "1", "memory": "2Gi"},
            actual={"requests": {"cpu": "500m"}, "limits": {"cpu": "0.75", "memory": "1536Mi"}},
        )
    )  # fmt: skip
    (container,) = seen.pod.containers
    assert container.desired == Resources(3000, 4000, 2 * GI, 2 * GI)
    assert container.allocated == Resources(1000, None, 2 * GI, None)
    assert container.actual == Resources(500, 750, None, 1536 * 2**20)
    assert (seen.cpu, seen.memory) == (3000, 2 * GI)
    assert seen.pod.created_at == when(T0)
    assert seen.pod.ready_at == when(T0)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "m"}, ("Deferred", False, "")),
        ({"type": "PodResizePending", "status": "True", "reason": "FromTheFuture"}, ("FromTheFuture", False, "")),
        ({"type": "PodResizePending", "status": "True"}, ("Unknown", False, "")),
        ({"type": "PodResizePending", "status": "False", "reason": "Deferred"}, ("", False, "")),
        ({"type": "PodResizeInProgress", "status": "True"}, ("", True, "")),
        ({"type": "PodResizeInProgress", "status": "True", "reason": "Error", "message": "m"}, ("", True, "Error")),
    ],
)
def test_conditions_of_a_resize(condition: dict[str, str], expected: tuple[str, bool, str]) -> None:
    seen = read(pod("p", conditions=[condition])).pod
    assert (seen.resize_pending, seen.resizing, seen.resize_error) == expected


@pytest.mark.parametrize("word", ["Proposed", "InProgress", "Deferred", "Infeasible", "Completed", ""])
def test_the_alpha_dialect(word: str) -> None:
    assert read(pod("p", status_resize=word)).pod.resize_dialect == word


def test_an_alpha_servers_infeasible_wish_is_not_committed() -> None:
    seen = read(pod("p", requests={"cpu": "64"}, allocated={"cpu": "1"}, actual={"requests": {"cpu": "1"}},
                    status_resize="Infeasible"))  # fmt: skip
    assert seen.cpu == 1000


def test_sidecars_init_containers_and_overhead_count() -> None:
    body = pod("p", requests={"cpu": "1", "memory": "1Gi"})
    body["spec"]["initContainers"] = [
        {"name": "mesh", "restartPolicy": "Always", "resources": {"requests": {"cpu": "200m"}}},
        {"name": "load", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}},
    ]
    body["spec"]["overhead"] = {"cpu": "50m", "memory": "10Mi"}
    seen = read(body)
    assert [(c.name, c.sidecar) for c in seen.pod.containers] == [("server", False), ("mesh", True)]
    assert seen.cpu == 2200 + 50  # the loading container beside the mesh
    assert seen.memory == GI + 10 * 2**20


def test_pod_level_requests_stand_for_all_containers() -> None:
    seen = read(pod("p", spec_resources={"requests": {"cpu": "5"}}))
    assert seen.cpu == 5000
    assert seen.pod.whole == Resources(cpu_request=5000)
    assert read(pod("p")).pod.whole is None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_holds_nothing(phase: str) -> None:
    assert (read(pod("p", phase=phase)).cpu, read(pod("p", phase=phase)).memory) == (0, 0)


def test_a_pod_on_its_way_out_holds_its_size_until_it_is_gone() -> None:
    seen = read(pod("p", meta_deletionTimestamp=T0))
    assert seen.pod.deleting
    assert seen.cpu == 1000


def test_gpus_oom_waiting_and_policies() -> None:
    body = pod("p", requests={"cpu": "1", "nvidia.com/gpu": "2", "ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi"})
    body["spec"]["containers"][0]["resizePolicy"] = [
        {"resourceName": "memory", "restartPolicy": "RestartContainer"},
        {"resourceName": "cpu", "restartPolicy": "NotRequired"},
    ]
    held = body["status"]["containerStatuses"][0]
    held["lastState"] = {"terminated": {"reason": "OOMKilled", "finishedAt": T0}}
    held["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    held["ready"] = False
    (container,) = read(body).pod.containers
    assert dict(container.extended) == {"nvidia.com/gpu": "2"}
    assert container.oom_at == when(T0)
    assert container.waiting_reason == "CrashLoopBackOff"
    assert not container.running
    assert container.memory_restart is ResizeRestart.RESTART_CONTAINER
    assert container.cpu_restart is ResizeRestart.NOT_REQUIRED


def test_static_windows_cost_and_who_resized() -> None:
    assert read(pod("p", annotations={"kubernetes.io/config.mirror": "x"})).pod.static
    assert read(pod("p", spec_os={"name": "windows"})).pod.windows
    cost = read(pod("p", annotations={"controller.kubernetes.io/pod-deletion-cost": "-5", "other": "y"})).pod
    assert cost.deletion_cost == -5
    assert "other" not in cost.annotations
    fields = [
        {"manager": "kubectl", "subresource": "resize", "time": "2026-12-01T03:20:51Z", "fieldsV1": {"f:spec": {}}},
        {"manager": "inference-autoscaler", "subresource": "resize", "time": "2026-12-01T03:20:50Z"},
        {"manager": "kubelet", "subresource": "status", "time": "2026-12-01T04:20:50Z"},
    ]
    seen = read(pod("p", meta_managedFields=fields)).pod
    assert (seen.resized_by, seen.resized_at) == ("kubectl", when("2026-12-01T03:20:51Z"))


def test_a_pod_without_anything() -> None:
    seen = read({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"containers": [{"name": "c"}]}})
    assert seen.pod.phase == "Pending"
    assert seen.pod.qos is Qos.BEST_EFFORT
    assert seen.pod.containers[0].actual is None
    assert (seen.cpu, seen.memory) == (0, 0)


def test_nulls_are_absences() -> None:
    body = pod("p")
    body["metadata"] |= {"labels": None, "annotations": None, "ownerReferences": None, "managedFields": None}
    body["spec"]["containers"][0]["resources"] = {"requests": None, "limits": None}
    body["status"] |= {"conditions": None, "containerStatuses": None}
    assert read(body).pod.containers[0].desired == Resources()


@pytest.mark.parametrize("cpu", ["three", "", "1 core", "--1", "1e99"])
def test_what_is_no_quantity_is_an_error_of_that_pod(cpu: str) -> None:
    with pytest.raises(ValueError):
        decode_pod(json.dumps(pod("p", requests={"cpu": cpu})).encode())


@pytest.mark.parametrize("cpu", ["+2", "2.", "2e0", "2E0", "2000m", "2000000u", "2000000000n", "0.002k"])
@pytest.mark.parametrize("memory", ["2Gi", "2147483648", "2147483648000m", "2147483648.0", "2097152Ki"])
def test_odd_spellings(cpu: str, memory: str) -> None:
    seen = read(pod("p", requests={"cpu": cpu, "memory": memory}))
    assert (seen.cpu, seen.memory) == (2000, 2 * GI)


amounts = st.tuples(st.integers(1, 64_000), st.integers(1, 2**40))


@given(desired=amounts, allocated=amounts, actual=amounts, infeasible=st.booleans(), wanted=amounts)
def test_what_is_committed_is_the_largest_that_counts(
    desired: tuple[int, int], allocated: tuple[int, int], actual: tuple[int, int], infeasible: bool,
    wanted: tuple[int, int],
) -> None:  # fmt: skip
    def size(amount: tuple[int, int]) -> dict[str, str]:
        return {"cpu": format_cpu(amount[0]), "memory": format_memory(amount[1])}

    pending = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}] if infeasible else []
    seen = read(
        pod(
            "p",
            requests=size(desired),
            allocated=size(allocated),
            actual={"requests": size(actual)},
            conditions=pending,
        )
    )
    counted = [allocated, actual] + ([] if infeasible else [desired])
    assert seen.cpu == max(c for c, _ in counted)
    assert seen.memory == max(m for _, m in counted)
    with_sent = with_wanted(seen, "server", Resources(cpu_request=wanted[0], memory_request=wanted[1]))
    assert with_sent == (max(seen.cpu, wanted[0]), max(seen.memory, wanted[1]))


def test_a_deployment() -> None:
    managed = [
        {"manager": "kubectl", "subresource": "scale", "time": T0, "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        {"manager": "kube-controller-manager", "subresource": "status", "time": T0,
         "fieldsV1": {"f:status": {"f:replicas": {}}}},
    ]  # fmt: skip
    body = deployment("web", replicas=3, meta={"generation": 2, "managedFields": managed, "resourceVersion": "9"})
    seen = kinds.decode_deployment(json.dumps(body).encode())
    assert (seen.replicas, seen.current, seen.resource_version, seen.rolling) == (3, 3, "9", True)
    assert (seen.scaled_by, seen.scaled_at) == ("kubectl", when(T0))
    assert seen.template == {"server": Resources(cpu_request=1000, memory_request=GI)}
    assert seen.selector == "app=web"
    assert kinds.decode_deployment(json.dumps(deployment("web", replicas=None)).encode()).replicas == 1
    assert kinds.decode_deployment(json.dumps(deployment("web", replicas=0)).encode()).replicas == 0


def test_a_scale_is_zero_where_replicas_are_absent() -> None:
    body = {"metadata": {"name": "x", "uid": "u", "resourceVersion": "3"}, "spec": {}, "status": {"replicas": 2}}
    seen = kinds.decode_scale(json.dumps(body).encode(), "v1", "X")
    assert (seen.replicas, seen.current) == (0, 2)
    body["spec"] = {"replicas": None}  # type: ignore[dict-item]
    assert kinds.decode_scale(json.dumps(body).encode(), "v1", "X").replicas == 0


@pytest.mark.parametrize(
    ("spec", "status", "rolling"),
    [
        ({}, {"currentRevision": "a", "updateRevision": "a", "updatedReplicas": 0}, False),
        ({}, {"currentRevision": "a", "updateRevision": "b", "updatedReplicas": 1}, True),
        ({}, {"currentRevision": "a", "updateRevision": "b", "updatedReplicas": 2}, False),
        ({"updateStrategy": {"type": "OnDelete"}}, {"currentRevision": "a", "updateRevision": "b"}, False),
        ({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}},
         {"currentRevision": "a", "updateRevision": "b", "updatedReplicas": 1}, False),
    ],
)  # fmt: skip
def test_when_a_stateful_set_rolls(spec: dict[str, Any], status: dict[str, Any], rolling: bool) -> None:
    raw = json.dumps(deployment("db", spec=spec, status=status)).encode()
    assert kinds.decode_stateful_set(raw).rolling is rolling


def test_nodes_sets_and_scalers() -> None:
    seen = kinds.decode_node(json.dumps(node("n", "3900m", "31Gi", "z")).encode()).node
    assert (seen.cpu, seen.memory, seen.zone, seen.ready) == (3900, 31 * GI, "z", True)
    owned = kinds.decode_replica_set(json.dumps(replica_set("web-abc", "web", revision=12)).encode())
    assert (owned.template_hash, owned.revision) == ("abc", 12)
    assert owned.owner is not None
    ref = {"kind": "Deployment", "name": "web"}
    keda = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "so", "uid": "u", "controller": True}
    hpa = {"metadata": {"name": "keda-hpa-so", "ownerReferences": [keda]}, "spec": {"scaleTargetRef": ref}}
    assert neighbours.decode_hpa(json.dumps(hpa).encode()).by == "scaledobject/so"
    paused = {"metadata": {"name": "so", "annotations": {"autoscaling.keda.sh/paused": "true"}}, "spec": {}}
    assert not neighbours.decode_scaled_object(json.dumps(paused).encode()).acts
    vpa = {"metadata": {"name": "v"}, "spec": {"targetRef": ref, "updatePolicy": {"updateMode": "Off"}}}
    assert not neighbours.decode_vpa(json.dumps(vpa).encode()).acts


def test_limits_and_quotas() -> None:
    limits = {
        "metadata": {"name": "l"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "4", "memory": "8Gi"}, "min": {"cpu": "50m"},
                             "maxLimitRequestRatio": {"cpu": "2.5"}}]},
    }  # fmt: skip
    (limit,) = neighbours.decode_limit_range(json.dumps(limits).encode()).limits
    assert (limit.high, limit.low, limit.cpu_ratio) == ({"cpu": 4000, "memory": 8 * GI}, {"cpu": 50}, 2.5)
    quota = {
        "metadata": {"name": "q"}, "spec": {},
        "status": {"hard": {"cpu": "10", "limits.memory": "1Gi", "pods": "5", "services": "1"},
                   "used": {"cpu": "2500m"}},
    }  # fmt: skip
    seen = neighbours.decode_quota(json.dumps(quota).encode())
    assert seen.hard == {"requests.cpu": 10_000, "limits.memory": GI, "pods": 5}
    assert seen.used == {"requests.cpu": 2500}
    assert seen.applies
    quota["spec"] = {"scopes": ["BestEffort"]}
    assert not neighbours.decode_quota(json.dumps(quota).encode()).applies


def test_selectors() -> None:
    rules = Selector(
        {"a": "b"},
        [Requirement("c", "In", ["1", "2"]), Requirement("d", "DoesNotExist"), Requirement("e", "NotIn", ["x"])],
    )
    assert matches(rules, {"a": "b", "c": "1"})
    assert not matches(rules, {"a": "b", "c": "3"})
    assert not matches(rules, {"a": "b", "c": "1", "d": ""})
    assert not matches(rules, {"a": "b", "c": "1", "e": "x"})
    assert render(rules) == "a=b,c in (1,2),!d,e notin (x)"
    assert matches(Selector(), {})
    assert not matches(Selector(None, [Requirement("a", "Near", ["b"])]), {"a": "b"})
