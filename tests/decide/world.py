"""A small made-up world for decisions: views with the signals and pods a test names, and a clock it passes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autoscaler.decide.decision import decide
from autoscaler.decide.history import History
from autoscaler.model.plan import Ledger, Plan, Resize, Revert, Scale
from autoscaler.model.policy import Policy, PolicySpec
from autoscaler.model.seen import Seen, Subject
from autoscaler.model.signal import Absent, Cause, Measured, PodSignals, Reading, Signals
from autoscaler.model.workload import (
    Attempt,
    Container,
    Node,
    Pod,
    Resources,
    ScaleView,
    TargetRef,
    WorkloadRef,
    WorkloadView,
)

GI = 2**30
START = 1_000_000.0
REF = WorkloadRef("serving", "resnet")


def policy(name: str = "resnet", **spec: Any) -> Policy:
    base: dict[str, Any] = {
        "scaleTargetRef": {"name": name},
        "objective": {"latency": {"target": "720ms", "within": "99.5%"}},
        "vertical": {"cpu": {"min": "100m", "max": "8"}},
    }
    return Policy(ref=WorkloadRef("serving", name), spec=PolicySpec.model_validate({**base, **spec}))


def pod(
    name: str = "a",
    cpu: int = 1000,
    *,
    request: int | None = None,
    memory: int = 2 * GI,
    node: str = "n1",
    ready: bool = True,
    created_at: float = START - 600,
    attempt: Attempt | None = None,
    **more: Any,
) -> Pod:
    sizes = Resources(cpu if request is None else request, cpu, memory // 2, memory)
    container = Container("server", sizes, sizes, sizes, running=ready, started_at=created_at)
    fields: dict[str, Any] = {
        "namespace": "serving", "name": name, "uid": f"uid-{name}", "containers": (container,), "node": node,
        "ready": ready, "created_at": created_at, "ready_at": created_at + 30 if ready else None, "attempt": attempt,
        "template_hash": "t1",
    }  # fmt: skip
    return Pod(**{**fields, **more})


def signals(
    rate: float = 10.0,
    *,
    work: float = 0.18,
    in_flight: float | Reading = 2.0,
    misses: float | Reading = 0.0,
    used: float | Reading | None = None,
    throttled: float | Reading = 0.0,
    pods: Mapping[str, PodSignals] | None = None,
    **more: Any,
) -> Signals:
    def reading(value: float | Reading, **extra: float) -> Reading:
        return value if isinstance(value, Measured | Absent) else Measured(value, **extra)

    fields: dict[str, Any] = {
        "requests": Measured(rate, window_s=5.0),
        "in_flight": reading(in_flight),
        "misses": reading(misses, window_s=5.0, weight=rate * 5.0),
        "cpu": reading(rate * work if used is None else used, age_s=1.0, window_s=15.0),
        "throttled": reading(throttled, age_s=1.0, window_s=15.0),
        "pods": pods or {},
    }
    return Signals(**{**fields, **more})


def view(
    *pods: Pod, seen: Signals | None = None, name: str = "resnet", replicas: int | None = None, **more: Any
) -> WorkloadView:
    count = len(pods) if replicas is None else replicas
    fields: dict[str, Any] = {
        "ref": WorkloadRef("serving", name),
        "target": TargetRef("apps/v1", "Deployment", name),
        "scale": ScaleView(count, count, "7", template_hash="t1"),
        "pods": pods,
        "signals": seen if seen is not None else signals(),
        "container": "server",
        "template": Resources(1000, 1000, GI, 2 * GI),
    }
    return WorkloadView(**{**fields, **more})


def ledger(cpu: int = 32_000, committed: int = 1000, nodes: int = 1, **more: Any) -> Ledger:
    names = [f"n{i + 1}" for i in range(nodes)]
    fields: dict[str, Any] = {
        "nodes": {name: Node(name, cpu, 64 * GI) for name in names},
        "committed_cpu": dict.fromkeys(names, committed),
        "committed_memory": dict.fromkeys(names, 4 * GI),
    }
    return Ledger(**{**fields, **more})


class Clock:
    """One workload over many ticks: what is decided takes effect before the next tick."""

    def __init__(self, spec: Policy | None = None, *pods: Pod, room: Ledger | None = None, tick: float = 5.0) -> None:
        self.policy = spec or policy()
        self.pods = list(pods or (pod(),))
        self.room = room or ledger()
        self.now = START
        self.every = tick
        self.history: dict[WorkloadRef, History] = {}
        self.plan = Plan(REF)
        self.changes: list[tuple[float, Plan]] = []
        self.replicas = len(self.pods)

    def tick(self, seen: Signals, **more: Any) -> Plan:
        shown = view(*self.pods, seen=seen, replicas=self.replicas, **more)
        at_once = Seen(self.now, (Subject(shown, self.policy),), self.room)
        plans, self.history = decide(at_once, self.history)
        self.plan = plans[self.policy.ref]
        if self.plan.actions:
            self.changes.append((self.now - START, self.plan))
        for action in self.plan.actions:
            if isinstance(action, Resize | Revert):
                self._resize(action)
            elif isinstance(action, Scale):
                self.replicas = action.after
        self.now += self.every
        return self.plan

    def run(self, seconds: float, seen: Signals, **more: Any) -> Plan:
        for _ in range(round(seconds / self.every)):
            self.tick(seen, **more)
        return self.plan

    def _resize(self, action: Resize | Revert) -> None:
        changed = {
            key: value
            for key in ("cpu_request", "cpu_limit", "memory_request", "memory_limit")
            if (value := getattr(action.after, key)) is not None
        }
        for place, one in enumerate(self.pods):
            if one.uid == action.pod.uid:
                old = one.containers[0]
                sizes = replace(old.desired, **changed)
                self.pods[place] = replace(
                    one, containers=(replace(old, desired=sizes, allocated=sizes, actual=sizes),), attempt=None
                )

    @property
    def cpu(self) -> int:
        """Millicores of all pods together."""
        return sum(one.containers[0].desired.cpu or 0 for one in self.pods)


def absent(cause: Cause = Cause.SOURCE_DOWN) -> Absent:
    return Absent(cause, "test")
