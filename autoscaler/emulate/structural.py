"""What a structural schema does to a custom resource: unknown fields go, defaults come, and the rest is checked.

The complaints are those of a 1.36 API server, word for word where one was asked (tests/emulate/test_custom.py). CEL is
in ``rules``.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from autoscaler.emulate.status import Cause, bad_value, required, unsupported_value

Json = dict[str, Any]
Schema = Mapping[str, Any]
_ROOT = ("apiVersion", "kind", "metadata")
"""Kept at the top whatever the schema says of them."""
NOWHERE = "<nil>"
"""The field of a complaint that has none."""


def unknown(schema: Schema, value: Any, path: str = "") -> Iterator[str]:
    """Paths of the fields that the schema doesn't know, as the server writes them: ``spec.a[0].b``."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield from unknown(schema.get("items", {}), item, f"{path}[{place}]")
    elif isinstance(value, Mapping):
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, inner in value.items():
            where = f"{path}.{name}" if path else name
            if not path and name in _ROOT:
                continue
            if name in known:
                yield from unknown(known[name], inner, where)
            elif isinstance(others, Mapping):
                yield from unknown(others, inner, where)
            elif not others:
                yield where


def prune(schema: Schema, value: Any, *, root: bool = True) -> None:
    """Take out, in place, what the schema doesn't know."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, list):
        for item in value:
            prune(schema.get("items", {}), item, root=False)
    elif isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name in list(value):
            if root and name in _ROOT:
                continue
            if name in known:
                prune(known[name], value[name], root=False)
            elif isinstance(others, Mapping):
                prune(others, value[name], root=False)
            elif not others:
                del value[name]


def fill(schema: Schema, value: Any) -> None:
    """Defaults, in place. A null where null isn't allowed counts as left out."""
    if isinstance(value, list):
        for item in value:
            fill(schema.get("items", {}), item)
    elif isinstance(value, dict):
        for name, inner in schema.get("properties", {}).items():
            if name in value and value[name] is None and not inner.get("nullable"):
                del value[name]
            if name not in value and "default" in inner:
                value[name] = msgspec.json.decode(msgspec.json.encode(inner["default"]))
            if name in value:
                fill(inner, value[name])
        if isinstance(others := schema.get("additionalProperties"), Mapping):
            for inner in value.values():
                fill(others, inner)


def faults(schema: Schema, value: Any, path: str = "") -> Iterator[Cause]:
    """Everything that the schema itself refuses; what is inside an object before what it lacks."""
    if value is None and schema.get("nullable"):
        return
    if schema.get("x-kubernetes-int-or-string") and (isinstance(value, bool) or not isinstance(value, int | str)):
        yield from _neither(path, value)
    elif (wanted := schema.get("type")) is not None and not _is(wanted, value):
        if wanted == "integer" and isinstance(value, float):
            kind = schema.get("format", "integer")
            yield _wrong_type(path, kind, "float64")
            yield _nowhere(f"Checked value must be of type integer with format {kind} in {path}")
        else:
            yield _wrong_type(path, wanted, type_name(value))
    else:
        yield from _inside(schema, value, path)
    if "enum" in schema and value not in schema["enum"]:
        yield unsupported_value(path, shown(value), [str(each) for each in schema["enum"]])


def _inside(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    match value:
        case str():
            yield from _text_faults(schema, value, path)
        case int() | float() if not isinstance(value, bool):
            yield from _number_faults(schema, value, path)
        case list():
            yield from _list_faults(schema, value, path)
        case dict():
            yield from _object_faults(schema, value, path)


def shown(value: Any) -> str:
    """A bad value as the server prints it: JSON."""
    return msgspec.json.encode(value).decode()


def type_name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _is(wanted: str, value: Any) -> bool:
    found = type_name(value)
    if wanted == "integer" and isinstance(value, float):
        return value.is_integer()
    return found == wanted or (wanted == "number" and found == "integer")


def _wrong_type(path: str, wanted: str, found: str) -> Cause:
    complaint = f'{path} in body must be of type {wanted}: "{found}"'
    return Cause("FieldValueTypeInvalid", f'Invalid value: "{found}": {complaint}', path)


def _nowhere(complaint: str) -> Cause:
    return Cause("FieldValueInvalid", f'Invalid value: "": {complaint}', NOWHERE)


def _neither(path: str, value: Any) -> Iterator[Cause]:
    """Neither an integer nor a string, told in every way the server has."""
    found = type_name(value)
    yield _wrong_type(path, "integer,string", found)
    yield _nowhere(f'"{path}" must validate at least one schema (anyOf)')
    yield _wrong_type(path, "integer", found)
    if found == "number":
        yield _nowhere(f"Checked value must be of type integer (default format) in {path}")


def _text_faults(schema: Schema, value: str, path: str) -> Iterator[Cause]:
    long, short = schema.get("maxLength"), schema.get("minLength")
    if long is not None and len(value) > long:
        yield Cause("FieldValueTooLong", f"Too long: may not be more than {long} bytes", path)
    if short is not None and len(value) < short:
        yield bad_value(path, value, f"{path} in body should be at least {short} chars long")
    if (pattern := schema.get("pattern")) is not None and not re.search(pattern, value):
        yield bad_value(path, value, f"{path} in body should match '{pattern}'")
    if (check := _FORMATS.get(schema.get("format", ""))) is not None and not check(value):
        inside = path.removeprefix("status.")  # a slip of the server's own
        complaint = f'{inside} in body must be of type {schema["format"]}: "{value}"'
        yield Cause("FieldValueTypeInvalid", f"Invalid value: {shown(value)}: {complaint}", path)


def _date_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


_FORMATS: Mapping[str, Callable[[str], bool]] = {"date-time": _date_time}


def _number_faults(schema: Schema, value: float, path: str) -> Iterator[Cause]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
        yield _bound(path, value, "greater than", schema.get("exclusiveMinimum"), low)
    if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
        yield _bound(path, value, "less than", schema.get("exclusiveMaximum"), high)


def _bound(path: str, value: float, words: str, exclusive: bool | None, bound: float) -> Cause:
    words += "" if exclusive else " or equal to"
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {path} in body should be {words} {bound}", path)


def _list_faults(schema: Schema, value: list[Any], path: str) -> Iterator[Cause]:
    long, short = schema.get("maxItems"), schema.get("minItems")
    if long is not None and len(value) > long:
        yield Cause("FieldValueTooMany", f"Too many: {len(value)}: must have at most {long} items", path)
    if short is not None and len(value) < short:
        complaint = f"{path} in body should have at least {short} items"
        yield Cause("FieldValueInvalid", f"Invalid value: {len(value)}: {complaint}", path)
    for place, item in enumerate(value):
        yield from faults(schema.get("items", {}), item, f"{path}[{place}]")
    if keys := schema.get("x-kubernetes-list-map-keys"):
        seen: set[str] = set()
        for place, item in enumerate(value):
            key = shown({name: item.get(name) for name in keys}) if isinstance(item, dict) else shown(item)
            if key in seen:
                yield Cause("FieldValueDuplicate", f"Duplicate value: {key}", f"{path}[{place}]")
            seen.add(key)


def _object_faults(schema: Schema, value: Json, path: str) -> Iterator[Cause]:
    if (most := schema.get("maxProperties")) is not None and len(value) > most:
        yield Cause("FieldValueTooMany", f"Too many: {len(value)}: must have at most {most} items", path)
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name, inner in value.items():
        where = f"{path}.{name}" if path else name
        if not path and name in _ROOT:
            continue
        if name in known:
            yield from faults(known[name], inner, where)
        elif isinstance(others, Mapping):
            yield from faults(others, inner, where)
    for name in schema.get("required", ()):
        if name not in value:
            yield required(f"{path}.{name}" if path else name)
