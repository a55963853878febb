"""LiteLLM's proxy with the prometheus callback."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames

PRESET = Preset(
    name="litellm",
    title="LiteLLM proxy",
    written_from="docs.litellm.ai/docs/proxy/prometheus",
    names=SignalNames(
        histogram=Histogram("litellm_request_total_latency_metric", covers=Covers.EITHER),
        requests=(Selector("litellm_proxy_total_requests_metric_total"),),
        failures=(Selector("litellm_proxy_failed_requests_metric_total", optional=True),),
        in_flight=(Selector("litellm_in_flight_requests", optional=True),),
        usual_port=4000,
        usual_path="/metrics/",
    ),
    marks=("litellm_request_total_latency_metric", "litellm_proxy_total_requests_metric"),
    remarks="Switch on callbacks: [prometheus]. Most of its latency is that of the models behind it: a proxy is seldom "
    "short of CPU.",
)
