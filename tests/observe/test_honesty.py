"""docs/signals.md says what the code says."""

from __future__ import annotations

from pathlib import Path

from autoscaler.observe.honesty import written_into

PAGE = Path(__file__).parents[2] / "docs" / "signals.md"


def test_the_documents_tables_are_the_codes() -> None:
    """Write them anew with ``written_into`` when this fails."""
    page = PAGE.read_text()
    assert written_into(page) == page
    assert "| `NoTraffic` |" in page and "| `triton` |" in page
