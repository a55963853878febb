"""The table of fields without effect is true: what is in it is read nowhere, what isn't in it is read somewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

import autoscaler
from autoscaler.model.policy import PolicySpec
from autoscaler.observe import policy_files
from autoscaler.observe.policy_errors import model_in
from autoscaler.observe.policy_files import NO_EFFECT
from tests.cli.test_policy_files import GOOD

ROOT = Path(autoscaler.__file__).parent
TELLS_ONLY = (
    *(f"model/{room}.py" for room in ("policy", "written", "objective", "metrics", "vertical", "horizontal")),
    *(f"observe/policy_{room}.py" for room in ("files", "object", "measures", "errors")),
    "render/",
    "simulate/",
    "cli/",
    "check/",
)


def leaves(model: type[BaseModel], path: tuple[str, ...] = (), keys: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """``(path as written, attribute)`` of every field that holds a value."""
    for key, field in model.model_fields.items():
        inner = model_in(field.annotation)
        here = (*path, field.alias or key)
        if inner is not None:
            yield from leaves(inner, here, (*keys, key))
        else:
            yield ".".join(here), key


def read_anywhere() -> set[str]:
    """Every attribute that the program reads, and every word in a string (fields are also looked up by name)."""
    names: set[str] = set()
    for file in ROOT.rglob("*.py"):
        if str(file.relative_to(ROOT)).startswith(TELLS_ONLY):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute):
                names.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                names.add(node.value)
    return names


READ = read_anywhere()


@pytest.mark.parametrize(("path", "attribute"), list(leaves(PolicySpec)), ids=lambda value: value)
def test_a_field_is_read_or_stands_in_the_table(path: str, attribute: str) -> None:
    listed = any(path == entry or path.startswith(entry + ".") for entry in NO_EFFECT)
    assert listed or attribute in READ, f"{path} is accepted and read nowhere: give it an effect or list it"


@pytest.mark.parametrize("entry", sorted(NO_EFFECT))
def test_an_entry_of_the_table_is_a_field_and_not_all_of_it_is_read(entry: str) -> None:
    under = [(path, key) for path, key in leaves(PolicySpec) if path == entry or path.startswith(entry + ".")]
    assert under, f"{entry} is no field"


def test_what_has_no_effect_is_told_once_and_only_when_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD + "---\n" + GOOD.replace("resnet", "bert"))
    assert policy_files.load([tmp_path / "a.yaml"]).without_effect() == ()
    if "vertical.template" in NO_EFFECT:
        text = GOOD.replace("  vertical:\n", "  vertical:\n    template: Annotate\n")
        (tmp_path / "a.yaml").write_text(text + "---\n" + text.replace("resnet", "bert"))
        told = policy_files.load([tmp_path / "a.yaml"]).without_effect()
        assert [name for name, _ in told] == ["spec.vertical.template"]
        (tmp_path / "a.yaml").write_text(text.replace("Annotate", "Keep"))
        assert policy_files.load([tmp_path / "a.yaml"]).without_effect() == ()
