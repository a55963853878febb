"""Label and field selectors."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from autoscaler.emulate.status import bad_request

Matcher = Callable[[Mapping[str, Any]], bool]

_FIELDS_OF_ALL = ("metadata.name", "metadata.namespace")
_FIELDS_OF = {
    "pods": (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.nominatedNodeName",
    ),
    "events": (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
        "reportingComponent", "source", "type", "regarding.kind", "regarding.name", "regarding.namespace",
        "regarding.uid", "reportingController",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "replicasets": ("status.replicas",),
}  # fmt: skip
_SAME_FIELD = {"regarding": "involvedObject", "reportingController": "reportingComponent"}
_SET_BASED = re.compile(r"^\s*([^\s!=,()]+)\s+(in|notin)\s+\(([^)]*)\)\s*$")
_EQUALITY = re.compile(r"^\s*([^\s!=,()]+)\s*(==|=|!=)\s*([^\s!=,()]*)\s*$")
_EXISTS = re.compile(r"^\s*(!?)\s*([^\s!=,()]+)\s*$")


def _split(text: str) -> list[str]:
    """At commas outside parentheses."""
    return [part for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def label_selector(text: str) -> Matcher | None:
    """From a query's `labelSelector`; None selects everything. Raises Refused (400)."""
    tests: list[Callable[[Mapping[str, str]], bool]] = []
    for part in _split(text):
        if match := _SET_BASED.match(part):
            key, operator, listed = match.groups()
            values = {value.strip() for value in listed.split(",")}
            tests.append(_in(key, values) if operator == "in" else _not_in(key, values))
        elif match := _EQUALITY.match(part):
            key, operator, value = match.groups()
            tests.append(_not_in(key, {value}) if operator == "!=" else _in(key, {value}))
        elif match := _EXISTS.match(part):
            absent, key = match.groups()
            tests.append(_exists(key, not absent))
        else:
            raise bad_request("unable to parse requirement: found '=', expected: identifier")
    if not tests:
        return None
    return lambda thing: all(test(thing["metadata"].get("labels") or {}) for test in tests)


def label_selector_of(selector: Mapping[str, Any] | None) -> Callable[[Mapping[str, str]], bool]:
    """From an object's `spec.selector` (matchLabels, matchExpressions); an empty one selects everything."""
    selector = selector or {}
    wanted = selector.get("matchLabels") or {}
    tests = [_in(key, {value}) for key, value in wanted.items()]
    for expression in selector.get("matchExpressions") or []:
        key, values = expression["key"], set(expression.get("values") or [])
        match expression["operator"]:
            case "In":
                tests.append(_in(key, values))
            case "NotIn":
                tests.append(_not_in(key, values))
            case "Exists":
                tests.append(_exists(key, True))
            case "DoesNotExist":
                tests.append(_exists(key, False))
    return lambda labels: all(test(labels) for test in tests)


def _in(key: str, values: set[str]) -> Callable[[Mapping[str, str]], bool]:
    return lambda labels: labels.get(key) in values


def _not_in(key: str, values: set[str]) -> Callable[[Mapping[str, str]], bool]:
    return lambda labels: labels.get(key) not in values


def _exists(key: str, wanted: bool) -> Callable[[Mapping[str, str]], bool]:
    return lambda labels: (key in labels) is wanted


def write_selector(selector: Mapping[str, Any] | None) -> str:
    """As the scale subresource shows it: `app=d,tier=x`."""
    selector = selector or {}
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or []:
        listed = ",".join(sorted(expression.get("values") or []))
        match expression["operator"]:
            case "In" | "NotIn" as operator:
                parts.append(f"{expression['key']} {operator.lower()} ({listed})")
            case "Exists":
                parts.append(expression["key"])
            case "DoesNotExist":
                parts.append("!" + expression["key"])
    return ",".join(parts)


def chosen_name(query: Mapping[str, str]) -> str:
    """The one name that a list or watch is limited to by its field selector, as authorization sees it; else empty."""
    for part in query.get("fieldSelector", "").split(","):
        name, _, value = part.replace("==", "=").partition("=")
        if name.strip() == "metadata.name":
            return value.strip()
    return ""


def field_selector(text: str, plural: str) -> Matcher | None:
    """From a query's `fieldSelector`. A field the server doesn't index is a 400."""
    tests: list[tuple[tuple[str, ...], bool, str]] = []
    known = _FIELDS_OF_ALL + _FIELDS_OF.get(plural, ())
    for part in _split(text):
        match = _EQUALITY.match(part)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        path, operator, value = match.groups()
        if path not in known:
            if plural in _FIELDS_OF:
                raise bad_request(f"field label not supported: {path}")
            raise bad_request(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')
        steps = path.split(".")
        steps[0] = _SAME_FIELD.get(steps[0], steps[0])
        tests.append((tuple(steps), operator != "!=", value))
    if not tests:
        return None

    def matches(thing: Mapping[str, Any]) -> bool:
        for steps, wanted, value in tests:
            found: Any = thing
            for step in steps:
                found = found.get(step, "") if isinstance(found, Mapping) else ""
            if (str(found or "") == value) is not wanted:
                return False
        return True

    return matches


def both(*matchers: Matcher | None) -> Matcher | None:
    present = [matcher for matcher in matchers if matcher is not None]
    if not present:
        return None
    if len(present) == 1:
        return present[0]
    return lambda thing: all(matcher(thing) for matcher in present)
