"""Starlette or FastAPI with starlette-prometheus (not starlette-exporter)."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames, where

PRESET = Preset(
    name="starlette-prometheus",
    title="Starlette or FastAPI with starlette-prometheus",
    written_from="perdy/starlette-prometheus starlette_prometheus/middleware.py (0.7 to 0.10)",
    names=SignalNames(
        histogram=Histogram("starlette_requests_processing_time_seconds", covers=Covers.EITHER),
        requests=(Selector("starlette_responses_total"),),
        failures=(Selector("starlette_responses_total", where(status_code="=~5..|429")),),
        in_flight=(Selector("starlette_requests_in_progress", optional=True),),
        usual_port=8000,
    ),
    marks=("starlette_requests_processing_time_seconds", "starlette_responses_total", "starlette_requests_in_progress"),
    general=True,
    remarks="The histogram has no status: a failure in it is taken as a fast one.",
)
