"""The JSON of a query's answer: whole, or piece by piece as it arrives."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from autoscaler.observe.rows import Pieces, Row, all_rows, bare_rows, pieces


class _Result(msgspec.Struct):
    resultType: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Body(msgspec.Struct):
    status: str
    data: _Result = msgspec.field(default_factory=_Result)
    error: str = ""
    warnings: tuple[str, ...] = ()
    isPartial: bool = False
    """VictoriaMetrics' word for it."""


_BODY = msgspec.json.Decoder(_Body)
_SCALAR = msgspec.json.Decoder(tuple[float, str])


def error_of(body: bytes) -> str:
    """What a refusal says; empty where it is no query API's."""
    try:
        return _BODY.decode(body).error
    except msgspec.MsgspecError:
        return ""


class AnswerBody:
    """``kind``: the content's type, for people. ``warnings`` are known once the rows were read, which is possible once.

    Reading raises ValueError for what is no answer of a query API.
    """

    def __init__(self, chunks: Iterable[bytes], kind: str) -> None:
        self._chunks, self._kind = chunks, kind
        self.warnings: tuple[str, ...] = ()

    def rows(self) -> list[Row]:
        """All of them; a scalar is one without labels."""
        body = self._whole(b"".join(self._chunks))
        if body.data.resultType == "scalar":
            return [Row({}, _SCALAR.decode(body.data.result))]
        return all_rows(_vector(body))

    def pieces(self) -> Pieces:
        """The rows of a vector, some at a time, while they arrive."""
        rest = bytearray()
        yield from pieces(self._chunks, rest)
        yield bare_rows(_vector(self._whole(rest)))

    def _whole(self, written: bytes | bytearray) -> _Body:
        try:
            body = _BODY.decode(written)
        except msgspec.MsgspecError:
            raise ValueError(f"answers {self._kind}, not a query result") from None
        if body.status != "success":
            raise ValueError(f"answers {body.status}: {body.error[:120]}")
        self.warnings = body.warnings or (("some stores did not answer",) if body.isPartial else ())
        return body


def _vector(body: _Body) -> msgspec.Raw:
    if body.data.resultType != "vector":
        raise ValueError(f"answers a {body.data.resultType or 'nothing'}, not a vector")
    return body.data.result
