"""Flags over variables over the file: what they say together, and what is wrong with it, by the name that was used."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from autoscaler.observe import yaml12
from autoscaler.observe.policy_errors import FieldPath, explain_one, misplaced, near
from autoscaler.settings.names import PREFIX, Leaf, camel, destination, leaves
from autoscaler.settings.tree import Settings

_OTHERS = frozenset(PREFIX + name for name in ("CONFIG", "RECORDINGS", "TRACES", "TRUTH"))
"""Not settings: the settings file, and where measurements find recordings, load traces and truth to compare with."""


class SettingsError(ValueError):
    """What is wrong with the settings, one line each."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


def config_file(args: argparse.Namespace | None, environ: Mapping[str, str] | None = None) -> str | None:
    """The settings file that is named, if one is."""
    environ = os.environ if environ is None else environ
    by_flag = getattr(args, "config", None) if args is not None else None
    return by_flag or environ.get(PREFIX + "CONFIG") or None


def load(
    args: argparse.Namespace | None = None, environ: Mapping[str, str] | None = None, **fixed: Any
) -> tuple[Settings, tuple[str, ...]]:
    """The settings, and warnings about variables that look like settings but aren't. Raises SettingsError.

    ``fixed``: values set by code, above all.
    """
    environ = os.environ if environ is None else environ
    flags: dict[str, Any] = {}
    named: dict[FieldPath, str] = {}
    variables: dict[str, Any] = {}
    known = {leaf.variable: leaf for leaf in leaves()}
    for leaf in known.values():
        given = getattr(args, destination(leaf.path), None) if args is not None else None
        if leaf.variable in environ and (environ[leaf.variable] or not leaf.switch):
            _put(variables, leaf.path, environ[leaf.variable])
            named[camel(leaf.path)] = leaf.variable
        if given is not None:
            _put(flags, leaf.path, given)
            named[camel(leaf.path)] = leaf.flag
    for name, value in fixed.items():
        _put(flags, (name,), value)
    by_flag = getattr(args, "config", None) if args is not None else None
    config = config_file(args, environ)
    file, document = "", yaml12.Document({})
    if config:
        file = str(config)
        document = _read(Path(config).expanduser(), "--config" if by_flag else PREFIX + "CONFIG")
    layers = (flags, variables, document.value)

    class Layered(Settings):
        @classmethod
        def settings_customise_sources(cls, settings_cls: type[BaseSettings], *_: Any, **__: Any) -> tuple[Any, ...]:
            return tuple(_Layer(settings_cls, values) for values in layers)

    wrong = [_say(path, told, named, file, document) for path, told in misplaced(document.value, Settings)]
    try:
        settings = Layered()
    except ValidationError as error:
        merged = _merged(layers)
        told = [explain_one(each, merged, Settings) for each in error.errors()]
        raise SettingsError([*wrong, *(_say(path, line, named, file, document) for path, line in told)]) from None
    if wrong:
        raise SettingsError(wrong)
    return settings, tuple(_strangers(environ, known))


class _Layer(PydanticBaseSettingsSource):
    """What one source says, as a nested map under the file's names."""

    def __init__(self, settings_cls: type[BaseSettings], values: dict[str, Any]) -> None:
        super().__init__(settings_cls)
        self._values = values

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self._values.get(to_camel(field_name)), field_name, False

    def __call__(self) -> dict[str, Any]:
        return self._values


def _put(tree: dict[str, Any], path: Sequence[str], value: Any) -> None:
    *branches, last = camel(path)
    for name in branches:
        tree = tree.setdefault(str(name), {})
    tree[str(last)] = tuple(value) if isinstance(value, list) else value


def _merged(layers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for layer in reversed(layers):
        for name, value in layer.items():
            below = merged.get(name)
            merged[name] = {**below, **value} if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _read(path: Path, said_by: str) -> yaml12.Document:
    try:
        documents = yaml12.load_all(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise SettingsError([f"{said_by}: there is no file {str(path)!r}; name an existing one"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError([f"{said_by}: {path} can't be read: {getattr(error, 'strerror', None) or error}"]) from None
    except yaml12.YamlError as error:
        where = f" (line {error.line})" if error.line else ""
        raise SettingsError([f"{path}: can't be read as YAML: {error.message}{where}"]) from None
    if len(documents) > 1:
        raise SettingsError([f"{path}: has {len(documents)} documents; settings are one map"])
    if documents and not isinstance(documents[0].value, dict):
        raise SettingsError([f"{path}: is not a map; write for example interval: 5s"])
    return documents[0] if documents else yaml12.Document({})


def _say(path: FieldPath, told: str, named: Mapping[FieldPath, str], file: str, document: yaml12.Document) -> str:
    """The line with the name the person used: the flag, the variable, or the key in the file."""
    for length in range(len(path), 0, -1):
        if path[:length] in named:
            return f"{named[path[:length]]}: {told}"
    line = document.line(path)
    if not line and (inside := [said for where, said in named.items() if where[: len(path)] == path]):
        return f"{', '.join(inside)}: {told}"  # what doesn't go together
    return f"{file}: {'.'.join(map(str, path))}: {told}{f' (line {line})' if line else ''}"


def _strangers(environ: Mapping[str, str], known: Mapping[str, Leaf]) -> Iterator[str]:
    """Variables with our prefix that are no setting. Those that Kubernetes sets for a Service are left alone."""
    for name in environ:
        if name.startswith(PREFIX) and name not in known and name not in _OTHERS:
            if "_SERVICE_" in name or "_PORT" in name:
                continue
            yield f"{name}: is not a setting{near(name, known)}"
