"""YAML read with its 1.2 core schema, so that scalars stay what the person wrote, and with the line of every value.

``no``, ``on``, ``12:30`` and ``2024-01-02`` are strings here; ``0755`` is refused, because YAML 1.1 and 1.2 disagree
about its value. Duplicate keys are errors. JSON and KYAML are read by the same loader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import yaml

Path = tuple[str | int, ...]

_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_MOST_NODES = 200_000
"""Aliases can make a small file expand without end; no honest policy file comes near this."""

_PREFIX = "tag:yaml.org,2002:"


class YamlError(ValueError):
    """Text that can't be read; ``line`` counts from 1, 0 when unknown."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.message, self.line = message, line


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its value, and the line (from 1) of each key or list entry by path."""

    value: Any
    lines: dict[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """The line of the path, or of its nearest ancestor that is written in the text; 0 when unknown."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)


class _Core(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Composes nodes with nothing resolved but the core schema's own types."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}


for _tag, _pattern in (("null", _NULL), ("bool", _BOOL), ("int", _INT), ("float", _FLOAT)):
    _Core.add_implicit_resolver(_PREFIX + _tag, re.compile(f"^(?:{_pattern.pattern})$"), None)


def load_all(text: str) -> list[Document]:
    """All documents, empty ones left out. Raises YamlError."""
    try:
        loader = _Core(text)
    except yaml.YAMLError as error:
        raise _said(error) from None
    try:
        return [document for document in _documents(loader) if document.value is not None]
    except yaml.YAMLError as error:
        raise _said(error) from None
    except RecursionError:
        raise YamlError("nested too deeply") from None
    finally:
        loader.dispose()


def load_json(text: str) -> list[Document]:
    """One JSON document. Raises YamlError, for a key that is there twice too."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for name, value in pairs:
            if name in seen:
                raise YamlError(f"key {name!r} is there twice")
            seen[name] = value
        return seen

    try:
        return [Document(json.loads(text, object_pairs_hook=once))]
    except json.JSONDecodeError as error:
        raise YamlError(error.msg, error.lineno) from None
    except RecursionError:
        raise YamlError("nested too deeply") from None


def _documents(loader: Any) -> Iterator[Document]:
    while loader.check_node():
        node = loader.get_node()
        lines: dict[Path, int] = {}
        budget = [_MOST_NODES]
        yield Document(_value(node, (), lines, budget, frozenset()), lines)


def _said(error: yaml.YAMLError) -> YamlError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return YamlError(" ".join(str(problem).split()), mark.line + 1 if mark else 0)


def _value(node: yaml.Node, path: Path, lines: dict[Path, int], budget: list[int], above: frozenset[int]) -> Any:
    line = node.start_mark.line + 1
    lines.setdefault(path, line)
    budget[0] -= 1
    if budget[0] < 0:
        raise YamlError("expands to too many values (aliases?)", line)
    if id(node) in above:
        raise YamlError("an alias refers to what holds it", line)
    match node:
        case yaml.ScalarNode():
            return _scalar(node, line)
        case yaml.SequenceNode():
            inside = above | {id(node)}
            return [_value(item, (*path, place), lines, budget, inside) for place, item in enumerate(node.value)]
        case yaml.MappingNode():
            inside = above | {id(node)}
            found: dict[str, Any] = {}
            for key_node, value_node in node.value:
                at = key_node.start_mark.line + 1
                if not isinstance(key_node, yaml.ScalarNode):
                    raise YamlError("a key must be a word", at)
                name = key_node.value
                if name in found:
                    raise YamlError(f"key {name!r} is there twice", at)
                lines[(*path, name)] = at
                found[name] = _value(value_node, (*path, name), lines, budget, inside)
            return found
    raise YamlError(f"{node.tag} is not a plain value", line)


def _scalar(node: yaml.ScalarNode, line: int) -> Any:
    text: str = node.value
    match node.tag.removeprefix(_PREFIX):
        case "str":
            return text
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            if _LEADING_ZERO.fullmatch(text):
                raise YamlError(f"{text} is {int(text)} for some YAML parsers and octal for others: quote it", line)
            return int(text, 0)
        case "float":
            lowered = text.lower().replace(".inf", "inf").replace(".nan", "nan")
            return float(lowered)
    raise YamlError(f"tag {node.tag} is not allowed", line)
