"""FastAPI with prometheus-fastapi-instrumentator in its default setting."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames, where

PRESET = Preset(
    name="fastapi",
    title="FastAPI with prometheus-fastapi-instrumentator",
    written_from="the package prometheus-fastapi-instrumentator, 5 to 8",
    names=SignalNames(
        histogram=Histogram("http_request_duration_highr_seconds", covers=Covers.EITHER),
        requests=(Selector("http_requests_total"),),
        failures=(Selector("http_requests_total", where(status="=~5..|429")),),
        in_flight=(Selector("http_requests_inprogress", optional=True),),
        usual_port=8000,
    ),
    marks=("http_request_duration_highr_seconds", "http_requests_total", "http_request_duration_seconds"),
    general=True,
    remarks="Status codes are grouped (4xx) by default: a 429 is told from other client errors only with "
    "should_group_status_codes=False. In-flight needs should_instrument_requests_inprogress=True and its setting. "
    "Exclude /metrics and probes (excluded_handlers), or they count as fast requests.",
)
