"""llama.cpp's server with --metrics: what is in flight, and neither a request counter nor a latency."""

from autoscaler.observe.names import Preset, Selector, SignalNames

PRESET = Preset(
    name="llamacpp",
    title="llama.cpp server (llama-server)",
    written_from="ggml-org/llama.cpp tools/server/README.md, GET /metrics",
    names=SignalNames(
        in_flight=(Selector("llamacpp:requests_processing"), Selector("llamacpp:requests_deferred")),
        usual_port=8080,
    ),
    marks=("llamacpp:requests_processing", "llamacpp:requests_deferred", "llamacpp:tokens_predicted_total"),
    container="llama-server",
    remarks="Start the server with --metrics. It counts tokens, not requests, and has no latency histogram: use "
    "objective.cpu, or take latency and requests from a mesh (preset linkerd or istio) or a proxy by hand.",
)
