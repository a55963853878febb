"""List pages: one moment shown over several requests, until its token is too old."""

import base64
import binascii
from collections.abc import Mapping

import msgspec

from autoscaler.emulate.request import Call, Target
from autoscaler.emulate.selectors import Matcher
from autoscaler.emulate.status import Refused, bad_request, expired
from autoscaler.emulate.store import Json, Store, Stored

_CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


def page_of(store: Store, call: Call, target: Target, matches: Matcher | None) -> tuple[int, list[Stored], Json]:
    """(revision, items of this page, list metadata)."""
    query = call.query
    token = query.get("continue", "")
    scope = f"{target.namespace}|{query.get('labelSelector', '')}|{query.get('fieldSelector', '')}"
    start = ""
    if token:
        if query.get("resourceVersion", "") not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        revision, start = _read_token(token)
        items = store.snapshot(revision, target.kind.storage, scope)
        if items is None:
            if revision >= 0:
                raise expired(_CONTINUE_TOO_OLD, token=_write_token(-1, start))
            revision = store.revision
    else:
        revision, items = store.revision, None
        _check_revision(store, query)
    if items is None:
        items = store.all(target.kind.storage, target.namespace)
        items = [one for one in items if matches is None or matches(one.body)]
        items.sort(key=lambda one: (one.namespace, one.name))
    if start:
        items = [one for one in items if f"{one.namespace}/{one.name}" > start]
    limit = int(query.get("limit") or 0)
    if query.get("resourceVersion") == "0" and not token:
        limit = 0  # served from the watch cache, which doesn't page
    if not limit or len(items) <= limit:
        return revision, items, {}
    page = items[:limit]
    store.keep_snapshot(revision, target.kind.storage, scope, items)
    metadata: Json = {"continue": _write_token(revision, f"{page[-1].namespace}/{page[-1].name}")}
    if matches is None:
        metadata["remainingItemCount"] = len(items) - limit
    return revision, page, metadata


def _check_revision(store: Store, query: Mapping[str, str]) -> None:
    text = query.get("resourceVersion", "")
    if text in ("", "0"):
        return
    if not text.isdigit():
        complaint = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise Refused(500, "", complaint)
    if int(text) > store.revision:
        message = "Timeout: request did not complete within the allotted timeout"
        raise Refused(504, "Timeout", message, details={})


def _write_token(revision: int, start: str) -> str:
    raw = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": revision, "start": start + "\x00"})
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        read = msgspec.json.decode(raw)
        return int(read["rv"]), str(read["start"]).rstrip("\x00")
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError):
        complaint = "continue key is not valid: invalid character '\\x81' looking for beginning of value"
        raise bad_request(f"invalid continue token: {complaint}") from None
