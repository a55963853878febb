"""The parts of Kubernetes objects that are read, as msgspec projections; everything else is skipped unparsed.

Every field is optional: an API server omits what is empty, and old or foreign ones send ``null``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import msgspec

from autoscaler.model import quantity
from autoscaler.model.workload import Resources

Amounts = dict[str, str | int | float]
Raw = bytes | msgspec.Raw
"""One object, undecoded."""


class Wire(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """Base: camelCase on the wire, invisible to the garbage collector (the trees have no cycles)."""


class Owner(Wire):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Managed(Wire):
    manager: str = ""
    subresource: str = ""
    time: str | None = None


class Meta(Wire):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None
    managed_fields: list[Managed] | None = None


class ManagedFields(Managed):
    fields_v1: msgspec.Raw = msgspec.field(name="fieldsV1", default_factory=msgspec.Raw)


class OwnedMeta(Meta):
    """Metadata read with *what* each manager owns, for the few objects where that is asked."""

    managed_fields: list[ManagedFields] | None = None  # type: ignore[assignment]


class Condition(Wire):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class Sizes(Wire):
    requests: Amounts | None = None
    limits: Amounts | None = None


class ListMeta(Wire):
    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)


class Page(Wire):
    """One page of a list; the items stay raw so that a single odd one doesn't spoil the page."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class Selector(Wire):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None


class Requirement(Wire):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


def when(text: str | None) -> float | None:
    """Unix seconds of an RFC 3339 time; None when absent or unreadable."""
    if not text:
        return None
    try:
        seen = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (seen if seen.tzinfo else seen.replace(tzinfo=UTC)).timestamp()


@lru_cache(maxsize=16384)
def milli(amount: str | int | float) -> int:
    """Millicores of a quantity as some server spells it. Raises ValueError."""
    return quantity.parse_cpu(amount)


@lru_cache(maxsize=16384)
def bytes_of(amount: str | int | float) -> int:
    """Bytes of a quantity. Raises ValueError."""
    return quantity.parse_memory(amount)


NO_RESOURCES: Final = Resources()


def resources(sizes: Sizes | None) -> Resources:
    """CPU and memory of a ``resources`` block; equal blocks share one value."""
    if sizes is None:
        return NO_RESOURCES
    requests, limits = sizes.requests or {}, sizes.limits or {}
    return _resources(requests.get("cpu"), limits.get("cpu"), requests.get("memory"), limits.get("memory"))


def requests_of(amounts: Amounts) -> Resources:
    """``allocatedResources``: requests only."""
    return _resources(amounts.get("cpu"), None, amounts.get("memory"), None)


@lru_cache(maxsize=16384)
def _resources(
    cpu_request: str | int | float | None,
    cpu_limit: str | int | float | None,
    memory_request: str | int | float | None,
    memory_limit: str | int | float | None,
) -> Resources:
    return Resources(
        None if cpu_request is None else milli(cpu_request),
        None if cpu_limit is None else milli(cpu_limit),
        None if memory_request is None else bytes_of(memory_request),
        None if memory_limit is None else bytes_of(memory_limit),
    )


@lru_cache(maxsize=8192)
def _shared(items: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(items)


NO_LABELS: Final[dict[str, str]] = {}


def shared(labels: dict[str, str] | None) -> dict[str, str]:
    """The same labels as one dict: replicas of one template carry equal ones by the thousand."""
    return _shared(tuple(labels.items())) if labels else NO_LABELS


def controller(meta: Meta) -> Owner | None:
    """The owner that manages the object, if any."""
    for owner in meta.owner_references or ():
        if owner.controller:
            return owner
    return None
