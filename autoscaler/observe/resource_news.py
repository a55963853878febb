"""Policies that are custom resources: what became of each, as one line in the log when it changes."""

from __future__ import annotations

import logging
from typing import Any, Final

from autoscaler.observe.policy_files import Policies
from autoscaler.observe.resources import CustomResources, Obeyed

_LOG: Final = logging.getLogger(__name__)


class ResourceNews:
    """Remembers what was told of each: whether it is obeyed, and its generation."""

    def __init__(self) -> None:
        self._seen: Obeyed | None = None
        self._told: dict[str, tuple[str, str, int]] = {}

    def tell(self, resources: CustomResources, files: Policies) -> None:
        """Call at every tick; cheap while nothing changes. The first sight is one line and those that are refused."""
        mixed = resources.mixed(files)
        if mixed is self._seen or not resources.synced:
            return
        first, self._seen = self._seen is None, mixed
        now = {one.uid: (one.label, mixed.refused.get(one.uid, ""), one.generation) for one in resources.seen()}
        if first and now:
            _say(
                logging.INFO,
                "custom resources are read",
                obeyed=len(now) - len(mixed.refused),
                refused=len(mixed.refused),
            )
        for uid, (label, why, generation) in now.items():
            before = self._told.get(uid)
            if why:
                if before is None or before[1] != why:
                    _say(logging.WARNING, "a custom resource is not obeyed", resource=label, why=why)
            elif before is not None and before[1]:
                _say(logging.INFO, "a custom resource is obeyed again", resource=label)
            elif before is not None and before[2] != generation:
                _say(logging.INFO, "a custom resource has changed", resource=label, generation=generation)
            elif before is None and not first:
                _say(logging.INFO, "a custom resource is new", resource=label)
        for uid, (label, _, _) in self._told.items():
            if uid not in now:
                _say(logging.INFO, "a custom resource is gone", resource=label)
        self._told = now


def _say(level: int, message: str, **fields: Any) -> None:
    _LOG.log(level, message, extra={"fields": fields})
