"""What a Kubernetes API server says when it says no, as one word and one sentence.

The words equal the values of the ``Result`` vocabulary of the act port, so that the layer above maps them by value.
Sources: recorded refusals of 1.36 and the validation and admission code of 1.33 to 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

GONE: Final = "Gone"
CONFLICT: Final = "Conflict"
INVALID: Final = "Invalid"
FORBIDDEN: Final = "Forbidden"
NODE_CAPACITY: Final = "NodeCapacity"
QUOTA: Final = "Quota"
LIMIT_RANGE: Final = "LimitRange"
WEBHOOK: Final = "Webhook"
THROTTLED: Final = "Throttled"
UNAVAILABLE: Final = "Unavailable"
UNSUPPORTED: Final = "Unsupported"
DISRUPTION_BUDGET: Final = "DisruptionBudget"

_LIMIT_RANGE: Final = re.compile(r"(maximum|minimum) \S+ usage per \w+|max limit to request ratio per \w+")
_RBAC: Final = re.compile(r'User ".*?" cannot \w+ (resource|path)')
_WEBHOOK: Final = re.compile(r"admission webhook .* denied the request|ValidatingAdmissionPolicy .* denied request")
_UNSUPPORTED: Final = re.compile(
    r"static pods cannot be resized|[Ww]indows pods? cannot be resized|node without support for resize"
    r"|does not support resize|declared features|requires features"
)


class KubeError(Exception):
    """Base of all that goes wrong between this program and an API server. The text is one sentence for people."""


class KubeconfigError(KubeError):
    """No usable way to the cluster: names the place that was looked at and what would be right."""


class Unreachable(KubeError):
    """No answer within the deadline: refused, reset, TLS, DNS, timeout, or cut off in the middle."""


class NotLeading(Unreachable):
    """Not sent: this process doesn't lead, or no longer."""


class Refused(KubeError):
    """The server answered with an error status, and the caller asked for it to be raised."""

    def __init__(self, refusal: Refusal, what: str) -> None:
        super().__init__(f"{what}: {refusal.message or refusal.word} (HTTP {refusal.status})")
        self.refusal = refusal


class NotFound(Refused):
    """404: no such object, or no such API."""


class NoRight(Refused):
    """401 or 403 by authorization: credentials or a role are missing."""


class Conflicted(Refused):
    """409: someone else was faster; what was decided on has changed."""


class Expired(Refused):
    """410: the resourceVersion or the continue token is too old."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of ``details.causes``."""

    reason: str = ""
    field: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error answer, read. ``word`` is one of this module's; ``retry_after_s`` comes from the header or body."""

    status: int
    word: str
    message: str
    reason: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_s: float | None = None

    @property
    def cause_reasons(self) -> frozenset[str]:
        return frozenset(cause.reason for cause in self.causes)

    def raised(self, what: str) -> Refused:
        """The exception for this answer; ``what`` names the request."""
        kinds: Mapping[int, type[Refused]] = {401: NoRight, 404: NotFound, 409: Conflicted, 410: Expired}
        kind = kinds.get(self.status, Refused)
        if self.status == 403 and self.word == FORBIDDEN:
            kind = NoRight
        return kind(self, what)


class _CauseBody(msgspec.Struct):
    reason: str | None = None
    field: str | None = None
    message: str | None = None


class _Details(msgspec.Struct, rename="camel"):
    name: str | None = None
    kind: str | None = None
    causes: list[_CauseBody] | None = None
    retry_after_seconds: float | None = None


class _StatusBody(msgspec.Struct):
    kind: str | None = None
    message: str | None = None
    reason: str | None = None
    details: _Details | None = None


_STATUS: Final = msgspec.json.Decoder(_StatusBody)


def read_refusal(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> Refusal:
    """Read an error answer, whoever wrote it: an API server's Status, a proxy's HTML, or nothing at all."""
    try:
        said = _STATUS.decode(body)
    except msgspec.DecodeError:
        text = " ".join(body[:300].decode("utf-8", "replace").split())
        said = _StatusBody(
            message=text if text and not text.startswith("<") else f"HTTP {status} without a Status body"
        )
    details = said.details or _Details()
    causes = tuple(Cause(c.reason or "", c.field or "", c.message or "") for c in details.causes or ())
    message = said.message or ""
    named = details.name is not None
    word = _word(status, said.reason or "", message, causes, named)
    return Refusal(status, word, message, said.reason or "", causes, _retry_after(headers, details.retry_after_seconds))


def _retry_after(headers: Mapping[str, str] | None, in_body: float | None) -> float | None:
    text = (headers or {}).get("Retry-After", "")
    try:
        seconds = float(text)
    except ValueError:  # absent, or an HTTP date, which API servers don't send
        return in_body
    return max(0.0, min(seconds, 3600.0))


def _word(status: int, reason: str, message: str, causes: tuple[Cause, ...], named: bool) -> str:
    """One word for an answer. Webhooks may choose any status, so what they say comes first."""
    reasons = {cause.reason for cause in causes}
    if _WEBHOOK.search(message):
        return WEBHOOK
    if "DisruptionBudget" in reasons or "more than one PodDisruptionBudget" in message:
        return DISRUPTION_BUDGET
    if "UnsupportedPlatform" in reasons or _UNSUPPORTED.search(message):
        return UNSUPPORTED
    match status:
        case 403:
            return _forbidden(message, reasons)
        case 404:
            # Without the object's name it is the API that is missing, not the object.
            return GONE if named else UNSUPPORTED
        case 409:
            # A delete or eviction with a uid precondition: the pod of that identity is no more.
            return GONE if "UID in the precondition" in message else CONFLICT
        case 410:
            return CONFLICT
        case 422 if any(cause.field == "metadata.uid" for cause in causes):
            return GONE  # another pod took the name
        case 401:
            return FORBIDDEN
        case 405 | 501:
            return UNSUPPORTED
        case 429:
            return THROTTLED
        case 500 if "does not contain declared merge key" in message:
            return INVALID
    if status >= 500 or status == 408:
        return UNAVAILABLE
    return INVALID


def _forbidden(message: str, reasons: set[str]) -> str:
    if "NodeCapacity" in reasons:
        return NODE_CAPACITY
    if "exceeded quota" in message or "failed quota" in message or "insufficient quota" in message:
        return QUOTA
    if _RBAC.search(message):
        return FORBIDDEN
    if _LIMIT_RANGE.search(message):
        return LIMIT_RANGE
    return FORBIDDEN
