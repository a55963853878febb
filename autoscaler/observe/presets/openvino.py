"""OpenVINO Model Server with --metrics_enable; times in microseconds, bounds 10 · 1.8ⁿ."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames, where

NOT_INFERENCE = "!~(Get)?Model(Metadata|Ready|Status)"

PRESET = Preset(
    name="openvino",
    title="OpenVINO Model Server",
    written_from="docs.openvino.ai ovms_docs_metrics (2022.2 to 2025)",
    names=SignalNames(
        histogram=Histogram("ovms_request_time_us", unit=1e-6, covers=Covers.EITHER),
        requests=(Selector("ovms_requests_success", where(method=NOT_INFERENCE)),),
        requests_include_failures=False,
        failures=(Selector("ovms_requests_fail", where(method=NOT_INFERENCE)),),
        in_flight=(Selector("ovms_current_requests", optional=True),),
        usual_port=8000,
    ),
    marks=("ovms_requests_success", "ovms_request_time_us", "ovms_current_requests"),
    container="ovms",
    remarks="Start the server with --metrics_enable and --rest_port. Bounds are 10 µs · 1.8ⁿ (…, 219 ms, 394 ms, "
    "709 ms): choose a target near one. MediaPipe graphs are counted apart (ovms_requests_accepted).",
)
