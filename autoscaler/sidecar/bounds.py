"""Between which sizes each pod may move: what the leader among the sidecars knows and the others don't.

They lie in a ConfigMap as one line of text for each pod, ``MIN..MAX`` in CPU. A pod that isn't named there, or all of
them while there is no leader yet, move between the bounds of the policy.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from autoscaler.kube.client import KubeClient
from autoscaler.kube.configmap import WatchedConfigMap, merge
from autoscaler.kube.errors import KubeError
from autoscaler.model import quantity
from autoscaler.model.plan import Plan, Scale
from autoscaler.model.policy import Policy
from autoscaler.model.reason import Code
from autoscaler.model.workload import Pod

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Bound:
    """CPU in millicores; ``high`` None: as far as the kubelet allows."""

    low: int
    high: int | None = None

    def __str__(self) -> str:
        return f"{quantity.format_cpu(self.low)}..{'' if self.high is None else quantity.format_cpu(self.high)}"

    @classmethod
    def parse(cls, text: str) -> Bound:
        """Raises ValueError for what ``str`` didn't write."""
        low, dots, high = text.partition("..")
        if not dots:
            raise ValueError(f"{text!r} is no bound (written MIN..MAX)")
        bound = cls(quantity.parse_cpu(low), quantity.parse_cpu(high) if high else None)
        if bound.high is not None and bound.low > bound.high:
            raise ValueError(f"{text!r}: min is above max")
        return bound


Bounds = Mapping[str, Bound]
"""By pod name."""


def bounds_of(plan: Plan, policy: Policy, pods: Iterable[Pod]) -> Bounds:
    """What a decision on all siblings means for each of them.

    ===============================  ======================================================
    short of a quota or a budget     no more than was granted: the siblings share what is there
    fewer pods are wanted            no less than was granted: who stays must carry the rest
    else                             the policy's own bounds
    ===============================  ======================================================
    """
    cpu, grant, want = policy.spec.vertical.cpu, plan.grant, plan.want
    if grant is None or want is None:
        return {}
    fewer = any(isinstance(action, Scale) and action.after < action.before for action in plan.actions)
    fewer = fewer or (want.replicas is not None and 0 < want.replicas < len(grant.cpu))
    fewer = fewer or any(hold.code is Code.DRAINING for hold in plan.holds)
    found = {}
    for pod in pods:
        size = grant.cpu.get(pod.uid)
        if size is None:
            continue
        low = max(cpu.min, size) if fewer else cpu.min
        high = size if grant.short > 0 else cpu.max
        found[pod.name] = Bound(low, None if high is None else max(low, high))
    return found


def within(policy: Policy, bound: Bound | None) -> Policy:
    """The policy of one sidecar: the same wishes for its own pod alone, within the bound."""
    spec = policy.spec
    cpu = spec.vertical.cpu
    if bound is not None:
        high = cpu.max if bound.high is None else max(cpu.min, bound.high)
        high = high if cpu.max is None or high is None else min(cpu.max, high)
        low = max(cpu.min, bound.low)
        low = low if high is None else min(low, high)
        cpu = cpu.model_copy(update={"min": low, "max": high})
    vertical = spec.vertical.model_copy(update={"cpu": cpu})
    horizontal = spec.horizontal.model_copy(update={"enabled": False})
    return policy.model_copy(
        update={"spec": spec.model_copy(update={"vertical": vertical, "horizontal": horizontal, "budget": None})}
    )


class PublishedBounds:
    """The ConfigMap ``namespace/name``: watched by all, written by the leader."""

    def __init__(self, client: KubeClient, namespace: str, name: str) -> None:
        self._client, self._namespace, self._name = client, namespace, name
        self._published = WatchedConfigMap(client, namespace, name, "bounds")
        self._unreadable = ""
        self.trouble = ""

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._published.run()

    def now(self) -> Bounds:
        """As last published; a line that can't be read is left out and told once."""
        found: dict[str, Bound] = {}
        for pod, text in self._published.data.items():
            try:
                found[pod] = Bound.parse(text)
            except ValueError as wrong:
                if self._unreadable != str(wrong):
                    _LOG.warning("a published bound can't be read", extra={"fields": {"pod": pod, "why": str(wrong)}})
                self._unreadable = str(wrong)
        return found

    async def publish(self, bounds: Bounds, *, deadline: float = 3.0) -> None:
        """Write what differs from what is there. Never raises for the server's sake: it is tried again next time."""
        there = self._published.data
        wanted = {pod: str(bound) for pod, bound in bounds.items()}
        if there == wanted:
            return
        change: dict[str, str | None] = {pod: None for pod in there if pod not in wanted}
        change |= {pod: text for pod, text in wanted.items() if there.get(pod) != text}
        try:
            answer = await merge(self._client, self._namespace, self._name, change, missing=wanted, deadline=deadline)
            answer.expect(f"publish the bounds in {self._namespace}/{self._name}")
        except KubeError as error:
            if self.trouble != str(error):
                _LOG.warning("the bounds are not published", extra={"fields": {"why": str(error)}})
            self.trouble = str(error)
            return
        self.trouble = ""
        self._published.put(answer)
