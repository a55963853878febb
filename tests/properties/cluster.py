"""A simple cluster that obeys, defers or refuses: what is decided happens to it before the next tick."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.decide.decision import decide
from autoscaler.decide.history import History
from autoscaler.model.plan import (
    AnnotatePod,
    BudgetView,
    Evict,
    Ledger,
    LimitRangeView,
    Plan,
    QuotaView,
    Resize,
    Revert,
    Scale,
)
from autoscaler.model.policy import Policy
from autoscaler.model.seen import Seen, Subject
from autoscaler.model.signal import Signals
from autoscaler.model.workload import (
    Attempt,
    Container,
    Node,
    Pod,
    Qos,
    ResizeState,
    Resources,
    ScaleView,
    TargetRef,
    WorkloadRef,
    WorkloadView,
)

GI = 2**30
START = 1_000_000.0
KEYS = ("cpu_request", "cpu_limit", "memory_request", "memory_limit")


def qos_of(containers: Sequence[Container]) -> Qos:
    """The class as the API server computes it from the desired sizes."""
    sizes = [one.desired for one in containers]
    if all(getattr(size, key) is None for size in sizes for key in KEYS):
        return Qos.BEST_EFFORT
    whole = all(
        size.cpu_request is not None and size.cpu_request == size.cpu_limit
        and size.memory_request is not None and size.memory_request == size.memory_limit
        for size in sizes
    )  # fmt: skip
    return Qos.GUARANTEED if whole else Qos.BURSTABLE


def merged(old: Resources, changes: Resources) -> Resources:
    return replace(old, **{key: value for key in KEYS if (value := getattr(changes, key)) is not None})


def requests(pod: Pod, key: str) -> int:
    """What a node reserves for the pod: the largest of the three sizes; an infeasible wish counts nowhere."""
    total = 0
    for one in pod.containers:
        sizes = [one.allocated, one.actual, None if pod.resize_pending == "Infeasible" else one.desired]
        total += max((getattr(size, key) or 0 for size in sizes if size is not None), default=0)
    return total


@dataclass(repr=False)
class Held:
    """One workload of the cluster."""

    policy: Policy
    pods: list[Pod]
    template: Resources
    replicas: int
    signals: Signals = field(default_factory=Signals)
    pdb: int | None = None
    rollout: bool = False
    born: int = 0

    @property
    def ref(self) -> WorkloadRef:
        return self.policy.ref

    def view(self) -> WorkloadView:
        return WorkloadView(
            ref=self.ref, target=TargetRef("apps/v1", "Deployment", self.ref.name),
            scale=ScaleView(self.replicas, len(self.pods), "7", rollout=self.rollout, template_hash="t1"),
            pods=tuple(self.pods), signals=self.signals, container="server", template=self.template,
            pdb_min_available=self.pdb, pdb_floor=self.pdb,
        )  # fmt: skip


@dataclass(repr=False)
class Cluster:
    """``luck``: what becomes of a resize, drawn in turn from a seeded stream."""

    held: list[Held]
    nodes: dict[str, Node]
    others_cpu: dict[str, int] = field(default_factory=dict)
    others_memory: dict[str, int] = field(default_factory=dict)
    quota: dict[str, int] = field(default_factory=dict)
    limits: LimitRangeView | None = None
    budget: BudgetView | None = None
    fleet_cpu_left: int | None = None
    luck: random.Random = field(default_factory=lambda: random.Random(1))
    honest: bool = True
    """Every resize is granted at once."""
    start_up: float = 20.0
    now: float = START
    every: float = 5.0
    brakes_open: bool = False
    past: dict[WorkloadRef, History] = field(default_factory=dict)
    plans: dict[WorkloadRef, Plan] = field(default_factory=dict)

    def ledger(self) -> Ledger:
        cpu, memory = dict(self.others_cpu), dict(self.others_memory)
        used = dict.fromkeys(self.quota, 0)
        for pod in (pod for one in self.held for pod in one.pods):
            if pod.node:
                cpu[pod.node] = cpu.get(pod.node, 0) + requests(pod, "cpu_request")
                memory[pod.node] = memory.get(pod.node, 0) + requests(pod, "memory_request")
            for key in used:
                used[key] += sum(getattr(c.desired, QUOTA_KEYS[key]) or 0 for c in pod.containers)
        space = self.held[0].ref.namespace
        return Ledger(
            nodes=self.nodes, committed_cpu=cpu, committed_memory=memory,
            quotas=(QuotaView(space, "q", self.quota, used),) if self.quota else (),
            limit_ranges={space: self.limits} if self.limits else {},
            budgets=(self.budget,) if self.budget else (), fleet_cpu_left=self.fleet_cpu_left,
        )  # fmt: skip

    def seen(self) -> Seen:
        subjects = tuple(Subject(one.view(), one.policy) for one in self.held)
        return Seen(self.now, subjects, self.ledger(), brakes_open=self.brakes_open)

    def tick(self) -> tuple[Seen, dict[WorkloadRef, Plan]]:
        """Decide, and let what was decided happen; returns what was seen before it happened, and the plans."""
        seen = self.seen()
        self.plans, self.past = decide(seen, self.past)
        self.now += self.every
        for one in self.held:
            self._progress(one)
            for action in self.plans[one.ref].actions:
                match action:
                    case Resize() | Revert():
                        self._resize(one, action)
                    case Scale():
                        one.replicas = action.after
                    case AnnotatePod():
                        self._change(one, action.pod.uid, annotations=_annotated(action.pod, action.annotations))
                    case Evict():
                        one.pods = [pod for pod in one.pods if pod.uid != action.pod.uid]
            self._replicate(one)
        return seen, self.plans

    def _change(self, one: Held, uid: str, **fields: object) -> None:
        one.pods = [replace(pod, **fields) if pod.uid == uid else pod for pod in one.pods]  # type: ignore[arg-type]

    def _progress(self, one: Held) -> None:
        for pod in one.pods:
            if not pod.ready and pod.node and self.now - pod.created_at >= self.start_up:
                ready = tuple(replace(c, running=True, started_at=pod.created_at) for c in pod.containers)
                self._change(one, pod.uid, ready=True, ready_at=self.now, containers=ready)
            elif pod.attempt is not None and pod.attempt.state is ResizeState.APPLYING:
                done = tuple(replace(c, actual=c.desired, allocated=c.desired) for c in pod.containers)
                self._change(one, pod.uid, containers=done, attempt=None)

    def _resize(self, one: Held, action: Resize | Revert) -> None:
        pod = next((pod for pod in one.pods if pod.uid == action.pod.uid), None)
        if pod is None:
            return
        old = pod.container(action.container)
        assert old is not None
        sizes = merged(old.desired, action.after)
        fate = "done" if self.honest or isinstance(action, Revert) else self.luck.choice(FATES)
        grows = (sizes.cpu or 0) > (old.desired.cpu or 0)
        if fate in ("deferred", "infeasible", "refused") and not grows:
            fate = "applying"
        pending, attempt = "", None
        after = replace(old, desired=sizes, allocated=sizes, actual=sizes)
        match fate:
            case "applying":
                after = replace(old, desired=sizes, allocated=sizes, actual=old.actual)
                attempt = Attempt(ResizeState.APPLYING, action.after, self.now, before=old.desired, granted=True)
            case "deferred" | "infeasible":
                pending = fate.capitalize()
                after = replace(old, desired=sizes)
                state = ResizeState.DEFERRED if fate == "deferred" else ResizeState.INFEASIBLE
                attempt = Attempt(state, action.after, self.now, "NodeCapacity", "no room", before=old.desired)
            case "refused":
                after = old
                attempt = Attempt(
                    ResizeState.REFUSED, action.after, self.now, "Quota", "exceeded quota", old.desired, until=self.now
                )
        containers = tuple(after if c.name == old.name else c for c in pod.containers)
        self._change(one, pod.uid, containers=containers, attempt=attempt, resize_pending=pending)

    def _replicate(self, one: Held) -> None:
        while len(one.pods) > one.replicas:
            one.pods.remove(min(one.pods, key=lambda pod: (pod.ready, _cost(pod), pod.name)))
        while len(one.pods) < one.replicas:
            one.born += 1
            name = f"{one.ref.name}-new{one.born}"
            server = Container("server", one.template, one.template, one.template, running=False)
            free = {
                node.name: node.cpu - self.ledger().committed_cpu.get(node.name, 0)
                for node in self.nodes.values()
                if node.ready
            }
            best = max(free, key=lambda node: (free[node], node), default="")
            fits = best and free[best] >= (one.template.cpu_request or 0)
            pod = Pod(
                one.ref.namespace, name, f"uid-{name}", (server,), node=best if fits else "", ready=False,
                created_at=self.now, qos=qos_of((server,)), phase="Pending", unschedulable=not fits, template_hash="t1",
            )  # fmt: skip
            one.pods.append(replace(pod, phase="Running" if fits else "Pending"))


QUOTA_KEYS = {
    "requests.cpu": "cpu_request", "limits.cpu": "cpu_limit",
    "requests.memory": "memory_request", "limits.memory": "memory_limit",
}  # fmt: skip
FATES = ("done", "done", "done", "applying", "applying", "deferred", "infeasible", "refused")


def _annotated(pod: Pod, changes: Mapping[str, str | None]) -> dict[str, str]:
    kept = {**pod.annotations, **changes}
    return {key: value for key, value in kept.items() if value is not None}


def _cost(pod: Pod) -> int:
    return int(pod.annotations.get("controller.kubernetes.io/pod-deletion-cost", "0"))


def capacity(one: Held) -> int:
    """Millicores that were asked for in all: those of the pods there are, and of the replicas to come."""
    sizes = [pod.containers[0].desired.cpu or 0 for pod in one.pods]
    return sum(sizes) + max(0, one.replicas - len(sizes)) * (one.template.cpu or 0)
