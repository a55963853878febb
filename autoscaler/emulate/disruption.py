"""PodDisruptionBudgets and the eviction subresource."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from autoscaler.emulate.podspec import is_over, is_ready
from autoscaler.emulate.selectors import label_selector_of
from autoscaler.emulate.status import Refused, internal
from autoscaler.emulate.store import Stored

Json = dict[str, Any]


def budgets_of(pod: Mapping[str, Any], budgets: Iterable[Stored]) -> list[Stored]:
    labels = pod["metadata"].get("labels") or {}
    return [one for one in budgets if label_selector_of(one.body["spec"].get("selector"))(labels)]


def budget_status(
    budget: Mapping[str, Any],
    pods: Iterable[Mapping[str, Any]],
    expected_of: Callable[[Mapping[str, Any]], tuple[str, int] | None],
    now: str,
) -> Json:
    """As the disruption controller writes it. `expected_of` gives the replicas of a pod's controller."""
    selects = label_selector_of(budget["spec"].get("selector"))
    mine = [pod for pod in pods if selects(pod["metadata"].get("labels") or {}) and not is_over(pod)]
    healthy = sum(is_ready(pod) and "deletionTimestamp" not in pod["metadata"] for pod in mine)
    spec = budget["spec"]
    expected = len(mine)
    needs_owners = "maxUnavailable" in spec or str(spec.get("minAvailable", "")).endswith("%")
    if needs_owners:
        owners = {found[0]: found[1] for pod in mine if (found := expected_of(pod)) is not None}
        expected = sum(owners.values())
    if "maxUnavailable" in spec:
        desired = max(0, expected - _scaled(spec["maxUnavailable"], expected))
    else:
        desired = _scaled(spec.get("minAvailable", 0), expected)
    allowed = max(0, healthy - desired)
    before = (budget.get("status") or {}).get("conditions") or [{}]
    true = "True" if allowed else "False"
    since = before[0].get("lastTransitionTime", now) if before[0].get("status") == true else now
    generation = budget["metadata"].get("generation", 1)
    return {
        "observedGeneration": generation,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "conditions": [
            {
                "type": "DisruptionAllowed",
                "status": true,
                "observedGeneration": generation,
                "lastTransitionTime": since,
                "reason": "SufficientPods" if allowed else "InsufficientPods",
                "message": "",
            }
        ],
    }


def _scaled(value: Any, of: int) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return -(-int(value[:-1]) * of // 100)
    return int(value)


def check_uid(pod: Mapping[str, Any], precondition: str | None) -> None:
    """Raises Refused (409)."""
    metadata = pod["metadata"]
    if precondition is None or precondition == metadata["uid"]:
        return
    message = (
        f'Operation cannot be fulfilled on Pod "{metadata["name"]}": the UID in the precondition ({precondition}) does '
        f"not match the UID in record ({metadata['uid']}). The object might have been deleted and then recreated"
    )
    raise Refused(409, "Conflict", message, details={"name": metadata["name"], "kind": "Pod"})


def check_budgets(pod: Mapping[str, Any], budgets: list[Stored]) -> None:
    """May this pod be evicted now? Raises Refused: 500 for two budgets, 429 for one without a disruption left."""
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Pending", "Succeeded", "Failed") or "deletionTimestamp" in pod["metadata"]:
        return
    if len(budgets) > 1:
        raise internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    for stored in budgets:
        status = stored.body.get("status") or {}
        healthy, desired = int(status.get("currentHealthy", 0)), int(status.get("desiredHealthy", 0))
        if not is_ready(pod) and healthy >= desired > 0:
            continue
        if int(status.get("disruptionsAllowed", 0)) > 0:
            continue
        message = f"The disruption budget {stored.name} needs {desired} healthy pods and has {healthy} currently"
        raise Refused(
            429,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
            details={"causes": [{"reason": "DisruptionBudget", "message": message}]},
        )
