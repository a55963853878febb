"""What was given: the command line before the scenario file before the defaults, and the policy it names."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from autoscaler.model.policy import PolicySpec


def settle(args: argparse.Namespace, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Command line before scenario file before defaults."""
    given = {name: value for name, value in vars(args).items() if value is not None}
    written: dict[str, Any] = {}
    if given.get("scenario"):
        written = read_scenario(Path(given["scenario"]), set(vars(args)))
    names = [*vars(args), *defaults]
    return {name: given.get(name, written.get(name, defaults.get(name))) for name in names}


def read_scenario(path: Path, known: set[str]) -> dict[str, Any]:
    """The flags of a YAML file; loads are looked for beside it."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"scenario {path}: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict):
        raise ValueError(f"scenario {path}: expected keys like the flags, as in load: trace.csv")
    written: dict[str, Any] = {}
    for key, value in found.items():
        name = str(key).replace("-", "_")
        if name not in known or name == "scenario":
            raise ValueError(f"scenario {path}: there is no flag --{key}")
        if name == "load":
            value = [str(path.parent / one) for one in (value if isinstance(value, list) else [value])]
        elif name == "generate":
            value = [str(one) for one in (value if isinstance(value, list) else [value])]
        elif isinstance(value, list):
            value = ",".join(str(one) for one in value)
        elif name == "policy":
            value = str(path.parent / str(value))
        written[name] = value
    return written


def read_policy(path: Path) -> PolicySpec:
    """The one InferenceAutoscaler of a file (or its bare spec)."""
    try:
        documents = [found for found in yaml.safe_load_all(path.read_text(encoding="utf-8")) if found]
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"policy {path}: {' '.join(str(error).split())}") from error
    specs = [
        found.get("spec", found)
        for found in documents
        if isinstance(found, dict) and found.get("kind", "InferenceAutoscaler") == "InferenceAutoscaler"
    ]
    if len(specs) != 1:
        raise ValueError(f"policy {path}: needs exactly one InferenceAutoscaler, has {len(specs)}")
    try:
        return PolicySpec.model_validate(specs[0])
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"policy {path}: spec.{place}: {first['msg']}") from error
