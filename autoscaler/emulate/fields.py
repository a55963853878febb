"""Fields the server knows, to answer what it doesn't: a Warning, or with fieldValidation=Strict a 422.

Written down only as deep as a client of this emulator patches; below `ANY` everything is accepted.
"""

from collections.abc import Mapping
from typing import Any

ANY: Any = None


def _free(names: str) -> dict[str, Any]:
    return dict.fromkeys(names.split(), ANY)


_META = _free(
    "name generateName namespace selfLink uid resourceVersion generation creationTimestamp deletionTimestamp "
    "deletionGracePeriodSeconds labels annotations ownerReferences finalizers managedFields"
)
_CONTAINER = _free(
    "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy "
    "restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath "
    "terminationMessagePolicy tty volumeDevices volumeMounts workingDir targetContainerName"
) | {"resources": _free("limits requests claims")}
_POD_SPEC = _free(
    "activeDeadlineSeconds affinity automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks hostAliases "
    "hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets nodeName nodeSelector os "
    "overhead preemptionPolicy priority priorityClassName readinessGates resourceClaims resources restartPolicy "
    "runtimeClassName schedulerName schedulingGates schedulingGroup securityContext serviceAccount serviceAccountName "
    "setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations "
    "topologySpreadConstraints volumes workloadRef"
) | {"containers": [_CONTAINER], "initContainers": [_CONTAINER], "ephemeralContainers": [_CONTAINER]}
_TOP = _free("apiVersion kind") | {"metadata": _META}
_LEASE_SPEC = _free(
    "holderIdentity leaseDurationSeconds acquireTime renewTime leaseTransitions strategy preferredHolder"
)


def _workload(more: str) -> dict[str, Any]:
    spec = _free(f"replicas selector minReadySeconds revisionHistoryLimit {more}")
    return _TOP | {"spec": spec | {"template": {"metadata": _META, "spec": _POD_SPEC}}, "status": ANY}


_KNOWN: Mapping[str, Mapping[str, Any]] = {
    "Pod": _TOP | {"spec": _POD_SPEC, "status": ANY},
    "Deployment": _workload("strategy paused progressDeadlineSeconds"),
    "ReplicaSet": _workload(""),
    "StatefulSet": _workload(
        "serviceName volumeClaimTemplates podManagementPolicy updateStrategy ordinals "
        "persistentVolumeClaimRetentionPolicy"
    ),
    "Scale": _TOP | {"spec": _free("replicas"), "status": ANY},
    "Lease": _TOP | {"spec": _LEASE_SPEC},
    "ConfigMap": _TOP | _free("data binaryData immutable"),
}


def unknown_fields(kind: str, thing: Mapping[str, Any]) -> list[str]:
    """Paths the server would not know, as it writes them: `spec.containers[0].resourcez`."""
    known = _KNOWN.get(kind)
    found: list[str] = []
    if known is not None:
        _search(thing, known, "", found)
    return found


def _search(value: Any, known: Any, path: str, found: list[str]) -> None:
    if known is ANY:
        return
    if isinstance(known, list):
        for index, one in enumerate(value if isinstance(value, list) else []):
            _search(one, known[0], f"{path}[{index}]", found)
        return
    for name, inner in value.items() if isinstance(value, Mapping) else ():
        where = f"{path}.{name}" if path else name
        if name not in known:
            found.append(where)
        else:
            _search(inner, known[name], where, found)
