"""Linkerd's sidecar, as the server in the same pod sees its requests (direction=inbound)."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames, where

PRESET = Preset(
    name="linkerd",
    title="Linkerd sidecar in front of any HTTP or gRPC server",
    written_from="linkerd.io/2/reference/proxy-metrics",
    names=SignalNames(
        histogram=Histogram(
            "response_latency_ms",
            where(direction="inbound", status_code="!~5..|429"),
            unit=1e-3,
            covers=Covers.SUCCESSES,
        ),
        requests=(Selector("response_total", where(direction="inbound")),),
        failures=(Selector("response_total", where(direction="inbound", status_code="=~5..|429")),),
        process_cpu=(),
        process_memory=(),
        usual_port=4191,
    ),
    marks=("response_latency_ms", "response_total", "request_total"),
    general=True,
    remarks="A response is counted when its stream has ended. gRPC failures answer 200: select "
    "grpc_status_code by hand. There is no gauge of requests in flight.",
)
