"""A plain Envoy in the pod, or in front of it: one listener's HTTP statistics."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames, where

SERVED = {"envoy_http_conn_manager_prefix": "!=admin"}

PRESET = Preset(
    name="envoy",
    title="Envoy",
    written_from="envoyproxy.io HTTP connection manager statistics; /stats/prometheus",
    names=SignalNames(
        histogram=Histogram("envoy_http_downstream_rq_time", where(**SERVED), unit=1e-3, covers=Covers.ALL),
        requests=(Selector("envoy_http_downstream_rq_completed", where(**SERVED)),),
        failures=(Selector("envoy_http_downstream_rq_xx", where(**SERVED, envoy_response_code_class="5")),),
        in_flight=(Selector("envoy_http_downstream_rq_active", where(**SERVED)),),
        process_cpu=(),
        process_memory=(),
        usual_port=9901,
        usual_path="/stats/prometheus",
    ),
    marks=("envoy_http_downstream_rq_time", "envoy_http_downstream_rq_completed", "envoy_http_downstream_rq_active"),
    general=True,
    remarks="A 429 is in class 4 and can't be told from other client errors here.",
)
