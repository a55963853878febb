"""Who wrote what: `metadata.managedFields` of client writes, as far as "who resized this?" needs them.

One entry a (manager, operation Update, apiVersion, subresource) with the fields it last changed. Kubelets and
controllers leave no entries here, and there is no server-side apply.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Json = dict[str, Any]
Path = tuple[str, ...]
_KEYS = ("name", "type", "uid", "containerPort", "port", "key")
_NOT_OWNED = frozenset(
    [
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
        "name",
        "namespace",
        "deletionTimestamp",
    ]
)


class Writer(NamedTuple):
    """Of one request."""

    manager: str
    api_version: str
    subresource: str
    stamp: str


def noted(before: Mapping[str, Any] | None, after: Json, writer: Writer) -> list[Json]:
    """The entries after this write."""
    changed = set(_leaves(after)) - (set(_leaves(before)) if before is not None else set())
    touched = {path for path, _ in changed}
    entries: list[Json] = []
    mine: set[Path] = touched
    for entry in (before or {}).get("metadata", {}).get("managedFields") or []:
        owned = set(_read(entry["fieldsV1"], ()))
        same = (entry["manager"], entry.get("subresource", ""), entry["apiVersion"]) == (
            writer.manager, writer.subresource, writer.api_version,
        )  # fmt: skip
        if same:
            mine = mine | owned
        elif kept := owned - touched:
            entries.append(entry if kept == owned else entry | {"fieldsV1": _write(kept)})
    if mine:
        entry = {"manager": writer.manager, "operation": "Update", "apiVersion": writer.api_version}
        entry |= {"time": writer.stamp, "fieldsType": "FieldsV1", "fieldsV1": _write(mine)}
        entries.append(entry | ({"subresource": writer.subresource} if writer.subresource else {}))
    return entries


def _leaves(body: Mapping[str, Any] | None) -> Iterable[tuple[Path, str]]:
    """(path, value) of everything that can be owned."""
    for key, value in (body or {}).items():
        if key == "metadata":
            for name, part in value.items():
                if name not in _NOT_OWNED:
                    yield from _walk(part, ("f:metadata", f"f:{name}"))
        elif key not in ("kind", "apiVersion"):
            yield from _walk(value, (f"f:{key}",))


def _walk(value: Any, path: Path) -> Iterable[tuple[Path, str]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _walk(inner, (*path, f"f:{key}"))
        return
    if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        key = next((key for key in _KEYS if all(key in one for one in value)), None)
        if key is not None:
            for one in value:
                step = "k:" + json.dumps({key: one[key]}, separators=(",", ":"))
                for name, inner in one.items():
                    yield from _walk(inner, (*path, step, f"f:{name}"))
            return
    yield path, json.dumps(value, sort_keys=True)


def _write(paths: Iterable[Path]) -> Json:
    tree: Json = {}
    for path in sorted(paths):
        at = tree
        for step in path:
            at = at.setdefault(step, {})
    return tree


def _read(tree: Mapping[str, Any], path: Path) -> Iterable[Path]:
    if not tree and path:
        yield path
    for step, inner in tree.items():
        yield from _read(inner, (*path, step))
