"""What stands between a valid object and the store: LimitRange, ResourceQuota, the node's capacity."""

from collections.abc import Iterable, Mapping
from typing import Any

from autoscaler.emulate import amounts
from autoscaler.emulate.amounts import Amount
from autoscaler.emulate.podspec import Totals, all_containers, counted, is_over, qos_class, read_list, total_of
from autoscaler.emulate.status import Refused, forbidden

Json = dict[str, Any]


def limit_range_defaults(limit_range: Json) -> None:
    """Container limits: an unset default is the maximum, an unset default request the default or the minimum."""
    for item in limit_range.get("spec", {}).get("limits") or []:
        for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            if field in item:
                item[field] = {name: amounts.write(amounts.parse(value)) for name, value in item[field].items()}
        if item.get("type") != "Container":
            continue
        for target, source in (("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")):
            for name, value in (item.get(source) or {}).items():
                item.setdefault(target, {}).setdefault(name, value)


def fill_from_limit_ranges(spec: Json, limit_ranges: Iterable[Mapping[str, Any]]) -> None:
    """A container without a limit or request gets the range's default, in place."""
    for limit_range in limit_ranges:
        for item in limit_range["spec"].get("limits") or []:
            if item.get("type") != "Container":
                continue
            for _, _, container in all_containers(spec):
                resources = container.setdefault("resources", {})
                for side, defaults in (("limits", item.get("default")), ("requests", item.get("defaultRequest"))):
                    for name, value in (defaults or {}).items():
                        resources.setdefault(side, {}).setdefault(name, value)


def check_limit_ranges(pod: Mapping[str, Any], limit_ranges: Iterable[Mapping[str, Any]]) -> None:
    """Raises Refused (403) with every rule that is broken."""
    spec = pod["spec"]
    complaints: list[str] = []
    for limit_range in limit_ranges:
        for item in limit_range["spec"].get("limits") or []:
            if item.get("type") == "Container":
                for where in ("containers", "initContainers"):
                    for container in spec.get(where) or []:
                        resources = container.get("resources") or {}
                        requests, limits = (read_list(resources.get(side)) for side in ("requests", "limits"))
                        complaints += _broken(item, "Container", requests, limits)
            elif item.get("type") == "Pod":
                complaints += _broken(item, "Pod", total_of(spec, "requests"), total_of(spec, "limits"))
    if complaints:
        listed = complaints[0] if len(complaints) == 1 else "[" + ", ".join(complaints) + "]"
        raise forbidden("pods", pod["metadata"]["name"], listed)


def _broken(item: Mapping[str, Any], kind: str, requests: Totals, limits: Totals) -> list[str]:
    found: list[str] = []
    for name, bound in sorted(read_list(item.get("min")).items()):
        start = f"minimum {name} usage per {kind} is {amounts.write(bound)}"
        if name not in requests:
            found.append(f"{start}.  No request is specified")
        elif requests[name].nano < bound.nano:
            found.append(f"{start}, but request is {amounts.write(requests[name])}")
        elif name in limits and limits[name].nano < bound.nano:
            found.append(f"{start}, but limit is {amounts.write(limits[name])}")
    for name, bound in sorted(read_list(item.get("max")).items()):
        start = f"maximum {name} usage per {kind} is {amounts.write(bound)}"
        if name not in limits:
            found.append(f"{start}.  No limit is specified")
        elif limits[name].nano > bound.nano:
            found.append(f"{start}, but limit is {amounts.write(limits[name])}")
        elif name in requests and requests[name].nano > bound.nano:
            found.append(f"{start}, but request is {amounts.write(requests[name])}")
    for name, bound in sorted(read_list(item.get("maxLimitRequestRatio")).items()):
        start = f"{name} max limit to request ratio per {kind} is {amounts.write(bound)}"
        if not requests.get(name, Amount(0, "decimal")).nano:
            found.append(f"{start}, but no request is specified or request is 0")
        elif not limits.get(name, Amount(0, "decimal")).nano:
            found.append(f"{start}, but no limit is specified or limit is 0")
        elif limits[name].nano > bound.nano * requests[name].nano // amounts.NANO:
            found.append(f"{start}, but provided ratio is {limits[name].nano / requests[name].nano:.6f}")
    return found


def quota_use(pod: Mapping[str, Any]) -> Totals:
    """What one pod takes from a quota, under every name a quota may use for it."""
    if is_over(pod):
        return {}
    use: Totals = {"pods": Amount(amounts.NANO, "decimal"), "count/pods": Amount(amounts.NANO, "decimal")}
    for name, amount in counted(pod, "requests").items():
        use[f"requests.{name}"] = amount
        if name in ("cpu", "memory", "ephemeral-storage"):
            use[name] = amount
    for name, amount in counted(pod, "limits").items():
        use[f"limits.{name}"] = amount
    return use


def in_scope(pod: Mapping[str, Any], quota: Mapping[str, Any]) -> bool:
    """Whether a quota counts this pod: all of its `scopes` and of its `scopeSelector` hold."""
    spec = quota["spec"]
    selected = (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    demands = [(name, "Exists", ()) for name in spec.get("scopes") or []]
    demands += [(one.get("scopeName"), one.get("operator"), one.get("values") or ()) for one in selected]
    return all(_in_one_scope(pod["spec"], *demand) for demand in demands)


def _in_one_scope(spec: Mapping[str, Any], scope: str, operator: str, values: Iterable[str]) -> bool:
    match scope:
        case "BestEffort":
            return qos_class(spec) == "BestEffort"
        case "NotBestEffort":
            return qos_class(spec) != "BestEffort"
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "PriorityClass":
            named = spec.get("priorityClassName") or ""
            return {
                "In": named in values,
                "NotIn": named not in values,
                "Exists": bool(named),
                "DoesNotExist": not named,
            }.get(operator, False)
    return False  # CrossNamespacePodAffinity: the emulator places no pod by affinity


def check_quotas(
    pod: Mapping[str, Any], before: Mapping[str, Any] | None, quotas: Iterable[Mapping[str, Any]]
) -> list[tuple[str, Totals]]:
    """Raises Refused (403) for the first quota exceeded; else (quota name, what its use grows by) of each.

    `used` is what the quota's status says, which after a shrink stays high until the controller has looked again.
    """
    wanted, had = quota_use(pod), quota_use(before) if before is not None else {}
    grown: list[tuple[str, Totals]] = []
    for quota in quotas:
        if not in_scope(pod, quota):
            continue
        hard = read_list(quota["spec"].get("hard"))
        used = read_list((quota.get("status") or {}).get("used"))
        exceeded: list[str] = []
        growth: Totals = {}
        for name in sorted(hard):
            delta = wanted.get(name, Amount(0, "decimal")).nano - (had[name].nano if name in had else 0)
            if before is None and name.startswith(("requests.", "limits.")) and name not in wanted:
                exceeded.append(name)
                continue
            if delta <= 0:
                continue
            growth[name] = Amount(delta, wanted[name].family)
            if (used[name].nano if name in used else 0) + delta > hard[name].nano:
                exceeded.append(name)
        if exceeded:
            raise _exceeded(pod, quota, exceeded, growth, used, hard)
        if growth:
            grown.append((quota["metadata"]["name"], growth))
    return grown


def _exceeded(
    pod: Mapping[str, Any], quota: Mapping[str, Any], names: list[str], growth: Totals, used: Totals, hard: Totals
) -> Refused:
    quota_name, pod_name = quota["metadata"]["name"], pod["metadata"]["name"]
    missing = [name for name in names if name not in growth]
    if missing:
        return forbidden("pods", pod_name, f"failed quota: {quota_name}: must specify {','.join(missing)}")

    def listed(amounts_by_name: Totals) -> str:
        zero = Amount(0, "decimal")
        return ",".join(f"{name}={amounts.write(amounts_by_name.get(name, zero))}" for name in names)

    complaint = (
        f"exceeded quota: {quota_name}, requested: {listed(growth)}, used: {listed(used)}, limited: {listed(hard)}"
    )
    return forbidden("pods", pod_name, complaint)


def check_node(pod: Mapping[str, Any], allocatable: Totals) -> None:
    """403 with cause NodeCapacity when the requests can never fit the node. CPU is shown in milli, memory in bytes."""
    wanted = total_of(pod["spec"], "requests")
    for name in ("cpu", "memory"):
        if name not in wanted or name not in allocatable or wanted[name].nano <= allocatable[name].nano:
            continue
        # The server's own arithmetic is 64 bit, and wraps.
        asked = amounts.as_int64(whole_units(name, wanted[name]))
        complaint = (
            f"node didn't have enough allocatable resources: {name}, requested: {asked}, "
            f"allocatable: {whole_units(name, allocatable[name])}"
        )
        raise forbidden("pods", pod["metadata"]["name"], complaint, cause="NodeCapacity")


def whole_units(name: str, amount: Amount) -> int:
    """As kubelet and admission print it: milli for CPU, units for the rest."""
    return amount.milli if name == "cpu" else amount.whole
