"""What ships around the code: the Dockerfile, the lock files, the one-command setup."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from autoscaler.cli import COMMANDS
from autoscaler.observe import policy_files

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = {
    "requirements.lock": ["main", "report", "terminal", "dev", "build"],
    "requirements-runtime.lock": ["main"],
    "requirements-build.lock": ["build"],
}


def required(part: str) -> list[Requirement]:
    if part == "main":
        listed = PROJECT["project"]["dependencies"]
    else:
        listed = PROJECT["project"]["optional-dependencies"].get(part) or PROJECT["dependency-groups"][part]
    return [Requirement(each) for each in listed if isinstance(each, str)]


def entries(lock: str) -> Iterator[tuple[Requirement, list[str]]]:
    text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line and not line.lstrip().startswith("#"):
            spec, *hashes = line.split("--hash=")
            yield Requirement(spec.strip()), hashes


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_is_pinned_and_hashed(lock: str) -> None:
    found = list(entries(lock))
    assert found
    for requirement, hashes in found:
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), requirement
        assert hashes and all(each.strip().startswith("sha256:") for each in hashes), requirement


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_names_no_index(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert not re.search(r"https?://|file:|index-url|find-links|trusted-host", text)


@pytest.mark.parametrize(("lock", "parts"), LOCKS.items())
def test_the_lock_answers_what_the_project_asks(lock: str, parts: list[str]) -> None:
    here = default_environment()
    pinned = {
        canonicalize_name(each.name): str(each.specifier).removeprefix("==")
        for each, _ in entries(lock)
        if each.marker is None or each.marker.evaluate(dict(here))
    }
    for part in parts:
        for requirement in required(part):
            version = pinned.get(canonicalize_name(requirement.name))
            assert version is not None, f"{requirement} is not in {lock}: run make lock"
            assert requirement.specifier.contains(version, prereleases=True), f"{requirement}: {lock} has {version}"


def test_the_dockerfile_passes_its_linter() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "hadolint", ROOT / "Dockerfile"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_runs_as_nobody_and_gets_what_it_copies() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall(r"^USER (\d+):\d+$", text, re.M)[-1] != "0"
    allowed = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.M)
    copied = {
        name for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.M) for name in line.split()[:-1]
    }  # fmt: skip
    assert copied == set(allowed)
    assert all((ROOT / name).exists() for name in copied)


def test_console_scripts_are_there() -> None:
    assert PROJECT["project"]["scripts"].keys() == {"autoscaler", "kubectl-autoscaler"}


@pytest.mark.parametrize("target", ["demo", "test", "lint", "setup", "crds"])
def test_make_knows_its_targets(target: str) -> None:
    done = subprocess.run(
        ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_pages_policies_are_read_and_their_links_lead_somewhere(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", text, re.S)):
        if "kind: InferenceAutoscaler" in block:
            file = tmp_path / f"{number}.yaml"
            file.write_text(block, encoding="utf-8")
            assert policy_files.load([file]).policies
    for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
        assert (page.parent / link).exists(), f"{page.name} points to {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_pages_commands_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"```(?:console|sh|bash)\n(.*?)```", text, re.S):
        for command in re.findall(r"(?:\.venv/bin/|^\$ )autoscaler ([a-z]+)", block, re.M):
            assert command in COMMANDS, f"{page.name}: autoscaler {command}"
        for target in re.findall(r"^\$ make ([a-z-]+)", block, re.M):
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M), target
