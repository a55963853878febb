"""Hugging Face text-embeddings-inference."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames

PRESET = Preset(
    name="tei",
    title="Hugging Face text-embeddings-inference",
    written_from="huggingface/text-embeddings-inference router (1.2 to 1.8)",
    names=SignalNames(
        histogram=Histogram("te_request_duration", covers=Covers.SUCCESSES),
        requests=(Selector("te_request_success"),),
        requests_include_failures=False,
        failures=(Selector("te_request_failure"),),
        in_flight=(Selector("te_queue_size"),),
        usual_port=80,
    ),
    marks=("te_request_duration", "te_request_success", "te_queue_size"),
    remarks="te_queue_size counts what waits, not what is being computed. Newer versions listen for scrapes on "
    "--prometheus-port (9000): annotate it.",
)
