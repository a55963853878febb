"""Plain names for a server instrumented by hand; the emulated pods expose them."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames, where

FAILED = "=~5..|429"

PRESET = Preset(
    name="generic",
    title="A server instrumented by hand with plain names",
    written_from="docs/signals.md: the names this project proposes where there are none yet",
    names=SignalNames(
        histogram=Histogram("request_duration_seconds", where(code="!~5..|429"), covers=Covers.EITHER),
        requests=(Selector("requests_total"),),
        failures=(Selector("requests_total", where(code=FAILED)),),
        in_flight=(Selector("requests_in_flight"),),
    ),
    marks=("request_duration_seconds", "requests_total", "requests_in_flight"),
    general=True,
)
