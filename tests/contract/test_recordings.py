"""The emulated cluster is held to what a real 1.36 control plane and kubelet answered."""

from __future__ import annotations

import asyncio
import collections
import os
from pathlib import Path

import looptime
import pytest

from tests.contract.exchanges import Exchange, read_distilled, read_full
from tests.contract.not_covered import NOT_COVERED, row_for
from tests.contract.replay import Outcome, replay

RECORDINGS = Path(__file__).parent / "recordings"
FULL = os.environ.get("AUTOSCALER_RECORDINGS", "")


def _files() -> list[Path]:
    files = sorted(RECORDINGS.glob("*.json"))
    if FULL:
        files += sorted(path for path in Path(FULL).glob("*.json") if path.name[:1].isdigit())
    return files


def _read(path: Path) -> list[Exchange]:
    return read_distilled(path) if path.parent == RECORDINGS else read_full(path)


async def _replay_all(exchanges: list[Exchange]) -> list[Outcome]:
    return [await replay(one) for one in exchanges]


@pytest.mark.parametrize("path", _files(), ids=lambda path: f"{path.parent.name}-{path.stem}")
@pytest.mark.looptime
async def test_answers_as_recorded(path: Path) -> None:
    wrong = []
    for exchange in _read(path):
        row = row_for(exchange)
        outcome = await replay(exchange, plantable=row is None)
        if row is not None:
            if outcome.status not in row.answers:
                wrong.append(f"[{exchange.index}] {exchange.label}: not covered, yet answered {outcome.status}")
        elif outcome.differences:
            request = f"{exchange.method} {exchange.path}"
            wrong.append(f"[{exchange.index}] {exchange.label} ({request}):\n    " + "\n    ".join(outcome.differences))
    assert not wrong, "\n" + "\n".join(wrong)


def test_what_is_covered(capsys: pytest.CaptureFixture[str]) -> None:
    counts: collections.Counter[str] = collections.Counter()
    for path in sorted(RECORDINGS.glob("*.json")):
        for exchange in read_distilled(path):
            row = row_for(exchange)
            counts["" if row is None else row.reason] += 1
    with capsys.disabled():
        print(f"\nrecorded exchanges covered: {counts['']}")
        for row in NOT_COVERED:
            print(f"not covered, {counts[row.reason]}: {row.reason}")
    assert counts[""] > 300


__all__ = ["asyncio", "looptime"]
