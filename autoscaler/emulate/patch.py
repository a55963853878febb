"""The three patch dialects: JSON merge (RFC 7386), JSON patch (RFC 6902), strategic merge."""

import copy
from collections.abc import Mapping
from typing import Any

import msgspec

from autoscaler.emulate.status import Refused, bad_request, internal, unsupported_media_type

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
DIALECTS = (JSON_PATCH, MERGE, STRATEGIC)

# Lists that a strategic merge merges, by the last step of their path; others are replaced.
_MERGE_KEYS = {
    "containers": "name", "initContainers": "name", "ephemeralContainers": "name", "env": "name", "volumes": "name",
    "volumeMounts": "mountPath", "volumeDevices": "devicePath", "imagePullSecrets": "name", "hostAliases": "ip",
    "conditions": "type", "addresses": "type", "ownerReferences": "uid", "taints": "key", "podIPs": "ip",
    "hostIPs": "ip", "topologySpreadConstraints": "topologyKey", "schedulingGates": "name", "resourceClaims": "name",
    "secrets": "name", "subjects": "",
}  # fmt: skip
_PRIMITIVE_SETS = ("finalizers",)


def go_print(value: Any) -> str:
    """As Go's %v prints what JSON held; refusals quote patches this way."""
    if isinstance(value, Mapping):
        return "map[" + " ".join(f"{key}:{go_print(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(go_print(one) for one in value) + "]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def _go_json_kind(value: Any) -> str:
    match value:
        case list():
            return "array"
        case str():
            return "string"
        case bool():
            return "bool"
        case _:
            return "number"


def read_patch(content_type: str, body: bytes) -> Any:
    """The patch as JSON. Raises Refused: 415 for another content type, 400 for what can't be read."""
    kind = content_type.partition(";")[0].strip()
    if kind not in DIALECTS:
        raise unsupported_media_type()
    try:
        patch = msgspec.json.decode(body)
    except msgspec.DecodeError:
        complaint = "unexpected end of JSON input" if _ends_early(body) else "invalid character in JSON input"
        raise bad_request(f"error decoding patch: {complaint}" if kind != STRATEGIC else complaint) from None
    if kind == JSON_PATCH:
        if not isinstance(patch, list):
            complaint = f"json: cannot unmarshal {_go_object(patch)} into Go value of type jsonpatch.Patch"
            raise bad_request(f"error decoding patch: {complaint}")
    elif not isinstance(patch, dict):
        complaint = f"json: cannot unmarshal {_go_object(patch)} into Go value of type map[string]interface {{}}"
        raise bad_request(complaint if kind == STRATEGIC else f"error decoding patch: {complaint}")
    return patch


def _go_object(value: Any) -> str:
    return "object" if isinstance(value, dict) else _go_json_kind(value)


def _ends_early(body: bytes) -> bool:
    text = body.strip()
    return not text or text.count(b"{") > text.count(b"}") or text.count(b"[") > text.count(b"]")


def apply(content_type: str, target: dict[str, Any], patch: Any) -> dict[str, Any]:
    """A new object; `target` stays as it was. Raises Refused."""
    kind = content_type.partition(";")[0].strip()
    if kind == JSON_PATCH:
        return json_patch(target, patch)
    if kind == MERGE:
        merged: dict[str, Any] = merge_patch(target, patch)
        return merged
    return strategic_merge(target, patch)


def merge_patch(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


class _CannotApply(Exception):
    pass


def json_patch(target: dict[str, Any], operations: list[Any]) -> dict[str, Any]:
    """Any failed step, a failed `test` included, is the same useless 422 as the real server's."""
    try:
        result = copy.deepcopy(target)
        for operation in operations:
            result = _operate(result, operation)
    except (_CannotApply, KeyError, TypeError, AttributeError):
        message = "the server rejected our request due to an error in our request"
        raise Refused(422, "Invalid", message, details={}) from None
    return result


def _operate(document: Any, operation: Mapping[str, Any]) -> Any:
    path = operation["path"]
    match operation["op"]:
        case "test":
            if _look(document, path) != operation.get("value"):
                raise _CannotApply
            return document
        case "add":
            return _write(document, path, copy.deepcopy(operation["value"]), replace=False)
        case "replace":
            _look(document, path)
            return _write(document, path, copy.deepcopy(operation["value"]), replace=True)
        case "remove":
            return _remove(document, path)
        case "copy":
            return _write(document, path, copy.deepcopy(_look(document, operation["from"])), replace=False)
        case "move":
            moved = _look(document, operation["from"])
            return _write(_remove(document, operation["from"]), path, moved, replace=False)
    raise _CannotApply


def _steps(path: str) -> list[str]:
    if path == "":
        return []
    if not path.startswith("/"):
        raise _CannotApply
    return [step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/")]


def _index(sequence: list[Any], step: str, *, end: bool) -> int:
    if step == "-" and end:
        return len(sequence)
    if not step.isdigit() or int(step) >= len(sequence) + (1 if end else 0):
        raise _CannotApply
    return int(step)


def _look(document: Any, path: str) -> Any:
    for step in _steps(path):
        if isinstance(document, list):
            document = document[_index(document, step, end=False)]
        elif isinstance(document, dict) and step in document:
            document = document[step]
        else:
            raise _CannotApply
    return document


def _parent(document: Any, path: str) -> tuple[Any, str]:
    *front, last = _steps(path)
    for step in front:
        document = document[_index(document, step, end=False)] if isinstance(document, list) else document[step]
    return document, last


def _write(document: Any, path: str, value: Any, *, replace: bool) -> Any:
    if path == "":
        return value
    parent, last = _parent(document, path)
    if isinstance(parent, list):
        index = _index(parent, last, end=not replace)
        if replace:
            parent[index] = value
        else:
            parent.insert(index, value)
    elif isinstance(parent, dict):
        parent[last] = value
    else:
        raise _CannotApply
    return document


def _remove(document: Any, path: str) -> Any:
    parent, last = _parent(document, path)
    if isinstance(parent, list):
        del parent[_index(parent, last, end=False)]
    else:
        del parent[last]
    return document


def strategic_merge(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Maps merge, `null` deletes, the lists of `_MERGE_KEYS` merge by key, `$` directives are obeyed."""
    merged: dict[str, Any] = _strategic(target, patch)
    return merged


def _strategic(target: Any, patch: dict[str, Any]) -> Any:
    directive = patch.get("$patch")
    if directive == "delete":
        return {}
    plain = {key: value for key, value in patch.items() if not key.startswith("$")}
    if directive == "replace":
        return plain
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in plain.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _strategic(result.get(key), value)
        elif isinstance(value, list):
            result[key] = _merge_list(key, result.get(key) or [], value, _ports_key(value))
        else:
            result[key] = value
    for directive, order in patch.items():
        if directive.startswith("$setElementOrder/"):
            key = directive.partition("/")[2]
            if key in result:
                result[key] = _reorder(key, result[key], order)
        elif directive.startswith("$deleteFromPrimitiveList/"):
            key = directive.partition("/")[2]
            result[key] = [one for one in result.get(key, []) if one not in order]
        elif directive == "$retainKeys":
            result = {key: value for key, value in result.items() if key in order}
    return result


def _ports_key(items: list[Any]) -> str | None:
    """Container ports merge by containerPort, a service's by port."""
    first = items[0] if items else None
    if isinstance(first, dict):
        return "containerPort" if "containerPort" in first else "port" if "port" in first else None
    return None


def _merge_list(name: str, target: list[Any], patch: list[Any], ports_key: str | None) -> list[Any]:
    if name in _PRIMITIVE_SETS:
        return target + [one for one in patch if one not in target]
    key = ports_key if name == "ports" else _MERGE_KEYS.get(name)
    if not key or not all(isinstance(one, dict) for one in patch):
        return copy.deepcopy(patch)
    if any(one.get("$patch") == "replace" for one in patch):
        return [one for one in patch if "$patch" not in one]
    result = list(target)
    added: list[Any] = []
    for one in patch:
        if key not in one:
            raise internal(f"map: {go_print(one)} does not contain declared merge key: {key}")
        at = next((i for i, there in enumerate(result) if there.get(key) == one[key]), None)
        if one.get("$patch") == "delete":
            if at is not None:
                del result[at]
        elif at is None:
            added.append(_strategic({}, one))
        else:
            result[at] = _strategic(result[at], one)
    # What only the patch has comes first, as the real server orders it.
    return added + result


def _reorder(name: str, items: list[Any], order: list[Any]) -> list[Any]:
    key = _MERGE_KEYS.get(name)
    wanted = [one.get(key) if isinstance(one, dict) and key else one for one in order]

    def place(one: Any) -> int:
        found = one.get(key) if isinstance(one, dict) and key else one
        return wanted.index(found) if found in wanted else len(wanted)

    return sorted(items, key=place)
