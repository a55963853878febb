"""The names most web frameworks' instrumentation agrees on; the status is in one of three labels."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames, where

FAILED, ANSWERED = "=~5..|5xx|429", "!~5..|5xx|429"
COUNT = "http_request_duration_seconds_count"

PRESET = Preset(
    name="http",
    title="Any server with a histogram http_request_duration_seconds",
    written_from="prometheus.io/docs/practices/naming; promhttp, express-prom-bundle, prometheus_flask_exporter's kin",
    names=SignalNames(
        histogram=Histogram(
            "http_request_duration_seconds",
            where(code=ANSWERED, status=ANSWERED, status_code=ANSWERED),
            covers=Covers.EITHER,
        ),
        requests=(Selector(COUNT),),
        failures=(
            Selector(COUNT, where(code=FAILED)),
            Selector(COUNT, where(status=FAILED)),
            Selector(COUNT, where(status_code=FAILED)),
        ),
        in_flight=(
            Selector("http_requests_in_flight", optional=True),
            Selector("http_requests_in_progress", optional=True),
            Selector("http_requests_inprogress", optional=True),
        ),
    ),
    marks=("http_request_duration_seconds",),
    general=True,
    remarks="Failures are seen where the histogram has a label code, status or status_code; else name a counter under "
    "signals.failures.",
)
