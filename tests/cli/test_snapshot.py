# ruff: noqa: E501
"""A snapshot holds a tick exactly, and nothing that is nobody's business."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler import snapshot
from autoscaler.decide.decision import decide
from autoscaler.decide.history import Cost, History, Replicas
from autoscaler.kube.decode import decode_pod
from autoscaler.model.plan import BudgetView, Ledger, LimitRangeView, QuotaView
from autoscaler.model.policy import Policy, PolicySpec
from autoscaler.model.seen import Seen, Subject
from autoscaler.model.signal import Absent, Cause, Counts, Measured, PodSignals, Signals
from autoscaler.model.workload import (
    Attempt,
    Container,
    Node,
    Pod,
    ResizeState,
    Resources,
    ScaleView,
    TargetRef,
    WorkloadRef,
    WorkloadView,
)
from autoscaler.snapshot import Snapshot, SnapshotError

REF = WorkloadRef("serving", "resnet")
numbers = st.floats(allow_nan=False, min_value=0, max_value=1e12)
readings = st.one_of(
    st.builds(Measured, numbers, age_s=numbers, weight=numbers),
    st.builds(Absent, st.sampled_from(Cause), st.text(max_size=5)),
)


def seen(signals: Signals, within: float = 0.99, **pod: Any) -> Seen:
    size = Resources(cpu_request=500, cpu_limit=1000, memory_request=2**30, memory_limit=2**30)
    server = Container("server", size, size, size)
    pods = tuple(
        Pod(
            "serving",
            f"resnet-{n}",
            f"uid-{n}",
            (server,),
            node="n1",
            ready_at=1.0,
            **pod,
        )
        for n in range(3)
    )
    view = WorkloadView(
        REF, TargetRef("apps/v1", "Deployment", "resnet"), ScaleView(3, 3, "77"), pods, signals, "server", template=size
    )
    policy = Policy(
        ref=REF,
        spec=PolicySpec.model_validate(
            {"scaleTargetRef": {"name": "resnet"}, "objective": {"latency": {"target": "512.3456789ms", "within": within}},
             "signals": {"preset": "triton"}, "vertical": {"cpu": {"max": "4"}}, "horizontal": {"maxReplicas": 5}}
        ),
    )  # fmt: skip
    ledger = Ledger(
        nodes={"n1": Node("n1", 16000, 2**36)}, committed_cpu={"n1": 3000}, committed_memory={"n1": 2**32},
        quotas=(QuotaView("serving", "q", {"limits.cpu": 9000}, {"limits.cpu": 3000}),),
        limit_ranges={"serving": LimitRangeView(cpu_max=8000)},
        budgets=(BudgetView(WorkloadRef("serving", "b"), 8000, None, (REF,)),),
    )  # fmt: skip
    return Seen(1_700_000_000.123456, (Subject(view, policy),), ledger)


BUSY = Signals(
    requests=Measured(100.0, window_s=5), misses=Measured(0.2, weight=500, window_s=5), in_flight=Measured(30.0),
    cpu=Measured(2.9, age_s=8, window_s=15), throttled=Measured(0.6, age_s=8, window_s=15),
    pods={"uid-0": PodSignals(cpu=Measured(0.97), throttled=Absent(Cause.STALE))}, counts=Counts.ARRIVALS,
)  # fmt: skip
PAST = {
    REF: History(
        at=1.0, since=0.5, cost=Cost(work=0.0123456789, cpu=3.0), replicas=Replicas(adopted=3, wishes=((1.5, 3),))
    )
}


def test_it_reads_back_equal_and_decides_the_same_plan() -> None:
    attempt = Attempt(ResizeState.DEFERRED, Resources(cpu_limit=2000), 1.5, "NodeCapacity", "no room")
    taken = Snapshot(seen(BUSY, attempt=attempt), PAST, {"apps/v1/Deployment": "deployments"}, 33)
    again = snapshot.loads(snapshot.dumps(taken))
    assert again == taken
    assert again.seen.subjects[0].policy.spec.objective.latency.target == 0.5123456789  # type: ignore[union-attr]
    assert decide(again.seen, again.past) == decide(taken.seen, taken.past)
    assert snapshot.dumps(again) == snapshot.dumps(taken)


@given(readings, readings, readings, st.floats(0.5, 0.99999999))
@settings(max_examples=60, deadline=None)
def test_any_reading_and_any_share_survive_to_the_bit(a: Any, b: Any, c: Any, within: float) -> None:
    taken = Snapshot(seen(Signals(misses=a, cpu=b, custom={"q": c}), within))
    assert snapshot.loads(snapshot.dumps(taken)) == taken


def test_annotations_that_no_decision_reads_are_left_out() -> None:
    secret = {"kubectl.kubernetes.io/last-applied-configuration": '{"env": "hunter2"}', "team": "hunter2"}
    taken = Snapshot(seen(BUSY, annotations={**secret, "inference-autoscaler.dev/drain": "x"}))
    text = snapshot.dumps(taken)
    assert "hunter2" not in text
    assert snapshot.loads(text).seen.subjects[0].view.pods[0].annotations == {"inference-autoscaler.dev/drain": "x"}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 1, "snapshot": 3}', '{"format": 99, "snapshot": {}}',
                                  '{"format": 1, "snapshot": {"seen": {"subjects": [{}]}}}'])  # fmt: skip
def test_what_is_no_snapshot_is_said_in_one_line(text: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        snapshot.loads(text, "x.json")
    assert str(caught.value).startswith("x.json: ")
    assert "\n" not in str(caught.value)


SECRETS = st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789", min_size=12, max_size=12).map(
    lambda text: f"s3cr3t-{text}"
)


@given(st.lists(SECRETS, min_size=7, max_size=7, unique=True))
@settings(max_examples=40, deadline=None)
def test_nothing_secret_of_a_pod_gets_into_a_snapshot(secrets: list[str]) -> None:
    """As the API server sends it: environment, arguments, volumes and annotations are read past."""
    env, source, args, volume, applied, token, note = secrets
    size = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    manifest = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "resnet-0", "namespace": "serving", "uid": "u0", "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": f'{{"env": "{applied}"}}', "team/note": note}},
        "spec": {
            "nodeName": "n1", "serviceAccountName": "sa", "imagePullSecrets": [{"name": token}],
            "volumes": [{"name": "v", "secret": {"secretName": volume}}],
            "containers": [{
                "name": "server", "image": "x", "args": ["--key", args], "command": [args], "resources": size,
                "env": [{"name": "KEY", "value": env}], "envFrom": [{"secretRef": {"name": source}}],
            }],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip
    base = seen(BUSY)
    subject = base.subjects[0]
    view = dataclasses.replace(subject.view, pods=(decode_pod(msgspec.json.encode(manifest)).pod,))
    taken = Snapshot(dataclasses.replace(base, subjects=(dataclasses.replace(subject, view=view),)), PAST)
    text = snapshot.dumps(taken)
    assert "resnet-0" in text
    assert [secret for secret in secrets if secret in text] == []


def replayed(file: Path, form: str, cwd: Path, **environ: str) -> bytes:
    words = [sys.executable, "-m", "autoscaler", "plan", "--snapshot", str(file), "-o", form]
    root = str(Path(snapshot.__file__).parents[1])
    done = subprocess.run(
        words,
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": root, **environ},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("form", ["table", "json", "yaml", "kyaml", "kubectl"])
def test_another_place_zone_language_and_hash_seed_print_the_same_bytes(form: str, tmp_path: Path) -> None:
    """With several workloads, pods and rooms, so that there is an order that could differ."""
    base = seen(BUSY)
    first = base.subjects[0]
    subjects = []
    for name in ("resnet", "alpha", "zeta"):
        ref = WorkloadRef("serving", name)
        view = dataclasses.replace(
            first.view, ref=ref, target=TargetRef("apps/v1", "Deployment", name),
            pods=tuple(dataclasses.replace(p, name=f"{name}-{n}", uid=f"{name}-{n}") for n, p in enumerate(first.view.pods)),
        )  # fmt: skip
        subjects.append(Subject(view, first.policy.model_copy(update={"ref": ref})))
    past = {one.view.ref: PAST[REF] for one in subjects}
    taken = Snapshot(dataclasses.replace(base, subjects=tuple(subjects)), past, {"apps/v1/Deployment": "deployments"})
    file = tmp_path / "seen.json"
    snapshot.save(taken, file)
    here = replayed(file, form, tmp_path, TZ="UTC", PYTHONHASHSEED="0", LC_ALL="C")
    assert b"resnet-0" in here
    away = tmp_path / "elsewhere"
    away.mkdir()
    moved = away / "other name.json"
    moved.write_bytes(file.read_bytes())
    assert (
        replayed(moved, form, away, TZ="Asia/Kathmandu", PYTHONHASHSEED="4711", LC_ALL="C.UTF-8", LANG="de_DE") == here
    )
