"""The generated CRDs: what they accept is what the model accepts, and what they refuse is refused in a sentence."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import cel
import kubernetes_validate
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft4Validator
from pydantic import ValidationError

from autoscaler.cli import main
from autoscaler.emulate import structural
from autoscaler.model import quantity
from autoscaler.model.policy import BudgetSpec, PolicySpec
from autoscaler.render import crd, reference

FOLDER = Path(__file__).parents[2] / "manifests" / "crds"
DEFINITIONS = crd.definitions()
SPEC = crd.policy_spec()
MINIMAL: dict[str, Any] = {"scaleTargetRef": {"name": "resnet"}, "objective": {"latency": {"target": "500ms"}}}


def is_quantity(text: str) -> bool:
    try:
        quantity.parse_quantity(text)
    except ValueError:
        return False
    return True


def compare(left: str, right: str) -> int:
    first, second = quantity.parse_quantity(left), quantity.parse_quantity(right)
    return (first > second) - (first < second)


def evaluate(expression: str, value: Any) -> bool:
    context = cel.Context()
    context.add_variable("self", value)
    context.add_function("isQuantity", is_quantity)
    context.add_function("quantity", lambda text: text)
    context.add_function("compareTo", compare)
    return bool(cel.evaluate(expression, context))


def refusals(schema: Mapping[str, Any], value: Any, where: str = "spec") -> Iterator[str]:
    """What an API server would say of a value: defaults, then the schema, then the rules, as it does."""
    value = filled(schema, value)
    errors = [f"{where}: {each.message}" for each in Draft4Validator(schema).iter_errors(value)]
    yield from errors
    if errors:
        return
    yield from broken_rules(schema, value, where)


def broken_rules(schema: Mapping[str, Any], value: Any, where: str) -> Iterator[str]:
    for each in schema.get("x-kubernetes-validations", ()):
        if not evaluate(each["rule"], value):
            yield f"{where}: {each['message']}"
    if isinstance(value, dict):
        for name, inner in schema.get("properties", {}).items():
            if name in value:
                yield from broken_rules(inner, value[name], f"{where}.{name}")
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from broken_rules(schema["items"], item, f"{where}[{position}]")


def filled(schema: Mapping[str, Any], value: Any) -> Any:
    """The value with the schema's defaults, which an API server fills in before the rules are asked."""
    if isinstance(value, list):
        return [filled(schema["items"], item) for item in value]
    if not isinstance(value, dict):
        return value
    result = dict(value)
    for name, inner in schema.get("properties", {}).items():
        if name not in result and "default" in inner:
            result[name] = inner["default"]
        if name in result:
            result[name] = filled(inner, result[name])
    return result


def model_accepts(spec: Mapping[str, Any]) -> bool:
    try:
        PolicySpec.model_validate(spec)
    except ValidationError:
        return False
    return True


def schemas(schema: Mapping[str, Any], where: str = "spec") -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield where, schema
    for name, inner in schema.get("properties", {}).items():
        yield from schemas(inner, f"{where}.{name}")
    if "items" in schema:
        yield from schemas(schema["items"], f"{where}[]")


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_the_files_are_what_the_model_says(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == crd.text(DEFINITIONS[name]), "stale: run make crds"


def test_the_page_of_all_fields_is_what_the_model_says() -> None:
    page = (FOLDER.parents[1] / "docs" / "policy.md").read_text(encoding="utf-8")
    assert page == reference.page(), "stale: run make crds"


def test_no_other_file_lies_beside_them() -> None:
    assert {path.name for path in FOLDER.iterdir()} - {"kustomization.yaml"} == set(DEFINITIONS)


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_the_definitions_are_valid_objects(name: str) -> None:
    kubernetes_validate.validate(yaml.safe_load((FOLDER / name).read_text(encoding="utf-8")), "1.36", strict=True)


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=sorted(DEFINITIONS))
def test_the_schemas_are_structural(definition: Mapping[str, Any]) -> None:
    (version,) = definition["spec"]["versions"]
    for where, schema in schemas(version["schema"]["openAPIV3Schema"], "$"):
        assert ("type" in schema) != ("x-kubernetes-int-or-string" in schema), where
        assert not {"$ref", "title", "additionalItems", "definitions", "const"} & schema.keys(), where
        assert not ("properties" in schema and "additionalProperties" in schema), where
        if schema.get("type") == "string":
            assert "enum" in schema or "maxLength" in schema or where in ("$.apiVersion", "$.kind"), where
        if schema.get("type") == "array":
            assert "maxItems" in schema, f"{where}: the cost of rules has no bound"
        for each in schema.get("x-kubernetes-validations", ()):
            assert each["message"] and "\n" not in each["message"], where


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=sorted(DEFINITIONS))
def test_defaults_and_keys_are_such_as_an_api_server_takes(definition: Mapping[str, Any]) -> None:
    """Defaults pass their own schema and name no unknown field; keys of a list are there in each of its items."""
    (version,) = definition["spec"]["versions"]
    for where, schema in schemas(version["schema"]["openAPIV3Schema"], "$"):
        for name, inner in schema.get("properties", {}).items():
            if "default" in inner:
                value = copy.deepcopy(inner["default"])
                assert not list(structural.unknown(inner, value, name)), where
                structural.fill(inner, value)
                assert not list(structural.faults(inner, value, name)), where
                assert not list(broken_rules(inner, value, name)), where
        for key in schema.get("x-kubernetes-list-map-keys", ()):
            item = schema["items"]
            assert key in item["required"] or "default" in item["properties"][key], where
            assert item["properties"][key]["type"] in ("string", "integer", "boolean"), where
        if schema.get("x-kubernetes-int-or-string"):
            assert schema["anyOf"] == [{"type": "integer"}, {"type": "string"}], where
        for each in schema.get("x-kubernetes-validations", ()):
            assert "oldSelf" not in each["rule"], f"{where}: a file has no state before"


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=sorted(DEFINITIONS))
def test_no_rule_has_an_unbounded_cost(definition: Mapping[str, Any]) -> None:
    """A conversion to string has no size in the API server's estimate: only ``quantity`` and ``isQuantity``, whose cost
    is counted as one, may be given one; anything else is refused with the whole definition."""
    for where, schema in schemas(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "$"):
        for each in schema.get("x-kubernetes-validations", ()):
            bare = re.sub(r"(isQ|q)uantity\(string\([a-z.A-Z]+\)\)", "", each["rule"])
            assert "string(" not in bare, f"{where}: {each['rule']}"


def test_every_field_is_explained() -> None:
    for definition in DEFINITIONS.values():
        properties = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        for top in ("spec", "status"):
            for where, schema in schemas(properties.get(top, {"description": "-"}), top):
                assert schema.get("description") or where.endswith("[]"), f"kubectl explain is silent about {where}"


def test_defaults_are_the_models_and_are_accepted_by_the_schema() -> None:
    defaulted = filled(SPEC, MINIMAL)
    assert defaulted["vertical"]["cpu"] == {"min": "100m", "step": "100m", "controls": "RequestsAndLimits"}
    assert not list(refusals(SPEC, defaulted))
    assert PolicySpec.model_validate(defaulted) == PolicySpec.model_validate(MINIMAL)


def with_(path: str, value: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"scaleTargetRef": {"name": "resnet"}, "objective": {"latency": {"target": "500ms"}}}
    place = spec
    *parents, last = path.split(".")
    for each in parents:
        place = place.setdefault(each, {})
    place[last] = value
    return spec


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("objective", {}, "spec.objective: needs at least one of latency, cpu, metrics"),
        ("objective.latency.target", "soon", "target: write a duration such as 500ms, 30s or 1m30s"),
        ("objective.latency.target", "0s", "target: must be longer than 0s"),
        ("objective.latency.within", "100%", "within: must be less than 100%"),
        ("objective.latency.within", "100.00%", "within: must be less than 100%"),
        ("objective.latency.within", "1.0", "within: must be less than 100%"),
        ("objective.latency.within", "990%", 'within: write a share such as 99% or "0.99", between 0% and 100%'),
        ("objective.latency", {"target": "1s", "within": "99%", "percentile": 0.95}, "set one of them"),
        ("vertical.cpu", {"min": "2", "max": "1500m"}, "spec.vertical.cpu: min is above max"),
        ("vertical.cpu", {"min": "5m"}, "spec.vertical.cpu.min: must be at least 10m"),
        ("vertical.cpu", {"max": "4Gi"}, "spec.vertical.cpu.max: write CPU in cores, such as 4 or 500m"),
        ("vertical.cpu", {"max": 4000}, "spec.vertical.cpu.max: must be less than 1000"),
        ("vertical.memory", {"max": 512}, "spec.vertical.memory.max: must be at least 4Mi"),
        ("vertical.cpu", {"step": 0}, "spec.vertical.cpu.step: must be more than 0"),
        ("vertical.memory", {"min": "2Gi", "max": "2G"}, "spec.vertical.memory: min is above max"),
        ("vertical.memory", {"min": "2GB"}, 'spec.vertical.memory.min: write an amount such as 500m, 2, "1.5" or 1Gi'),
        ("horizontal", {"minReplicas": 4, "maxReplicas": 3}, "spec.horizontal: minReplicas is above maxReplicas"),
        ("mode", "auto", "'auto' is not one of"),
        ("objective.metrics", [{"name": "q", "query": "sum(q)", "target": {"value": "-1"}}], "must be more than 0"),
    ],
)
def test_a_mistake_is_refused_in_a_sentence(path: str, value: Any, sentence: str) -> None:
    spec = with_(path, value)
    assert any(sentence in each for each in refusals(SPEC, spec)), list(refusals(SPEC, spec))
    assert not model_accepts(spec)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("objective.latency.target", "soon"), ("objective.latency.within", "much%"), ("signals.maxAge", 0),
        ("objective.latency.within", "0%"), ("objective.latency.within", 1), ("vertical.cpu.step", "1Ki"),
    ],
)  # fmt: skip
def test_one_mistake_is_told_once(path: str, value: Any) -> None:
    assert len(list(refusals(SPEC, with_(path, value)))) == 1


AMOUNTS = st.one_of(
    st.integers(-2, 5000),
    st.from_regex(r"\A-?[0-9]{0,3}((\.[0-9]{0,2})?(k|M|Mi|Gi|e3|)|m|u|n)\Z"),  # the model rounds 99.1m up
    st.sampled_from(["", "1..2", "1GB", "0.0001m", "1e3", "+1", " 1"]),
)
SHARES = st.one_of(
    st.integers(-1, 101),
    st.from_regex(r"\A[0-9]{0,3}(\.[0-9]{0,3})?%?\Z"),
    st.sampled_from(["0%", "100%", "100.0%", "1", "1.0", "0.0", ".", "%", "1e-2"]),
)
DURATIONS = st.one_of(
    st.integers(-1, 100), st.from_regex(r"\A[0-9]{0,2}(\.[0-9])?(ms|s|m|h|us|d|)([0-9]{1,2}s)?\Z"), st.just("0")
)
FIELDS = st.one_of(
    st.tuples(st.sampled_from(["vertical.cpu.min", "vertical.cpu.max", "vertical.cpu.step"]), AMOUNTS),
    st.tuples(st.sampled_from(["vertical.memory.min", "vertical.memory.max"]), AMOUNTS),
    st.tuples(
        st.sampled_from(["objective.latency.within", "vertical.memory.headroom", "vertical.behavior.shrink.minChange"]),
        SHARES,
    ),
    st.tuples(st.sampled_from(["objective.latency.target", "signals.maxAge"]), DURATIONS),
    st.tuples(st.sampled_from(["horizontal.minReplicas", "resize.timeoutSeconds"]), st.integers(-1, 4000)),
)


@given(FIELDS)
@example(("vertical.cpu.min", "10m"))
@example(("objective.latency.within", "99.99%"))
def test_schema_and_model_agree_on_every_field(field: tuple[str, Any]) -> None:
    spec = with_(*field)
    said = list(refusals(SPEC, spec))
    assert model_accepts(spec) == (not said), said


@given(st.fractions("1/64", 4, max_denominator=1000), st.fractions("1/64", 4, max_denominator=1000))
def test_order_is_by_value_whatever_the_spelling(low: Fraction, high: Fraction) -> None:
    spec = with_("vertical.memory", {"min": f"{round(low * 1024)}Mi", "max": f"{float(high):.3f}Gi"})
    said = list(refusals(SPEC, spec))
    assert model_accepts(spec) == (not said), said


def test_printer_columns_answer_at_a_glance() -> None:
    (version,) = DEFINITIONS["inferenceautoscalers.yaml"]["spec"]["versions"]
    shown = [each["name"].upper() for each in version["additionalPrinterColumns"] if not each.get("priority")]
    assert shown == ["TARGET", "MODE", "OBJECTIVE", "MISSES", "REPLICAS", "CPU", "READY", "AGE"]
    root = version["schema"]["openAPIV3Schema"]["properties"]
    for column in version["additionalPrinterColumns"]:
        place = root
        for step in re.sub(r"\[.*?\]", "", column["jsonPath"]).strip(".").split("."):
            if place.get("type") == "array":
                place = place["items"]
            if step == "metadata":
                break
            place = (place.get("properties") or place)[step]


def test_budgets_agree_with_their_model() -> None:
    schema = DEFINITIONS["capacitybudgets.yaml"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][
        "spec"
    ]
    assert not list(refusals(schema, {"cpu": "32", "memory": "128Gi"}))
    assert BudgetSpec.model_validate({"cpu": "32", "memory": "128Gi"}).cpu == 32000
    assert list(refusals(schema, {"cpu": "many"})) == ['spec.cpu: write an amount such as 500m, 2, "1.5" or 1Gi']


def test_the_page_and_a_folder_are_not_asked_for_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["crds", "--reference", "--output", str(tmp_path)]) == 2
    assert "not allowed with" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
