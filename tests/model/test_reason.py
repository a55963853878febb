"""Reasons: a closed vocabulary; each code has a sentence, and each sentence shows its numbers."""

from __future__ import annotations

import string

import pytest

from autoscaler.model.reason import TEXTS, Code, because


@pytest.mark.parametrize("code", list(Code))
def test_every_code_has_a_sentence_that_can_be_rendered(code: Code) -> None:
    fields = {name: 0.5 for _, name, _, _ in string.Formatter().parse(TEXTS[code]) if name}
    text = because(code, **fields).text
    assert text and "?" not in text


def test_numbers_are_shown_in_the_units_people_read() -> None:
    text = because(Code.BREACH, misses=0.034, target=0.5, allowed=0.01).text
    assert text == "3.4% of requests missed 500ms (allowed 1%)"
    assert "2.2 cores free on n1" in because(Code.NODE_FULL, wanted=3000, free=2200, node="n1").text


def test_a_missing_number_is_seen_not_hidden() -> None:
    assert "?" in because(Code.AT_MAX, wanted=1000).text
