"""Loads in all formats, and the arrivals drawn from them."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.simulate import service
from autoscaler.simulate.arrivals import Arrivals
from autoscaler.simulate.generate import SHAPES, generate
from autoscaler.simulate.inputs import read
from autoscaler.simulate.load import Load
from autoscaler.simulate.prometheus_range import fetch
from autoscaler.simulate.scenario import NO_WAIT


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_each_format_is_told_from_its_content(tmp_path: Path) -> None:
    (rps,) = read(written(tmp_path, "a.txt", "10\n20\n30\n"))
    assert (rps.step, rps.length, rps.mean_rate()) == (1.0, 3.0, 20.0)
    (series,) = read(written(tmp_path, "b.csv", "t_seconds,requests_per_second\n0,1.5\n600,2.5\n1200,3.5\n"))
    assert (series.step, series.length, series.mean_rate()) == (600.0, 1800.0, 2.5)
    rows = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:04.5,10,2\n2023-11-16 18:17:03.9799600,7,3\n"
    (requests,) = read(written(tmp_path, "c.csv", rows))
    assert requests.times is not None and requests.tokens is not None
    assert requests.times == pytest.approx([0.0, 0.52004])
    assert requests.tokens.tolist() == [[7.0, 3.0], [10.0, 2.0]]
    (recorded,) = read(written(tmp_path, "e.csv", "t_send_s,latency_ms,cpu_ms\n2.5,30,20\n3.0,50,40\n"))
    assert recorded.recorded and recorded.tokens is not None
    assert recorded.tokens.ravel() == pytest.approx([0.020, 0.040])
    lines = [{"ts": 0, "counts": {"a": {"f": 60}}}, {"ts": 1, "counts": {"a": {"f": 120}, "b": {"f": 6}}}]
    a, b = read(written(tmp_path, "d.json", "\n".join(map(json.dumps, lines))))
    assert a.rates is not None and a.rates.tolist() == [1.0, 2.0]
    assert b.rates is not None and b.rates.tolist() == [0.0, 0.1]


def test_unevenly_spaced_rates_hold_until_the_next_row(tmp_path: Path) -> None:
    (load,) = read(written(tmp_path, "a.csv", "0,1\n10,2\n40,3\n"))
    assert load.rates is not None
    assert (load.step, load.rates.tolist()) == (10.0, [1.0, 2.0, 2.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        ("10\nmany\n", "line 2: 'many' is not a rate"),
        ("10\n-1\n", "line 2: a rate of -1"),
        ("0,1\n0,2\n", "line 2: time 0 does not come after"),
        ("time,rate\n0,1\nsoon,2\n", "line 3: 'soon' is neither"),
        ("when,a,b\n1,2,3\n", "no column of arrival times"),
        ("time,input_tokens,output_tokens\n1,2,x\n", "line 2: no numbers of tokens"),
        ('{"ts": 0}\n', "line 1: expected"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line_with_its_place(tmp_path: Path, text: str, complaint: str) -> None:
    path = written(tmp_path, "load.txt", text)
    with pytest.raises(ValueError, match=complaint) as error:
        read(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_generated_loads_are_the_same_each_time(shape: str) -> None:
    first, again = generate(shape), generate(shape)
    assert first.rates is not None and again.rates is not None
    assert np.array_equal(first.rates, again.rates)
    assert first.rates.min() >= 0 and first.length == 3600.0


def test_a_generated_load_takes_its_own_names_only() -> None:
    load = generate("flash:rate=5,high=50,at=10s,rises=0s,lasts=20s,length=60s")
    assert load.rates is not None
    assert load.rates[:10].max() == 5.0 and load.rates[11:30].min() == 50.0 and load.rates[31:].max() == 5.0
    with pytest.raises(ValueError, match="none of rate=, length="):
        generate("steady:high=3")


rates = st.lists(st.integers(0, 8), min_size=1, max_size=30)


@settings(deadline=None)
@given(rates, st.sampled_from(["uniform", "exact", "faro"]), st.sampled_from([1.0, 60.0]), st.integers(0, 5))
def test_arrivals_have_exactly_the_loads_number_and_are_in_order(
    counts: list[int], process: str, step: float, seed: int
) -> None:
    load = Load("a", rates=np.array(counts, dtype=float) / step, step=step)
    arrivals = Arrivals(load, process, service.Fixed(0.1), NO_WAIT, length=load.length, seed=seed)
    spans = [arrivals.between(60.0 * n, 60.0 * (n + 1)) for n in range(int(load.length // 60) + 1)]
    times = np.concatenate([span.times for span in spans])
    assert np.all(np.diff(times) >= 0)
    assert len(times) + len(arrivals.late) == sum(counts)
    if process != "faro":
        assert len(arrivals.late) == 0
    assert all(len(span.works) == len(span.waits) == len(span.times) for span in spans)


@settings(max_examples=20, deadline=None)
@given(rates, st.integers(0, 5))
def test_looking_ahead_changes_nothing(counts: list[int], seed: int) -> None:
    def drawn(peek: bool) -> list[float]:
        load = Load("a", rates=np.array(counts, dtype=float) / 60.0, step=60.0)
        arrivals = Arrivals(load, "poisson", service.Exponential(0.1), NO_WAIT, length=load.length, seed=seed)
        out: list[float] = []
        for minute in range(len(counts)):
            span = (60.0 * minute, 60.0 * (minute + 1))
            if peek:
                arrivals.peek(*span)
            batch = arrivals.between(*span)
            out += [*batch.times, *batch.works]
        return out

    assert drawn(True) == drawn(False)


def test_service_distributions_have_their_means() -> None:
    dice = np.random.default_rng(1)
    for text in (
        "fixed:180ms",
        "exponential:20ms",
        "lognormal:150ms,0.4",
        "lognormal:location=79.3ms,scale=68.6ms,shape=0.4",
    ):
        parsed = service.parse(text)
        assert parsed.draw(dice, 200_000).mean() == pytest.approx(parsed.mean, rel=0.01)
    tokens = service.parse("tokens:context=0.1ms,generated=8ms,base=5ms").draw(dice, 1, np.array([[100.0, 10.0]]))
    assert tokens.tolist() == [pytest.approx(0.095)]
    for text in ("fixed", "fixed:soon", "normal:1s", "lognormal:1s", "tokens:context=1ms"):
        with pytest.raises(ValueError, match="service"):
            service.parse(text)


class _Prometheus(BaseHTTPRequestHandler):
    """Answers a range query with a rate of 7, one value missing and one NaN."""

    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append(body)
        asked = dict(part.split("=") for part in body.split("&"))
        start, end, step = (float(asked[name]) for name in ("start", "end", "step"))
        values = [[start + n * step, "7"] for n in range(int((end - start) / step) + 1)]
        values[1][1] = "NaN"
        del values[2]
        row = {"metric": {"__name__": "x", "job": "web"}, "values": values}
        answer = {"status": "success", "data": {"resultType": "matrix", "result": [row]}}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *words: object) -> None: ...


def test_the_users_own_last_days_come_from_prometheus(capsys: pytest.CaptureFixture[str]) -> None:
    server = HTTPServer(("127.0.0.1", 0), _Prometheus)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        (load,) = fetch(url, "rate(x[1m])", since=7 * 86400.0, step=30.0, now=1e9)
        assert (load.name, load.step, load.rates is not None and len(load.rates)) == ("job=web", 30.0, 20161)
        assert load.rates is not None and set(load.rates.tolist()) == {7.0}
        assert len(_Prometheus.asked) == 3  # in slices of what a server gives at once
        assert "missing" in capsys.readouterr().err
        with pytest.raises(ValueError, match="must begin with http"):
            fetch("prometheus:9090", "x", since=3600, step=60)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    with pytest.raises(ValueError, match=url):
        fetch(url, "x", since=3600, step=60)
