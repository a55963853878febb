"""Events: kept once, shown in core/v1 and events.k8s.io/v1."""

import re
from collections.abc import Mapping
from typing import Any

from autoscaler.emulate.status import Cause, Refused, bad_value, invalid, required

Json = dict[str, Any]
_PART = "[A-Za-z0-9][-A-Za-z0-9_.]*"
_QUALIFIED = re.compile(r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$")
_NAME_COMPLAINT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_BACK = {old: new for new, old in _RENAMED.items()}


def to_core(event: Mapping[str, Any]) -> Json:
    """How an events.k8s.io Event is kept."""
    kept = {_RENAMED.get(key, key): value for key, value in event.items()}
    kept.setdefault("source", {})
    kept.setdefault("firstTimestamp", None)
    kept.setdefault("lastTimestamp", None)
    return kept


def from_core(event: Mapping[str, Any]) -> Json:
    """How a kept Event is shown in events.k8s.io."""
    return {_BACK.get(key, key): value for key, value in event.items()}


def validate_new(event: Mapping[str, Any], name: str) -> None:
    """What events.k8s.io/v1 asks for beyond core/v1; `event` is in core form. Raises Refused (422)."""
    causes: list[Cause] = []
    if not event.get("eventTime"):
        causes.append(required("eventTime"))
    if event.get("type") not in ("Normal", "Warning"):
        causes.append(bad_value("type", "", f"has invalid value: {event.get('type', '')}"))
    controller = str(event.get("reportingComponent") or "")
    if not controller:
        causes.append(required("reportingController"))
        causes.append(bad_value("reportingController", controller, "name part must be non-empty"))
    if not _QUALIFIED.match(controller.rpartition("/")[2]):
        causes.append(bad_value("reportingController", controller, _NAME_COMPLAINT))
    if not event.get("reportingInstance"):
        causes.append(required("reportingInstance"))
    for field in ("action", "reason"):
        if not event.get(field):
            causes.append(required(field))
        elif len(event[field]) > 128:
            causes.append(bad_value(field, "", "can have at most 128 characters"))
    if len(event.get("message") or "") > 1024:
        causes.append(bad_value("message", "", "can have at most 1024 characters"))
    causes += _series(event)
    if causes:
        raise invalid("Event", name, causes)


def _series(event: Mapping[str, Any]) -> list[Cause]:
    series = event.get("series")
    if not series:
        return []
    causes = []
    if int(series.get("count", 0)) < 2:
        causes.append(bad_value("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        causes.append(required("series.lastObservedTime"))
    return causes


def validate_change(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Only the series may change. Raises Refused (422)."""
    causes = [
        bad_value(field, after.get(field), "field is immutable")
        for field in ("involvedObject", "reason", "message", "type", "eventTime", "action")
        if before.get(field) != after.get(field) and not (field == "eventTime" and before.get(field) is None)
    ]
    causes += _series(after)
    if causes:
        raise invalid("Event", before["metadata"]["name"], causes)


def validate_core(event: Mapping[str, Any], name: str, namespace: str) -> None:
    """Raises Refused (422)."""
    about = event.get("involvedObject") or {}
    where = about.get("namespace") or "default"
    if about.get("kind") and where != namespace and about.get("namespace"):
        raise invalid("Event", name, [bad_value("involvedObject.namespace", where, "does not match event.namespace")])


__all__ = ["Refused", "from_core", "to_core", "validate_change", "validate_core", "validate_new"]
