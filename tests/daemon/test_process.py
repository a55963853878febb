"""The installed program as a process: JSON lines, SIGTERM, a port that is taken, settings changed while running."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import aiohttp
import pytest

from autoscaler.cli import main
from autoscaler.emulate.cluster import EmulatedCluster
from tests.scenarios.stage import NAME, NAMESPACE, POLICY, cluster_spec

CLEAN = {key: value for key, value in os.environ.items() if not key.startswith(("AUTOSCALER_", "KUBE"))}


async def started(*words: str, **environ: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "autoscaler", *words, env={**CLEAN, **environ}, stdout=PIPE, stderr=PIPE
    )


async def line_with(process: Process, text: str) -> dict[str, object]:
    assert process.stderr is not None
    async with asyncio.timeout(20):
        while raw := await process.stderr.readline():
            line: dict[str, object] = json.loads(raw)
            if text in str(line["message"]):
                return line
    raise AssertionError(f"the process ended without {text!r}")


async def test_it_logs_json_lines_serves_its_endpoints_and_ends_cleanly_on_sigterm(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    config = tmp_path / "settings.yaml"
    config.write_text("interval: 300ms\nreload: 200ms\n")
    async with EmulatedCluster(cluster_spec(80.0, startup=0.1)) as cluster:
        await cluster.settled()
        kubeconfig = cluster.kubeconfig(tmp_path / "config")
        process = await started(
            "run", "--policy", str(policy), "--config", str(config), "--http-listen", "127.0.0.1:0",
            AUTOSCALER_KUBECONFIG=str(kubeconfig), AUTOSCALER_SHUTDOWN="3s",
        )  # fmt: skip
        try:
            begun = await line_with(process, "started")
            assert begun["policies"] == 1
            assert await line_with(process, "resize")
            async with aiohttp.ClientSession(f"http://127.0.0.1:{begun['http']}") as client:
                async with client.get("/readyz") as answer:
                    assert answer.status == 200
                async with client.get("/metrics") as answer:
                    page = await answer.text()
                assert "autoscaler_ticks_total" in page
                assert 'autoscaler_api_requests_total{method="PATCH",status="200"}' in page
            config.write_text("interval: 300ms\nreload: 200ms\nbrakes: {coresPerMinute: nonsense}\n")
            told = await line_with(process, "changed settings are invalid")
            assert "brakes.coresPerMinute: 'nonsense' is not a quantity" in str(told["why"])
            config.write_text("interval: 400ms\nreload: 200ms\napi: {qps: 7}\n")
            assert (await line_with(process, "settings reloaded"))["afterRestart"] == "api"
        finally:
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(15):
                _, rest = await process.communicate()
        assert process.returncode == 0
        assert b"Traceback" not in rest
        assert json.loads(rest.splitlines()[-1])["message"] == "stopped"
        limits = [
            p["spec"]["containers"][0]["resources"]["limits"]["cpu"] for p in cluster.pods(NAMESPACE, workload=NAME)
        ]
        assert limits != ["500m"] * len(limits)


def test_a_port_that_is_taken_is_one_line_and_exit_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code = main(
            ["run", "--policy", str(policy), "--server", "http://127.0.0.1:1", "--http-listen", f"127.0.0.1:{port}"]
        )
    told = capsys.readouterr().err.splitlines()
    assert code == 1
    assert f"--http-listen 127.0.0.1:{port}: " in told[-1]
    assert "Traceback" not in "".join(told)
