"""Whatever a page holds: it is read or refused, in bounded memory, and makes a usable number or a cause."""

from __future__ import annotations

import math
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autoscaler.model.policy import LatencyObjective
from autoscaler.model.signal import Absent, Cause, Measured, PodSignals, Reading, Signals
from autoscaler.observe import presets
from autoscaler.observe.answers import Asked, PodAnswer, page_roles
from autoscaler.observe.counters import CounterMemory
from autoscaler.observe.exposition import Page, PageRefused, PageScanner, family_names
from autoscaler.observe.pages import sample_of, wanted_metrics
from autoscaler.observe.readings import reduce
from tests.observe.test_presets import PAGES

OF_A_WORKLOAD = ("requests", "misses", "latency", "mean_latency", "failures", "in_flight", "cpu", "working_set")
NUMBERS = st.one_of(
    st.sampled_from(["NaN", "+Inf", "-Inf", "inf", "-1", "-0", "0", "1e308", "1e-320", "9" * 400]),
    st.sampled_from(["0x10", "1_0", "", "1,5", "é"]),
    st.floats().map(repr),
    st.integers(-(10**20), 10**20).map(str),
)  # fmt: skip
TEXTS = st.one_of(
    st.text(max_size=6), st.sampled_from(["+Inf", "0.5", "nan", "-1", '\\"', "\\", "x" * 5000, "\x00", "🜁", "503"])
)
LABELS = st.sampled_from(["le", "quantile", "code", "status", "method", "pod", "", "é", '"quoted.name"', "__name__"])


@st.composite
def lines(draw: st.DrawFn, names: list[str]) -> str:
    """A sample, a comment, or something like one."""
    name = draw(st.sampled_from(names))
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(
            st.sampled_from([f"# TYPE {name} histogram", f"# HELP {name} \\x", "# EOF", "", "#", name, "\t", "}{"])
        )
    if kind == 1:
        return draw(st.text(max_size=40))
    pairs = draw(st.lists(st.tuples(LABELS, TEXTS), max_size=4))
    written = ",".join(f'{label}="{value}"' for label, value in pairs)
    stamp = draw(st.sampled_from(["", "", "", " 1700000000000", " -5", " 1e400", " NaN", " 1.7e9"]))
    exemplar = draw(st.sampled_from(["", "", "", ' # {trace_id="a"} 0.5 1700000000.1', " # {", " #"]))
    return f"{name}{{{written}}} {draw(NUMBERS)}{stamp}{exemplar}"


WILD = ["NaN", "+Inf", "-Inf", "-1", "0", "1e308", "1e-320"]


@st.composite
def spoilt(draw: st.DrawFn, preset: str) -> bytes:
    """A server's own page with numbers replaced, lines put in, doubled or left out; and sometimes bytes overwritten
    and the end cut off."""
    page = PAGES[preset](*draw(st.tuples(st.integers(0, 300), st.integers(0, 9), st.integers(0, 9), st.integers(0, 5))))
    written = page.splitlines()
    names = sorted(wanted_metrics(presets.get(preset).names))
    for _ in range(draw(st.integers(0, 6))):
        place = draw(st.integers(0, len(written) - 1)) if written else 0
        action = draw(st.integers(0, 5))
        if action == 0 or not written:
            written.insert(place, draw(lines(names)))
        elif action == 1:
            written.insert(place, written[draw(st.integers(0, len(written) - 1))])
        elif action == 2:
            del written[place]
        elif not written[place].startswith("#"):
            many = draw(st.integers(1, 3))
            wild = draw(st.sampled_from(WILD))
            for near in range(place, min(place + many, len(written))):
                written[near] = f"{written[near].rpartition(' ')[0]} {wild}"
    raw = bytearray("\n".join([*written, ""]).encode("utf-8", "surrogatepass"))
    if draw(st.integers(0, 9)) == 0:
        for _ in range(draw(st.integers(1, 3))):
            raw[draw(st.integers(0, len(raw) - 1))] = draw(st.integers(0, 255))
        del raw[draw(st.integers(0, len(raw))) :]
    return bytes(raw)


def read(page: bytes, wanted: list[str], chunk: int, openmetrics: bool) -> Page | PageRefused:
    scanner = PageScanner(wanted, openmetrics=openmetrics)
    try:
        for start in range(0, len(page), chunk):
            scanner.feed(page[start : start + chunk])
        return scanner.finish()
    except PageRefused as refused:
        return refused


def story(preset: str, several: list[bytes], chunk: int = 4096, openmetrics: bool = False) -> Signals:
    """What comes of one pod's pages, five seconds apart."""
    names, memory, answer = presets.get(preset).names, CounterMemory(), PodAnswer()
    for turn, text in enumerate(several):
        page = read(text, list(wanted_metrics(names)), chunk, openmetrics)
        if isinstance(page, PageRefused):
            assert str(page) and "\n" not in str(page) and len(str(page)) < 300
            answer = PodAnswer(why=Absent(Cause.REFUSED, str(page)))
        else:
            sample = sample_of(page, names, "one", 5.0 * turn, memory.last("pod"))
            answer = PodAnswer(sample, memory.fold("pod", sample))
    objective = LatencyObjective(target="500ms", within="99%")
    return reduce(Asked(names, objective, 30.0, "scrape", {"pod"}, page_roles(names)), {"pod": answer})


def usable(reading: Reading) -> bool:
    """A finite number that isn't negative, or a cause."""
    if isinstance(reading, Absent):
        return isinstance(reading.cause, Cause)
    return math.isfinite(reading.value) and reading.value >= 0.0 and 0.0 < reading.coverage <= 1.0


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(sorted(PAGES)), st.booleans(), st.integers(1, 5000), st.data())
def test_any_page_gives_numbers_or_causes(preset: str, openmetrics: bool, chunk: int, given_: st.DataObject) -> None:
    several = [given_.draw(spoilt(preset)) for _ in range(3)]
    seen = story(preset, several, chunk, openmetrics)
    for name in OF_A_WORKLOAD:
        assert usable(getattr(seen, name)), (name, getattr(seen, name))
    assert seen.misses.value <= 1.0 if isinstance(seen.misses, Measured) else True
    for one in seen.pods.values():
        assert all(usable(getattr(one, name)) for name in PodSignals.__struct_fields__)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=2000), st.integers(1, 500), st.booleans())
@example(b'requests_total{code="200"', 1, False)
@example(b"requests_total 1 # {\n# EOF", 3, True)
def test_any_bytes_are_read_or_refused_the_same_in_all_chunks(page: bytes, chunk: int, openmetrics: bool) -> None:
    wanted = ["requests_total", "a", "request_duration_seconds_bucket"]
    whole, cut = (read(page, wanted, size, openmetrics) for size in (len(page) + 1, chunk))
    assert type(whole) is type(cut)
    if isinstance(whole, Page) and isinstance(cut, Page):
        assert repr(whole) == repr(cut)
    assert isinstance(family_names(page), set)


@pytest.mark.parametrize(
    "line",
    [b'other_total{l="%d"} 1\n', b'requests_total_more{l="%d"} 1\n', b"# requests_total %d\n", b"%d\r\n"],
    ids=["of others", "of a longer name", "comments", "numbers"],
)
def test_what_is_not_asked_for_takes_no_memory(line: bytes) -> None:
    chunk = b"".join(line % number for number in range(2000))
    scanner = PageScanner(["requests_total"])
    scanner.feed(chunk)
    tracemalloc.start()
    try:
        for _ in range(50):
            scanner.feed(chunk)
        scanner.finish()
        assert tracemalloc.get_traced_memory()[1] < 8 * len(chunk)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("values", [("1e308", "1e308"), ("+Inf", "-Inf"), ("NaN", "1"), ("-1e308", "-1e308")])
@pytest.mark.parametrize("metric", ["requests_total", "requests_in_flight", "request_duration_seconds_count"])
def test_series_that_have_no_sum_are_no_number(metric: str, values: tuple[str, str]) -> None:
    page = PAGES["generic"](10, 0, 0, 1) + "".join(
        f'{metric}{{code="200",a="{place}"}} {value}\n' for place, value in enumerate(values)
    )
    seen = story("generic", [page.encode(), page.encode()])
    reading = seen.in_flight if metric == "requests_in_flight" else seen.misses
    if metric == "requests_total":
        reading = seen.requests
    assert isinstance(reading, Absent) and reading.cause in (Cause.INFINITE, Cause.NAN, Cause.NEGATIVE), reading


@pytest.mark.parametrize(
    ("value", "cause"),
    [("NaN", Cause.NAN), ("+Inf", Cause.INFINITE), ("-Inf", Cause.INFINITE), ("-5", Cause.NEGATIVE)],
)
def test_a_counter_that_can_be_no_count_is_named(value: str, cause: Cause) -> None:
    page = b'requests_total{code="200"} 5\nrequests_in_flight 1\n'
    seen = story("generic", [page, page.replace(b" 5\n", f" {value}\n".encode())])
    assert isinstance(seen.requests, Absent) and seen.requests.cause is cause
