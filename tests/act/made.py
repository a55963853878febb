"""Made-up pods, workloads and actions for what acts: one container of 500m/1 CPU and 1Gi/2Gi unless a test says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autoscaler.act.lifecycle import follow
from autoscaler.act.ports import Outcome, Patch, Result
from autoscaler.act.record import Record, begin
from autoscaler.model.plan import Ledger, Plan, Resize, Revert, Want
from autoscaler.model.policy import Policy, PolicySpec
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.seen import Seen, Subject
from autoscaler.model.signal import Signals
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
MI = 2**20
NOW = 1_000_000.0
REF = WorkloadRef("serving", "resnet")
SIZE = Resources(500, 1000, 1 * GI, 2 * GI)
WHY = because(Code.DEMAND, demand=1500, wanted=2000, have=1000)


def requests(size: Resources) -> Resources:
    return Resources(cpu_request=size.cpu_request, memory_request=size.memory_request)


def container(name: str = "server", size: Resources = SIZE, **more: Any) -> Container:
    """A running container at rest: allocated and actual equal desired."""
    known = {"allocated": requests(size), "actual": size, "started_at": NOW - 3600} | more
    return Container(name, size, **known)


def pod(*containers: Container, name: str = "resnet-1", **more: Any) -> Pod:
    known = {"node": "node-1", "observed_generation": 1, "resource_version": "100"} | more
    return Pod("serving", name, known.pop("uid", f"uid-{name}"), containers or (container(),), **known)


def resized(
    one: Pod,
    *,
    desired: Resources | None = None,
    allocated: Resources | None = None,
    actual: Resources | None = None,
    of: str = "server",
    inside: dict[str, Any] | None = None,
    **more: Any,
) -> Pod:
    """The pod with other sizes of one container, other fields of that container (``inside``) and of itself."""
    sizes = {"desired": desired, "allocated": allocated, "actual": actual}
    known = {key: value for key, value in sizes.items() if value is not None} | (inside or {})
    changed = tuple(replace(c, **known) if c.name == of else c for c in one.containers)
    return replace(one, containers=changed, **more)


def resize(one: Pod, after: Resources, *, why: Reason = WHY, of: str = "server", ref: WorkloadRef = REF) -> Resize:
    found = one.container(of)
    return Resize(ref, one, of, found.desired if found else SIZE, after, why)


def revert(one: Pod, after: Resources, attempt: Attempt | None = None, *, of: str = "server") -> Revert:
    found = one.container(of)
    why = because(Code.REVERT, wanted="2", why="Deferred")
    return Revert(REF, one, of, found.desired if found else SIZE, after, why, attempt)


def policy(ref: WorkloadRef = REF, **spec: Any) -> Policy:
    known = {
        "scaleTargetRef": {"name": ref.name},
        "objective": {"latency": {"target": "500ms", "within": "99%"}},
    } | spec
    return Policy(ref=ref, spec=PolicySpec.model_validate(known), origin="test")


def view(*pods: Pod, ref: WorkloadRef = REF, **more: Any) -> WorkloadView:
    known = {
        "target": TargetRef("apps/v1", "Deployment", ref.name),
        "scale": ScaleView(len(pods), len(pods)),
        "signals": Signals(),
        "container": "server",
    } | more
    return WorkloadView(ref, pods=pods, **known)


def node(name: str = "node-1", cpu: int = 16_000, memory: int = 64 * GI, **more: Any) -> Node:
    return Node(name, cpu, memory, **more)


def ledger(*nodes: Node, **more: Any) -> Ledger:
    return Ledger(nodes={one.name: one for one in nodes or (node(),)}, **more)


def seen(*views: WorkloadView, at: float = NOW, policies: tuple[Policy, ...] = (), **more: Any) -> Seen:
    owned = policies or tuple(policy(one.ref) for one in views)
    known = {"ledger": ledger()} | more
    return Seen(at, tuple(Subject(one, its) for one, its in zip(views, owned, strict=True)), **known)


def plan(*actions: Any, ref: WorkloadRef = REF, urgent: float = 0.0) -> Plan:
    return Plan(ref, tuple(actions), want=Want(ref, 0, 0, {}, None, WHY, urgent=urgent))


def record(one: Pod, wanted: Resources, **more: Any) -> Record:
    """A resize just accepted as the pod's next generation, with a timeout of 60 s."""
    known = {
        "workload": REF,
        "container": "server",
        "now": NOW,
        "timeout": 60.0,
        "generation": one.generation + 1,
    } | more
    return begin(one, wanted=wanted, **known)


def watch(start: Record, *sights: tuple[float, Pod | None], node_ready: bool = True) -> Record:
    """Follow a record over sights, each (seconds after it was sent, the pod then)."""
    for after, sight in sights:
        start = follow(start, sight, NOW + after, node_ready=node_ready)
    return start


class Memory:
    """A sink that takes everything, or answers as a test says by pod or target name."""

    def __init__(self, answers: dict[str, Outcome] | None = None) -> None:
        self.patches: list[Patch] = []
        self.answers = answers or {}

    async def send(self, patch: Patch) -> Outcome:
        self.patches.append(patch)
        for name, outcome in self.answers.items():
            if f"/{name}" in patch.path:
                return outcome
        known = getattr(patch.action, "pod", None)
        body = {"metadata": {"generation": known.generation + 1}} if known is not None else {}
        return Outcome(Result.ACCEPTED, status=200, body=body)
