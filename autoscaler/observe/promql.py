"""A user's PromQL: checked when the policy is loaded, and confined to one namespace where it came from a tenant.

``check`` gives one line with the column where the mistake is. ``confined`` returns a query in which *every* selector
carries ``namespace="own"``, proved by parsing the result again, or refuses: the daemon's rights at Prometheus are not
the tenant's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import promql_parser

NAMESPACE = "namespace"

READ_UNSEEN = frozenset({"info"})
"""Functions that read series beside those of their arguments (``info`` joins ``target_info``)."""
_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)
    |(?P<comment>\#[^\n]*)
    |(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
    |(?P<number>[0-9][0-9a-zA-Z_.]*)
    |(?P<mark>[^\s])""",
    re.VERBOSE,
)
_GROUPINGS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS = _GROUPINGS | {"offset", "bool", "and", "or", "unless", "atan2", "inf", "nan", "start", "end"}
_QUOTED = re.compile(r"'([^']+)'|for (\S+)$")


class BadQuery(ValueError):
    """The query can't be used; the message is one line with the place and what is wrong there."""


def check(query: str, where: str = "query") -> None:
    """Raises BadQuery for a syntax or type error, with its column (1 is the first character)."""
    try:
        tree = promql_parser.parse(query)
    except ValueError as wrong:
        column = _place(query, str(wrong))
        raise BadQuery(f"{where}: {wrong} at column {column}: {_shown(query, column)}") from None
    if isinstance(tree, promql_parser.MatrixSelector | promql_parser.SubqueryExpr):
        raise BadQuery(f"{where}: a range is no number: put it into a function, for example rate({query.strip()})")
    if isinstance(tree, promql_parser.StringLiteral):
        raise BadQuery(f"{where}: a string is no number")
    if (past := _only_past(query)) is not None:
        raise BadQuery(
            f"{where}: no value of now is read, at column {past}: {_shown(query, past)}: "
            "a decision needs one; `offset` and `@` are for what it is compared with"
        )


def _only_past(query: str) -> int | None:
    """The column of the modifier by which nothing of now is read; None where something is, or nothing at all."""
    moved = False

    def visit(node: promql_parser.Expr) -> bool:
        nonlocal moved
        moved = moved or (isinstance(node, promql_parser.SubqueryExpr) and not (node.offset is None and _now(node.at)))
        return True

    promql_parser.walk(promql_parser.parse(query), visit)
    read = list(selectors(query))
    if not moved and (not read or any(is_of_now(selector) for selector in read)):
        return None
    found = (token for token in _TOKEN.finditer(query) if token[0].lower() == "offset" or token[0] == "@")
    return next((token.start() + 1 for token in found if token.lastgroup in ("name", "mark")), 1)


def is_of_now(selector: promql_parser.VectorSelector) -> bool:
    """Whether neither ``offset`` nor ``@`` moves it to another time (start() and end() of an instant query are now)."""
    return selector.offset is None and _now(selector.at)


def _now(at: object) -> bool:
    return at is None or str(at) in ("@ start()", "@ end()")


def confined(query: str, namespace: str, where: str = "query", label: str = NAMESPACE) -> str:
    """The query with ``namespace="own"`` in every selector; ``label``: how the scrape configuration calls namespaces.

    Raises BadQuery where that can't be had.
    """
    check(query, where)
    _nothing_unseen(query, where)
    for selector in selectors(query):
        for matcher in selector.matchers.matchers:
            if matcher.name == label and not _is_own(matcher, namespace):
                raise BadQuery(
                    f"{where}: {selector} reads another namespace; a query of a policy in {namespace} may only say "
                    f'{label}="{namespace}"'
                )
        if selector.matchers.or_matchers:
            raise BadQuery(f"{where}: `or` between label matchers is not allowed in a confined query")
    written = _with_matcher(query, f'{label}="{namespace}"')
    try:
        found = list(selectors(written))
    except ValueError:
        found = []
    safe = bool(found) or not list(selectors(query))
    for selector in found:
        named = [matcher for matcher in selector.matchers.matchers if matcher.name == label]
        safe = safe and not selector.matchers.or_matchers and bool(named)
        safe = safe and all(_is_own(matcher, namespace) for matcher in named)
    if not safe or len(found) != len(list(selectors(query))):
        raise BadQuery(f'{where}: write {label}="{namespace}" into every selector of this query')
    return written


def _nothing_unseen(query: str, where: str) -> None:
    """Refuses functions that read series which no selector of the text names."""

    def visit(node: promql_parser.Expr) -> bool:
        if isinstance(node, promql_parser.Call) and node.func.name in READ_UNSEEN:
            found = re.search(rf"\b{node.func.name}\s*\(", query)
            column = found.start() + 1 if found else 1
            raise BadQuery(
                f"{where}: {node.func.name}() reads series of all namespaces, not allowed in a confined query, "
                f"at column {column}: {_shown(query, column)}"
            )
        return True

    promql_parser.walk(promql_parser.parse(query), visit)


def selectors(query: str) -> Iterator[promql_parser.VectorSelector]:
    """All selectors of a query, those inside ranges and subqueries included. Raises ValueError for a syntax error."""
    found: list[promql_parser.VectorSelector] = []

    def visit(node: promql_parser.Expr) -> bool:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)
        return True

    promql_parser.walk(promql_parser.parse(query), visit)
    return iter(found)


def selector_text(selector: promql_parser.VectorSelector) -> str:
    """The selector without its offset, as PromQL; the library's own printing doesn't escape values."""
    written = ",".join(_matcher_text(matcher) for matcher in selector.matchers.matchers)
    return f"{selector.name or ''}{{{written}}}"


def quoted(value: str) -> str:
    """A PromQL string."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


_OPERATORS = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}


def _matcher_text(matcher: promql_parser.Matcher) -> str:
    operator = str(matcher.op).rsplit(".", 1)[-1]
    return f"{matcher.name}{_OPERATORS[operator]}{quoted(matcher.value)}"


def _is_own(matcher: promql_parser.Matcher, namespace: str) -> bool:
    return matcher.op == promql_parser.MatchOp.Equal and matcher.value == namespace


def _with_matcher(query: str, matcher: str) -> str:
    """Write ``matcher`` into each selector of the text; ``confined`` proves the result."""
    tokens = [(found.lastgroup, found[0], found.start(), found.end()) for found in _TOKEN.finditer(query)]
    tokens = [token for token in tokens if token[0] != "comment"]
    pieces, done, skip_until, closing = [], 0, -1, ""
    for place, (kind, text, start, end) in enumerate(tokens):
        following = tokens[place + 1][1] if place + 1 < len(tokens) else ""
        if place <= skip_until:
            continue
        if closing:
            closing = "" if text == closing else closing
        elif text == "[":
            closing = "]"  # a range: durations are no names
        elif text == "{":
            closing = "}"
            pieces += [query[done:end], matcher, "," if following != "}" else ""]
            done = end
        elif kind == "name" and text.lower() in _GROUPINGS and following == "(":
            skip_until = next(at for at in range(place, len(tokens)) if tokens[at][1] == ")")
        elif kind == "name" and following not in ("(", "{") and not _is_word(text, query, start, tokens, place):
            pieces += [query[done:end], "{", matcher, "}"]
            done = end
    return "".join(pieces) + query[done:]


def _is_word(text: str, query: str, start: int, tokens: list[tuple[str | None, str, int, int]], place: int) -> bool:
    """Whether a bare name is a keyword, an aggregation before its grouping, or the tail of a duration."""
    if text.lower() in _WORDS or (start > 0 and query[start - 1].isdigit()):
        return True
    return place + 1 < len(tokens) and tokens[place + 1][1].lower() in ("by", "without") and _aggregates(text)


def _aggregates(name: str) -> bool:
    try:
        return isinstance(promql_parser.parse(f"{name}(x)"), promql_parser.AggregateExpr)
    except ValueError:
        return name in ("topk", "bottomk", "quantile", "count_values", "limitk", "limit_ratio")


def _place(query: str, message: str) -> int:
    """The column of a mistake, which the parser doesn't tell: what it names, else what doesn't balance, else the one
    token without which the query could be read, else the end."""
    pairs = {")": "(", "]": "[", "}": "{"}
    if found := _QUOTED.search(message):
        named = found[1] or found[2]
        if named not in pairs and (
            at := re.search(rf"(?<![\w:]){re.escape(named)}(?![\w:])|{re.escape(named)}", query)
        ):
            return at.start() + 1
    opened: list[tuple[str, int]] = []
    for found in _TOKEN.finditer(query):
        text = found[0]
        if text in ("(", "[", "{"):
            opened.append((text, found.start()))
        elif text in pairs:
            if not opened or opened.pop()[0] != pairs[text]:
                return found.start() + 1
        elif text in ('"', "'", "`"):
            return found.start() + 1
    if opened:
        return opened[-1][1] + 1
    for found in _TOKEN.finditer(query):
        try:
            promql_parser.parse(query[: found.start()] + " " + query[found.end() :])
        except ValueError:
            continue
        return found.start() + 1
    return len(query) + 1


def _shown(query: str, column: int) -> str:
    rest = query[column - 1 : column + 29].replace("\n", " ")
    return rest + "…" if len(query) > column + 29 else rest or "(its end)"
