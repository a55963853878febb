"""A load from the user's own Prometheus: one range query, in slices that servers accept.

Only the standard library: simulating must not need what the daemon needs. Gaps and NaN are held at the value before,
and how many there were is said on stderr; more than a tenth of them is an error, for nothing is known then.
"""

from __future__ import annotations

import json
import math
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import numpy as np

from autoscaler.simulate.load import Load

POINTS = 10_000  # Prometheus refuses more than 11,000 a series
TIMEOUT_S = 30.0
MOST_MISSING = 0.1


def fetch(url: str, query: str, *, since: float, step: float, now: float | None = None) -> list[Load]:
    """One load a series, in requests per second. ValueError says what the server answered."""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"--from-prometheus {url}: must begin with http:// or https://")
    if step <= 0 or since < 2 * step:
        raise ValueError("--since must be at least two --step long")
    end = math.floor((time.time() if now is None else now) / step) * step
    count = int(since // step) + 1
    grid = end - step * np.arange(count - 1, -1, -1)
    series: dict[str, np.ndarray] = {}
    for first in range(0, count, POINTS):
        part = grid[first : first + POINTS]
        for name, values in _slice(url, query, float(part[0]), float(part[-1]), step).items():
            held = series.setdefault(name, np.full(count, math.nan))
            for at, value in values:
                place = round((at - grid[0]) / step)
                if 0 <= place < count:
                    held[place] = value
    if not series:
        raise ValueError(f"--query {query}: Prometheus knows no series of it in the last {since / 3600:g} h")
    return [_load(name, values, step) for name, values in series.items()]


def _slice(url: str, query: str, begin: float, end: float, step: float) -> dict[str, list[tuple[float, float]]]:
    body = urllib.parse.urlencode({"query": query, "start": begin, "end": end, "step": step}).encode()
    request = urllib.request.Request(f"{url.rstrip('/')}/api/v1/query_range", data=body)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        raise ValueError(f"{url} answered {error.code}: {_message(error.read())}") from error
    except (urllib.error.URLError, TimeoutError, ValueError) as error:
        raise ValueError(f"{url}: {getattr(error, 'reason', error)}") from error
    try:
        if found["data"]["resultType"] != "matrix":
            raise ValueError(f"--query {query}: gives no series over time")
        return {
            _name(row["metric"]): [(float(at), float(value)) for at, value in row["values"]]
            for row in found["data"]["result"]
        }
    except (KeyError, TypeError) as error:
        raise ValueError(f"{url}: its answer is not Prometheus'") from error


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode("utf-8", "replace")


def _name(labels: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()) if key != "__name__") or "load"


def _load(name: str, values: np.ndarray, step: float) -> Load:
    known = np.isfinite(values)
    missing = 1.0 - known.mean()
    if missing > MOST_MISSING:
        raise ValueError(f"series {name}: {100 * missing:.0f} % of its values are missing: shorten --since")
    if missing > 0:
        print(
            f"series {name}: {100 * missing:.2g} % of its values are missing, held at the one before", file=sys.stderr
        )
    last = np.maximum.accumulate(np.where(known, np.arange(len(values)), -1))
    first = int(np.argmax(known))
    return Load(name, rates=np.maximum(0.0, values[np.where(last < 0, first, last)]), step=step)
