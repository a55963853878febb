"""The CEL rules of a structural schema (``x-kubernetes-validations``), with Kubernetes' own functions for quantities.

CEL comes from the extra ``emulate``. Without it rules aren't evaluated, which each write says in a warning.
"""

import functools
import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from typing import Any

from autoscaler.emulate import amounts
from autoscaler.emulate.status import Cause
from autoscaler.emulate.structural import Schema, shown

AVAILABLE = importlib.util.find_spec("cel") is not None
NOT_EVALUATED = (
    "the emulated cluster did not evaluate the CEL rules of this resource: pip install 'inference-autoscaler[emulate]'"
)


def has_rules(schema: Any) -> bool:
    match schema:
        case Mapping():
            return "x-kubernetes-validations" in schema or any(has_rules(each) for each in schema.values())
        case list():
            return any(has_rules(each) for each in schema)
    return False


def broken(schema: Schema, value: Any, before: Any = None, path: str = "") -> Iterator[Cause]:
    """The rules that a value of the right shape breaks. ``before``: the same value of the stored object, for
    ``oldSelf``: rules that name it are asked only where there is one."""
    for each in schema.get("x-kubernetes-validations", ()):
        transition = "oldSelf" in each["rule"]
        if transition and before is None:
            continue
        if not holds(each["rule"], value, before if transition else None):
            yield _cause(path, value, each)
    if isinstance(value, Mapping):
        old = before if isinstance(before, Mapping) else {}
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, inner in value.items():
            form = known.get(name, others if isinstance(others, Mapping) else None)
            if form is not None:
                yield from broken(form, inner, old.get(name), f"{path}.{name}" if path else name)
    elif isinstance(value, list) and "items" in schema:
        for place, item in enumerate(value):
            yield from broken(schema["items"], item, None, f"{path}[{place}]")


def holds(rule: str, value: Any, before: Any = None) -> bool:
    """Whether one rule holds for ``self``. A rule that can't be evaluated doesn't hold."""
    cel, program = _compiled(rule)
    variables = {"self": value} if before is None else {"self": value, "oldSelf": before}
    try:
        return bool(program.execute(cel.Context(variables, _FUNCTIONS)))
    except (ValueError, TypeError, RuntimeError, KeyError):
        return False


@functools.lru_cache(maxsize=512)
def _compiled(rule: str) -> tuple[Any, Any]:
    cel = importlib.import_module("cel")
    return cel, cel.compile(rule)


def _cause(path: str, value: Any, rule: Mapping[str, Any]) -> Cause:
    said = rule.get("message") or f"failed rule: {rule['rule']}"
    seen = "" if isinstance(value, dict | list) else f"{shown(value)}: "
    return Cause("FieldValueInvalid", f"Invalid value: {seen}{said}", path + rule.get("fieldPath", ""))


def _is_quantity(text: str) -> bool:
    try:
        amounts.parse(text)
    except amounts.NotAQuantity:
        return False
    return True


def _compare(left: str, right: str) -> int:
    first, second = amounts.parse(left).nano, amounts.parse(right).nano
    return (first > second) - (first < second)


_FUNCTIONS = {"isQuantity": _is_quantity, "quantity": lambda text: text, "compareTo": _compare}
