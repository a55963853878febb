"""Loads read from files: requests per second a line, `time,rate` rows, lists of requests, Faro's JSON.

Whatever is wrong with a file is one ValueError that names the file, the line and the remedy.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import numpy as np

from autoscaler.simulate.load import Load

FORMATS = ("rps", "csv", "requests", "faro")
_TIME = ("timestamp", "t_send_s", "sent_s", "arrived_at", "arrival", "time", "t", "t_seconds", "ts")
_CONTEXT = ("contexttokens", "context_tokens", "input_tokens", "request tokens", "num_prefill_tokens", "prompt_tokens")
_GENERATED = (
    "generatedtokens",
    "generated_tokens",
    "output_tokens",
    "response tokens",
    "num_decode_tokens",
    "completion_tokens",
)

_WORK = {"cpu_ms": 1e-3, "work_ms": 1e-3, "service_ms": 1e-3, "cpu_s": 1.0, "work_s": 1.0, "service_s": 1.0}


def read(path: Path, form: str | None = None) -> tuple[Load, ...]:
    """The loads of one file; `form` is one of FORMATS, or told from the content."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"load {path}: {error}") from error
    lines = text.splitlines()
    if not any(line.strip() for line in lines):
        raise ValueError(f"load {path}: is empty")
    form = form or guess(lines)
    name = path.stem
    match form:
        case "rps":
            return (Load(name, rates=_rates(path, lines)),)
        case "csv":
            return (_series(path, name, lines),)
        case "requests":
            return (_requests(path, name, lines),)
        case "faro":
            return _faro(path, lines)
    raise ValueError(f"load format {form!r} is none of {', '.join(FORMATS)}")


def guess(lines: list[str]) -> str:
    """The format, by the first lines."""
    first = next(line.strip() for line in lines if line.strip())
    if first.startswith("{"):
        return "faro"
    if "," not in first:
        return "rps"
    header = [cell.strip().lower() for cell in first.split(",")]
    if len(header) == 2 and not (set(header) & {*_CONTEXT, *_GENERATED, *_WORK}):
        return "csv"
    return "requests"


def _rates(path: Path, lines: list[str]) -> np.ndarray:
    rates = [_rate(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    return np.array(rates)


def _rate(path: Path, number: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"load {path}, line {number}: {text.strip()!r} is not a rate per second") from None
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"load {path}, line {number}: a rate of {value} makes no sense")
    return value


def _rows(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    for number, row in enumerate(csv.reader(lines), 1):
        if any(cell.strip() for cell in row):
            yield number, [cell.strip() for cell in row]


def _series(path: Path, name: str, lines: list[str]) -> Load:
    """`time,rate`: the rate holds until the next row; rows that are not evenly spaced are laid on a grid."""
    times: list[float] = []
    rates: list[float] = []
    for number, row in _rows(lines):
        if number == 1 and not _number(row[0]) and _moment(row[0]) is None:
            continue
        if len(row) < 2:
            raise ValueError(f"load {path}, line {number}: expected time,rate")
        moment = _moment(row[0])
        if moment is None:
            raise ValueError(f"load {path}, line {number}: {row[0]!r} is neither seconds nor a date")
        if times and moment <= times[-1]:
            raise ValueError(f"load {path}, line {number}: time {row[0]} does not come after the row before")
        times.append(moment)
        rates.append(_rate(path, number, row[1]))
    return from_series(name, times, rates, place=f"load {path}")


def from_series(name: str, times: list[float], rates: list[float], *, place: str) -> Load:
    """A load from moments and the rates that hold from each on."""
    if len(times) < 2:
        raise ValueError(f"{place}: needs at least two rows of time,rate")
    gaps = np.diff(times)
    step = float(gaps.min())
    if np.allclose(gaps, step, rtol=1e-3, atol=1e-6):
        return Load(name, rates=np.array(rates), step=step)
    length = times[-1] - times[0]
    step = max(step, length / 1_000_000)
    grid = times[0] + np.arange(int(length / step + 1e-9) + 1) * step
    held = np.array(rates)[np.searchsorted(times, grid + 1e-9, side="right") - 1]
    return Load(name, rates=held, step=step)


def _requests(path: Path, name: str, lines: list[str]) -> Load:
    """One row a request: a time column, and two of tokens or one of CPU time if it has them."""
    rows = _rows(lines)
    _, header = next(rows)
    columns = [cell.lower() for cell in header]
    when = _column(columns, _TIME)
    if when is None:
        raise ValueError(f"load {path}, line 1: no column of arrival times (one of {', '.join(_TIME)})")
    context, generated = _column(columns, _CONTEXT), _column(columns, _GENERATED)
    work = _column(columns, tuple(_WORK))
    times: list[float] = []
    tokens: list[tuple[float, ...]] = []
    for number, row in rows:
        moment = _moment(row[when]) if when < len(row) else None
        if moment is None:
            raise ValueError(f"load {path}, line {number}: no arrival time in {','.join(row)!r}")
        times.append(moment)
        if context is not None and generated is not None:
            try:
                tokens.append((float(row[context]), float(row[generated])))
            except (IndexError, ValueError):
                raise ValueError(f"load {path}, line {number}: no numbers of tokens in {','.join(row)!r}") from None
        elif work is not None:
            try:
                tokens.append((float(row[work]) * _WORK[columns[work]],))
            except (IndexError, ValueError):
                raise ValueError(f"load {path}, line {number}: no {columns[work]} in {','.join(row)!r}") from None
    if not times:
        raise ValueError(f"load {path}: has a header and no requests")
    order = np.argsort(np.array(times), kind="stable")
    start = min(times)
    return Load(
        name,
        times=np.array(times)[order] - start,
        tokens=np.array(tokens)[order] if tokens else None,
    )


def _column(columns: list[str], names: tuple[str, ...]) -> int | None:
    return next((columns.index(name) for name in names if name in columns), None)


def _number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _moment(text: str) -> float | None:
    """Seconds, or a date and time (fractions finer than a microsecond are cut)."""
    if _number(text):
        return float(text)
    head, dot, fraction = text.partition(".")
    digits = "".join(character for character in fraction if character.isdigit())
    zone = fraction[len(digits) :] if fraction.startswith(digits) else ""
    try:
        return datetime.fromisoformat(head + (f".{digits[:6]}{zone}" if dot else "")).timestamp()
    except ValueError:
        return None


def _faro(path: Path, lines: list[str]) -> tuple[Load, ...]:
    """One JSON object a minute: {"ts": minute, "counts": {job: {function: requests}}}."""
    counts: dict[str, list[float]] = {}
    minutes = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)["counts"]
            found = {job: float(sum(functions.values())) for job, functions in row.items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(
                f'load {path}, line {number}: expected {{"ts": …, "counts": {{job: {{name: n}}}}}}'
            ) from None
        for job, value in found.items():
            counts.setdefault(job, [0.0] * minutes).append(value)
        minutes += 1
        for series in counts.values():
            series.extend([0.0] * (minutes - len(series)))
    return tuple(Load(job, rates=np.array(series) / 60.0, step=60.0) for job, series in counts.items())
