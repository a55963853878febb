"""One policy object, read into the typed model or refused line by line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from autoscaler.model.policy import API_VERSION, Budget, BudgetSpec, Policy, PolicySpec
from autoscaler.model.workload import WorkloadRef
from autoscaler.observe.names import resolve
from autoscaler.observe.policy_errors import Place, explain, misplaced, near
from autoscaler.observe.policy_measures import unmeasurable, unparsable
from autoscaler.observe.yaml12 import Document

POLICY_KIND, BUDGET_KIND = "InferenceAutoscaler", "CapacityBudget"
_SPECS: Mapping[str, type[BaseModel]] = {POLICY_KIND: PolicySpec, BUDGET_KIND: BudgetSpec}
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class PolicyError(ValueError):
    """What is wrong with the policies, one line each."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


def read_object(
    value: Any, label: str, namespace: str = "default", document: Document | None = None
) -> Policy | Budget:
    """One object, from a file or from the API server. ``label`` says where it is from. Raises PolicyError."""
    place = Place(label, document or Document(value))
    if not isinstance(value, dict):
        raise PolicyError([place.say((), f"is not an object; write apiVersion: {API_VERSION}, kind, metadata, spec")])
    problems = []
    kind, version = value.get("kind"), value.get("apiVersion")
    if not isinstance(kind, str) or kind not in _SPECS:
        meant = near(str(kind), _SPECS)
        told = f"{kind!r} is not a kind this program reads{meant}" if kind else "is missing"
        raise PolicyError([place.say(("kind",), f"{told}; write {POLICY_KIND} or {BUDGET_KIND}")])
    if version != API_VERSION:
        told = f"{version!r} is not known" if version else "is missing"
        problems.append(place.say(("apiVersion",), f"{told}; write {API_VERSION}"))
    for name in value:
        if name not in ("apiVersion", "kind", "metadata", "spec", "status"):
            meant = near(name, ("apiVersion", "kind", "metadata", "spec"))
            problems.append(place.say((name,), f"is not a field{meant}"))
    ref = _metadata(value.get("metadata"), namespace, place, problems)
    spec_type = _SPECS[kind]
    spec = value.get("spec")
    if not isinstance(spec, dict):
        problems.append(place.say(("spec",), "is missing; write what is wanted" if spec is None else "is not a map"))
        raise PolicyError(problems)
    problems.extend(place.say(("spec", *path), told) for path, told in misplaced(spec, spec_type))
    try:
        made = spec_type.model_validate(_without_nulls(spec))
    except ValidationError as error:
        problems.extend(explain(error, spec, spec_type, place))
    if problems:
        raise PolicyError(list(dict.fromkeys(problems)))
    generation = value["metadata"].get("generation", 0)
    if kind == BUDGET_KIND:
        return Budget(ref=ref, spec=made, origin=label)
    policy = Policy(ref=ref, spec=made, origin=label, generation=generation if isinstance(generation, int) else 0)
    told_of = (*unmeasurable(policy.spec), *unparsable(policy.spec))
    problems = [place.say(("spec", *path), told) for path, told in told_of]
    try:
        resolve(policy)
    except ValueError as error:  # an unknown preset, a label matcher that can't be read
        problems.append(place.say(("spec", "signals"), str(error).removeprefix("signals.")))
    if problems:
        raise PolicyError(problems)
    return policy


def _metadata(metadata: Any, namespace: str, place: Place, problems: list[str]) -> WorkloadRef:
    name: Any = None
    if not isinstance(metadata, dict):
        problems.append(place.say(("metadata",), "is missing; write metadata: {name: …, namespace: …}"))
    else:
        name = metadata.get("name")
        namespace = metadata.get("namespace") or namespace
        known = ("name", "namespace", "labels", "annotations", "uid", "resourceVersion", "generation",
                 "creationTimestamp", "managedFields", "finalizers", "ownerReferences", "selfLink",
                 "deletionTimestamp", "deletionGracePeriodSeconds")  # fmt: skip
        for key in metadata:
            if key not in known:
                problems.append(place.say(("metadata", key), f"is not a field{near(key, known[:4])}"))
        if name is None:
            problems.append(place.say(("metadata", "name"), "is missing; write a name"))
        for key, text in (("name", name), ("namespace", namespace)):
            if text is not None and (not isinstance(text, str) or not _DNS_NAME.fullmatch(text)):
                problems.append(
                    place.say(
                        ("metadata", key), f"{text!r} is not a Kubernetes name; write lower-case letters, digits, -"
                    )
                )
    return WorkloadRef(str(namespace), str(name))


def _without_nulls(value: Any) -> Any:
    """``field: null`` (or nothing after the colon) means not set, as it does for the API server."""
    match value:
        case dict():
            return {key: _without_nulls(item) for key, item in value.items() if item is not None}
        case list():
            return [_without_nulls(item) for item in value]
    return value
