"""The scheduler: pods without a node get one, or a condition that says why not."""

from typing import Any

from autoscaler.emulate.faults import Faults
from autoscaler.emulate.kinds import NODE, POD
from autoscaler.emulate.recorder import Recorder
from autoscaler.emulate.scheduling import Room
from autoscaler.emulate.store import Change, Store, Stored
from autoscaler.emulate.timeline import Deed, Timeline
from autoscaler.emulate.versions import Version

Json = dict[str, Any]
LATENCY = 0.01


class Scheduler:
    """Told of every pod's change; keeps the room of each node."""

    def __init__(self, store: Store, timeline: Timeline, version: Version, faults: Faults, recorder: Recorder) -> None:
        self.store = store
        self.timeline = timeline
        self.version = version
        self.faults = faults
        self.recorder = recorder
        self.room = Room()
        self._unscheduled: set[tuple[str, str]] = set()
        self._scheduling: Deed | None = None

    def pod_changed(self, change: Change) -> None:
        """Before anybody else looks: whatever went or shrank is room again."""
        stored = change.stored
        gone = change.type == "DELETED"
        self.room.note(stored.body, gone=gone)
        if gone:
            self._unscheduled.discard((stored.namespace, stored.name))
        elif not stored.body["spec"].get("nodeName"):
            self._unscheduled.add((stored.namespace, stored.name))
        self.look_again()

    def look_again(self) -> None:
        """A node changed, or a fault is over."""
        if self._unscheduled and (self._scheduling is None or self._scheduling.act is None):
            self._scheduling = self.timeline.after(LATENCY, self._schedule)

    def _schedule(self) -> None:
        self._scheduling = None
        nodes = [stored.body for stored in self.store.all(NODE.storage)]
        waiting = []
        for key in self._unscheduled:
            stored = self.store.get(POD.storage, *key)
            if stored is not None and not stored.body["spec"].get("nodeName"):
                waiting.append(stored)
        waiting.sort(key=lambda one: (-int(one.body["spec"].get("priority") or 0), one.revision))
        for stored in waiting:
            message = self.faults.unschedulable(stored.body)
            node: str | None = None
            if message is None:
                node, message = self.room.place(stored.body, nodes)
            if node is None:
                self._say_unschedulable(stored, message)
            else:
                self._bind(stored, node)

    def _bind(self, stored: Stored, node: str) -> None:
        self._unscheduled.discard((stored.namespace, stored.name))
        body = stored.thaw()
        body["spec"]["nodeName"] = node
        body["status"]["conditions"] = [self._scheduled_condition(body, True, "", "")]
        put = self.store.put(POD.storage, body)
        message = f"Successfully assigned {stored.namespace}/{stored.name} to {node}"
        self.recorder.record(POD, put.body, "Normal", "Scheduled", message, component="default-scheduler")

    def _say_unschedulable(self, stored: Stored, message: str) -> None:
        body = stored.thaw()
        conditions = body["status"].get("conditions") or []
        if conditions and conditions[0].get("message") == message:
            return
        body["status"]["conditions"] = [self._scheduled_condition(body, False, "Unschedulable", message)]
        put = self.store.put(POD.storage, body)
        self.recorder.record(POD, put.body, "Warning", "FailedScheduling", message, component="default-scheduler")

    def _scheduled_condition(self, pod: Json, true: bool, reason: str, message: str) -> Json:
        one: Json = {"type": "PodScheduled"}
        if self.version.observed_generation:
            one["observedGeneration"] = pod["metadata"].get("generation", 1)
        one |= {"status": "True" if true else "False", "lastProbeTime": None}
        one["lastTransitionTime"] = self.timeline.stamp()
        return one | ({"reason": reason, "message": message} if reason else {})
