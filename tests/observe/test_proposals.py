"""What ``check`` says of the page that a pod shows."""

from __future__ import annotations

from typing import Any

import pytest

from autoscaler.check.findings import Finding, Level
from autoscaler.check.metrics import of_page
from autoscaler.model.seen import Subject
from autoscaler.model.signal import Signals
from autoscaler.model.workload import ScaleView, WorkloadView
from autoscaler.observe import presets
from tests.observe import server_pages
from tests.observe.further_pages import FURTHER
from tests.observe.served import pages, pod, policy

PAGES = {**server_pages.PAGES, **FURTHER}
NO_SUMMARY = "\n".join(line for line in PAGES["triton"](9, 1, 1, 2).splitlines() if "summary" not in line) + "\n"


async def found(page: str | None, **signals: Any) -> list[Finding]:
    """The findings on one pod with this page; None: nobody listens."""
    async with pages({} if page is None else {"one": lambda: page}) as port:
        spec = policy(signals=signals)
        seen = pod("one", port, path="/one")
        view = WorkloadView(ref=spec.ref, target=spec.target, scale=ScaleView(1, 1), pods=(seen,), signals=Signals())
        return list(await of_page(Subject(view, spec)))


@pytest.mark.parametrize("name", PAGES)
async def test_a_servers_page_leads_to_its_preset(name: str) -> None:
    page = PAGES[name](9, 1, 1, 2)
    (unnamed,) = await found(page)
    assert unnamed.level is Level.WARNING and unnamed.remedy == f"set signals.preset: {name}"
    if presets.get(name).names.histogram or presets.get(name).names.summary:
        (right,) = await found(page, preset=name)
        assert right.level is Level.OK
        other = "vllm" if name != "vllm" else "triton"
        (wrong,) = await found(page, preset=other)
        assert wrong.level is Level.WARNING and wrong.remedy == f"set signals.preset: {name}"


@pytest.mark.parametrize(
    ("page", "signals", "words"),
    [
        ("# TYPE my_seconds histogram\n" + server_pages.histogram("my_seconds", "", (0.1, 0.5), 9, 1), {},
         ("no preset fits", "my_seconds", "signals.latency.histogram")),
        ("go_goroutines 7\n", {"preset": "vllm"}, ("no histogram with buckets", "classic histogram")),
        ("", {"preset": "vllm"}, ("no histogram with buckets",)),
        ('native_seconds_count 9\nnative_seconds_sum 3\n', {}, ("no histogram with buckets",)),
        (NO_SUMMARY, {"preset": "triton"}, ("no latency of whole requests", "summary_latencies=true")),
        (PAGES["torchserve"](9, 1, 1, 2), {"preset": "torchserve"}, ("no latency", "no latency histogram")),
        (None, {}, ("QueryRefused", "HTTP 404", "prometheus.io/port")),
        ("x" * 300_000, {}, ("QueryRefused", "without lines")),
    ],
)  # fmt: skip
async def test_a_page_that_fits_nothing_says_what_is_missing(
    page: str | None, signals: dict[str, Any], words: tuple[str, ...]
) -> None:
    (one,) = await found(page, **signals)
    assert one.level is Level.WARNING
    for word in words:
        assert word in f"{one.text} {one.remedy}", one


async def test_names_by_hand_need_no_preset() -> None:
    page = server_pages.histogram("my_seconds", "", (0.1, 0.5), 9, 1)
    assert not await found(page, latency={"histogram": "my_seconds"})
    assert not await found(None, latency={"histogram": "my_seconds"}), "a page that only Prometheus reaches"
