"""What the API server makes of a custom resource before it is stored: pruned, defaulted, checked, and ruled on."""

from collections.abc import Mapping
from typing import Any

from autoscaler.emulate import rules, structural
from autoscaler.emulate.kinds import Kind
from autoscaler.emulate.status import Cause, invalid
from autoscaler.emulate.structural import NOWHERE, Json

_BLOCKING = frozenset(
    ["FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"]
)
_UNCHECKED = Cause(
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation",
    NOWHERE,
)


def unknown(kind: Kind, body: Mapping[str, Any]) -> list[str]:
    """The fields that will be pruned."""
    return [] if kind.schema is None else sorted(structural.unknown(kind.schema, body))


def settle(kind: Kind, body: Json) -> None:
    """Pruned and defaulted, in place."""
    if kind.schema is not None:
        structural.prune(kind.schema, body)
        structural.fill(kind.schema, body)


def check(kind: Kind, body: Json, before: Json | None = None) -> None:
    """Raises Refused (422) for what schema or rules refuse, unless that part is as it was before."""
    if kind.schema is None:
        return
    causes = list(structural.faults(kind.schema, body))
    if any(reason in _BLOCKING for reason, _, _ in causes):
        causes.append(_UNCHECKED)
    elif rules.AVAILABLE:
        causes += rules.broken(kind.schema, body, before)
    if before is not None:
        causes = [each for each in causes if each[2] != NOWHERE and not _as_before(each[2], body, before)]
        if any(reason in _BLOCKING for reason, _, _ in causes):
            causes.append(_UNCHECKED)
    if causes:
        raise invalid(kind.kind, body["metadata"]["name"], causes, group=kind.group)


def warning(kind: Kind) -> str:
    """What a writer should know of this check; empty when it was whole."""
    return "" if rules.AVAILABLE or not rules.has_rules(kind.schema) else rules.NOT_EVALUATED


def _as_before(path: str, body: Json, before: Json) -> bool:
    """Whether something on the way to this field is unchanged: what was stored once may stay (ratcheting)."""
    new: Any = body
    old: Any = before
    for step in path.partition("[")[0].split("."):
        if not isinstance(new, Mapping) or not isinstance(old, Mapping) or step not in new or step not in old:
            return False
        new, old = new[step], old[step]
        if new == old:
            return True
    return False
