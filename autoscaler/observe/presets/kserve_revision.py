"""KServe in its serverless mode with a Knative before 1.19: the queue-proxy's revision_* names, in milliseconds."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames, where

PRESET = Preset(
    name="kserve-revision",
    title="KServe behind Knative's queue-proxy (Knative before 1.19)",
    written_from="knative.dev serving/services/service-metrics",
    names=SignalNames(
        histogram=Histogram(
            "revision_request_latencies", where(response_code="!~5..|429"), unit=1e-3, covers=Covers.SUCCESSES
        ),
        requests=(Selector("revision_request_count"), Selector("revision_request_count_total")),
        failures=(
            Selector("revision_request_count", where(response_code="=~5..|429")),
            Selector("revision_request_count_total", where(response_code="=~5..|429")),  # the library's suffix
        ),
        in_flight=(Selector("revision_queue_depth", optional=True),),
        process_cpu=(),
        process_memory=(),
        usual_port=9091,
    ),
    marks=("revision_request_latencies", "revision_request_count", "revision_queue_depth"),
    container="kserve-container",
    remarks="revision_queue_depth is not reported where containerConcurrency is unlimited.",
)
