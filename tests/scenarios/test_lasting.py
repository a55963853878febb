"""``vertical.template: Annotate``: a size that has settled is written on the workload, once, and nothing else of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.emulate.authorize import Rule, rules_of
from autoscaler.kube.lasting import LEARNED
from autoscaler.model.quantity import parse_cpu
from tests.manifests.test_overlays import ROOT
from tests.manifests.test_rights import OWN, TOKEN, role_rules
from tests.scenarios.stage import NAME, NAMESPACE, POLICY, Stage, cluster_spec, staged

ANNOTATE = POLICY.replace("vertical: {", "vertical: {template: Annotate, ")
COMPONENT = ROOT / "manifests" / "components" / "template-annotate" / "role.yaml"


def component_rules() -> list[Rule]:
    return rules_of(next(yaml.safe_load_all(COMPONENT.read_text(encoding="utf-8"))))


def deployment(stage: Stage) -> dict[str, Any]:
    return stage.cluster.object("Deployment", NAMESPACE, NAME)


def annotated(stage: Stage) -> str | None:
    return (deployment(stage)["metadata"].get("annotations") or {}).get(LEARNED)


@pytest.mark.looptime
async def test_a_settled_size_is_written_once_and_the_template_stays(tmp_path: Path) -> None:
    rules = [*role_rules("cluster"), *component_rules()]
    async with staged(
        cluster_spec(60.0), tmp_path, policy=ANNOTATE, token=TOKEN, rules=rules, spaces=(OWN,), interval=5.0,
        leader={"namespace": OWN},
    ) as stage:  # fmt: skip
        template = deployment(stage)["spec"]["template"]
        await asyncio.sleep(120)
        assert annotated(stage) is None, "not before it has settled"
        await asyncio.sleep(1800)
        learned = json.loads(annotated(stage) or "{}")["server"]
        sizes = [pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] for pod in stage.pods()]
        # A step may have been given back since: only what has settled is written.
        assert min(abs(parse_cpu(learned["limits"]["cpu"]) - parse_cpu(size)) for size in sizes) <= 100
        assert learned["limits"]["cpu"] != "500m"
        assert deployment(stage)["spec"]["template"] == template
        writes = stage.cluster.audit.of("patch", "deployments", "")
        assert len({entry.at for entry in writes if entry.user == TOKEN}) <= 2


@pytest.mark.looptime
async def test_without_the_right_it_is_told_and_everything_else_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with staged(
        cluster_spec(60.0), tmp_path, policy=ANNOTATE, token=TOKEN, rules=role_rules("cluster"), spaces=(OWN,),
        interval=5.0, leader={"namespace": OWN},
    ) as stage:  # fmt: skip
        await asyncio.sleep(1800)
        assert annotated(stage) is None
        assert max(stage.cores()) > 0.5
        told = sum("learned sizes are not written" in record.getMessage() for record in caplog.records)
        assert 1 <= told <= 2, "once in ten minutes at most"


@pytest.mark.looptime
async def test_keep_is_the_default_and_writes_nothing(tmp_path: Path) -> None:
    async with staged(cluster_spec(60.0), tmp_path, interval=5.0) as stage:
        await asyncio.sleep(1800)
        assert annotated(stage) is None
