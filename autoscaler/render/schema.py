"""Structural OpenAPI v3 schemas, as the API server wants them, from the classes of the policy.

What the model checks of one field is said here in CEL, with a sentence for the person who wrote it. Every string and
list is bounded, for the API server refuses rules whose worst case costs too much. Amounts accept what the model accepts
except unquoted fractions, for which the API server's int-or-string has no place.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import PlainSerializer
from pydantic.fields import FieldInfo

from autoscaler.model import quantity
from autoscaler.model.policy import LatencyObjective, Spec

Schema = dict[str, Any]

AMOUNT_LENGTH: Final = 32
WORD_LENGTH: Final = 253
TEXT_LENGTH: Final = 4096
ITEMS: Final = 16

_INT_OR_STRING: Final[Schema] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
    "maxLength": AMOUNT_LENGTH,
}
_SHARE: Final = r"^0*(100(\\.0*)?|[0-9]{1,2}(\\.[0-9]*)?|\\.[0-9]+)%$|^0*(\\.[0-9]+|0\\.?|1(\\.0*)?)$"
_WHOLE: Final = r"^0*(100(\\.0*)?%|1(\\.0*)?)$"
_DURATION: Final = r"^(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|ms|s|m|h))+$"
_LONG: Final = frozenset({"query", "message", "text", "absent"})
NO_DEFAULT: Final = frozenset({(LatencyObjective, "within")})
"""Filled in by the API server, this default would contradict the other spelling, ``percentile``."""


def rule(expression: str, message: str) -> Schema:
    return {"rule": expression, "message": message}


def object_schema(model: type[Spec], rules: Mapping[type[Spec], list[Schema]]) -> Schema:
    """The schema of one class with everything below it; ``rules`` are the CEL rules across the fields of a class."""
    filled = model.model_construct().model_dump(by_alias=True, mode="json")
    properties: Schema = {}
    required: list[str] = []
    for name, field in model.model_fields.items():
        alias = field.alias or name
        schema = _field_schema(name, field, rules)
        if field.description:
            schema = {"description": field.description, **schema}
        if field.is_required():
            required.append(alias)
        elif filled.get(alias) is not None and (model, name) not in NO_DEFAULT:
            default = filled[alias]
            if isinstance(default, dict):
                default = {}  # what is inside has defaults of its own
            if default not in ({}, []) or schema.get("properties"):
                schema["default"] = default
        properties[alias] = schema
    result: Schema = {"type": "object"}
    if model.__doc__:
        result = {"description": " ".join(model.__doc__.split()).replace("``", "`"), **result}
    if required:
        result["required"] = required
    result["properties"] = properties
    if found := rules.get(model):
        result["x-kubernetes-validations"] = list(found)
    return result


def _parts(field: FieldInfo) -> tuple[Any, list[Any]]:
    """The bare type of a field, without None, and everything that was said about it."""
    metadata, annotation = list(field.metadata), field.annotation
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            metadata += more
        elif get_origin(annotation) in (Union, types.UnionType):
            (annotation,) = [each for each in get_args(annotation) if each is not type(None)]
        else:
            return annotation, list(_flat(metadata))


def _flat(metadata: list[Any]) -> Iterator[Any]:
    for each in metadata:
        if isinstance(each, FieldInfo):
            yield from each.metadata
        yield each


def _field_schema(name: str, field: FieldInfo, rules: Mapping[type[Spec], list[Schema]]) -> Schema:
    annotation, metadata = _parts(field)
    written = next((each.func for each in metadata if isinstance(each, PlainSerializer)), None)
    if written is not None or annotation is float:
        return {**_INT_OR_STRING, "x-kubernetes-validations": list(_amount_rules(written, metadata))}
    schema = _type_schema(name, annotation, rules)
    for each in metadata:
        match each:
            case Ge(ge=low):
                schema["minimum"] = low
            case Le(le=high):
                schema["maximum"] = high
            case Gt(gt=int(low)):
                schema["minimum"] = low + 1
            case MinLen(min_length=short):
                schema["minItems" if schema["type"] == "array" else "minLength"] = short
            case MaxLen(max_length=long):
                schema["maxItems" if schema["type"] == "array" else "maxLength"] = long
            case FieldInfo(json_schema_extra=dict(extra)):
                schema |= extra
    if isinstance(field.json_schema_extra, dict):
        schema |= field.json_schema_extra
    return schema


def _type_schema(name: str, annotation: Any, rules: Mapping[type[Spec], list[Schema]]) -> Schema:
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        return object_schema(annotation, rules)
    if isinstance(annotation, type) and issubclass(annotation, enum.StrEnum):
        return {"type": "string", "enum": [str(each) for each in annotation]}
    if get_origin(annotation) is Literal:
        return {"type": "string", "enum": list(get_args(annotation))}
    if get_origin(annotation) is tuple:
        (inner, _) = get_args(annotation)
        return {"type": "array", "maxItems": ITEMS, "items": _type_schema(name, inner, rules)}
    if get_origin(annotation) is dict:
        return {
            "type": "object",
            "maxProperties": ITEMS,
            "additionalProperties": {"type": "string", "maxLength": WORD_LENGTH},
        }
    if annotation is bool:
        return {"type": "boolean"}
    if annotation is int:
        return {"type": "integer", "format": "int64" if name == "observed_generation" else "int32"}
    if annotation is str:
        return {"type": "string", "maxLength": TEXT_LENGTH if name in _LONG else WORD_LENGTH}
    raise TypeError(f"no schema for {name}: {annotation}")


_QUANTITY: Final = rule("isQuantity(string(self))", 'write an amount such as 500m, 2, "1.5" or 1Gi')

_CORES: Final = rule(
    "type(self) == int || !self.matches('i$')", "write CPU in cores, such as 4 or 500m; Mi and Gi are of memory"
)


def _amount_rules(written: Any, metadata: list[Any]) -> Iterator[Schema]:
    """What the model asks of a quantity, duration or share, one rule for each bound.

    ``written`` is the function that writes it; None for a plain number, which may be written as a quantity.
    """
    if written in (quantity.format_cpu, quantity.format_memory, None):
        yield _QUANTITY
        if written is quantity.format_cpu:
            yield _CORES
        show = written or str
        if not any(isinstance(each, Ge | Gt) for each in metadata):
            yield _compared("0", ">=", "must not be negative")
        for each in metadata:
            match each:
                case Ge(ge=int(low)):
                    yield _compared(show(low), ">=", f"must be at least {show(low)}")
                case Gt(gt=int(low)):
                    yield _compared(show(low), ">", f"must be more than {show(low)}")
                case Lt(lt=int(high)):
                    yield _compared(show(high), "<", f"must be less than {show(high)}")
    elif written is quantity.format_duration:
        yield _either("self == 0", f"self.matches('{_DURATION}')", "write a duration such as 500ms, 30s or 1m30s")
        if any(isinstance(each, Gt) for each in metadata):
            yield _unless(
                "self == 0", f"self.matches('{_DURATION}') && !self.matches('[1-9]')", "must be longer than 0s"
            )
    elif written is quantity.format_share:
        message = 'write a share such as 99% or "0.99", between 0% and 100%'
        yield _either("self >= 0 && self <= 1", f"self.matches('{_SHARE}')", message)
        if any(isinstance(each, Gt) for each in metadata):
            yield _unless("self == 0", f"self.matches('{_SHARE}') && !self.matches('[1-9]')", "must be more than 0%")
        if any(isinstance(each, Lt) for each in metadata):
            yield _unless("self == 1", f"self.matches('{_WHOLE}')", "must be less than 100%")
    else:
        raise TypeError(f"no rules for what {written.__name__} writes")


def _either(number: str, text: str, message: str) -> Schema:
    """A rule for each of the two types of an int-or-string. Converting to string instead would have no bound in the API
    server's estimate of costs, and the definition would be refused."""
    return rule(f"type(self) == int && {number} || type(self) == string && {text}", message)


def _compared(bound: str, operator: str, message: str) -> Schema:
    """A bound on a quantity; silent about what isn't one, for that has a rule of its own."""
    text = "string(self)"
    return rule(f"!isQuantity({text}) || quantity({text}).compareTo(quantity('{bound}')) {operator} 0", message)


def _unless(number: str, text: str, message: str) -> Schema:
    """A rule that is broken by one value of an otherwise well-formed amount: what is malformed is told once."""
    return rule(f"!(type(self) == int && {number}) && !(type(self) == string && {text})", message)
