"""Policies from files: YAML, JSON or KYAML, several documents, read into the typed model or refused line by line.

Every problem is one line, ``FILE[doc N]: spec.vertical.cpu.min: what is wrong; what to write (line L)``, and all
problems of all files are told at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from autoscaler.model.policy import API_VERSION, Budget, BudgetSpec, Policy, PolicySpec
from autoscaler.model.workload import WorkloadRef
from autoscaler.observe import promql, yaml12
from autoscaler.observe.names import resolve
from autoscaler.observe.policy_errors import Place, explain, misplaced, near
from autoscaler.observe.yaml12 import Document, YamlError

SUFFIXES = (".yaml", ".yml", ".json", ".kyaml")
POLICY_KIND, BUDGET_KIND = "InferenceAutoscaler", "CapacityBudget"
_SPECS: Mapping[str, type[BaseModel]] = {POLICY_KIND: PolicySpec, BUDGET_KIND: BudgetSpec}
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

NO_EFFECT: Mapping[str, str] = {}
"""Fields that are accepted and have no effect yet, with what happens instead. The one table; kept true by its test."""


class PolicyError(ValueError):
    """What is wrong with the policies, one line each."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


@dataclass(frozen=True, slots=True)
class Policies:
    """All that the files say."""

    policies: tuple[Policy, ...] = ()
    budgets: tuple[Budget, ...] = ()

    def without_effect(self) -> tuple[tuple[str, str], ...]:
        """``(field, what happens instead)`` for every field set somewhere that has no effect yet; each once."""
        told = {}
        for policy in self.policies:
            for path, instead in NO_EFFECT.items():
                if _is_set(policy.spec, path.split(".")):
                    told[f"spec.{path}"] = instead
        return tuple(told.items())


def load(paths: Iterable[str | Path], namespace: str = "default") -> Policies:
    """Everything in the files and directories. ``namespace`` is for documents that name none. Raises PolicyError."""
    problems: list[str] = []
    policies: list[Policy] = []
    budgets: list[Budget] = []
    for file in _files(paths, problems):
        for value, document, label in _documents(file, problems):
            try:
                made = read_object(value, label, namespace, document)
            except PolicyError as error:
                problems.extend(error.lines)
                continue
            (policies if isinstance(made, Policy) else budgets).append(made)  # type: ignore[arg-type]
    problems.extend(conflicts(policies, budgets))
    if problems:
        raise PolicyError(problems)
    return Policies(tuple(policies), tuple(budgets))


def conflicts(policies: Sequence[Policy], budgets: Sequence[Budget]) -> list[str]:
    """What is wrong between objects: names used twice, two policies for one target, a budget nobody defined."""
    problems = []
    named: dict[tuple[str, WorkloadRef], str] = {}
    both: list[tuple[str, Policy | Budget]] = [(POLICY_KIND, one) for one in policies]
    both += [(BUDGET_KIND, one) for one in budgets]
    for kind, made in both:
        other = named.setdefault((kind, made.ref), made.origin)
        if other is not made.origin:
            problems.append(
                f"{made.origin}: metadata.name: {kind} {made.ref} is defined already in {other}; rename one"
            )
    targets: dict[tuple[str, str, str, str], Policy] = {}
    for policy in policies:
        target = policy.target
        group = target.api_version.rpartition("/")[0]
        first = targets.setdefault((policy.ref.namespace, group, target.kind, target.name), policy)
        if first is not policy and first.ref != policy.ref:
            problems.append(
                f"{policy.origin}: spec.scaleTargetRef: {target} in {policy.ref.namespace} has a policy already, "
                f"{first.ref.name} in {first.origin}; keep one of them"
            )
    known = {budget.ref for budget in budgets}
    for policy in policies:
        if policy.spec.budget and WorkloadRef(policy.ref.namespace, policy.spec.budget) not in known:
            meant = near(policy.spec.budget, [b.name for b in known if b.namespace == policy.ref.namespace])
            problems.append(
                f"{policy.origin}: spec.budget: no CapacityBudget {policy.spec.budget!r} in namespace "
                f"{policy.ref.namespace}{meant}; add one beside the policy or drop the field"
            )
    return problems


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
    told_of = (*_unmeasurable(policy.spec), *_unparsable(policy.spec))
    problems = [place.say(("spec", *path), told) for path, told in told_of]
    try:
        resolve(policy)
    except ValueError as error:  # an unknown preset, a label matcher that can't be read
        problems.append(place.say(("spec", "signals"), str(error).removeprefix("signals.")))
    if problems:
        raise PolicyError(problems)
    return policy


def _files(paths: Iterable[str | Path], problems: list[str]) -> list[Path]:
    """The files meant, directories opened; hidden names (a ConfigMap's ``..data``) are left out."""
    found: list[Path] = []
    for given in paths:
        path = Path(given)
        if path.is_dir():
            inside = sorted(
                entry for entry in path.iterdir()
                if entry.suffix in SUFFIXES and not entry.name.startswith(".") and entry.is_file()
            )  # fmt: skip
            if not inside:
                problems.append(f"{path}: no policy file in this directory; put *.yaml, *.yml, *.kyaml or *.json there")
            found.extend(inside)
        elif path.is_file():
            found.append(path)
        else:
            problems.append(f"{path}: no such file or directory; name an existing one with --policy")
    return list(dict.fromkeys(found))


def _documents(file: Path, problems: list[str]) -> list[tuple[Any, Document, str]]:
    """``(object, document, label)`` of one file; the items of a List each count as one."""
    try:
        text = file.read_text(encoding="utf-8-sig")
        documents = yaml12.load_json(text) if file.suffix == ".json" else yaml12.load_all(text)
    except YamlError as error:
        where = f" (line {error.line})" if error.line else ""
        problems.append(
            f"{file}: can't be read as {'JSON' if file.suffix == '.json' else 'YAML'}: {error.message}{where}"
        )
        return []
    except UnicodeDecodeError:
        problems.append(f"{file}: is not UTF-8 text")
        return []
    except OSError as error:
        problems.append(f"{file}: can't be read: {error.strerror}")
        return []
    if not documents:
        problems.append(f"{file}: is empty; write an {POLICY_KIND}")
    found: list[tuple[Any, Document, str]] = []
    for number, document in enumerate(documents, 1):
        value = document.value
        label = f"{file}[doc {number}]"
        if (
            isinstance(value, dict)
            and str(value.get("kind", "")).endswith("List")
            and isinstance(value.get("items"), list)
        ):
            for place, item in enumerate(value["items"]):
                cut = {
                    path[2:]: line for path, line in document.lines.items() if path[:2] == ("items", place) and path[2:]
                }
                found.append((item, Document(item, cut), f"{label}.items[{place}]"))
        else:
            found.append((value, document, label))
    return found


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


def _unmeasurable(spec: PolicySpec) -> list[tuple[tuple[str, ...], str]]:
    """An objective that nothing could measure is refused, not ignored."""
    found: list[tuple[tuple[str, ...], str]] = []
    signals = spec.signals
    if spec.objective.latency and signals.latency is None and signals.preset is None:
        found.append(
            (("objective", "latency"), "nothing measures it; write signals.preset or signals.latency.histogram")
        )
    latency = signals.latency
    if latency is not None and not (latency.histogram or latency.query or latency.summary):
        found.append((("signals", "latency"), "names no metric; write histogram, summary or query"))
    for name, signal, key in (("requests", signals.requests, "counter"), ("failures", signals.failures, "counter"),
                              ("inFlight", signals.in_flight, "gauge")):  # fmt: skip
        if signal is not None and not (getattr(signal, key) or signal.query):
            found.append((("signals", name), f"names no metric; write {key} or query"))
    return found


def _queries(spec: PolicySpec) -> list[tuple[tuple[str, ...], str]]:
    """(place, PromQL) of every query that a policy writes."""
    signals = spec.signals
    named = (("latency", signals.latency), ("requests", signals.requests), ("failures", signals.failures),
             ("inFlight", signals.in_flight))  # fmt: skip
    found: list[tuple[tuple[str, ...], str]] = [
        (("signals", name, "query"), signal.query) for name, signal in named if signal and signal.query
    ]
    found += [
        (("objective", "metrics", str(place), "query"), metric.query)
        for place, metric in enumerate(spec.objective.metrics)
    ]
    return found


def asks_prometheus(policy: Policy) -> list[str]:
    """A line for each query that nobody could answer without a Prometheus."""
    return [
        f"{policy.origin}: spec.{'.'.join(path)}: a query needs a Prometheus; name one with --prometheus-url"
        for path, _ in _queries(policy.spec)
    ]


def _unparsable(spec: PolicySpec) -> list[tuple[tuple[str, ...], str]]:
    """PromQL is checked when it is read, not when the load rises."""
    found = []
    for path, query in _queries(spec):
        try:
            promql.check(query)
        except promql.BadQuery as error:
            found.append((path, str(error).removeprefix("query: ")))
    return found


def _is_set(model: BaseModel, path: Sequence[str]) -> bool:
    """Whether a person wrote something there that differs from the default."""
    current: Any = model
    for name in path:
        key = next((k for k, f in type(current).model_fields.items() if (f.alias or k) == name), None)
        if key is None or key not in current.model_fields_set:
            return False
        default = type(current).model_fields[key].get_default(call_default_factory=True)
        current = getattr(current, key)
        if current == default:
            return False
    return True
