"""A user's PromQL: the place of a mistake, and the walls of its namespace."""

from __future__ import annotations

import pytest

from autoscaler.observe import promql
from autoscaler.observe.promql import BadQuery, check, confined


@pytest.mark.parametrize(
    ("query", "column", "said"),
    [
        ('sum(rate(a{b="c"}[5m]', 9, "unclosed left parenthesis"),
        ("1 + rate(a)", 5, "expected type matrix"),
        ("sum(x) + foo(a)", 10, "unknown function"),
        ('a{b="c}', 5, "unterminated"),
        ("a +* b", 3, "invalid"),
        ("a{b=c}", 5, "unexpected identifier"),
        ("rate(a[5m])) ", 12, "unexpected right parenthesis"),
    ],
)
def test_a_mistake_is_told_with_its_column(query: str, column: int, said: str) -> None:
    with pytest.raises(BadQuery, match=said) as refused:
        check(query, "signals.latency.query")
    assert f"at column {column}:" in str(refused.value) and "\n" not in str(refused.value)


def test_a_range_and_a_string_are_no_numbers() -> None:
    for query in ("a[5m]", '"x"'):
        with pytest.raises(BadQuery, match="no number"):
            check(query)


@pytest.mark.parametrize(
    "query",
    [
        "sum by (code) (rate(a[5m])) / on (x) group_left(y) b offset 5m",
        "max_over_time((a > bool 1)[5m:10s])",
        '{__name__="x"}',
        'topk(5, a{b="}"}) unless c',
        "# {\na @ start()",
        "sum(a) by (namespace) + avg without(pod) (m:n:sum)",
        'a{b="x\\",namespace=\\"other"}',
        "1 + inf",
    ],
)
def test_every_selector_is_confined(query: str) -> None:
    written = confined(query, "own")
    for selector in promql.selectors(written):
        named = [one.value for one in selector.matchers.matchers if one.name == "namespace"]
        assert named == ["own"]
    assert len(list(promql.selectors(written))) == len(list(promql.selectors(query)))


@pytest.mark.parametrize(
    "query",
    [
        'a{namespace="other"}',
        'a{namespace=~".*"}',
        'sum(a{namespace!="own"})',
        'a{x="1" or namespace="other"}',
        '{"a","namespace"="other"}',
        'b / a{namespace="other"}',
    ],
)
def test_a_query_that_looks_elsewhere_is_refused(query: str) -> None:
    with pytest.raises(BadQuery):
        confined(query, "own")
