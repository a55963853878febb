"""TensorFlow Serving with its Prometheus page switched on; times in microseconds, bounds 10 · 1.8ⁿ."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames, where

OF_THE_SERVER = "=~ABORTED|DATA_LOSS|DEADLINE_EXCEEDED|INTERNAL|RESOURCE_EXHAUSTED|UNAVAILABLE|UNKNOWN"

PRESET = Preset(
    name="tensorflow",
    title="TensorFlow Serving",
    written_from="tensorflow/serving util/prometheus_exporter.cc and servables/tensorflow/util.cc (2.x)",
    names=SignalNames(
        histogram=Histogram(":tensorflow:serving:request_latency", unit=1e-6, covers=Covers.EITHER),
        requests=(Selector(":tensorflow:serving:request_count"),),
        failures=(Selector(":tensorflow:serving:request_count", where(status=OF_THE_SERVER)),),
        usual_port=8501,
        usual_path="/monitoring/prometheus/metrics",
    ),
    marks=(":tensorflow:serving:request_count", ":tensorflow:serving:request_latency"),
    container="tensorflow-serving",
    remarks="Start the server with --rest_api_port and a --monitoring_config_file that has "
    "prometheus_config { enable: true }. Bounds are 10 µs · 1.8ⁿ (…, 122 ms, 219 ms, 394 ms, 709 ms, 1.28 s): choose a "
    "target near one. There is no gauge of requests in flight.",
)
