"""What goes in and out of a write: request bodies, quoted patches, warnings, the metadata a client can't change."""

from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from autoscaler.emulate import patch, protobuf
from autoscaler.emulate.request import Call, WriteOptions
from autoscaler.emulate.status import bad_request, unsupported_media_type
from autoscaler.emulate.store import Json


def read_body(call: Call) -> Json:
    """The request's object, JSON or YAML. Raises Refused: 415 for another type, 400 for what can't be read."""
    if call.content_type == protobuf.CONTENT_TYPE and (known := protobuf.read(call.body)) is not None:
        return known
    if call.content_type and not ("json" in call.content_type or "yaml" in call.content_type):
        raise unsupported_media_type()
    try:
        if "yaml" in call.content_type:
            body = yaml.safe_load(call.body)
        else:
            body = msgspec.json.decode(call.body)
    except Exception:
        raise bad_request("the request's body can't be read as an object") from None
    if not isinstance(body, dict):
        raise bad_request("the request's body is no object")
    return body


def keep_metadata(before: Json, after: Json) -> None:
    """What a client can't change, in place."""
    metadata = after["metadata"]
    for key in ("uid", "creationTimestamp", "generation", "name", "namespace", "deletionTimestamp", "generateName"):
        if key in before["metadata"]:
            metadata[key] = before["metadata"][key]
        else:
            metadata.pop(key, None)
    metadata.pop("managedFields", None)
    for key in ("labels", "annotations", "ownerReferences", "finalizers"):
        if key in metadata and not metadata[key]:
            del metadata[key]


def content_of(body: Mapping[str, Any]) -> Json:
    """What bumps the generation when it changes."""
    return {key: value for key, value in body.items() if key not in ("metadata", "status")}


def shown_patch(call: Call, wanted: Any, after: Json) -> str:
    """How a refusal quotes it: the patch of a strategic merge, else the whole patched object."""
    if call.content_type.startswith(patch.STRATEGIC):
        return patch.go_print(wanted)
    return msgspec.json.encode(after).decode()


def warnings(told: list[str]) -> dict[str, str]:
    """The Warning header."""
    listed = [f'299 - "{text}"' for text in (text.replace('"', '\\"') for text in told)]
    return {"Warning": ", ".join(listed)}


def warned(unknown: list[str], options: WriteOptions, more: str = "") -> dict[str, str]:
    """The headers of a write that was let through with fields the server doesn't know, or with something `more`."""
    told = [f'unknown field "{path}"' for path in unknown if options.warn] + [more] * bool(more)
    return warnings(told) if told else {}
