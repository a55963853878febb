"""The port through which plans reach a cluster: requests as plain values, outcomes as words.

Dry-run is another sink; nothing upstream knows which one it has.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from autoscaler.model.plan import Action


class Verb(enum.StrEnum):
    PATCH = "PATCH"
    POST = "POST"


@dataclass(frozen=True, slots=True)
class Patch:
    """One mutating request, as it goes over the wire. ``body`` is JSON-ready; ``action`` is what it stands for."""

    verb: Verb
    path: str
    content_type: str
    body: Mapping[str, Any]
    action: Action
    query: Mapping[str, str] = field(default_factory=dict)
    priority: float = 0.0
    """Who goes first when requests are paced: larger is sooner (the workload's shortfall)."""


class Result(enum.StrEnum):
    """What became of a request."""

    ACCEPTED = "Accepted"
    UNCHANGED = "Unchanged"
    GONE = "Gone"
    CONFLICT = "Conflict"
    INVALID = "Invalid"
    FORBIDDEN = "Forbidden"
    NODE_CAPACITY = "NodeCapacity"
    QUOTA = "Quota"
    LIMIT_RANGE = "LimitRange"
    MEMORY_UNSAFE = "MemoryUnsafe"
    """Never from a server: a memory shrink below usage, refused before it was sent."""
    WEBHOOK = "Webhook"
    THROTTLED = "Throttled"
    UNAVAILABLE = "Unavailable"
    UNSUPPORTED = "Unsupported"
    DISRUPTION_BUDGET = "DisruptionBudget"
    PRINTED = "Printed"
    SKIPPED = "Skipped"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to one patch. ``body`` is the object the server returned (generation, resourceVersion), if any."""

    result: Result
    message: str = ""
    status: int = 0
    retry_after_s: float | None = None
    body: Mapping[str, Any] | None = None


class Sink(Protocol):
    """Where patches go: the API server, a printer, an emulated or simulated cluster."""

    async def send(self, patch: Patch) -> Outcome: ...
