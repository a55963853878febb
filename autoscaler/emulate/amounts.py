"""Quantities as the API server keeps and re-emits them.

A client only has to compare quantities by value; a server also has to *write* them: `0.1` comes back as `100m`,
`1.5Gi` as `1536Mi`, `2.1Gi` as `2254857830400m`, `0.5m` as `1m` in a pod. Source: apimachinery's resource.Quantity
(CanonicalizeBytes), and recorded answers.
"""

import functools
import re
from typing import Any, NamedTuple

_PATTERN = re.compile(r"^([+-]?)(\d+\.?\d*|\.\d+)(n|u|m|k|M|G|T|P|E|[KMGTPE]i|[eE][+-]?\d+)?$")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_SUFFIX_OF_EXPONENT = {power: suffix for suffix, power in _DECIMAL.items()}
_SUFFIX_OF_POWER = {power: suffix for suffix, power in _BINARY.items()}
NANO = 10**9
MILLI_IN_NANO = 10**6
_LARGEST = (2**63 - 1) * NANO

REGEX_COMPLAINT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"  # the server's words
)


class NotAQuantity(ValueError):
    """The text is none; the server's own complaint is the message."""

    def __init__(self) -> None:
        super().__init__(REGEX_COMPLAINT)


class Amount(NamedTuple):
    """A quantity: `nano` units (an exact integer) and the family of suffixes it is written in."""

    nano: int
    family: str  # "decimal", "binary" or "exponent"

    @property
    def milli(self) -> int:
        """In thousandths, rounded up."""
        return -(-self.nano // MILLI_IN_NANO)

    @property
    def whole(self) -> int:
        """In units, rounded up."""
        return -(-self.nano // NANO)


def parse(value: Any) -> Amount:
    """Read what JSON held (a string, or a bare number). Raises NotAQuantity."""
    if isinstance(value, str):
        return _parse(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotAQuantity
    return _parse(format(value, "f") if isinstance(value, float) else str(value))


@functools.lru_cache(maxsize=4096)
def _parse(text: str) -> Amount:
    match = _PATTERN.match(text)
    if match is None:
        raise NotAQuantity
    sign, digits, suffix = match.group(1), match.group(2), match.group(3) or ""
    whole, _, fraction = digits.partition(".")
    mantissa, scale = int((whole + fraction) or "0"), -len(fraction)
    family, binary = "decimal", 1
    if suffix in _BINARY:
        family, binary = "binary", 1024 ** _BINARY[suffix]
    elif suffix in _DECIMAL:
        scale += _DECIMAL[suffix]
    else:
        family, scale = "exponent", scale + int(suffix[1:])
    exponent = scale + 9
    numerator = mantissa * binary
    # More than nano precision is rounded away from zero, and more than an int64 holds is capped.
    nano = numerator * 10**exponent if exponent >= 0 else -(-numerator // 10**-exponent)
    nano = min(nano, _LARGEST)
    return Amount(-nano if sign == "-" else nano, family)


def round_up_to_milli(amount: Amount) -> Amount:
    """What the server does to every resource of a pod."""
    return amount._replace(nano=amount.milli * MILLI_IN_NANO)


def write(amount: Amount) -> str:
    """The canonical text."""
    nano, family = amount
    if family == "binary" and (-1024 * NANO < nano < 1024 * NANO or nano % NANO):
        family = "decimal"
    if nano == 0:
        return "0"
    if family == "binary":
        value, power = nano // NANO, 0
        while value % 1024 == 0 and power < 6:
            value, power = value // 1024, power + 1
        return f"{value}{_SUFFIX_OF_POWER.get(power, '')}"
    value, exponent = nano, -9
    while value % 1000 == 0 and exponent < 18:
        value, exponent = value // 1000, exponent + 3
    if family == "exponent":
        return f"{value}e{exponent}" if exponent else str(value)
    return f"{value}{_SUFFIX_OF_EXPONENT[exponent]}"


def canonical(value: Any) -> str:
    """Text in a pod's resources as it is given back."""
    return write(round_up_to_milli(parse(value)))


def as_int64(value: int) -> int:
    """What a Go int64 would hold: the server's messages wrap around."""
    return (value + 2**63) % 2**64 - 2**63
