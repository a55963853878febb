"""A user's PromQL: the place of a mistake, and the walls of its namespace."""

from __future__ import annotations

import re

import promql_parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.observe import promql
from autoscaler.observe.promql import BadQuery, check, confined
from autoscaler.observe.user_queries import with_ages


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


def test_the_scrapes_own_word_for_namespaces_is_used() -> None:
    assert confined("sum(a)", "own", label="kubernetes_namespace") == 'sum(a{kubernetes_namespace="own"})'
    with pytest.raises(BadQuery, match="another namespace"):
        confined('a{kubernetes_namespace="other"}', "own", label="kubernetes_namespace")


def test_a_function_that_reads_what_no_selector_names_is_refused_with_its_place() -> None:
    with pytest.raises(BadQuery, match=r"info\(\) reads series of all namespaces.* at column 7: info\(a\)"):
        confined("1 +   info(a)", "own")
    check("info(a)")  # the operator's own queries may


@pytest.mark.parametrize(
    "query", ["a offset 1h", "sum(rate(a[5m] offset 1h))", "a @ 1600000000", "max_over_time(a[5m:1m] offset 1h)"]
)
def test_a_query_of_the_past_alone_is_refused_with_its_place(query: str) -> None:
    with pytest.raises(BadQuery, match="no value of now is read, at column"):
        check(query, "signals.requests.query")


def test_a_comparison_with_the_past_is_as_fresh_as_its_present() -> None:
    check("a / a offset 1w")
    written = with_ages("a / b offset 1w")
    assert written.count("timestamp(") == 1 and "timestamp(a{})" in written


names = st.sampled_from(["a", "job:rate5m", "up"])
values = st.text(alphabet='ab{}"\\\n#,=', max_size=4)
labels = st.tuples(st.sampled_from(["code", "pod"]), st.sampled_from(["=", "!=", "=~", "!~"]), values).map(
    lambda one: f"{one[0]}{one[1]}{promql.quoted(re.escape(one[2]) if '~' in one[1] else one[2])}"
)
series = st.tuples(names, st.lists(labels, max_size=2), st.booleans()).map(
    lambda one: f"{one[0]}{{{','.join(one[1])}{',' if one[2] and one[1] else ''}}}" if one[1] or one[2] else one[0]
)
comment = st.sampled_from(["", " ", "\n# {a} by (namespace)\n", "  "])
queries = st.recursive(
    series,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "/", "and", "or", "unless", "> bool"]), inner, comment).map(
            lambda one: f"({one[0]}){one[3]} {one[1]} ({one[2]})"
        ),
        st.tuples(
            st.sampled_from(["sum", "max", "topk"]), inner, st.sampled_from(["", "by (pod) ", "without(x) "])
        ).map(lambda one: f"{one[0]} {one[2]}({'2, ' if one[0] == 'topk' else ''}{one[1]})"),
        st.tuples(series, st.sampled_from(["[5m]", "[30s]"])).map(lambda one: f"rate({one[0]}{one[1]})"),
        inner.map(lambda one: f"max_over_time(({one})[5m:10s])"),
        inner.map(lambda one: f'label_replace({one}, "namespace", "x", "", "")'),
        inner.map(lambda one: f"absent({one})"),
        st.tuples(series, series).map(lambda one: f"{one[0]} / on (pod) group_left(namespace) {one[1]} offset 1h"),
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=300)
@given(queries)
def test_every_selector_of_every_query_is_confined_or_the_query_refused(query: str) -> None:
    try:
        wanted = len(list(promql.selectors(query)))
    except ValueError:
        return
    try:
        written = confined(query, "own")
    except BadQuery as refused:
        assert "\n" not in str(refused)
        return
    found = list(promql.selectors(written))
    assert len(found) == wanted
    for selector in found:
        assert [(one.op, one.value) for one in selector.matchers.matchers if one.name == "namespace"] == [
            (promql_parser.MatchOp.Equal, "own")
        ]
