"""The `pods/resize` subresource: what it takes from a patched pod, and what it refuses.

Order and wording of the field errors are those of recorded 1.36 answers; a client that reads `details.causes` sees
here what it sees there.
"""

from collections.abc import Mapping
from typing import Any

from autoscaler.emulate import amounts
from autoscaler.emulate.podspec import all_containers, is_sidecar, qos_class
from autoscaler.emulate.status import (
    Cause,
    Refused,
    bad_value,
    forbidden_change,
    invalid,
    missing_reference,
    required,
)
from autoscaler.emulate.versions import Version

Json = dict[str, Any]
MIRROR = "kubernetes.io/config.mirror"
_COMPUTE = ("cpu", "memory")
_STANDARD = ("cpu", "memory", "ephemeral-storage")


def take_resources(old: Json, patched: Json) -> Json:
    """The pod that is validated: the old one with the patched containers' resources and resizePolicy.

    Everything else in the patch is silently dropped. Where the containers' number or a name differs the patched ones
    stay, for validation to refuse.
    """
    result: Json = {**old, "spec": dict(old["spec"])}
    for where in ("initContainers", "containers"):
        before, after = old["spec"].get(where) or [], patched["spec"].get(where) or []
        if not before and not after:
            continue
        if len(before) != len(after):
            result["spec"][where] = after
            continue
        merged = []
        for mine, theirs in zip(before, after, strict=True):
            if mine["name"] != theirs.get("name"):
                merged.append(theirs)
                continue
            one = {**mine, "resources": theirs.get("resources") or {}}
            one.pop("resizePolicy", None)
            if "resizePolicy" in theirs:
                one["resizePolicy"] = theirs["resizePolicy"]
            merged.append(one)
        result["spec"][where] = merged
    return result


def validate(old: Json, new: Json, patched: Json, version: Version, *, node_supports: bool) -> None:
    """Raises Refused (422). `new` comes from `take_resources`, `patched` still has the patch's metadata."""
    name = old["metadata"]["name"]
    causes: list[Cause] = []
    for key in ("name", "uid"):
        told = patched["metadata"].get(key)
        if told != old["metadata"][key]:
            # Twice, because both the metadata and the update rules look at it.
            causes += [bad_value(f"metadata.{key}", told, "field is immutable")] * 2
    causes += validate_containers(new["spec"])
    if MIRROR in (old["metadata"].get("annotations") or {}):
        raise invalid("Pod", name, [forbidden_change("[]", "static pods cannot be resized")])
    if (old["spec"].get("os") or {}).get("name") == "windows":
        raise invalid("Pod", name, [forbidden_change("[]", "windows pods cannot be resized")])
    if qos_class_of(old) != qos_class(new["spec"]):
        complaint = "Pod QOS Class may not change as a result of resizing"
        causes.append(bad_value("spec", qos_class_of(old), complaint))
    if not node_supports:
        causes.append(forbidden_change("spec", "Pod running on node without support for resize"))
    causes += _changes(old["spec"], new["spec"], version)
    if causes:
        raise invalid("Pod", name, causes)


def qos_class_of(pod: Mapping[str, Any]) -> str:
    known = (pod.get("status") or {}).get("qosClass")
    return str(known) if known else qos_class(pod["spec"])


def _changes(old: Json, new: Json, version: Version) -> list[Cause]:
    causes: list[Cause] = []
    for where in ("containers", "initContainers"):
        before, after = old.get(where) or [], new.get(where) or []
        if len(before) != len(after):
            return [forbidden_change(f"spec.{where}", "containers may not be added or removed on resize")]
        for index, (mine, theirs) in enumerate(zip(before, after, strict=True)):
            if mine["name"] != theirs.get("name"):
                complaint = "containers may not be renamed or reordered on resize"
                causes.append(forbidden_change(f"spec.{where}[{index}].name", complaint))
    if causes:
        return causes
    only_compute = False
    for where in ("containers", "initContainers"):
        for index, (mine, theirs) in enumerate(zip(old.get(where) or [], new.get(where) or [], strict=True)):
            at = f"spec.{where}[{index}]"
            causes += _removed(mine["resources"], theirs["resources"], at)
            if not version.memory_may_shrink and _memory_shrinks(mine, theirs):
                complaint = "memory limits cannot be decreased unless resizePolicy is RestartContainer"
                causes.append(forbidden_change(f"{at}.resources.limits", complaint))
            fixed = where == "initContainers" and not is_sidecar(mine) and not version.init_containers_resize
            only_compute = only_compute or (fixed and mine["resources"] != theirs["resources"])
            only_compute = only_compute or _other_than_compute(mine, theirs)
    if only_compute:
        causes.append(forbidden_change("spec", "only cpu and memory resources are mutable"))
    return causes


def _removed(before: Json, after: Json, at: str) -> list[Cause]:
    causes = []
    for side in ("requests", "limits"):
        gone = [name for name in before.get(side) or {} if name in _COMPUTE and name not in (after.get(side) or {})]
        if gone:
            causes.append(forbidden_change(f"{at}.resources.{side}", f"resource {side} cannot be removed"))
    return causes


def _other_than_compute(before: Json, after: Json) -> bool:
    if before.get("resizePolicy") != after.get("resizePolicy"):
        return True
    for side in ("requests", "limits"):
        mine, theirs = before["resources"].get(side) or {}, after["resources"].get(side) or {}
        for name in {*mine, *theirs} - set(_COMPUTE):
            if (name in mine) != (name in theirs):
                return True
            if amounts.parse(mine[name]).nano != amounts.parse(theirs[name]).nano:
                return True
    return False


def _memory_shrinks(before: Json, after: Json) -> bool:
    mine, theirs = (one["resources"].get("limits") or {} for one in (before, after))
    if "memory" not in mine or "memory" not in theirs:
        return False
    if restart_policy(after, "memory") == "RestartContainer":
        return False
    return amounts.parse(theirs["memory"]).nano < amounts.parse(mine["memory"]).nano


def restart_policy(container: Mapping[str, Any], resource: str) -> str:
    for one in container.get("resizePolicy") or []:
        if one.get("resourceName") == resource:
            return str(one.get("restartPolicy"))
    return "NotRequired"


def validate_containers(spec: Mapping[str, Any], *, creating: bool = False) -> list[Cause]:
    """The field errors of containers that creation and resize share."""
    causes: list[Cause] = []
    claims = {one.get("name") for one in spec.get("resourceClaims") or []}
    names: set[str] = set()
    for where, index, container in all_containers(spec):
        at = f"spec.{where}[{index}]"
        if not container.get("name"):
            causes.append(required(f"{at}.name"))
        elif container["name"] in names:
            causes.append(Cause("FieldValueDuplicate", f'Duplicate value: "{container["name"]}"', f"{at}.name"))
        names.add(container.get("name", ""))
        if not container.get("image"):
            causes.append(required(f"{at}.image"))
        causes += _resources(container.get("resources") or {}, f"{at}.resources", claims)
        if creating:
            causes += _resize_policy(container, where, at, str(spec.get("restartPolicy", "Always")))
    return causes


def _resources(resources: Mapping[str, Any], at: str, claims: set[Any]) -> list[Cause]:
    causes: list[Cause] = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for side, listed in (("limits", limits), ("requests", requests)):
        for name, value in sorted(listed.items()):
            field = f"{at}.{side}[{name}]"
            if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
                causes.append(bad_value(field, name, "must be a standard resource type or fully qualified"))
                causes.append(bad_value(field, name, "must be a standard resource for containers"))
            if amounts.parse(value).nano < 0:
                causes.append(bad_value(field, value, "must be greater than or equal to 0"))
    for name, value in sorted(requests.items()):
        if name not in limits:
            continue
        request, limit = amounts.parse(value), amounts.parse(limits[name])
        if "/" in name and request.nano != limit.nano:
            causes.append(bad_value(f"{at}.requests", value, f"must be equal to {name} limit of {limits[name]}"))
        elif request.nano > limit.nano:
            complaint = f"must be less than or equal to {name} limit of {limits[name]}"
            causes.append(bad_value(f"{at}.requests", value, complaint))
    for index, claim in enumerate(resources.get("claims") or []):
        if claim.get("name") not in claims:
            complaint = "must be one of the names in pod.spec.resourceClaims" + ("" if claims else " which is empty")
            causes.append(missing_reference(f"{at}.claims[{index}]", claim.get("name"), complaint))
    return causes


def _resize_policy(container: Mapping[str, Any], where: str, at: str, restart: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    init_only = where == "initContainers" and not is_sidecar(container)
    for index, policy in enumerate(container.get("resizePolicy") or []):
        name, wanted = policy.get("resourceName"), policy.get("restartPolicy")
        if name in seen:
            causes.append(Cause("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{at}.resizePolicy[{index}]"))
        seen.add(name)
        if name not in _COMPUTE:
            message = f'Unsupported value: "{name}": supported values: "cpu", "memory"'
            causes.append(Cause("FieldValueNotSupported", message, f"{at}.resizePolicy"))
        if wanted == "RestartContainer" and init_only:
            complaint = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            causes.append(bad_value(f"{at}.resizePolicy[{index}].restartPolicy", wanted, complaint))
        elif wanted == "RestartContainer" and restart == "Never":
            complaint = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            causes.append(bad_value(f"{at}.resizePolicy", wanted, complaint))
    return causes


def same_resources(old: Json, new: Json) -> bool:
    """By value: another spelling of the same size is no change."""
    for (_, _, mine), (_, _, theirs) in zip(all_containers(old["spec"]), all_containers(new["spec"]), strict=True):
        for side in ("requests", "limits"):
            before, after = (one["resources"].get(side) or {} for one in (mine, theirs))
            if before.keys() != after.keys():
                return False
            if any(amounts.parse(before[key]).nano != amounts.parse(after[key]).nano for key in before):
                return False
    return True


__all__ = ["Refused", "restart_policy", "same_resources", "take_resources", "validate", "validate_containers"]
