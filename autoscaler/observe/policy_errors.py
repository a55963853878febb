"""Why a document was refused, as one line a person can act on: the field, what is wrong, what to write instead."""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, PlainSerializer, ValidationError
from pydantic.fields import FieldInfo

from autoscaler.observe.yaml12 import Document

FieldPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    label: str
    document: Document
    base: FieldPath = ()

    def say(self, path: Sequence[str | int], told: str) -> str:
        line = self.document.line((*self.base, *path)) if path else 0
        dotted = _dotted(path)
        return f"{self.label}: {dotted + ': ' if dotted else ''}{told}{f' (line {line})' if line else ''}"


def _dotted(path: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def near(word: str, known: Iterable[str]) -> str:
    """``, did you mean …?`` when something known is close."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f", did you mean {by_lower[close[0]]!r}?" if close else ""


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models an annotation admits: itself, in an Optional, in a tuple."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inside in get_args(annotation) for model in _models(inside)]


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The one model that an annotation admits, if any."""
    return next(iter(_models(annotation)), None)


def _field(model: type[BaseModel], name: str | int) -> FieldInfo | None:
    return next((f for key, f in model.model_fields.items() if name in (f.alias or key, key)), None)


def _model_at(root: type[BaseModel], path: Sequence[str | int]) -> type[BaseModel] | None:
    """The model that holds the last name of the path."""
    model = root
    for name in path:
        if isinstance(name, int):
            continue
        field = _field(model, name)
        inside = _models(field.annotation) if field else []
        if not inside:
            return None
        model = inside[0]
    return model


def misplaced(spec: Any, model: type[BaseModel]) -> list[tuple[FieldPath, str]]:
    """Booleans where numbers belong: validation alone would read ``minReplicas: true`` as 1."""
    found: list[tuple[FieldPath, str]] = []

    def walk(value: Any, path: FieldPath) -> None:
        if isinstance(value, dict):
            for name, item in value.items():
                walk(item, (*path, name))
        elif isinstance(value, list):
            for place, item in enumerate(value):
                walk(item, (*path, place))
        elif isinstance(value, bool):
            holder = _model_at(model, path[:-1])
            field = _field(holder, path[-1]) if holder else None
            if field is not None and not _admits_bool(field.annotation):
                found.append((path, f"{str(value).lower()} is not allowed here; write {_expected(field)}"))

    walk(spec, ())
    return found


def _admits_bool(annotation: Any) -> bool:
    if get_origin(annotation) in (Union, types.UnionType):
        return any(_admits_bool(inside) for inside in get_args(annotation))
    return annotation is bool


def _expected(field: FieldInfo | None) -> str:
    """What belongs here, in words: the kind of value and the field's own description."""
    if field is None:
        return "a value of the right kind"
    kinds = [field.annotation, *get_args(field.annotation)]
    word = next((word for kind, word in ((int, "a number"), (float, "a number"), (str, "text")) if kind in kinds), "it")
    text = (field.description or "").rstrip(".")
    return f"{word} ({text})" if text else word


def explain(error: ValidationError, spec: Any, model: type[BaseModel], place: Place) -> list[str]:
    """One line for each thing that is wrong in ``spec``; consequences of another error are left out."""
    errors = [each for each in error.errors() if each["type"] != "too_short" or not each["input"]]
    return [place.say(("spec", *path), told) for each in errors for path, told in [explain_one(each, spec, model)]]


def _written(spec: Any, path: FieldPath) -> tuple[FieldPath, Any]:
    """The path as the person wrote it (``percentile`` is read as ``within``) and the value there."""
    value = spec
    for place, name in enumerate(path):
        if name == "within" and isinstance(value, dict) and "within" not in value and "percentile" in value:
            name = "percentile"
            path = (*path[:place], name, *path[place + 1 :])
        try:
            value = value[name]
        except (KeyError, IndexError, TypeError):
            return path, None
    return path, value


def explain_one(error: Any, spec: Any, model: type[BaseModel]) -> tuple[FieldPath, str]:
    """One validation error as a path and a sentence with the remedy."""
    path, given = _written(spec, tuple(error["loc"]))
    kind, context = error["type"], error.get("ctx", {})
    holder = _model_at(model, path[:-1]) if path else model
    field = _field(holder, error["loc"][-1]) if holder and path else None
    match kind:
        case "extra_forbidden":
            names = [f.alias or key for key, f in holder.model_fields.items()] if holder else []
            instead = near(str(path[-1]), names) or f"; the fields here are {', '.join(names)}"
            return path, f"is not a field{instead}"
        case "missing":
            return path, f"is missing; write {_expected(field)}"
        case "enum" | "literal_error":
            allowed = re.findall(r"'([^']*)'", str(context.get("expected", "")))
            return path, f"{_shown(given)} is not allowed{near(str(given), allowed)}; write {' or '.join(allowed)}"
        case "value_error":
            return _by_validator(path, str(context.get("error", error["msg"])), given)
        case "string_type":
            return path, f"{_shown(given)} is not text; write it in quotes"
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            sides = {"greater_than": ("gt", "above"), "greater_than_equal": ("ge", "at least"),
                     "less_than": ("lt", "below"), "less_than_equal": ("le", "at most")}  # fmt: skip
            key, word = sides[kind]
            bound = spelled(field, context[key])
            return path, f"{_shown(given)} is out of range; write a value {word} {bound}"
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return path, f"{_shown(given)} {message}; write {_expected(field)}"


def _by_validator(path: FieldPath, told: str, given: Any) -> tuple[FieldPath, str]:
    """What the model's own validators said, with the two numbers that contradict each other."""
    if isinstance(given, dict):
        for told_by, low, high in (("min is above max", "min", "max"),
                                   ("minReplicas is above maxReplicas", "minReplicas", "maxReplicas")):  # fmt: skip
            if told == told_by:
                if low in given:
                    return (*path, low), f"{given[low]} is above {high} {given[high]}; write {low} ≤ {high}"
                return (*path, high), f"{given[high]} is below {low}'s default; write {low} too"
        return path, told
    return path, told


def spelled(field: FieldInfo | None, number: Any) -> str:
    """A bound in the field's own spelling (10 millicores is written 10m)."""
    inside = [getattr(each, "__metadata__", ()) for each in get_args(field.annotation)] if field else []
    for extra in (*(field.metadata if field else ()), *(one for each in inside for one in each)):
        if isinstance(extra, PlainSerializer):
            return str(extra.func(number))  # type: ignore[call-arg]
    return str(number)


def _shown(given: Any) -> str:
    text = repr(given) if isinstance(given, str) else str(given).lower() if isinstance(given, bool) else str(given)
    return text if len(text) <= 60 else text[:57] + "…"
