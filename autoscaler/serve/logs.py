"""Logs: text on a terminal, one JSON object a line otherwise.

Fields beside the message are given as ``extra={"fields": {…}}``: fields in JSON, behind the message in text.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import msgspec

FIELDS = "fields"


def configure(form: Literal["auto", "text", "json"], level: str, stream: TextIO | None = None) -> None:
    """Send the program's own log to ``stream`` (stderr); libraries only warn."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    as_text = form == "text" or (form == "auto" and stream.isatty())
    handler.setFormatter(Text() if as_text else JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("autoscaler").setLevel(level.upper())


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    return getattr(record, FIELDS, None) or {}


class Text(logging.Formatter):
    """``12:03:04 info  message key=value``."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        fields = "".join(f" {name}={_word(value)}" for name, value in _fields(record).items())
        line = f"{at} {record.levelname.lower():7} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLines(logging.Formatter):
    """One JSON object: time (RFC 3339, UTC), level, logger, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in _fields(record).items():
            line[name if name not in line else f"{name}_"] = value
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def _word(value: Any) -> str:
    text = str(value)
    return (
        text
        if text and not any(char.isspace() or char in '"=' for char in text)
        else msgspec.json.encode(text).decode()
    )
