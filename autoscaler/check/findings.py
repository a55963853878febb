"""What a check found: one line each, with the remedy where there is something to do."""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class Level(enum.StrEnum):
    OK = "ok"
    WARNING = "warning"
    """It will work, not as well as it could or not as one may expect."""
    PROBLEM = "problem"
    """It will not work until this is changed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """``about``: ``cluster`` or a policy's namespace/name; ``topic``: one word for filters; ``remedy``: what to do."""

    level: Level
    about: str
    topic: str
    text: str
    remedy: str = ""


def fine(about: str, topic: str, text: str) -> Finding:
    return Finding(Level.OK, about, topic, text)


def warn(about: str, topic: str, text: str, remedy: str = "") -> Finding:
    return Finding(Level.WARNING, about, topic, text, remedy)


def wrong(about: str, topic: str, text: str, remedy: str) -> Finding:
    return Finding(Level.PROBLEM, about, topic, text, remedy)


def works(findings: Sequence[Finding]) -> bool:
    """Whether nothing stands in the way."""
    return all(finding.level is not Level.PROBLEM for finding in findings)


def as_text(findings: Sequence[Finding]) -> str:
    """One line a finding, aligned, and a last line that counts them."""
    width = max((len(finding.about) for finding in findings), default=0)
    lines = [
        f"{finding.level:<8} {finding.about:<{width}}  {finding.text}"
        + (f": {finding.remedy}" if finding.remedy else "")
        for finding in findings
    ]
    counts = {level: sum(1 for finding in findings if finding.level is level) for level in Level}
    lines.append(f"{counts[Level.OK]} ok, {counts[Level.WARNING]} warnings, {counts[Level.PROBLEM]} problems")
    return "\n".join(lines) + "\n"


def as_json(findings: Sequence[Finding]) -> str:
    """``works`` and the findings in order."""
    shown: list[dict[str, Any]] = [
        {"level": str(one.level), "about": one.about, "topic": one.topic, "text": one.text, "remedy": one.remedy}
        for one in findings
    ]
    return json.dumps({"works": works(findings), "findings": shown}, indent=2, ensure_ascii=False) + "\n"
