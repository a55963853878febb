"""``autoscaler sidecar``: what is wrong is told in one line, exit 2, before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.cli import main
from tests.scenarios.stage import POLICY


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POD_NAME", "POD_NAMESPACE", "HOSTNAME"):
        monkeypatch.delenv(name, raising=False)


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["sidecar", "--server", "http://127.0.0.1:1", *words]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1, err
    return err


def test_which_pod_it_is_has_to_be_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Set POD_NAME from the downward API" in told(capsys)


def test_a_policy_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--policy is missing" in told(capsys, "--pod", "resnet-0", "--pod-namespace", "serving")


def test_it_obeys_one_policy(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(f"{POLICY}---\n{POLICY.replace('resnet', 'bert')}")
    line = told(capsys, "--policy", str(file), "--pod", "resnet-0", "--pod-namespace", "serving")
    assert "obeys one InferenceAutoscaler, here are 2" in line


def test_the_policy_is_about_the_pods_own_namespace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    line = told(capsys, "--policy", str(file), "--pod", "resnet-0", "--pod-namespace", "elsewhere")
    assert "metadata.namespace: serving is not the pod's namespace elsewhere" in line


def test_a_mistake_in_the_policy_names_its_place(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY.replace("within: 99%", "within: 990%"))
    line = told(capsys, "--policy", str(file), "--pod", "resnet-0", "--pod-namespace", "serving")
    assert "spec.objective.latency.within" in line


def test_there_is_one_way_to_the_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    line = told(capsys, "--pod", "resnet-0", "--pod-namespace", "serving", "--kubeconfig", "config")
    assert "--server goes not with --kubeconfig" in line
