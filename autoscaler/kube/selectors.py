"""Label selectors: matching, and the one-line spelling."""

from __future__ import annotations

from collections.abc import Mapping

from autoscaler.kube.wire import Requirement, Selector


def matches(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether a ``metav1.LabelSelector`` selects these labels. An empty one selects everything; an unknown operator
    nothing."""
    wanted = selector.match_labels or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _holds(rule, labels) for rule in selector.match_expressions or ()
    )


def _holds(rule: Requirement, labels: Mapping[str, str]) -> bool:
    match rule.operator:
        case "In":
            return labels.get(rule.key) in (rule.values or ())
        case "NotIn":
            return labels.get(rule.key) not in (rule.values or ())
        case "Exists":
            return rule.key in labels
        case "DoesNotExist":
            return rule.key not in labels
    return False


def render(selector: Selector | None) -> str:
    """The spelling of ``kubectl get -l``."""
    if selector is None:
        return ""
    parts = [f"{key}={value}" for key, value in (selector.match_labels or {}).items()]
    for rule in selector.match_expressions or ():
        values = ",".join(rule.values or ())
        match rule.operator:
            case "In":
                parts.append(f"{rule.key} in ({values})")
            case "NotIn":
                parts.append(f"{rule.key} notin ({values})")
            case "Exists":
                parts.append(rule.key)
            case "DoesNotExist":
                parts.append(f"!{rule.key}")
    return ",".join(parts)
