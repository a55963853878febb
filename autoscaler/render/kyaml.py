"""KYAML: the strict subset of YAML that kubectl prints with ``-o kyaml``, readable by any YAML parser.

Rules (KEP-5295, checked against kubectl's own output): a ``---`` header; ``{}`` for maps and ``[]`` for lists, one
entry a line with a trailing comma, two-space indent; a list of only maps or only lists hugs its brackets; strings
always in double quotes, several lines folded; keys bare unless some YAML parser could take them for another type.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_WORDS = frozenset({"null", "~", "true", "false", "t", "f", "y", "yes", "n", "no", "on", "off"})
_INTEGER = re.compile(r"[+-]?(0b[01]+|0o?[0-7]+|0x[0-9a-f]+|[0-9]+)", re.IGNORECASE)
_FLOAT = re.compile(
    r"[+-]?(\.?(inf|nan)|infinity|(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|0x[0-9a-f]*\.?[0-9a-f]*p[+-]?\d+)", re.IGNORECASE
)
_SEXAGESIMAL = re.compile(r"[+-]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([Tt\s].*)?", re.DOTALL)
_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\v": "\\v", "\0": "\\0",
    "\x1b": "\\e", "\x85": "\\N", "\xa0": "\\_", "\u2028": "\\L", "\u2029": "\\P",
}  # fmt: skip


def dump(value: Any) -> str:
    """One KYAML document, with its header and a final newline. ``value``: maps, lists, strings, numbers, booleans.

    Keys keep their order. Raises TypeError for anything else.
    """
    return f"---\n{_node(value, 0)}\n"


def dump_all(values: Iterable[Any]) -> str:
    return "".join(dump(value) for value in values)


def _node(value: Any, indent: int) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value, indent + 1)
        case int():
            return str(int(value))
        case float():
            return _float(value)
        case Mapping():
            return _map(value, indent)
        case Sequence():
            return _list(value, indent)
    raise TypeError(f"KYAML has no spelling for {type(value).__name__}")


def _map(value: Mapping[Any, Any], indent: int) -> str:
    if not value:
        return "{}"
    pad = "  " * (indent + 1)
    entries = (f"{pad}{key(str(name))}: {_node(item, indent + 1)},\n" for name, item in value.items())
    return "{\n" + "".join(entries) + "  " * indent + "}"


def _list(value: Sequence[Any], indent: int) -> str:
    if not value:
        return "[]"
    if all(isinstance(item, Mapping) or (isinstance(item, Sequence) and not isinstance(item, str)) for item in value):
        return "[" + ", ".join(_node(item, indent) for item in value) + "]"
    pad = "  " * (indent + 1)
    return "[\n" + "".join(f"{pad}{_node(item, indent + 1)},\n" for item in value) + "  " * indent + "]"


def _float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    text = repr(value)
    if "e" in text and "." not in text:  # YAML 1.1 reads 1e+16 as a string
        text = text.replace("e", ".0e")
    return text


def key(name: str) -> str:
    """A key as it is written: bare where every YAML parser reads it as this very string, else quoted."""
    return _quote(name) if ambiguous(name) or not _plain(name) else name


def ambiguous(text: str) -> bool:
    """Whether some YAML parser, 1.1 or 1.2, takes the bare text for something else than a string."""
    joined = text.replace("_", "")
    return (
        text == ""
        or text.lower() in _WORDS
        or text in ("0", "1", "=", "<<")
        or _INTEGER.fullmatch(joined) is not None
        or _FLOAT.fullmatch(joined) is not None
        or _SEXAGESIMAL.fullmatch(text) is not None
        or _DATE.fullmatch(text) is not None
    )


def _plain(name: str) -> bool:
    last = len(name) - 1
    return all(
        char == "_" or unicodedata.category(char)[0] in "LN" or (0 < place < last and char in "-./")
        for place, char in enumerate(name)
    )


def _escape(char: str, *, tab: str) -> str:
    if char == "\t":
        return tab
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _quote(text: str) -> str:
    return '"' + "".join(_escape(char, tab="\\t") for char in text) + '"'


def _text(text: str, indent: int) -> str:
    """A string value: one line, or folded so that each of its lines has a line of its own.

    Whitespace at the start of a folded line is dropped by YAML, so a leading blank or tab is escaped.
    """
    if "\n" not in text:
        return '"' + "".join(_escape(char, tab="\t") for char in text) + '"'
    pad = "  " * indent
    folded = ['"\\\n']
    lines = text.split("\n")
    for place, line in enumerate(lines):
        final = place == len(lines) - 1
        if final and not line:
            break
        lead = "\\" if line[:1] in (" ", "\t") and line else " "
        folded.append(pad + lead + "".join(_escape(char, tab="\t") for char in line) + ("\\\n" if final else "\\n\\\n"))
    folded.append(pad + '"')
    return "".join(folded)
