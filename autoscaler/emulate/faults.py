"""What can be made to go wrong, for tests and demonstrations.

Faults of the wire are asked by `server.py` at each request, faults of pods by scheduler and kubelet, faults of metrics
pages by whoever serves them. All are plain attributes: set them, and set them back.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

Json = dict[str, Any]
T = TypeVar("T")


@dataclass(slots=True)
class Trouble:
    """Answers to requests whose `METHOD path` matches `pattern`, `times` of them (None: until removed).

    `code` 0 drops the connection without an answer; `delay` seconds come before the answer (or, with code None, before
    the real one).
    """

    pattern: str = ""
    code: int | None = None
    retry_after: int | None = None
    delay: float = 0.0
    times: int | None = None
    body: bytes | None = None  # instead of a Status: what a proxy in between would say
    content_type: str = "text/html"

    def matches(self, method: str, path: str) -> bool:
        return (self.times is None or self.times > 0) and re.search(self.pattern, f"{method} {path}") is not None


@dataclass(slots=True)
class Faults:
    """All of them."""

    troubles: list[Trouble] = field(default_factory=list)
    silent_watches: bool = False  # watches stay open and say nothing, bookmarks included
    cut_watches: int = 0  # raised: all open watches end
    unschedulable_pods: dict[str, str] = field(default_factory=dict)  # name pattern -> scheduler's message
    held_pods: dict[str, Json] = field(default_factory=dict)  # name pattern -> the container's waiting state
    nodes_without_resize: set[str] = field(default_factory=set)
    pages: dict[str, str] = field(default_factory=dict)  # pod name pattern -> page fault, see `metrics_page.py`

    def trouble_for(self, method: str, path: str) -> Trouble | None:
        for trouble in self.troubles:
            if trouble.matches(method, path):
                if trouble.times is not None:
                    trouble.times -= 1
                return trouble
        return None

    def unschedulable(self, pod: Mapping[str, Any]) -> str | None:
        return _first(self.unschedulable_pods, pod["metadata"]["name"])

    def holds(self, pod: Mapping[str, Any]) -> Json | None:
        return _first(self.held_pods, pod["metadata"]["name"])

    def page_fault(self, name: str) -> str | None:
        return _first(self.pages, name)

    def hold_image_pull(self, pattern: str) -> None:
        """Pods of that name wait in ImagePullBackOff."""
        message = "Back-off pulling image: not found"
        self.held_pods[pattern] = {"reason": "ImagePullBackOff", "message": message}


def _first(patterns: Mapping[str, T], name: str) -> T | None:
    for pattern, value in patterns.items():
        if re.search(pattern, name):
            return value
    return None
