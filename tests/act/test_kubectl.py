"""`plan -o kubectl`, pasted: the commands as they are printed, run by a shell with the real kubectl."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from autoscaler.act.patches import of_plan
from autoscaler.act.show import render
from autoscaler.model.plan import AnnotatePod, Evict, Scale
from autoscaler.model.workload import Resources
from tests.act.made import REF, WHY, plan, resize
from tests.act.stage import TARGET, stage

KUBECTL = shutil.which("kubectl", path=str(Path(sys.executable).parent)) or shutil.which("kubectl")


@pytest.mark.skipif(KUBECTL is None, reason="no kubectl: it comes with the dev dependencies")
async def test_pasted_commands_do_what_run_does(tmp_path: Path) -> None:
    async with stage(replicas=2) as play:
        config = play.cluster.kubeconfig(tmp_path / "config")
        seen = await play.see()
        first, second = seen.subjects[0].view.pods
        script = render(
            of_plan(
                plan(
                    resize(first, Resources(cpu_request=1000, cpu_limit=2000)),
                    AnnotatePod(REF, first, {"inference-autoscaler.dev/draining": "it's so"}, WHY),
                    Scale(REF, TARGET, "serving", 2, 3, WHY),
                    Evict(REF, second, WHY),
                )
            ),
            "kubectl",
        )
        assert KUBECTL is not None
        path = f"{Path(KUBECTL).parent}{os.pathsep}{os.environ['PATH']}"
        shell = await asyncio.create_subprocess_exec(
            "sh", "-e", "-c", script,
            env={"PATH": path, "KUBECONFIG": str(config), "HOME": str(tmp_path)},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said, _ = await shell.communicate()
        assert shell.returncode == 0, said.decode()
        bodies = {body["metadata"]["name"]: body for body in play.cluster.pods("serving")}
        grown = bodies[first.name]
        assert grown["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2", "memory": "2Gi"}
        assert grown["metadata"]["annotations"]["inference-autoscaler.dev/draining"] == "it's so"
        assert play.cluster.object("Deployment", "serving", "resnet")["spec"]["replicas"] == 3
        assert "deletionTimestamp" in bodies.get(second.name, {"metadata": {"deletionTimestamp": ""}})["metadata"]
