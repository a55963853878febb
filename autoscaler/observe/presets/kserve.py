"""KServe in its serverless mode: Knative's queue-proxy, whose names are OpenTelemetry's since Knative 1.19."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames, where

PRESET = Preset(
    name="kserve",
    title="KServe behind Knative's queue-proxy (Knative 1.19 and later)",
    written_from="knative/docs serving observability metrics reference; OpenTelemetry HTTP server metrics",
    names=SignalNames(
        histogram=Histogram(
            "http_server_request_duration_seconds",
            where(http_response_status_code="!~5..|429"),
            covers=Covers.SUCCESSES,
        ),
        requests=(Selector("http_server_request_duration_seconds_count"),),
        failures=(
            Selector("http_server_request_duration_seconds_count", where(http_response_status_code="=~5..|429")),
        ),
        in_flight=(Selector("kn_serving_queue_depth", optional=True),),
        process_cpu=(),
        process_memory=(),
        usual_port=9091,
    ),
    marks=("kn_serving_invocation_duration_seconds", "kn_serving_queue_depth", "http_server_request_duration_seconds"),
    container="kserve-container",
    remarks="Set request-metrics-protocol: prometheus in the ConfigMap config-observability, or nothing listens on "
    "9091. "
    "kn_serving_queue_depth is not reported where containerConcurrency is unlimited. "
    "process_* on this page is the queue-proxy's own, so CPU is not read from it.",
)
