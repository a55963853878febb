"""Running sums and indices equal what counting anew would give, whatever comes in whatever order."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.kube.decode import PodSeen, decode_pod
from autoscaler.kube.kinds import decode_deployment, decode_replica_set
from autoscaler.model.workload import TargetRef
from autoscaler.observe.known import Known
from tests.kube.objects import deployment, pod, replica_set

OWNERS = [None, ("ReplicaSet", "web-a", "uid-web-a"), ("ReplicaSet", "web-b", "uid-web-b"), ("Job", "j", "uid-j")]


@st.composite
def pods(draw: st.DrawFn) -> PodSeen:
    body = pod(
        f"p{draw(st.integers(0, 5))}",
        owner=draw(st.sampled_from(OWNERS)),
        node=draw(st.sampled_from(["", "n1", "n2"])),
        requests={"cpu": f"{draw(st.integers(1, 4000))}m", "memory": str(draw(st.integers(1, 10**10)))},
        phase=draw(st.sampled_from(["Running", "Pending", "Succeeded"])),
    )
    body["metadata"]["resourceVersion"] = str(draw(st.integers(1, 50)))
    return decode_pod(json.dumps(body).encode())


changes = st.one_of(
    st.tuples(st.just("put"), pods()),
    st.tuples(st.just("drop"), st.integers(0, 5)),
    st.tuples(st.just("list"), st.lists(pods(), max_size=4, unique_by=lambda seen: seen.key)),
    st.tuples(st.just("set"), st.sampled_from(["web-a", "web-b"])),
    st.tuples(st.just("no set"), st.sampled_from(["web-a", "web-b"])),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(changes, max_size=30))
def test_incremental_equals_counted_anew(steps: list[tuple[str, Any]]) -> None:
    known = Known()
    known.targets.put(decode_deployment(json.dumps(deployment("web")).encode()))
    target = known.target("serving", TargetRef("apps/v1", "Deployment", "web"))
    assert target is not None
    before: tuple[int, Any] = (known.touched(target.uid), known.pods_of(target))
    for step, value in steps:
        match step:
            case "put":
                known.pods.put(value)
            case "drop":
                known.pods.drop(f"uid-p{value}")
            case "list":
                known.pods.replace(value)
            case "set":
                known.replica_sets.put(decode_replica_set(json.dumps(replica_set(value, "web")).encode()))
            case "no set":
                known.replica_sets.drop(f"uid-{value}")
        everything = list(known.pods.items.values())
        for node in ("n1", "n2"):
            here = [seen for seen in everything if seen.pod.node == node]
            assert known.commitments.cpu.get(node, 0) == sum(seen.cpu for seen in here)
            assert known.commitments.memory.get(node, 0) == sum(seen.memory for seen in here)
        owners = {f"uid-{name}" for name in ("web-a", "web-b") if f"uid-{name}" in known.replica_sets.items}
        found = known.pods_of(target)
        assert {p.uid for p in found} == {seen.key for seen in everything if seen.pod.owner_uid in owners}
        now = (known.touched(target.uid), found)
        assert now[0] != before[0] or now[1] == before[1], "the pods changed and nobody was told"
        before = now
