"""Any HTTP server instrumented with OpenTelemetry's stable HTTP conventions, exported as Prometheus text."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames, where

FAILED = "=~5..|429"

PRESET = Preset(
    name="otel-http",
    title="Any HTTP server instrumented with OpenTelemetry",
    written_from="opentelemetry.io/docs/specs/semconv/http/http-metrics (stable), and the exporter's naming rules",
    names=SignalNames(
        histogram=Histogram(
            "http_server_request_duration_seconds",
            where(http_response_status_code="!~5..|429"),
            covers=Covers.SUCCESSES,
        ),
        requests=(Selector("http_server_request_duration_seconds_count"),),
        failures=(Selector("http_server_request_duration_seconds_count", where(http_response_status_code=FAILED)),),
        in_flight=(Selector("http_server_active_requests", optional=True),),
    ),
    marks=("http_server_request_duration_seconds", "http_server_active_requests"),
    general=True,
    remarks="The older conventions say http_server_duration_milliseconds and http_status_code: set signals.latency by "
    "hand, with unit ms. Metrics pushed over OTLP are read through Prometheus.",
)
