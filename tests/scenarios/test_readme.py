"""The README's way to look without touching anything, command by command as it is printed, against ``emulate``."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PROGRAM = Path(sys.executable).parent / "autoscaler"
SPEC = """\
nodes: [{name: node-1, cpu: "8", memory: 32Gi}]
workloads:
- {name: resnet, namespace: serving, replicas: 2, cpu: 500m, memory: 1Gi,
   service: {work: 0.02, startup: 0.1}, load: {steps: [[0, 80]]}}
"""
CLEAN = {key: value for key, value in os.environ.items() if not key.startswith(("AUTOSCALER_", "KUBE"))}
CLEAN["AUTOSCALER_HTTP_LISTEN"] = "127.0.0.1:0"
"""Someone else may listen where it does by default."""


def section(title: str) -> str:
    return re.split(r"(?m)^## ", README.split(f"## {title}\n", 1)[1])[0]


def printed() -> list[str]:
    """The commands after the setup."""
    lines = re.findall(r"(?m)^\$ (.*)$", section("On your own cluster, changing nothing"))
    assert lines[0] == "make setup"
    assert len(lines) >= 4
    return lines[1:]


def policy() -> str:
    (found,) = re.findall(r"(?s)```yaml\n(.*?)```", section("A policy"))
    return found


async def shell(command: str, folder: Path, **environ: str) -> Process:
    return await asyncio.create_subprocess_exec(
        "sh", "-c", f"exec {command}", cwd=folder, env={**CLEAN, **environ}, stdout=PIPE, stderr=STDOUT
    )


@asynccontextmanager
async def emulated(folder: Path) -> AsyncIterator[str]:
    """The command's own process; the kubeconfig that it names."""
    (folder / "spec.yaml").write_text(SPEC)
    process = await shell(".venv/bin/autoscaler emulate --spec spec.yaml --audit audit.jsonl", folder)
    try:
        told = b""
        assert process.stdout is not None
        async with asyncio.timeout(30):
            while b"Ctrl-C ends it." not in told:
                line = await process.stdout.readline()
                assert line, told.decode()
                told += line
        found = re.search(r"export KUBECONFIG=(\S+)", told.decode())
        assert found
        yield found[1]
    finally:
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(15):
            await process.communicate()
    assert process.returncode == 0


async def followed(command: str, folder: Path, kubeconfig: str) -> str:
    """What it printed; one that goes on is ended by Ctrl-C once it has decided twice."""
    process = await shell(command, folder, KUBECONFIG=kubeconfig)
    assert process.stdout is not None
    told = b""
    try:
        async with asyncio.timeout(60):
            while line := await process.stdout.readline():
                told += line
                if " run " in command and told.count(b"resize") >= 2:
                    process.send_signal(signal.SIGINT)
                    break
            told += (await process.communicate())[0]
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert process.returncode == 0, told.decode()
    assert b"Traceback" not in told
    return told.decode()


async def as_the_readme_says(folder: Path, preset: str) -> None:
    bin_ = folder / ".venv" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "autoscaler").symlink_to(PROGRAM)
    written = policy()
    assert "preset: triton" in written
    (folder / "policy.yaml").write_text(written.replace("preset: triton", f"preset: {preset}"))
    async with emulated(folder) as kubeconfig, asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(followed(one, folder, kubeconfig)) for one in printed()]
    table, kubectl, log = (one.result() for one in running)
    assert "pod/resnet-" in table
    assert re.search(r"(?m)^kubectl patch pod resnet-\S+", kubectl)
    assert "resnet-" in log
    requests = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
    verbs = {request["verb"] for request in requests if not request["resource"].startswith("selfsubject")}
    assert verbs <= {"get", "list", "watch", ""}, verbs
    assert {"list", "watch"} <= verbs


async def test_the_dry_run_of_the_readme_shows_what_would_be_sent_and_changes_nothing(tmp_path: Path) -> None:
    """With the names of its own metrics, as the policy's comment says; with the printed ones, which this server lacks,
    the CPU that is measured is enough to grow on. At once, as each command watches the load for ten seconds."""
    async with asyncio.TaskGroup() as tasks:
        for preset in ("generic", "triton"):
            tasks.create_task(as_the_readme_says(tmp_path / preset, preset))
