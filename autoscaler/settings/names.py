"""The three names of each setting (flag, variable, key of the file), and the flags on a command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from autoscaler.model.policy import CpuAmount
from autoscaler.observe.policy_errors import FieldPath, spelled
from autoscaler.settings.tree import Duration, ExistingFile, Settings

PREFIX = "AUTOSCALER_"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One setting with its three names."""

    path: tuple[str, ...]
    field: FieldInfo

    @property
    def flag(self) -> str:
        return "--" + "-".join(self.path).replace("_", "-")

    @property
    def variable(self) -> str:
        return PREFIX + "_".join(self.path).upper()

    @property
    def key(self) -> str:
        return ".".join(to_camel(part) for part in self.path)

    @property
    def many(self) -> bool:
        return get_origin(self.field.annotation) is tuple

    @property
    def switch(self) -> bool:
        return self.field.annotation is bool


def leaves(model: type[BaseModel] = Settings, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Every setting, in the order of the tree."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from leaves(inner, (*path, name))
        else:
            yield Leaf((*path, name), field)


def add_arguments(parser: argparse.ArgumentParser, only: Sequence[str] | None = None) -> None:
    """One flag for each setting; ``only`` keeps the settings (or branches) named."""
    parser.add_argument("--config", metavar="FILE", help="YAML file with settings (AUTOSCALER_CONFIG)")
    for leaf in leaves():
        if only is not None and leaf.path[0] not in only:
            continue
        text = f"{leaf.field.description or ''} [{_default(leaf)}]".replace("%", "%%")
        dest = destination(leaf.path)
        if leaf.switch:
            parser.add_argument(leaf.flag, dest=dest, action=argparse.BooleanOptionalAction, default=None, help=text)
        elif leaf.many:
            parser.add_argument(leaf.flag, dest=dest, action="append", metavar=_metavar(leaf), help=text)
        else:
            parser.add_argument(leaf.flag, dest=dest, metavar=_metavar(leaf), help=text)


def flags_given(args: argparse.Namespace, beside: Sequence[str] = ("log",)) -> list[str]:
    """The settings that were given as flags, but those of ``beside``."""
    return [
        leaf.flag for leaf in leaves() if leaf.path[0] not in beside and getattr(args, destination(leaf.path), None)
    ]


def camel(path: Sequence[str]) -> FieldPath:
    return tuple(to_camel(part) for part in path)


def destination(path: Sequence[str]) -> str:
    return "setting_" + "_".join(path)


def _metavar(leaf: Leaf) -> str:
    kinds: dict[Any, str] = {Duration: "TIME", CpuAmount: "CPU", ExistingFile: "FILE"}
    last = leaf.path[-1]
    if "file" in last or last in ("policy", "kubeconfig"):
        return "FILE"
    inside = (leaf.field.annotation, *get_args(leaf.field.annotation))
    if get_origin(leaf.field.annotation) is Literal:
        return "|".join(get_args(leaf.field.annotation))
    return kinds.get(leaf.field.annotation, "N" if int in inside or float in inside else last.upper())


def _default(leaf: Leaf) -> str:
    default = leaf.field.default
    shown = "" if default in (None, ()) else f"; default {spelled(leaf.field, default)}"
    return f"{leaf.variable}{shown}"
