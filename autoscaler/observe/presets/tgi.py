"""Hugging Face text-generation-inference."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames

PRESET = Preset(
    name="tgi",
    title="Hugging Face text-generation-inference",
    written_from="huggingface.co/docs/text-generation-inference/reference/metrics",
    names=SignalNames(
        histogram=Histogram("tgi_request_duration", covers=Covers.SUCCESSES),
        requests=(Selector("tgi_request_success"),),
        requests_include_failures=False,
        failures=(Selector("tgi_request_failure"),),
        in_flight=(Selector("tgi_queue_size"), Selector("tgi_batch_current_size")),
        usual_port=80,
    ),
    marks=("tgi_request_duration", "tgi_request_success", "tgi_queue_size"),
    remarks="Fast refusals (overloaded) are in tgi_request_failure.",
)
