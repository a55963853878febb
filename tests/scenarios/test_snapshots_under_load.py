"""Snapshots taken under load, while a daemon acts on the same cluster, decided again elsewhere: the same bytes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import autoscaler
from autoscaler.cli.plan import FORMATS
from autoscaler.emulate.authorize import Rule
from autoscaler.emulate.cluster import LoadSpec, ServiceSpec, WorkloadSpec
from autoscaler.emulate.kinds import SECRET
from tests.scenarios.prometheus_stage import through_prometheus
from tests.scenarios.stage import NAMESPACE, POLICY, cluster_spec

ROOT = str(Path(autoscaler.__file__).parents[1])
HIDDEN = "s3cr3t"
"""Part of everything that nobody who gets the file may read."""
TWO = f"""\
{POLICY.replace("[scrape]", "[prometheus, scrape, kubelet]")}---
{POLICY.replace("name: resnet", "name: bert").replace("[scrape]", "[scrape, kubelet]")}"""
READER = [Rule(("*",), ("*",), ("get", "list", "watch"))]


class Secretive(WorkloadSpec, frozen=True):
    """As people write them: keys in the environment, the arguments and the annotations."""

    def as_object(self) -> dict[str, Any]:
        body = super().as_object()
        env = [
            {"name": "API_KEY", "value": f"{HIDDEN}-env"},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": f"{HIDDEN}-ref", "key": "k"}}},
        ]
        template = body["spec"]["template"]
        template["spec"]["containers"][0] |= {"env": env, "args": ["--license", f"{HIDDEN}-argument"]}
        applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"env": f"{HIDDEN}-applied"})}
        body["metadata"]["annotations"] = dict(applied)
        template["metadata"].setdefault("annotations", {}).update(applied, note=f"{HIDDEN}-note")
        return body


def secretive(name: str, *steps: tuple[float, float]) -> WorkloadSpec:
    volume = {"name": "v", "secret": {"secretName": f"{HIDDEN}-volume"}}
    return Secretive(
        name, namespace=NAMESPACE, replicas=2, cpu="500m", memory="1Gi", load=LoadSpec(steps=list(steps)),
        service=ServiceSpec(work=0.02, threads=16, startup=0.1),
        pod={"volumes": [volume], "imagePullSecrets": [{"name": f"{HIDDEN}-pull"}], "serviceAccountName": "default"},
    )  # fmt: skip


async def ran(*words: str, cwd: Path, **environ: str) -> tuple[bytes, bytes]:
    """What the command printed, with nothing but these variables."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "autoscaler", *words, cwd=cwd, stdout=PIPE, stderr=PIPE,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": ROOT, **environ},
    )  # fmt: skip
    out, said = await process.communicate()
    assert process.returncode == 0, said.decode()
    assert b"Traceback" not in said
    return out, said


async def test_plans_taken_under_load_are_the_same_to_the_byte_elsewhere_and_tell_no_secret(tmp_path: Path) -> None:
    """resnet's load rises and falls, and a daemon follows it; bert is overloaded, and nobody but the plan looks."""
    spec = cluster_spec(0.0)
    workloads = [secretive("resnet", (0.0, 30.0), (3.0, 90.0), (8.0, 15.0)), secretive("bert", (0.0, 80.0))]
    for folder in ("daemon", "here", "away"):
        (tmp_path / folder).mkdir()
    (tmp_path / "policies.yaml").write_text(TWO)
    (tmp_path / "bearer").write_text(f"{HIDDEN}-bearer")
    spec = type(spec)(kubernetes=spec.kubernetes, nodes=spec.nodes, workloads=workloads)
    async with through_prometheus(spec, tmp_path / "daemon", interval=0.5, every_s=0.5) as (stage, prometheus):
        cluster = stage.cluster
        cluster.plane.create_object(
            SECRET, {"metadata": {"name": "keys", "namespace": NAMESPACE}, "stringData": {"k": f"{HIDDEN}-object"}}
        )
        cluster.add_user("reader", token=f"{HIDDEN}-token", rules=READER)
        config = cluster.kubeconfig(tmp_path / "config", token=f"{HIDDEN}-token")
        await asyncio.sleep(2.0)
        live = await asyncio.gather(
            *(
                ran(
                    "plan", "-o", form, "--save-snapshot", f"{form}.json", "--policy", str(tmp_path / "policies.yaml"),
                    "--interval", "500ms", "--prometheus-token-file", str(tmp_path / "bearer"),
                    cwd=tmp_path / "here", TZ="America/St_Johns", PYTHONHASHSEED="1", HOME=str(tmp_path),
                    AUTOSCALER_KUBECONFIG=str(config), AUTOSCALER_PROMETHEUS_URL=prometheus.url,
                    AUTOSCALER_PROMETHEUS_HEADERS=f"X-Scope-OrgID={HIDDEN}-tenant",
                )
                for form in FORMATS
            )
        )  # fmt: skip
        assert {entry.user for entry in cluster.audit.writes()} == {"admin"}, "the daemon alone changes anything"
        assert [entry for entry in cluster.audit.of("patch", "pods", "resize") if entry.name.startswith("resnet")]
        assert HIDDEN in str(cluster.pods(NAMESPACE))
    seen = {form: (tmp_path / "here" / f"{form}.json").read_text() for form in FORMATS}
    for form, text in seen.items():
        assert HIDDEN not in text, form
        assert "resnet-" in text and "bert-" in text
        assert '"prometheus"' in text, "what it told is part of the sight"
    for (out, _), form in zip(live, FORMATS, strict=True):
        assert b"bert" in out and HIDDEN.encode() not in out, form
        (tmp_path / "away" / f"{form} of another.json").write_text(seen[form])
    again = await asyncio.gather(
        *(
            ran(
                "plan", "--snapshot", f"{form} of another.json", "-o", form, cwd=tmp_path / "away",
                TZ="Asia/Kathmandu", PYTHONHASHSEED="4711", LC_ALL="C", LANG="de_DE", KUBECONFIG="/nowhere",
            )
            for form in FORMATS
        )
    )  # fmt: skip
    assert [out for out, _ in again] == [out for out, _ in live]
