"""TorchServe with metrics_mode=prometheus: counters of requests and of the time in them, no histogram."""

from autoscaler.observe.names import Preset, Selector, SignalNames

PRESET = Preset(
    name="torchserve",
    title="TorchServe",
    written_from="docs.pytorch.org/serve metrics and metrics_api (0.8 to 0.12)",
    names=SignalNames(
        busy_s=(
            Selector("ts_inference_latency_microseconds", scale=1e-6),
            Selector("ts_inference_latency_microseconds_total", scale=1e-6),  # where the library adds its suffix
        ),
        requests=(Selector("ts_inference_requests_total"),),
        failures=(Selector("Requests5XX"), Selector("Requests5XX_total")),
        usual_port=8082,
    ),
    marks=("ts_inference_requests_total", "ts_inference_latency_microseconds", "ts_queue_latency_microseconds"),
    container="torchserve",
    remarks="TorchServe has no latency histogram: the mean is shown, and a latency objective needs one from a mesh "
    "(preset istio), or a custom histogram metric named in signals.latency. Set metrics_mode=prometheus and a "
    "metrics_address that is not localhost.",
)
