"""Istio's sidecar, as the server in the same pod sees its requests (reporter=destination)."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames, where

PRESET = Preset(
    name="istio",
    title="Istio sidecar in front of any HTTP or gRPC server",
    written_from="istio.io/latest/docs/reference/config/metrics",
    names=SignalNames(
        histogram=Histogram(
            "istio_request_duration_milliseconds",
            where(reporter="destination", response_code="!~5..|429|0"),
            unit=1e-3,
            covers=Covers.SUCCESSES,
        ),
        requests=(Selector("istio_requests_total", where(reporter="destination")),),
        failures=(Selector("istio_requests_total", where(reporter="destination", response_code="=~5..|429|0")),),
        process_cpu=(),
        process_memory=(),
        usual_port=15020,
        usual_path="/stats/prometheus",
    ),
    marks=("istio_requests_total", "istio_request_duration_milliseconds"),
    general=True,
    remarks="Response code 0 (the connection broke before an answer) counts as failed. gRPC failures answer 200: "
    "select grpc_response_status by hand. In-flight is not among the statistics Istio keeps by default; add it with "
    "proxyStatsMatcher and signals.inFlight, or stalls show only as missing completions. In ambient mode the waypoint "
    "reports, not the pod: use Prometheus queries instead.",
)
