"""docs/running.md says every setting and every own metric, as they are."""

from __future__ import annotations

import re
from pathlib import Path

from autoscaler import settings
from autoscaler.cli import COMMANDS
from autoscaler.observe.policy_errors import spelled
from autoscaler.serve.metrics import OwnMetrics

DOC = (Path(__file__).parents[2] / "docs" / "running.md").read_text()


def settings_table() -> list[str]:
    rows = []
    for leaf in settings.leaves():
        default = "" if leaf.field.default in (None, ()) else f"`{spelled(leaf.field, leaf.field.default)}`"
        rows.append(f"| `{leaf.flag}` | `{leaf.key}` | {default} | {leaf.field.description} |")
    return rows


def metrics_table() -> list[str]:
    metrics = OwnMetrics()
    metrics.count_api(lambda: {("GET", "200"): 1})
    return [f"| `{family.name}` | {family.type} | {family.documentation} |" for family in metrics.registry.collect()]


def test_every_setting_stands_there_with_its_default() -> None:
    for row in settings_table():
        assert row in DOC, f"docs/running.md lacks: {row}"
    flags = set(re.findall(r"^\| `(--[a-z-]+)` \|", DOC, re.MULTILINE))
    assert flags == {leaf.flag for leaf in settings.leaves()}


def test_every_metric_stands_there() -> None:
    for row in metrics_table():
        assert row in DOC, f"docs/running.md lacks: {row}"


def test_every_command_stands_there() -> None:
    for name in COMMANDS:
        assert f"`{name}`" in DOC, f"docs/running.md doesn't name the command {name}"
