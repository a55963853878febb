"""Worlds as hypothesis draws them: policies, pods, rooms and signals of every kind."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

from autoscaler.model.plan import BudgetView, LimitRangeView
from autoscaler.model.policy import Policy, PolicySpec
from autoscaler.model.signal import Absent, Cause, Counts, Measured, PodSignals, Reading, Signals
from autoscaler.model.workload import Container, Node, Pod, Resources, WorkloadRef
from tests.properties.cluster import GI, START, Cluster, Held, qos_of

SPACE = "serving"
MI = 2**20
causes = st.sampled_from(Cause)


def readings(
    values: st.SearchStrategy[float], *, weight: float = 0.0, window: float = 0.0
) -> st.SearchStrategy[Reading]:
    measured = st.builds(
        Measured, values, age_s=st.sampled_from([0.0, 1.0, 12.0, 29.0, 31.0, 300.0]), window_s=st.just(window),
        coverage=st.sampled_from([1.0, 1.0, 1.0, 0.5]), weight=st.just(weight),
    )  # fmt: skip
    fresh = st.builds(Measured, values, age_s=st.just(1.0), window_s=st.just(window), weight=st.just(weight))
    return st.one_of(fresh, fresh, measured, st.builds(Absent, causes, st.just("here")))


rates = st.sampled_from([0.0, 0.01, 1.0, 7.0, 30.0, 200.0, 5000.0])
counts = st.sampled_from([0.0, 1.0, 3.0, 20.0, 400.0, 1e5])
cores = st.sampled_from([0.0, 0.001, 0.2, 1.0, 2.5, 8.0, 60.0])
shares = st.sampled_from([0.0, 0.001, 0.02, 0.3, 1.0])
amounts = st.sampled_from([0.0, 1e6, 0.3 * GI, 0.9 * GI, 1.0 * GI, 3.0 * GI])


@st.composite
def signals(draw: st.DrawFn, uids: tuple[str, ...] = ()) -> Signals:
    """Any signals at all: each one measured, stale, of some pods only, or absent for any cause."""
    pods = {}
    for uid in uids:
        if draw(st.booleans()):
            pods[uid] = PodSignals(
                cpu=draw(readings(cores, window=15.0)), working_set=draw(readings(amounts)),
                memory_usage=draw(readings(amounts)), requests=draw(readings(rates, window=5.0)),
            )  # fmt: skip
    return Signals(
        requests=draw(readings(rates, window=5.0)), counts=draw(st.sampled_from(Counts)),
        misses=draw(readings(shares, weight=50.0, window=5.0)), in_flight=draw(readings(counts)),
        failures=draw(readings(rates)), cpu=draw(readings(cores, window=15.0)), throttled=draw(readings(shares)),
        pressure=draw(readings(shares)), working_set=draw(readings(amounts)),
        custom={"queue": draw(readings(counts))} if draw(st.booleans()) else {}, pods=pods,
    )  # fmt: skip


@st.composite
def policies(draw: st.DrawFn, name: str) -> Policy:
    low = draw(st.sampled_from([100, 250, 700]))
    high = draw(st.sampled_from([None, low, 800, 2000, 7900]))
    objective: dict[str, Any] = {}
    kind = draw(st.sampled_from(["latency", "latency", "latency", "cpu", "both", "metric"]))
    if kind in ("latency", "both"):
        objective["latency"] = {
            "target": draw(st.sampled_from(["20ms", "720ms", "5s"])), "within": draw(st.sampled_from([0.9, 0.995]))
        }  # fmt: skip
    if kind in ("cpu", "both"):
        objective["cpu"] = {"targetUtilization": "70%"}
    if kind == "metric":
        objective["metrics"] = [{"name": "queue", "query": "q", "target": {"type": "Value", "value": 10}}]
    sides = ["RequestsAndLimits"] * 3 + ["RequestsOnly", "LimitsOnly"]
    cpu: dict[str, Any] = {
        "min": f"{low}m", "step": f"{draw(st.sampled_from([10, 100, 300]))}m", "controls": draw(st.sampled_from(sides))
    }  # fmt: skip
    if high is not None:
        cpu["max"] = f"{max(low, high)}m"
    memory: dict[str, Any] = draw(
        st.sampled_from([{}, {"max": "3Gi"}, {"min": "512Mi", "max": "3Gi", "shrink": "WhenSafe"}])
    )
    least = draw(st.sampled_from([None, 1, 2]))
    most = draw(st.sampled_from([None, 2, 4, 9]))
    horizontal = {key: value for key, value in (("minReplicas", least), ("maxReplicas", most)) if value is not None}
    if draw(st.booleans()):
        horizontal["behavior"] = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    window = draw(st.sampled_from([0, 0, 60]))
    spec = {
        "scaleTargetRef": {"name": name}, "objective": objective, "priority": draw(st.sampled_from([0, 0, 5])),
        "vertical": {"cpu": cpu, "memory": memory, "behavior": {"shrink": {"stabilizationWindowSeconds": window}}},
        "horizontal": horizontal, "mode": draw(st.sampled_from(["Auto"] * 9 + ["DryRun"])),
    }  # fmt: skip
    if draw(st.booleans()):
        spec["budget"] = "shared"
    return Policy(ref=WorkloadRef(SPACE, name), spec=PolicySpec.model_validate(spec))


@st.composite
def sizes(draw: st.DrawFn) -> Resources:
    limit = draw(st.sampled_from([100, 300, 500, 1000, 2000, 3333]))
    memory = draw(st.sampled_from([512 * MI, GI, 2 * GI]))
    match draw(st.sampled_from(["guaranteed", "burstable", "burstable", "no limit", "equal cpu", "only limit"])):
        case "guaranteed":
            return Resources(limit, limit, memory, memory)
        case "burstable":
            return Resources(max(1, limit // 2), limit, memory // 2, memory)
        case "no limit":
            return Resources(limit, None, memory, None)
        case "equal cpu":
            return Resources(limit, limit, memory // 2, memory)
    return Resources(limit, limit, None, memory)


@st.composite
def workloads(draw: st.DrawFn, name: str, nodes: tuple[str, ...]) -> Held:
    template = draw(sizes())
    pods = []
    for place in range(draw(st.integers(1, 3))):
        size = template if draw(st.booleans()) else draw(sizes())
        if {key for key in ("cpu_request", "cpu_limit") if getattr(size, key) is None} != {
            key for key in ("cpu_request", "cpu_limit") if getattr(template, key) is None
        }:
            size = template
        server = Container("server", size, size, size, started_at=START - 600)
        containers = (server,)
        if draw(st.sampled_from([False, False, True])):
            containers = (server, Container("helper", *[Resources(50, 50, 64 * MI, 64 * MI)] * 3))
        ready = draw(st.sampled_from([True, True, True, False]))
        pods.append(
            Pod(SPACE, f"{name}-{place}", f"uid-{name}-{place}", containers, node=draw(st.sampled_from(nodes)),
                qos=qos_of(containers), ready=ready, created_at=START - 600, ready_at=START - 570 if ready else None,
                template_hash="t1", static=draw(st.sampled_from([False] * 12 + [True])))
        )  # fmt: skip
    held = Held(draw(policies(name)), pods, template, len(pods))
    held.pdb = draw(st.sampled_from([None, None, 1]))
    held.rollout = draw(st.sampled_from([False] * 12 + [True]))
    return held


@st.composite
def clusters(draw: st.DrawFn, most: int = 3) -> Cluster:
    """One to three workloads of up to three pods on one or two nodes, with room or without."""
    names = tuple(f"n{place}" for place in range(draw(st.integers(1, 2))))
    nodes = {name: Node(name, draw(st.sampled_from([2000, 4000, 16000])), 16 * GI) for name in names}
    held = [draw(workloads(f"w{place}", names)) for place in range(draw(st.integers(1, most)))]
    made = Cluster(held, nodes, luck=random.Random(draw(st.integers(0, 99))), honest=draw(st.booleans()))
    made.others_cpu = {name: draw(st.sampled_from([0, 500, 1500])) for name in names}
    if draw(st.sampled_from([False, True])):
        made.quota = {"requests.cpu": draw(st.sampled_from([1000, 4000, 9000])),
                      "limits.cpu": draw(st.sampled_from([3000, 9000])), "limits.memory": 8 * GI}  # fmt: skip
    if draw(st.sampled_from([False, False, True])):
        made.limits = LimitRangeView(cpu_min=draw(st.sampled_from([None, 200])), cpu_max=1500)
    if draw(st.booleans()):
        members = tuple(one.ref for one in held if one.policy.spec.budget)
        made.budget = BudgetView(
            WorkloadRef(SPACE, "shared"), draw(st.sampled_from([1000, 4000, 20000])), None, members
        )
    made.fleet_cpu_left = draw(st.sampled_from([None, None, 300, 5000]))
    return made


@st.composite
def courses(draw: st.DrawFn, cluster: Cluster, ticks: int) -> list[list[Signals]]:
    """Signals for each tick and workload."""
    return [
        [draw(signals(tuple(pod.uid for pod in one.pods))) for one in cluster.held]
        for _ in range(draw(st.integers(1, ticks)))
    ]
