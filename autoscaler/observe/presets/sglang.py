"""SGLang's runtime, with --enable-metrics."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames

PRESET = Preset(
    name="sglang",
    title="SGLang",
    written_from="docs.sglang.io references/production_metrics; sglang/srt/metrics/collector.py (0.5)",
    names=SignalNames(
        histogram=Histogram("sglang:e2e_request_latency_seconds", covers=Covers.EITHER),
        requests=(Selector("sglang:num_requests_total"),),
        failures=(Selector("sglang:num_aborted_requests_total", optional=True),),
        in_flight=(Selector("sglang:num_running_reqs"), Selector("sglang:num_queue_reqs")),
        usual_port=30000,
    ),
    marks=("sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:e2e_request_latency_seconds"),
    container="sglang",
    remarks="Start the server with --enable-metrics. Aborted requests count as failed. For time to first token set "
    "signals.latency.histogram: sglang:time_to_first_token_seconds.",
)
