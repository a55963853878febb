"""Columns of text, aligned, with nothing but spaces: readable on a terminal, in a pipe and in an issue."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def width(text: str) -> int:
    """Columns a text takes on a terminal: wide characters count two, combining ones none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), limit: int = 0) -> str:
    """Lines under a head. ``right``: columns aligned right. ``limit``: the last column is cut there (0: never)."""
    lines = [list(head), *([str(cell) for cell in row] for row in rows)]
    widths = [max(width(line[column]) for line in lines) for column in range(len(head))]
    told = []
    for line in lines:
        cells = [_pad(cell, widths[column], column in right) for column, cell in enumerate(line)]
        text = "  ".join(cells).rstrip()
        told.append(text if not limit or width(text) <= limit else text[: limit - 1] + "…")
    return "\n".join(told)


def _pad(text: str, columns: int, right: bool) -> str:
    space = " " * (columns - width(text))
    return space + text if right else text + space
