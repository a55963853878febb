"""Exact CPU and memory amounts and durations in Kubernetes spelling.

Past the edge, CPU is an ``int`` in millicores and memory an ``int`` in bytes; two spellings of one amount are equal.
Grammar and rounding follow ``k8s.io/apimachinery/pkg/api/resource``: more than milli precision is rounded *up*.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final, NewType

Millicores = NewType("Millicores", int)
Bytes = NewType("Bytes", int)

_NUMBER: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<digits>\d+\.?\d*|\.\d+)"
    r"(?:(?P<exponent>[eE][+-]?\d+)|(?P<suffix>[KMGTPE]i|[numkMGTPE]|))"
)
_SUFFIX: Final[dict[str, Fraction]] = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip
_BINARY: Final = (("Ei", 2**60), ("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_SHARE: Final = re.compile(r"(\d+\.?\d*|\.\d+)(%?)", re.ASCII)
_DURATION: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")
_DURATION_UNIT: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_quantity(text: str | int | float) -> Fraction:
    """The exact amount a Kubernetes quantity stands for.

    Raises ValueError with the offending text when the spelling is not a quantity.
    """
    if isinstance(text, bool):
        raise ValueError(f"{text!r} is not a quantity")
    match = _NUMBER.fullmatch(str(text).strip())
    if match is None:
        raise ValueError(f"{str(text)!r} is not a quantity (write for example 500m, 2, 1Gi)")
    exponent = match["exponent"]
    if exponent and abs(int(exponent[1:])) > 30:
        raise ValueError(f"{str(text)!r} is out of range")
    scale = Fraction(10) ** int(exponent[1:]) if exponent else _SUFFIX[match["suffix"] or ""]
    amount = Fraction(match["digits"]) * scale
    return -amount if match["sign"] == "-" else amount


def _ceil(amount: Fraction) -> int:
    return -(-amount.numerator // amount.denominator)


def parse_cpu(text: str | int | float) -> Millicores:
    """Millicores, rounded up as the API server does (``0.5m`` is 1). Raises ValueError; negative is an error."""
    amount = parse_quantity(text)
    if amount < 0:
        raise ValueError(f"{text!r} is negative")
    return Millicores(_ceil(amount * 1000))


def parse_written_cpu(text: str | int | float) -> Millicores:
    """As ``parse_cpu``, but a binary suffix is refused: to the API server 4Gi of CPU are four billion cores, to whoever
    wrote it they are memory in the wrong place."""
    if isinstance(text, str) and text.strip().endswith("i"):
        parse_quantity(text)
        raise ValueError(f"{text!r} is an amount of memory (write CPU in cores, for example 4 or 500m)")
    return parse_cpu(text)


def parse_memory(text: str | int | float) -> Bytes:
    """Bytes, rounded up. Raises ValueError; negative is an error."""
    amount = parse_quantity(text)
    if amount < 0:
        raise ValueError(f"{text!r} is negative")
    return Bytes(_ceil(amount))


def format_cpu(milli: int) -> str:
    """Canonical spelling: whole cores without suffix, else millicores."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def format_memory(amount: int) -> str:
    """Canonical spelling: the largest binary suffix that divides the amount, else plain bytes."""
    if amount:
        for suffix, size in _BINARY:
            if amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)


def parse_duration(text: str | int | float) -> float:
    """Seconds of a Go duration (``500ms``, ``1m30s``). A bare number counts as seconds. Raises ValueError."""
    if isinstance(text, bool):
        raise ValueError(f"{text!r} is not a duration")
    if isinstance(text, int | float):
        return float(text)
    stripped = text.strip()
    if stripped == "0":
        return 0.0
    position, seconds = 0, 0.0
    for match in _DURATION.finditer(stripped):
        if match.start() != position:
            break
        seconds += float(match[1]) * _DURATION_UNIT[match[2]]
        position = match.end()
    if position == 0 or position != len(stripped):
        raise ValueError(f"{text!r} is not a duration (write for example 500ms, 30s, 1m30s)")
    return seconds


def parse_written_duration(text: str | int | float) -> float:
    """As ``parse_duration``, but a number must have its unit: 250 may have been meant as milliseconds."""
    if isinstance(text, int | float) and not isinstance(text, bool) and text != 0:
        raise ValueError(f"{text!r} has no unit (write for example {text:g}ms or {text:g}s)")
    return parse_duration(text)


def format_duration(seconds: float) -> str:
    """The shortest Go spelling that reads back as the same time to the microsecond."""
    micros = round(seconds * 1e6)
    if micros == 0:
        return "0s"
    if micros % 1000:
        return f"{micros}us"
    if micros < 1_000_000 or micros % 1_000_000:
        return f"{micros // 1000}ms"
    whole = micros // 1_000_000
    if whole % 3600 == 0:
        return f"{whole // 3600}h"
    return f"{whole // 60}m" if whole % 60 == 0 else f"{whole}s"


def parse_share(text: str | int | float) -> float:
    """A share in [0, 1] from ``99%``, ``99.5%`` or ``0.995``. Raises ValueError outside the range."""
    if isinstance(text, bool):
        raise ValueError(f"{text!r} is not a share")
    raw = str(text).strip()
    match = _SHARE.fullmatch(raw) if isinstance(text, str) else None
    if isinstance(text, str) and match is None:
        raise ValueError(f"{raw!r} is not a share (write for example 99% or 0.99)")
    value = float(match[1]) / (100 if match[2] else 1) if match else float(text)
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{raw!r} is not between 0% and 100%")
    return value


def format_share(share: float) -> str:
    """A percentage with as many digits as it needs, four decimals at most."""
    return f"{share * 100:.4f}".rstrip("0").rstrip(".") + "%"
