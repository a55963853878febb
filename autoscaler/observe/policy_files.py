"""Policies from files: YAML, JSON or KYAML, several documents, read into the typed model or refused line by line.

Every problem is one line, ``FILE[doc N]: spec.vertical.cpu.min: what is wrong; what to write (line L)``, and all
problems of all files are told at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from autoscaler.model.policy import Budget, Policy
from autoscaler.model.workload import WorkloadRef
from autoscaler.observe import yaml12
from autoscaler.observe.policy_errors import near
from autoscaler.observe.policy_object import BUDGET_KIND, POLICY_KIND, PolicyError, read_object
from autoscaler.observe.yaml12 import Document, YamlError

__all__ = ["NO_EFFECT", "POLICY_KIND", "SUFFIXES", "Policies", "PolicyError", "conflicts", "load"]

SUFFIXES = (".yaml", ".yml", ".json", ".kyaml")

NO_EFFECT: Mapping[str, str] = {}
"""Fields that are accepted and have no effect yet, with what happens instead. The one table; kept true by its test."""


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
