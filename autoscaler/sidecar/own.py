"""The cluster narrowed to one pod, for the decisions of its own sidecar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autoscaler.loop import Observer
from autoscaler.model.policy import Budget, Policy
from autoscaler.model.seen import Subject
from autoscaler.model.workload import Attempt, WorkloadView
from autoscaler.observe.cluster import ClusterSeen


class OwnPod:
    """An observer that shows of each workload only the pod called ``name``, as if it were alone."""

    def __init__(self, observer: Observer, name: str) -> None:
        self._observer, self._name = observer, name

    def view(
        self, policies: Sequence[Policy], attempts: Mapping[str, Attempt], budgets: Iterable[Budget] = ()
    ) -> ClusterSeen:
        seen = self._observer.view(policies, attempts, budgets)
        return ClusterSeen(tuple(Subject(narrowed(s.view, self._name), s.policy) for s in seen.subjects), seen.ledger)

    def learn(self, body: Mapping[str, Any]) -> None:
        self._observer.learn(body)


def narrowed(view: WorkloadView, name: str) -> WorkloadView:
    """One pod of a workload. A pod that isn't among the target's is a hold, not a crash: owners show late."""
    pods = tuple(pod for pod in view.pods if pod.name == name)
    hold = view.hold
    if not hold and not pods:
        hold = f"pod {name} is not (yet) one of {view.target}'s: correct scaleTargetRef if this stays"
    scale = view.scale and replace(view.scale, desired=1, current=1)
    return replace(view, pods=pods, scale=scale, hold=hold, pdb_min_available=None, zones=1)
