"""vLLM's OpenAI-compatible server, engine V1; V0 has the same names for what is used here."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames, where

PRESET = Preset(
    name="vllm",
    title="vLLM",
    written_from="docs.vllm.ai usage/metrics and design/metrics (0.9 to 0.1x, engine V1)",
    names=SignalNames(
        histogram=Histogram("vllm:e2e_request_latency_seconds", covers=Covers.EITHER),
        requests=(Selector("vllm:request_success_total"),),
        failures=(Selector("vllm:request_success_total", where(finished_reason="=~abort|error")),),
        in_flight=(Selector("vllm:num_requests_running"), Selector("vllm:num_requests_waiting")),
        usual_port=8000,
    ),
    marks=("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:e2e_request_latency_seconds"),
    container="vllm",
    remarks="request_success_total counts every finished request by finished_reason; abort (the client went away) and "
    "error count as failed. For time to first token set signals.latency.histogram: vllm:time_to_first_token_seconds.",
)
