# ruff: noqa: E501
"""Policies from files: what is accepted, and the one line that refuses what isn't."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.model.policy import Mode
from autoscaler.model.workload import WorkloadRef
from autoscaler.observe import policy_files, yaml12
from autoscaler.observe.policy_measures import asks_prometheus
from autoscaler.observe.policy_object import PolicyError, read_object
from autoscaler.render import kyaml

GOOD = """\
apiVersion: inference-autoscaler.dev/v1alpha1
kind: InferenceAutoscaler
metadata: {name: resnet, namespace: serving}
spec:
  scaleTargetRef: {name: resnet}
  objective:
    latency: {target: 500ms, within: 99%}
  signals:
    latency: {histogram: request_seconds}
  vertical:
    cpu: {min: 250m, max: "8"}
  horizontal:
    minReplicas: 2
    maxReplicas: 10
"""
HEAD = "apiVersion: inference-autoscaler.dev/v1alpha1\nkind: InferenceAutoscaler\n"


def refused(tmp_path: Path, text: str, name: str = "p.yaml") -> list[str]:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(PolicyError) as caught:
        policy_files.load([file])
    return [line.replace(str(tmp_path) + "/", "") for line in caught.value.lines]


def test_yaml_json_and_kyaml_say_the_same(tmp_path: Path) -> None:
    value = yaml12.load_all(GOOD)[0].value
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.json").write_text(json.dumps(value, indent="\t"))
    (tmp_path / "c.kyaml").write_text(kyaml.dump(value))
    read = [policy_files.load([tmp_path / name]).policies[0] for name in ("a.yaml", "b.json", "c.kyaml")]
    assert read[0].spec == read[1].spec == read[2].spec
    assert read[0].spec.vertical.cpu.min == 250
    assert read[0].spec.vertical.cpu.max == 8000
    assert read[0].ref == WorkloadRef("serving", "resnet")


def test_several_documents_lists_and_directories_without_hidden_names(tmp_path: Path) -> None:
    other = GOOD.replace("resnet", "bert").replace("spec:", "spec:\n  budget: vision", 1)
    budget = (
        "apiVersion: inference-autoscaler.dev/v1alpha1\nkind: CapacityBudget\n"
        "metadata: {name: vision, namespace: serving}\nspec: {cpu: '32', memory: 128Gi}\n"
    )
    hidden = tmp_path / "..2024_01_01"
    hidden.mkdir()
    (hidden / "all.yaml").write_text(GOOD + "---\n" + other + "---\n" + budget)
    (tmp_path / "..data").symlink_to(hidden)
    (tmp_path / "all.yaml").symlink_to("..data/all.yaml")
    (tmp_path / "notes.txt").write_text("not a policy")
    found = policy_files.load([tmp_path])
    assert [p.ref.name for p in found.policies] == ["resnet", "bert"]
    assert found.budgets[0].spec.cpu == 32000
    items = [document.value for document in yaml12.load_all(GOOD + "---\n" + other + "---\n" + budget)]
    listed = tmp_path / "list.yaml"
    listed.write_text(kyaml.dump({"apiVersion": "v1", "kind": "List", "items": items}))
    assert [p.spec for p in policy_files.load([listed]).policies] == [p.spec for p in found.policies]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("min: 250m", "min: 9"), "spec.vertical.cpu.min: 9 is above max 8; write min ≤ max (line 11)"),
        (("min: 250m", "min: 250x"), "spec.vertical.cpu.min: '250x' is not a quantity (write for example 500m, 2, 1Gi) "
                                     "(line 11)"),
        (("minReplicas: 2", "minReplicas: 12"), "spec.horizontal.minReplicas: 12 is above maxReplicas 10; "
                                                "write minReplicas ≤ maxReplicas (line 13)"),
        (("maxReplicas", "maxReplica"), "spec.horizontal.maxReplica: is not a field, did you mean 'maxReplicas'? (line 14)"),
        (("500ms", "500"), "spec.objective.latency.target: 500 has no unit (write for example 500ms or 500s) (line 7)"),
        (("500ms", "5 parsecs"), "spec.objective.latency.target: '5 parsecs' is not a duration "
                                 "(write for example 500ms, 30s, 1m30s) (line 7)"),
        (("within: 99%", "percentile: 101%"), "spec.objective.latency.percentile: '101%' is not between 0% and 100% (line 7)"),
        (("minReplicas: 2", "minReplicas: 0"), "spec.horizontal.minReplicas: 0 is out of range; write a value at least 1 "
                                               "(line 13)"),
        (("min: 250m", "min: 0.001"), "spec.vertical.cpu.min: 0.001 is out of range; write a value at least 10m (line 11)"),
        (("name: resnet}\n  obj", "name: 7}\n  obj"), "spec.scaleTargetRef.name: 7 is not text; write it in quotes (line 5)"),
        (("kind: Inf", "kind: Imf"), "kind: 'ImferenceAutoscaler' is not a kind this program reads, did you mean "
                                     "'InferenceAutoscaler'?; write InferenceAutoscaler or CapacityBudget (line 2)"),
        (("v1alpha1", "v2"), "apiVersion: 'inference-autoscaler.dev/v2' is not known; "
                             "write inference-autoscaler.dev/v1alpha1 (line 1)"),
        (("    latency: {histogram: request_seconds}", "    maxAge: 10s"),
         "spec.objective.latency: nothing measures it; write signals.preset or signals.latency.histogram (line 7)"),
        (("minReplicas: 2", "minReplicas: 2\n    minReplicas: 3"), "can't be read as YAML: key 'minReplicas' is there twice"),
        (("minReplicas: 2", "minReplicas: 007"), "can't be read as YAML: 007 is 7 for some YAML parsers"),
        (("    latency: {histogram: request_seconds}", "    latency: {query: 'sum(rate(x[5m)'}"),
         "spec.signals.latency.query: "),
        (("spec:", "spec:\n  budget: vission"), "spec.budget: no CapacityBudget 'vission' in namespace serving; "
                                               "add one beside the policy or drop the field"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_with_place_and_remedy(tmp_path: Path, change: tuple[str, str], line: str) -> None:
    assert change[0] in GOOD
    text = GOOD.replace(change[0], change[1], 1)
    told = refused(tmp_path, text)
    assert len(told) == 1, told
    assert "\n" not in told[0]
    assert line in told[0]
    assert told[0].startswith("p.yaml")


def test_true_is_not_one(tmp_path: Path) -> None:
    told = refused(tmp_path, GOOD.replace("minReplicas: 2", "minReplicas: true"))
    assert told == [
        "p.yaml[doc 1]: spec.horizontal.minReplicas: true is not allowed here; write a number (Default: max(2, replicas "
        "found at adoption, PDB minAvailable + 1), never above the max) (line 13)"
    ]


def test_words_that_yaml_11_takes_for_booleans_or_minutes_stay_words(tmp_path: Path) -> None:
    text = GOOD.replace("histogram: request_seconds", "histogram: on, labels: {no: yes, at: 12:30, day: 2024-01-02}")
    (tmp_path / "p.yaml").write_text(text.replace("  scaleTargetRef: {name: resnet}", "  scaleTargetRef: {name: off}"))
    policy = policy_files.load([tmp_path / "p.yaml"]).policies[0]
    assert policy.target.name == "off"
    assert policy.spec.signals.latency.histogram == "on"  # type: ignore[union-attr]
    assert policy.spec.signals.latency.labels == {"no": "yes", "at": "12:30", "day": "2024-01-02"}  # type: ignore[union-attr]


def test_an_exponent_is_the_number_it_says(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(GOOD + "  priority: 5\n  mode: DryRun\n".replace("5", "-5"))
    policy = policy_files.load([tmp_path / "p.yaml"]).policies[0]
    assert (policy.spec.priority, policy.spec.mode) == (-5, Mode.DRY_RUN)
    (tmp_path / "q.yaml").write_text(GOOD.replace('max: "8"', "max: 1e1"))
    assert policy_files.load([tmp_path / "q.yaml"]).policies[0].spec.vertical.cpu.max == 10000


def test_two_policies_for_one_target_are_both_named(tmp_path: Path) -> None:
    told = refused(tmp_path, GOOD + "---\n" + GOOD.replace("{name: resnet, namespace", "{name: again, namespace"))
    assert told == [
        "p.yaml[doc 2]: spec.scaleTargetRef: deployment/resnet in serving has a policy already, resnet in "
        "p.yaml[doc 1]; keep one of them"
    ]  # fmt: skip


def test_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    told = refused(
        tmp_path, GOOD + "---\n" + GOOD.replace("scaleTargetRef: {name: resnet}", "scaleTargetRef: {name: b}")
    )
    assert told == [
        "p.yaml[doc 2]: metadata.name: InferenceAutoscaler serving/resnet is defined already in p.yaml[doc 1]; rename one"
    ]


def test_all_problems_of_all_documents_are_told_at_once(tmp_path: Path) -> None:
    told = refused(tmp_path, GOOD.replace("250m", "x") + "---\n" + GOOD.replace("8", "y").replace("resnet", "b"))
    assert [line.split(":")[0] for line in told] == ["p.yaml[doc 1]", "p.yaml[doc 2]"]


@pytest.mark.parametrize(
    "text", ["", "---\n", "[]", "3", "a: [", "\t", "{a: 1, a: 2}", "&a [*a]", "? [x]\n: 1", "!!python/x 1"]
)
def test_what_is_no_policy_is_said_without_a_traceback(tmp_path: Path, text: str) -> None:
    assert refused(tmp_path, text)[0].startswith("p.yaml")


def test_a_small_file_that_expands_without_end_is_refused(tmp_path: Path) -> None:
    bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
    )
    assert "expands" in refused(tmp_path, bomb)[0]


def test_a_missing_file_and_an_empty_directory_are_errors(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="no such file or directory"):
        policy_files.load([tmp_path / "nope.yaml"])
    with pytest.raises(PolicyError, match="no policy file in this directory"):
        policy_files.load([tmp_path])


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_is_read_or_refused_never_a_crash(text: str) -> None:
    try:
        documents = yaml12.load_all(text)
    except yaml12.YamlError:
        return
    for document in documents:
        with pytest.raises(PolicyError):
            read_object(document.value, "here", document=document)


def test_a_query_that_no_prometheus_answers_is_told_with_its_place(tmp_path: Path) -> None:
    text = GOOD.replace("{histogram: request_seconds}", "{query: 'sum(rate(late[5m])) / sum(rate(all[5m]))'}", 1)
    (tmp_path / "p.yaml").write_text(text)
    (policy,) = policy_files.load([tmp_path / "p.yaml"]).policies
    (line,) = asks_prometheus(policy)
    assert line.endswith("p.yaml[doc 1]: spec.signals.latency.query: a query needs a Prometheus; "
                         "name one with --prometheus-url")  # fmt: skip
