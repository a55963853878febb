"""A small Prometheus on loopback: it scrapes when told to, evaluates the PromQL we send, and fails when told to."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import promql_parser as promql
from aiohttp import web

from tests.observe.served import serving

Labels = tuple[tuple[str, str], ...]
LOOKBACK_S = 300.0
GONE = -0.0
"""A staleness marker."""
_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+(\d+))?$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass
class MockPrometheus:
    """``now``: its clock. ``answer``: replaces the answer of a query while it is set."""

    now: float = 1_000_000.0
    samples: dict[tuple[str, Labels], list[tuple[float, float]]] = field(default_factory=dict)
    queries: list[str] = field(default_factory=list)
    answer: Callable[[web.BaseRequest], object] | None = None
    warnings: list[str] = field(default_factory=list)

    def scrape(self, page: str, **labels: str) -> None:
        """Take a page in; series that it has no more end, as a staleness marker ends them."""
        seen = set()
        for name, written, value, stamp in _LINE.findall(page):
            own = {key: text.replace('\\"', '"') for key, text in _LABEL.findall(written)}
            key = (name, tuple(sorted({**labels, **own}.items())))
            self.samples.setdefault(key, []).append((int(stamp) / 1000 if stamp else self.now, float(value)))
            seen.add(key)
        self.gone(seen, **labels)

    def gone(self, kept: Iterable[tuple[str, Labels]] = (), **labels: str) -> None:
        keep = set(kept)
        for key, values in self.samples.items():
            if key not in keep and set(labels.items()) <= set(key[1]):
                values.append((self.now, GONE))

    def vector(self, node: promql.Expr, at: float) -> dict[Labels, float]:
        match node:
            case promql.VectorSelector():
                return {labels: value for labels, (_, value) in self._selected(node, at).items()}
            case promql.ParenExpr():
                return self.vector(node.expr, at)
            case promql.AggregateExpr():
                return self._aggregated(node, at)
            case promql.BinaryExpr():
                return self._binary(node, at)
            case promql.Call():
                return self._called(node, at)
        raise AssertionError(f"the mock can't evaluate {type(node).__name__}: {node}")

    def _selected(self, node: promql.VectorSelector, at: float) -> dict[Labels, tuple[float, float]]:
        found = {}
        for (name, labels), values in self.samples.items():
            if not _matches(node, {**dict(labels), "__name__": name}):
                continue
            until = [sample for sample in values if at - LOOKBACK_S < sample[0] <= at]
            if until and until[-1][1] is not GONE:
                found[(("__name__", name), *labels)] = until[-1]
        return found

    def _aggregated(self, node: promql.AggregateExpr, at: float) -> dict[Labels, float]:
        names = set(node.modifier.labels) if node.modifier else set()
        by = node.modifier is None or "By" in str(node.modifier.type)
        groups: dict[Labels, list[float]] = {}
        for labels, value in self.vector(node.expr, at).items():
            group = tuple(pair for pair in labels if (pair[0] in names) == by and (by or pair[0] != "__name__"))
            groups.setdefault(group, []).append(value)
        fold = {"sum": sum, "max": max, "count": len}[str(node.op)]
        return {labels: float(fold(values)) for labels, values in groups.items()}

    def _binary(self, node: promql.BinaryExpr, at: float) -> dict[Labels, float]:
        op = str(node.op)
        if op == "or":
            left = self.vector(node.lhs, at)
            shown = {_unnamed(labels) for labels in left}  # set operations compare labels without the name
            right = self.vector(node.rhs, at)
            return left | {labels: value for labels, value in right.items() if _unnamed(labels) not in shown}
        if isinstance(node.lhs, promql.NumberLiteral) and op == "*":
            return {_unnamed(labels): node.lhs.val * value for labels, value in self.vector(node.rhs, at).items()}
        if str(node.lhs) == "time()" and op == "-":
            return {labels: at - value for labels, value in self.vector(node.rhs, at).items()}
        raise AssertionError(f"the mock can't evaluate {node}")

    def _called(self, node: promql.Call, at: float) -> dict[Labels, float]:
        args = node.args
        match node.func.name:
            case "timestamp":
                return {_unnamed(labels): stamp for labels, (stamp, _) in self._selected(args[0], at).items()}
            case "vector":
                return {(): args[0].val}
            case "label_replace":
                target, replacement, source, pattern = (arg.val for arg in args[1:])
                out = {}
                for labels, value in self.vector(args[0], at).items():
                    have = dict(labels)
                    found = re.fullmatch(pattern, have.get(source, ""))
                    if found:
                        have[target] = re.sub(r"\$(\d)", lambda one: found[int(one[1])] or "", replacement)  # noqa: B023
                    out[tuple(sorted((k, v) for k, v in have.items() if v))] = value
                return out
            case "rate":
                matrix = args[0]
                span = matrix.range.total_seconds()
                out = {}
                for (name, labels), values in self.samples.items():
                    if _matches(matrix.vector_selector, {**dict(labels), "__name__": name}):
                        inside = [sample for sample in values if at - span < sample[0] <= at]
                        if len(inside) > 1:
                            out[labels] = (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])
                return out
        raise AssertionError(f"the mock has no {node.func.name}")

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        form = await request.post()
        query = str(form["query"])
        self.queries.append(query)
        if self.answer is not None:
            answer = self.answer(request)
            if hasattr(answer, "__await__"):
                answer = await answer
            return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)
        try:
            tree = promql.parse(query)
        except ValueError as wrong:
            return web.json_response({"status": "error", "errorType": "bad_data", "error": str(wrong)}, status=400)
        at = float(str(form.get("time", self.now)))
        rows = [
            {"metric": dict(labels), "value": [at, _written(value)]} for labels, value in self.vector(tree, at).items()
        ]
        body = {"status": "success", "data": {"resultType": "vector", "result": rows}}
        return web.json_response(body | ({"warnings": self.warnings} if self.warnings else {}))


def _written(value: float) -> str:
    return "NaN" if math.isnan(value) else f"{value:+.0f}".replace("inf", "Inf") if math.isinf(value) else repr(value)


def _unnamed(labels: Labels) -> Labels:
    return tuple(pair for pair in labels if pair[0] != "__name__")


def _matches(node: promql.VectorSelector, labels: dict[str, str]) -> bool:
    if node.name not in (None, labels["__name__"]):
        return False
    for matcher in node.matchers.matchers:
        have, op = labels.get(matcher.name, ""), str(matcher.op).rsplit(".", 1)[-1]
        same = have == matcher.value if op in ("Equal", "NotEqual") else re.fullmatch(matcher.value, have) is not None
        if same != (op in ("Equal", "Re")):
            return False
    return True


@asynccontextmanager
async def mock_prometheus() -> AsyncIterator[tuple[MockPrometheus, str]]:
    mock = MockPrometheus()
    async with serving(mock.handle) as port:
        yield mock, f"http://127.0.0.1:{port}"
