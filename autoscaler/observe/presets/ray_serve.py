"""Ray Serve's replicas, on the page of the Ray node (pod) they run in; times in milliseconds."""

from autoscaler.observe.names import Covers, Histogram, Preset, Selector, SignalNames

PRESET = Preset(
    name="ray-serve",
    title="Ray Serve",
    written_from="docs.ray.io serve/monitoring; ray/serve/_private/replica.py (2.10 and later)",
    names=SignalNames(
        histogram=Histogram("ray_serve_deployment_processing_latency_ms", unit=1e-3, covers=Covers.ALL),
        requests=(Selector("ray_serve_deployment_processing_latency_ms_count"),),
        failures=(Selector("ray_serve_deployment_error_counter_total", optional=True),),
        in_flight=(Selector("ray_serve_replica_processing_queries", optional=True),),
        process_cpu=(),
        process_memory=(),
        usual_port=8080,
    ),
    marks=("ray_serve_deployment_processing_latency_ms", "ray_serve_replica_processing_queries"),
    container="ray-worker",
    remarks="Latency is that of the replicas; what waits in routers and proxies is not in it. Deployments that call "
    "each other are counted one by one: select one by its labels (signals.latency.labels: deployment).",
)
