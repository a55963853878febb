"""A plan, printed: the very patches, in forms that other tools read."""

from __future__ import annotations

import json
import shlex

import pytest
import yaml

from autoscaler.act.patches import of_plan
from autoscaler.act.rehearse import rehearse
from autoscaler.act.show import FORMATS, render
from autoscaler.model.plan import AnnotatePod, Evict, Scale
from autoscaler.model.signal import Measured, PodSignals, Signals
from autoscaler.model.workload import Resources, TargetRef
from tests.act.made import MI, REF, WHY, plan, pod, resize, seen, view

ONE = pod()
PATCHES = of_plan(
    plan(
        resize(ONE, Resources(cpu_request=1000, cpu_limit=2000)),
        Scale(REF, TargetRef("apps/v1", "Deployment", "resnet"), "serving", 2, 3, WHY, "77"),
        AnnotatePod(REF, ONE, {"inference-autoscaler.dev/draining": "it's"}, WHY),
        Evict(REF, ONE, WHY),
    )
)


def test_json_holds_the_very_requests() -> None:
    shown = json.loads(render(PATCHES, "json"))
    assert [one["path"] for one in shown] == [patch.path for patch in PATCHES]
    assert [one["body"] for one in shown] == [json.loads(json.dumps(dict(patch.body))) for patch in PATCHES]
    assert shown[0]["contentType"] == "application/strategic-merge-patch+json"
    assert shown[0]["query"] == {"fieldManager": "inference-autoscaler", "fieldValidation": "Strict"}
    assert shown[0]["reason"]["code"] == "DemandRose"


def test_yaml_and_kyaml_say_the_same() -> None:
    shown = json.loads(render(PATCHES, "json"))
    assert yaml.safe_load(render(PATCHES, "yaml")) == shown
    assert yaml.safe_load(render(PATCHES, "kyaml")) == shown


def test_kubectl_commands_parse_as_a_shell_would() -> None:
    lines = [line for line in render(PATCHES, "kubectl").splitlines() if not line.startswith("#")]
    words = [shlex.split(line) for line in lines]
    assert words[0][:9] == [
        "kubectl", "patch", "pod", "resnet-1", "-n", "serving", "--subresource", "resize", "--type",
    ]  # fmt: skip
    assert words[0][9] == "strategic"
    assert json.loads(words[0][-1]) == dict(PATCHES[0].body)
    assert words[1] == [
        "kubectl", "scale", "deployment/resnet", "-n", "serving", "--replicas=3", "--current-replicas=2",
        "--resource-version=77",
    ]  # fmt: skip
    assert json.loads(words[2][-1])["metadata"]["annotations"] == {"inference-autoscaler.dev/draining": "it's"}
    assert json.loads(words[3][2])["kind"] == "Eviction"


def test_every_command_has_its_reason_above_it() -> None:
    lines = render(PATCHES, "kubectl").splitlines()
    assert len(lines) == 2 * len(PATCHES)
    assert all(line.startswith("# serving/resnet: demand") for line in lines[::2])


def test_a_custom_kind_is_named_so_that_kubectl_finds_it() -> None:
    target = TargetRef("serving.example.dev/v1beta1", "Model", "bert")
    (patch,) = of_plan(plan(Scale(REF, target, "serving", 2, 3, WHY)))
    assert "kubectl scale model.v1beta1.serving.example.dev/bert -n serving" in render([patch], "kubectl")


def test_the_table_names_change_and_reason() -> None:
    head, first, second, *_ = render(PATCHES, "table").splitlines()
    assert head.split() == ["WORKLOAD", "ACTION", "OBJECT", "CHANGE", "REASON"]
    assert "cpu 500m/1 → cpu 1/2" in first
    assert WHY.text in first
    assert "memory" not in first
    assert "replicas 2 → 3" in second


@pytest.mark.parametrize("form", FORMATS)
def test_no_patch_is_no_surprise(form: str) -> None:
    assert isinstance(render([], form), str)


def test_an_unknown_form_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="table, json, yaml, kubectl, kyaml"):
        render([], "xml")


def test_a_rehearsal_holds_back_what_would_not_be_sent() -> None:
    good, bad = resize(ONE, Resources(cpu_request=1000, cpu_limit=2000)), resize(pod(name="b"), Resources(cpu_limit=1))
    rehearsed = rehearse([plan(good, bad)], seen(view(ONE, pod(name="b"))))
    assert [patch.action for patch in rehearsed.patches] == [good]
    assert [action for action, _ in rehearsed.held] == [bad]


@pytest.mark.parametrize(("minor", "refused"), [(33, True), (34, False), (36, False), (None, False)])
def test_a_rehearsal_knows_what_the_server_of_this_version_refuses(minor: int | None, refused: bool) -> None:
    """A memory limit may not be lowered without a restart on 1.33; later the kubelet alone looks at it."""
    usage = Signals(pods={ONE.uid: PodSignals(memory_usage=Measured(300.0 * MI, age_s=3.0))})
    shrink = resize(ONE, Resources(memory_limit=1600 * MI))
    rehearsed = rehearse([plan(shrink)], seen(view(ONE, signals=usage)), minor=minor)
    assert [action for action, why in rehearsed.held if "1.33" in why.text] == ([shrink] if refused else [])
    assert [patch.action for patch in rehearsed.patches] == ([] if refused else [shrink])
