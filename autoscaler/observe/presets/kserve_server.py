"""KServe's own Python model servers (sklearn, xgboost, custom): the latency of the predict step, no failures."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames

PRESET = Preset(
    name="kserve-server",
    title="KServe's Python model server, in raw deployment mode",
    written_from="kserve/kserve python/kserve model server metrics (0.10 and later)",
    names=SignalNames(
        histogram=Histogram("request_predict_seconds", covers=Covers.SUCCESSES),
        requests=(Selector("request_predict_seconds_count"),),
        requests_include_failures=False,
        usual_port=8080,
    ),
    marks=("request_predict_seconds", "request_preprocess_seconds", "request_postprocess_seconds"),
    container="kserve-container",
    remarks="Time spent waiting before the predict step is not in the histogram, and there is no gauge of requests in "
    "flight: put a queue-proxy or a mesh in front, or add signals.inFlight, where stalls must be seen.",
)
