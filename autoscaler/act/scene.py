"""What is looked at right before a resize is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autoscaler.act.sizes import changes, overlay
from autoscaler.model.plan import Ledger, Resize, Revert
from autoscaler.model.signal import PodSignals
from autoscaler.model.workload import Container, Pod, Resources


@dataclass(frozen=True, slots=True)
class Scene:
    """What the rules look at: the action, the pod as last seen, and what limits it. ``now`` on the tick's clock.

    ``signals`` were taken at ``signals_at``; ``ledger`` counts what is committed on each node, this pod included.
    ``sent_*``: what was sent since the ledger was drawn, as requests on this node and by quota key in this namespace.
    ``minor``: the server's minor version, where known.
    """

    action: Resize | Revert
    pod: Pod
    ledger: Ledger
    now: float
    signals: PodSignals | None = None
    signals_at: float = 0.0
    sent_cpu: int = 0
    sent_memory: int = 0
    sent_quota: Mapping[str, int] = field(default_factory=dict)
    minor: int | None = None

    @property
    def container(self) -> Container:
        found = self.pod.container(self.action.container)
        assert found is not None  # `known` has run before any rule that asks
        return found

    @property
    def change(self) -> Resources:
        """The keys that would go over the wire."""
        return changes(self.action.before, self.action.after)

    @property
    def result(self) -> Resources:
        """The desired size that would come out, on what the pod has live."""
        return overlay(self.container.desired, self.change)
