"""The page that lists every field of a policy: path, kind, default, meaning. From the same schema as the CRD."""

from __future__ import annotations

from collections.abc import Iterator

from autoscaler.model.policy import BudgetSpec
from autoscaler.render.crd import RULES, budget_status, policy_spec, policy_status
from autoscaler.render.schema import Schema, object_schema

HEADER = """\
# Every field of a policy

Generated from `autoscaler/model` by `make crds`; don't edit. Amounts are written as Kubernetes writes them (`500m`,
`2`, `1Gi`), durations as `500ms`, `30s`, `1m30s`, shares as `99%`. A field without a default may be left out unless it
is marked required.

`spec.vertical.cpu.min` and `max` bound the container's limit. Where its request is smaller, the request keeps its share
of the limit: with `min: 300m`, a container of 250m request and 300m limit has its least size already. Where there is no
limit, or `controls` is `RequestsOnly`, they bound the request. Binary suffixes (`4Gi`) are refused for CPU.
"""


_WORDS = {"object": "map", "integer": "number", "number": "number", "string": "text", "boolean": "true or false"}


def page() -> str:
    parts = [
        HEADER,
        "## InferenceAutoscaler: spec\n",
        _table("spec", policy_spec()),
        "## InferenceAutoscaler: status\n",
        _table("status", policy_status()),
        "## CapacityBudget: spec\n",
        _table("spec", object_schema(BudgetSpec, RULES)),
        "## CapacityBudget: status\n",
        _table("status", budget_status()),
    ]
    return "\n".join(parts)


def _table(top: str, schema: Schema) -> str:
    rows = ["| field | kind | default | meaning |", "|---|---|---|---|"]
    rows += [f"| `{path}` | {kind} | {default} | {meaning} |" for path, kind, default, meaning in _rows(top, schema)]
    return "\n".join(rows) + "\n"


def _rows(path: str, schema: Schema) -> Iterator[tuple[str, str, str, str]]:
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        inner = field.get("items", field)
        default = field.get("default")
        must = "required" if name in schema.get("required", ()) else ""
        shown = (
            must if default in (None, {}, []) else f"`{str(default).lower() if isinstance(default, bool) else default}`"
        )
        meaning = " ".join([field.get("description", ""), *_limits(field)]).strip().replace("|", "\\|")
        yield here, _kind(field), shown, meaning
        yield from _rows(here + ("[]" if "items" in field else ""), inner)


def _kind(field: Schema) -> str:
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "x-kubernetes-int-or-string" in field:
        told = " ".join(rule["message"] for rule in field.get("x-kubernetes-validations", ()))
        return "duration" if "duration" in told else "share" if "share" in told else "amount"
    if field.get("type") == "array":
        return "list"
    return _WORDS[field["type"]]


def _limits(field: Schema) -> Iterator[str]:
    """Bounds, from the schema and from the rules that say them in a sentence."""
    low, high = field.get("minimum"), field.get("maximum")
    if low is not None and high is not None:
        yield f"({low} to {high})"
    elif low is not None:
        yield f"(at least {low})"
    for rule in field.get("x-kubernetes-validations", ()):
        if rule["message"].startswith("must ") and "negative" not in rule["message"]:
            yield f"({rule['message'].removeprefix('must be ')})"
