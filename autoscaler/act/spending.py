"""What actions spend: cores, requests, quota; and in which order and company they are sent. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from autoscaler.act.sizes import changes, is_empty, overlay
from autoscaler.model.plan import Action, Plan, Resize, Revert


def shortfall_of(plan: Plan) -> tuple[float, float]:
    """Requests saved per second first, then cores added."""
    more = sum(cores(one) for one in plan.actions if isinstance(one, Resize))
    return (plan.want.urgent if plan.want is not None else 0.0, float(more))


def batches(actions: Iterable[Action]) -> list[list[Action]]:
    """Consecutive resizes that all give or all take together, anything else alone."""
    found: list[list[Action]] = []
    for action in actions:
        if found and isinstance(action, Resize | Revert) and _kind(found[-1][-1]) == _kind(action):
            found[-1].append(action)
        else:
            found.append([action])
    return found


def gives(batch: list[Action]) -> bool:
    """Whether these go before everybody's growth: what they give back may be what others take."""
    return all(_kind(action) == "gives" for action in batch)


def _kind(action: Action) -> str:
    if not isinstance(action, Resize | Revert):
        return ""
    return "gives" if isinstance(action, Revert) or cores(action) < 0 else "takes"


def cores(action: Resize | Revert) -> int:
    """Millicores that the container may use more than before (negative: fewer)."""
    return (overlay(action.before, action.after).cpu or 0) - (action.before.cpu or 0)


def added(action: Resize | Revert) -> tuple[int, int, dict[str, int]]:
    """CPU and memory requests that an action adds, and the change per quota key."""
    change, before = changes(action.before, action.after), action.before
    if is_empty(change):
        return 0, 0, {}
    keys = {
        "requests.cpu": (change.cpu_request, before.cpu_request),
        "limits.cpu": (change.cpu_limit, before.cpu_limit),
        "requests.memory": (change.memory_request, before.memory_request),
        "limits.memory": (change.memory_limit, before.memory_limit),
    }
    more = {key: then - (now or 0) for key, (then, now) in keys.items() if then is not None}
    return more.get("requests.cpu", 0), more.get("requests.memory", 0), more
