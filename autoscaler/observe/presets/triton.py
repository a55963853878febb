"""NVIDIA Triton: counters by default, a latency summary when it is switched on, no end-to-end histogram."""

from autoscaler.observe.names import Covers, Preset, Selector, SignalNames, Summary

PRESET = Preset(
    name="triton",
    title="NVIDIA Triton Inference Server",
    written_from="triton-inference-server/server docs/user_guide/metrics.md (2.3x to 2.6x)",
    names=SignalNames(
        summary=Summary("nv_inference_request_summary_us", unit=1e-6, covers=Covers.SUCCESSES),
        busy_s=(Selector("nv_inference_request_duration_us", scale=1e-6),),
        requests=(Selector("nv_inference_request_success"),),
        requests_include_failures=False,
        failures=(Selector("nv_inference_request_failure"),),
        in_flight=(Selector("nv_inference_pending_request_count", optional=True),),
        usual_port=8002,
    ),
    marks=("nv_inference_request_success", "nv_inference_request_failure", "nv_inference_request_duration_us"),
    container="triton",
    remarks="Start the server with --metrics-config summary_latencies=true, or the objective can't be measured: Triton "
    "has no histogram of whole requests (nv_inference_first_response_histogram_ms is the first response of decoupled "
    "models). The pending gauge (23.10 and later) counts requests waiting for execution, not those being executed. "
    "Models of an ensemble are counted one by one.",
)
