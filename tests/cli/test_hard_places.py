"""Places where a command can't do its work: one line, the right exit code, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from autoscaler.emulate.cluster import ClusterSpec, EmulatedCluster

FULL = Path("/dev/full")
RUN = "import sys; from autoscaler.cli import main; sys.exit(main(sys.argv[1:]))"


def command(*words: str, env: dict[str, str] | None = None, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, *words], text=True, env={**os.environ, **(env or {})}, timeout=60, check=False,
        stderr=subprocess.PIPE, **{"stdout": subprocess.PIPE, **more},  # type: ignore[call-overload]
    )  # fmt: skip


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("word", ["version", "presets", "crds"])
def test_a_full_disk(word: str) -> None:
    with FULL.open("w") as full:
        done = command(word, stdout=full)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["autoscaler: can't write: No space left on device"]


def test_a_terminal_without_all_letters() -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    done = command("presets", "openvino", env=plain)
    assert done.returncode == 0
    assert "OpenVINO" in done.stdout


@pytest.mark.parametrize(
    "words",
    [("run", "--http-listen", "127.0.0.1:99999"), ("run", "--http-listen", "nonsense"), ("emulate", "--port", "99999")],
)
def test_no_such_port(words: tuple[str, ...]) -> None:
    done = command(*words)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "65535" in line
    assert words[-1] in line


@pytest.mark.parametrize("namespace", ["n", "y", "on", "off", "null", "123", "1e3"])
async def test_namespaces_that_look_like_something_else(tmp_path: Path, namespace: str) -> None:
    """PyYAML reads YAML 1.1, as kubectl does: ``on`` unquoted would be a truth value."""
    async with EmulatedCluster(ClusterSpec()) as cluster:
        written = cluster.kubeconfig(tmp_path / "config", namespace=namespace).read_text()
    assert yaml.safe_load(written)["contexts"][0]["context"]["namespace"] == namespace
