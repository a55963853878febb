"""Events as kubelets, scheduler and controllers write them."""

import random
from collections.abc import Callable
from typing import Any

from autoscaler.emulate.kinds import EVENT, Kind
from autoscaler.emulate.timeline import Timeline

Json = dict[str, Any]


class Recorder:
    """`create` stores a new object."""

    def __init__(self, timeline: Timeline, dice: random.Random, create: Callable[[Kind, Json], Json]) -> None:
        self.timeline = timeline
        self.dice = dice
        self._create = create

    def record(
        self, of: Kind, thing: Json, kind: str, reason: str, message: str, *, component: str, container: str = ""
    ) -> None:
        metadata = thing["metadata"]
        now = self.timeline.stamp()
        about = {
            "kind": of.kind,
            "namespace": metadata.get("namespace", ""),
            "name": metadata["name"],
            "uid": metadata["uid"],
            "apiVersion": of.api_version,
            "resourceVersion": metadata.get("resourceVersion", ""),
        }
        if container:
            about["fieldPath"] = f"spec.containers{{{container}}}"
        host = (thing.get("spec") or {}).get("nodeName", "")
        self._create(
            EVENT,
            {
                "metadata": {
                    "name": f"{metadata['name']}.{self.dice.getrandbits(64):016x}",
                    "namespace": metadata.get("namespace") or "default",
                },
                "involvedObject": about,
                "reason": reason,
                "message": message,
                "source": {"component": component} | ({"host": host} if host else {}),
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
                "type": kind,
                "eventTime": None,
                "reportingComponent": component,
                "reportingInstance": host,
            },
        )
