"""Seldon's MLServer: starlette-exporter on its REST side, with a prefix of its own."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames, where

FAILED = "=~5..|429"

PRESET = Preset(
    name="mlserver",
    title="MLServer (Seldon)",
    written_from="docs.seldon.ai/mlserver user-guide/metrics; mlserver/rest/app.py (1.x)",
    names=SignalNames(
        histogram=Histogram(
            "rest_server_request_duration_seconds", where(status_code="!~5..|429"), covers=Covers.SUCCESSES
        ),
        requests=(Selector("rest_server_requests_total"),),
        failures=(Selector("rest_server_requests_total", where(status_code=FAILED)),),
        in_flight=(Selector("rest_server_requests_in_progress", optional=True),),
        usual_port=8082,
    ),
    marks=("rest_server_request_duration_seconds", "rest_server_requests_total", "rest_server_requests_in_progress"),
    container="mlserver",
    remarks="REST only; for gRPC set signals by hand (grpc_server_*). Another metrics_rest_server_prefix renames all.",
)
