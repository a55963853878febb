"""Starlette or FastAPI with starlette-exporter."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames, where

PRESET = Preset(
    name="starlette",
    title="Starlette or FastAPI with starlette-exporter",
    written_from="stephenhillier/starlette_exporter README and tests (0.15 to 0.23)",
    names=SignalNames(
        histogram=Histogram(
            "starlette_request_duration_seconds", where(status_code="!~5..|429"), covers=Covers.SUCCESSES
        ),
        requests=(Selector("starlette_requests_total"),),
        failures=(Selector("starlette_requests_total", where(status_code="=~5..|429")),),
        in_flight=(Selector("starlette_requests_in_progress", optional=True),),
        usual_port=8000,
    ),
    marks=("starlette_request_duration_seconds", "starlette_requests_total", "starlette_requests_in_progress"),
    general=True,
    remarks="Skip /metrics and probes (skip_paths), or they count as fast requests.",
)
