"""A decision in a file: all that one tick saw and remembered, exact, so that any machine decides the same from it.

The file is JSON. Values are written by their types (numbers bit for bit, amounts as integers), so nothing is rounded by
a spelling. Pods carry no secrets or environment in the model; of their annotations only those that decisions read are
kept (``kubectl.kubernetes.io/last-applied-configuration`` would hold the environment).
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin

import msgspec
from pydantic import BaseModel

from autoscaler import __version__
from autoscaler.decide.history import History
from autoscaler.model.seen import Seen
from autoscaler.model.workload import Pod, WorkloadRef

FORMAT: Final = 1
KEPT_ANNOTATIONS: Final = ("inference-autoscaler.dev/", "controller.kubernetes.io/pod-deletion-cost", "prometheus.io/")


class SnapshotError(ValueError):
    """The file is no snapshot, or one of another format."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a decision takes: the tick's sight, the memories, and the resource names for the requests' paths."""

    seen: Seen
    past: Mapping[WorkloadRef, History] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)
    """Plural names by ``apiVersion/Kind``, as discovered."""
    minor: int | None = None
    """The server's minor version where it said one: what it would refuse depends on it."""


def save(snapshot: Snapshot, path: str | Path) -> None:
    Path(path).write_text(dumps(snapshot), encoding="utf-8")


def load(path: str | Path) -> Snapshot:
    """Raises SnapshotError (one line), OSError."""
    return loads(Path(path).read_text(encoding="utf-8"), str(path))


def dumps(snapshot: Snapshot) -> str:
    body = {"format": FORMAT, "version": __version__, "snapshot": encode(_slim(snapshot))}
    return json.dumps(body, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def loads(text: str, name: str = "snapshot") -> Snapshot:
    try:
        body = json.loads(text)
    except ValueError as error:
        raise SnapshotError(f"{name}: is not JSON ({error}); write one with plan --save-snapshot") from None
    if not isinstance(body, dict) or "snapshot" not in body or "format" not in body:
        raise SnapshotError(f"{name}: is not a snapshot; write one with plan --save-snapshot")
    if body["format"] != FORMAT:
        raise SnapshotError(f"{name}: has format {body['format']}, this program reads {FORMAT}")
    try:
        found: Snapshot = decode(Snapshot, body["snapshot"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise SnapshotError(f"{name}: is damaged ({type(error).__name__}: {error})") from None
    return found


def _slim(snapshot: Snapshot) -> Snapshot:
    def pod(seen: Pod) -> Pod:
        kept = {key: value for key, value in seen.annotations.items() if key.startswith(KEPT_ANNOTATIONS)}
        return dataclasses.replace(seen, annotations=kept)

    subjects = tuple(
        dataclasses.replace(s, view=dataclasses.replace(s.view, pods=tuple(map(pod, s.view.pods))))
        for s in snapshot.seen.subjects
    )
    return dataclasses.replace(snapshot, seen=dataclasses.replace(snapshot.seen, subjects=subjects))


def encode(value: Any) -> Any:
    """JSON-ready values of the model's classes. Maps whose keys aren't text become lists of pairs."""
    match value:
        case None | bool() | int() | str() if not isinstance(value, enum.Enum):
            return value
        case enum.Enum():
            return value.value
        case float():
            return value if math.isfinite(value) else {"float": repr(value)}
        case BaseModel():  # only what was written: defaults stay defaults
            return {name: encode(getattr(value, name)) for name in sorted(value.model_fields_set)}
        case msgspec.Struct():
            return {name: encode(getattr(value, name)) for name in value.__struct_fields__}
        case Mapping():
            if all(isinstance(key, str) for key in value):
                return {key: encode(item) for key, item in value.items()}
            return [[encode(key), encode(item)] for key, item in value.items()]
        case list() | tuple():
            return [encode(item) for item in value]
        case set() | frozenset():
            return sorted((encode(item) for item in value), key=repr)
    if dataclasses.is_dataclass(value):
        return {each.name: encode(getattr(value, each.name)) for each in dataclasses.fields(value)}
    raise TypeError(f"a snapshot can't hold {type(value).__name__}")


def decode(kind: Any, raw: Any) -> Any:
    """The value of type ``kind`` that ``encode`` wrote as ``raw``. Fields that are missing take their defaults."""
    origin = get_origin(kind)
    if kind is Any or origin is Literal:
        return raw
    if origin is typing.Annotated:
        return decode(get_args(kind)[0], raw)
    if origin in (Union, types.UnionType):
        return _one_of(get_args(kind), raw)
    if origin is tuple:
        inner = get_args(kind)
        if len(inner) == 2 and inner[1] is Ellipsis:
            return tuple(decode(inner[0], item) for item in raw)
        return tuple(decode(each, item) for each, item in zip(inner, raw, strict=True))
    if origin in (list, set, frozenset):
        return origin(decode(get_args(kind)[0], item) for item in raw)
    if origin is not None and issubclass(origin, Mapping):
        key, item = get_args(kind)
        pairs = raw.items() if isinstance(raw, dict) else raw
        return {decode(key, name): decode(item, value) for name, value in pairs}
    if kind is float:
        return float(raw["float"]) if isinstance(raw, dict) else raw  # an int that stands for a float stays one
    if kind in (int, str, bool):
        return raw
    if issubclass(kind, enum.Enum):
        return kind(raw)
    hints = _hints(kind)
    values = {name: decode(hints[name], item) for name, item in raw.items() if name in hints}
    return kind.model_construct(set(values), **values) if issubclass(kind, BaseModel) else kind(**values)


def _one_of(kinds: tuple[Any, ...], raw: Any) -> Any:
    """Of a union: nothing, a plain value, or the class that has all the fields written."""
    if raw is None and type(None) in kinds:
        return None
    kinds = tuple(kind for kind in kinds if kind is not type(None))
    if isinstance(raw, dict):
        classes = [kind for kind in kinds if isinstance(kind, type) and set(raw) <= set(_hints(kind))]
        if classes:
            return decode(classes[0], raw)
    return decode(kinds[0], raw)


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    if issubclass(kind, BaseModel):
        return {name: hints[name] for name in kind.model_fields}
    if issubclass(kind, msgspec.Struct):
        return {name: hints[name] for name in kind.__struct_fields__}
    return {each.name: hints[each.name] for each in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else {}
