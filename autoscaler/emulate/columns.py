"""The printer columns of a CustomResourceDefinition, as the server prints a custom resource's table."""

import re
from collections.abc import Callable, Mapping
from typing import Any

_STEP = re.compile(r"\.?([A-Za-z0-9_-]+)|\[\?\(@\.([A-Za-z0-9_-]+)==\"([^\"]*)\"\)\]")

Column = tuple[str, str, int]
Ages = Callable[[Mapping[str, Any], float], str]


def printer(
    definition: Mapping[str, Any], version: str, age: Ages
) -> tuple[tuple[Column, ...], Callable[[Mapping[str, Any], float], list[Any]]]:
    """Columns and the function that fills a row. Without columns of its own a resource shows its age."""
    found: Mapping[str, Any] = next((each for each in definition["spec"]["versions"] if each["name"] == version), {})
    told = found.get("additionalPrinterColumns") or [
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    ]
    columns: tuple[Column, ...] = (("Name", "string", 0), *map(_column, told))

    def row(body: Mapping[str, Any], now: float) -> list[Any]:
        cells: list[Any] = [body["metadata"]["name"]]
        for each in told:
            value = lookup(body, each["jsonPath"])
            if each["type"] == "date" and value is not None:
                value = age({"metadata": {"creationTimestamp": value}}, now)
            cells.append(value)
        return cells

    return columns, row


def _column(told: Mapping[str, Any]) -> Column:
    """Dates are shown as ages, which are text."""
    return told["name"], "string" if told["type"] == "date" else told["type"], told.get("priority", 0)


def lookup(body: Mapping[str, Any], path: str) -> Any:
    """The value at a JSONPath of names and ``[?(@.name=="text")]``; None where there is none."""
    value: Any = body
    for name, key, text in _STEP.findall(path):
        if name:
            value = value.get(name) if isinstance(value, Mapping) else None
        else:
            several = value if isinstance(value, list) else []
            value = next((each for each in several if isinstance(each, Mapping) and each.get(key) == text), None)
    return value
