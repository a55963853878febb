"""BentoML's services (1.2 and later)."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames, where

FAILED = "=~5..|429"

PRESET = Preset(
    name="bentoml",
    title="BentoML",
    written_from="docs.bentoml.com build-with-bentoml/observability/metrics (1.2 to 1.4)",
    names=SignalNames(
        histogram=Histogram(
            "bentoml_service_request_duration_seconds", where(http_response_code="!~5..|429"), covers=Covers.SUCCESSES
        ),
        requests=(Selector("bentoml_service_request_total"),),
        failures=(Selector("bentoml_service_request_total", where(http_response_code=FAILED)),),
        in_flight=(Selector("bentoml_service_request_in_progress", optional=True),),
        usual_port=3000,
    ),
    marks=(
        "bentoml_service_request_duration_seconds",
        "bentoml_service_request_total",
        "bentoml_service_request_in_progress",
    ),
    remarks="Bounds are set by metrics.duration in the service's configuration. BentoML 1.0 and 1.1 say "
    "bentoml_api_server_* instead: set signals by hand.",
)
