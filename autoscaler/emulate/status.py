"""Refusals: the `Status` bodies of the API server, word for word where a recorded exchange shows them."""

from collections.abc import Mapping, Sequence
from typing import Any


class Refused(Exception):
    """An answer other than success. `body` is the Status, `code` the HTTP status, `headers` what goes with it."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        extra_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.headers = dict(headers or {})
        self.body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": dict(extra_metadata or {}),
            "status": "Failure",
            "message": message,
        }
        if reason:
            self.body["reason"] = reason
        if details is not None:
            self.body["details"] = dict(details)
        self.body["code"] = code


class Cause(tuple[str, str, str]):
    """(reason, message, field) of one field error."""

    __slots__ = ()

    def __new__(cls, reason: str, message: str, field: str) -> "Cause":
        return super().__new__(cls, (reason, message, field))

    def as_json(self) -> dict[str, str]:
        reason, message, field = self
        return {"reason": reason, "message": message, "field": field}

    def __str__(self) -> str:
        _, message, field = self
        return f"{field}: {message}"


def quoted(value: Any) -> str:
    """A bad value as Go prints it inside a field error."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def bad_value(field: str, value: Any, complaint: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {quoted(value)}: {complaint}", field)


def forbidden_change(field: str, complaint: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {complaint}", field)


def required(field: str, complaint: str = "") -> Cause:
    return Cause("FieldValueRequired", "Required value" + (f": {complaint}" if complaint else ""), field)


def duplicate(field: str, value: Any) -> Cause:
    return Cause("FieldValueDuplicate", f"Duplicate value: {quoted(value)}", field)


def unsupported_value(field: str, shown: str, supported: Sequence[str]) -> Cause:
    listed = ", ".join(f'"{one}"' for one in supported)
    return Cause("FieldValueNotSupported", f"Unsupported value: {shown}: supported values: {listed}", field)


def missing_reference(field: str, value: Any, complaint: str) -> Cause:
    return Cause("FieldValueNotFound", f"Not found: {quoted(value)}: {complaint}", field)


def invalid(kind: str, name: str, causes: Sequence[Cause], *, group: str = "") -> Refused:
    """422 with one cause per field error. `kind` as the message shows it; empty for a patch that can't be read."""
    distinct = list(dict.fromkeys(str(cause) for cause in causes))
    listed = distinct[0] if len(distinct) == 1 else "[" + ", ".join(distinct) + "]"
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    details["causes"] = [cause.as_json() for cause in causes]
    shown = f"{kind}.{group}" if group else kind
    return Refused(422, "Invalid", f'{shown} "{name}" is invalid: {listed}', details=details)


def unreadable_patch(shown: str, complaint: str) -> Refused:
    """422: the patched object can't be decoded. `shown` is the patch (or the object) as the server prints it."""
    return invalid("", "", [bad_value("patch", shown, complaint)])


def _named(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def _subject(resource: str, group: str, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name} if name else {}
    if group:
        details["group"] = group
    details["kind"] = resource
    return details


def not_found(resource: str, name: str, *, group: str = "") -> Refused:
    message = f'{_named(resource, group)} "{name}" not found'
    return Refused(404, "NotFound", message, details=_subject(resource, group, name))


def no_such_path() -> Refused:
    return Refused(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(resource: str, name: str, *, group: str = "") -> Refused:
    message = f'{_named(resource, group)} "{name}" already exists'
    return Refused(409, "AlreadyExists", message, details=_subject(resource, group, name))


def conflict(resource: str, name: str, *, group: str = "", complaint: str | None = None) -> Refused:
    complaint = (
        complaint or "the object has been modified; please apply your changes to the latest version and try again"
    )
    message = f'Operation cannot be fulfilled on {_named(resource, group)} "{name}": {complaint}'
    return Refused(409, "Conflict", message, details=_subject(resource, group, name))


def wrong_uid(resource: str, namespace: str | None, name: str, precondition: str, uid: str) -> str:
    """The complaint of a conflict over an update that names another uid."""
    key = "/".join(one for one in ("/registry", resource, namespace, name) if one)
    return (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition "
        f"failed: UID in precondition: {precondition}, UID in object meta: {uid}"
    )


def forbidden(resource: str, name: str, complaint: str, *, group: str = "", cause: str | None = None) -> Refused:
    shown = f'{_named(resource, group)} "{name}" is forbidden' if name else f"{_named(resource, group)} is forbidden"
    details = _subject(resource, group, name)
    if cause is not None:
        details["causes"] = [{"reason": cause}]
    return Refused(403, "Forbidden", f"{shown}: {complaint}", details=details)


def unauthorized() -> Refused:
    return Refused(401, "Unauthorized", "Unauthorized")


def bad_request(message: str) -> Refused:
    return Refused(400, "BadRequest", message)


def method_not_allowed() -> Refused:
    message = "the server does not allow this method on the requested resource"
    return Refused(405, "MethodNotAllowed", message, details={})


def unsupported_media_type() -> Refused:
    return Refused(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})


def unsupported_patch_type() -> Refused:
    """The same of a custom resource, which can't be patched strategically."""
    listed = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return Refused(415, "UnsupportedMediaType", message)


def internal(message: str) -> Refused:
    return Refused(500, "", message)


def expired(message: str, *, token: str = "") -> Refused:
    return Refused(410, "Expired", message, extra_metadata={"continue": token} if token else None)


def not_covered(what: str) -> Refused:
    """501: this emulator says so instead of guessing."""
    return Refused(501, "NotImplemented", f"the emulated cluster does not play this: {what}", details={})
