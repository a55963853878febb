"""Pages of inference servers, written from their own documentation: names, labels, units, order and quirks.

Each shows a server that has answered ``ok`` requests of which ``slow`` took longer than the target of 0.5 s, and failed
``failed`` more; ``inside`` requests are in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

MS = (0.5, 1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 300000, 600000, 1800000, 3600000)


def histogram(
    name: str, labels: str, bounds: Sequence[float], ok: int, slow: int, unit: float = 1.0, help_: str = ""
) -> str:
    """A classic histogram whose fast requests took 0.1 s and whose slow ones 0.8 s."""
    lines = [f"# HELP {name} {help_ or name}", f"# TYPE {name} histogram"]
    inner = f"{labels}," if labels else ""
    for bound in bounds:
        seconds = bound * unit
        inside = (ok - slow if seconds >= 0.1 else 0) + (slow if seconds >= 0.8 else 0)
        lines.append(f'{name}_bucket{{{inner}le="{bound}"}} {inside}')
    own = f"{{{labels}}}" if labels else ""
    lines.append(f'{name}_bucket{{{inner}le="+Inf"}} {ok}')
    lines.append(f"{name}_sum{own} {((ok - slow) * 0.1 + slow * 0.8) / unit}")
    lines.append(f"{name}_count{own} {ok}")
    return "\n".join(lines) + "\n"


def triton(ok: int, slow: int, failed: int, inside: int) -> str:
    of = 'model="resnet50",version="1"'
    # summary_latencies=true; quantiles in microseconds over a sliding window: here, the last hundred requests
    quantiles = "\n".join(
        f'nv_inference_request_summary_us{{{of},quantile="{share}"}} {100000 if share <= 1 - slow / 100 else 800000}'
        for share in (0.5, 0.9, 0.95, 0.99, 0.999)
    )
    return f"""# HELP nv_inference_request_success Number of successful inference requests, all batch sizes
# TYPE nv_inference_request_success counter
nv_inference_request_success{{{of}}} {ok}
# HELP nv_inference_request_failure Number of failed inference requests, all batch sizes
# TYPE nv_inference_request_failure counter
nv_inference_request_failure{{{of},reason="REJECTED"}} {failed}
nv_inference_request_failure{{{of},reason="CANCELED"}} 0
nv_inference_request_failure{{{of},reason="BACKEND"}} 0
nv_inference_request_failure{{{of},reason="OTHER"}} 0
# HELP nv_inference_count Number of inferences performed (does not include cached requests)
# TYPE nv_inference_count counter
nv_inference_count{{{of}}} {ok * 4}
# HELP nv_inference_request_duration_us Cumulative inference request duration in microseconds
# TYPE nv_inference_request_duration_us counter
nv_inference_request_duration_us{{{of}}} {((ok - slow) * 100000) + slow * 800000}
# HELP nv_inference_request_summary_us Summary of inference request duration in microseconds
# TYPE nv_inference_request_summary_us summary
nv_inference_request_summary_us_count{{{of}}} {ok}
nv_inference_request_summary_us_sum{{{of}}} {((ok - slow) * 100000) + slow * 800000}
{quantiles}
# HELP nv_inference_pending_request_count Instantaneous number of pending requests awaiting execution per-model.
# TYPE nv_inference_pending_request_count gauge
nv_inference_pending_request_count{{{of}}} {inside}
# HELP nv_cpu_utilization CPU utilization rate [0.0 - 1.0]
# TYPE nv_cpu_utilization gauge
nv_cpu_utilization 0.25
"""


def vllm(ok: int, slow: int, failed: int, inside: int) -> str:
    of = 'engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"'
    bounds = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0)
    return (
        f"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{{of}}} {inside - 1}.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{{of}}} 1.0
# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{{of}}} 0.03
# HELP vllm:request_success_total Count of successfully processed requests.
# TYPE vllm:request_success_total counter
vllm:request_success_total{{{of.replace(",", ',finished_reason="stop",')}}} {ok}.0
vllm:request_success_total{{{of.replace(",", ',finished_reason="length",')}}} 0.0
vllm:request_success_total{{{of.replace(",", ',finished_reason="abort",')}}} {failed}.0
"""
        # the histogram has seen the aborted ones as well, at once
        + histogram("vllm:e2e_request_latency_seconds", of, bounds, ok + failed, slow)
        + histogram("vllm:time_to_first_token_seconds", of, (0.001, 0.005, 0.01, 0.1, 1.0), ok, 0)
        + f"""# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total {ok * 0.05}
# HELP http_requests_total Total number of requests by method, status and handler.
# TYPE http_requests_total counter
http_requests_total{{handler="/v1/completions",method="POST",status="2xx"}} {ok}.0
"""
        # its own web framework is instrumented as well
        + histogram("http_request_duration_highr_seconds", "", (0.1, 0.5, 1.0), ok + failed, slow)
        + histogram("http_request_duration_seconds", 'handler="/v1/completions"', (0.1, 0.5, 1.0), ok, slow)
    )


def kserve(ok: int, slow: int, failed: int, inside: int) -> str:
    of = (
        'container_name="queue-proxy",k8s_namespace_name="serving",k8s_pod_name="p",kn_revision_name="iris-00001",'
        'http_request_method="POST",network_protocol_name="http",network_protocol_version="1.1",url_scheme="http"'
    )
    bounds = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
    good = f'{of},http_response_status_code="200"'
    bad = f'{of},http_response_status_code="503"'
    whole = histogram("http_server_request_duration_seconds", good, bounds, ok, slow)
    shed = histogram("http_server_request_duration_seconds", bad, bounds, failed, 0).split("\n", 2)[2]
    invoked = histogram("kn_serving_invocation_duration_seconds", good, bounds, ok, slow)
    return whole + shed + invoked + f"# TYPE kn_serving_queue_depth gauge\nkn_serving_queue_depth{{{of}}} {inside}\n"


def kserve_revision(ok: int, slow: int, failed: int, inside: int) -> str:
    of = 'configuration_name="iris",container_name="queue-proxy",namespace_name="serving",revision_name="iris-00001"'
    good, bad = (
        f'{of},response_code="200",response_code_class="2xx"',
        f'{of},response_code="502",response_code_class="5xx"',
    )
    bounds = (5, 10, 20, 40, 60, 80, 100, 150, 200, 250, 300, 350, 400, 450, 500, 600, 700, 800, 900, 1000, 2000, 5000)
    shed = histogram("revision_request_latencies", bad, bounds, failed, 0, 1e-3).split("\n", 2)[2]
    return (
        "# TYPE revision_request_count counter\n"
        f"revision_request_count{{{good}}} {ok}\nrevision_request_count{{{bad}}} {failed}\n"
        + histogram("revision_request_latencies", good, bounds, ok, slow, 1e-3)
        + shed
        + f"# TYPE revision_queue_depth gauge\nrevision_queue_depth{{{of}}} {inside}\n"
    )


def kserve_server(ok: int, slow: int, failed: int, inside: int) -> str:
    bounds = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
    of = 'model_name="sklearn-iris"'
    steps = ("request_preprocess_seconds", "request_postprocess_seconds", "request_explain_seconds")
    return histogram("request_predict_seconds", of, bounds, ok, slow, help_="predict request latency") + "".join(
        histogram(step, of, bounds, ok, 0) for step in steps
    )


def torchserve(ok: int, slow: int, failed: int, inside: int) -> str:
    of = 'model_name="resnet18",model_version="default",hostname="88665a372f4b",'  # with its trailing comma
    return f"""# HELP Requests2XX Torchserve prometheus counter metric with unit: Count
# TYPE Requests2XX counter
Requests2XX{{Level="Host",Hostname="88665a372f4b",}} {ok}.0
# HELP Requests5XX Torchserve prometheus counter metric with unit: Count
# TYPE Requests5XX counter
Requests5XX{{Level="Host",Hostname="88665a372f4b",}} {failed}.0
# HELP ts_inference_requests_total Torchserve prometheus counter metric with unit: Count
# TYPE ts_inference_requests_total counter
ts_inference_requests_total{{{of}}} {ok + failed}.0
# HELP ts_inference_latency_microseconds Torchserve prometheus counter metric with unit: Microseconds
# TYPE ts_inference_latency_microseconds counter
ts_inference_latency_microseconds{{{of}}} {((ok - slow) * 100000) + slow * 800000}.129
# HELP ts_queue_latency_microseconds Torchserve prometheus counter metric with unit: Microseconds
# TYPE ts_queue_latency_microseconds counter
ts_queue_latency_microseconds{{{of}}} 364.884
# HELP QueueTime Torchserve prometheus gauge metric with unit: Milliseconds
# TYPE QueueTime gauge
QueueTime{{Level="Host",Hostname="88665a372f4b",}} 0.0
"""


def fastapi(ok: int, slow: int, failed: int, inside: int) -> str:
    high = (
        0.01,
        0.025,
        0.05,
        0.075,
        0.1,
        0.25,
        0.5,
        0.75,
        1.0,
        1.5,
        2.0,
        2.5,
        3.0,
        3.5,
        4.0,
        4.5,
        5.0,
        7.5,
        10,
        30,
        60,
    )
    return (
        f"""# HELP http_requests_total Total number of requests by method, status and handler.
# TYPE http_requests_total counter
http_requests_total{{handler="/predict",method="POST",status="2xx"}} {ok}.0
http_requests_total{{handler="/predict",method="POST",status="5xx"}} {failed}.0
# HELP http_requests_created Total number of requests by method, status and handler.
# TYPE http_requests_created gauge
http_requests_created{{handler="/predict",method="POST",status="2xx"}} 1.7e+09
"""
        + histogram("http_request_duration_highr_seconds", "", high, ok + failed, slow)
        + histogram(
            "http_request_duration_seconds", 'handler="/predict",method="POST"', (0.1, 0.5, 1.0), ok + failed, slow
        )
        + f'# TYPE http_requests_inprogress gauge\nhttp_requests_inprogress{{method="POST"}} {inside}.0\n'
    )


def starlette(ok: int, slow: int, failed: int, inside: int) -> str:
    of = 'app_name="starlette",method="POST",path="/predict"'
    bounds = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
    shed = histogram("starlette_request_duration_seconds", f'{of},status_code="429"', bounds, failed, 0)
    return (
        "# TYPE starlette_requests_total counter\n"
        f'starlette_requests_total{{{of},status_code="200"}} {ok}.0\n'
        f'starlette_requests_total{{{of},status_code="429"}} {failed}.0\n'
        + histogram("starlette_request_duration_seconds", f'{of},status_code="200"', bounds, ok, slow)
        + shed.split("\n", 2)[2]
        + "# TYPE starlette_requests_in_progress gauge\n"
        + f'starlette_requests_in_progress{{app_name="starlette",method="POST"}} {inside}.0\n'
    )


def istio(ok: int, slow: int, failed: int, inside: int) -> str:
    def of(reporter: str, code: int) -> str:
        return (
            f'reporter="{reporter}",source_workload="gateway",destination_workload="resnet",'
            f'destination_service="resnet.serving.svc.cluster.local",request_protocol="http",response_code="{code}",'
            'response_flags="-",connection_security_policy="mutual_tls"'
        )

    called = of("source", 200)  # what this pod asked of others is not its own load
    return (
        "# TYPE istio_requests_total counter\n"
        f"istio_requests_total{{{of('destination', 200)}}} {ok}\n"
        f"istio_requests_total{{{of('destination', 503)}}} {failed}\n"
        f"istio_requests_total{{{called}}} {ok * 3}\n"
        + histogram("istio_request_duration_milliseconds", of("destination", 200), MS, ok, slow, 1e-3)
        + histogram("istio_request_duration_milliseconds", of("destination", 503), MS, failed, 0, 1e-3).split("\n", 2)[
            2
        ]
        + histogram("istio_request_duration_milliseconds", called, MS, ok * 3, ok, 1e-3).split("\n", 2)[2]
    )


def envoy(ok: int, slow: int, failed: int, inside: int) -> str:
    of, admin = 'envoy_http_conn_manager_prefix="ingress_http"', 'envoy_http_conn_manager_prefix="admin"'
    return (
        f"# TYPE envoy_http_downstream_rq_completed counter\n"
        f"envoy_http_downstream_rq_completed{{{of}}} {ok + failed}\n"
        f"envoy_http_downstream_rq_completed{{{admin}}} {ok * 9}\n"
        f"# TYPE envoy_http_downstream_rq_xx counter\n"
        f'envoy_http_downstream_rq_xx{{envoy_response_code_class="2",{of}}} {ok}\n'
        f'envoy_http_downstream_rq_xx{{envoy_response_code_class="5",{of}}} {failed}\n'
        f"# TYPE envoy_http_downstream_rq_active gauge\n"
        f"envoy_http_downstream_rq_active{{{of}}} {inside}\nenvoy_http_downstream_rq_active{{{admin}}} 1\n"
        + histogram("envoy_http_downstream_rq_time", of, MS, ok + failed, slow, 1e-3)
        + histogram("envoy_http_downstream_rq_time", admin, MS, ok * 9, 0, 1e-3).split("\n", 2)[2]
    )


def tgi(ok: int, slow: int, failed: int, inside: int) -> str:
    bounds = (0.1, 0.15, 0.225, 0.3375, 0.50625, 0.759375, 1.1390625, 1.70859375, 2.562890625)
    return (
        f"# TYPE tgi_request_count counter\ntgi_request_count {ok + failed}\n"
        f"# TYPE tgi_request_success counter\ntgi_request_success {ok}\n"
        f'# TYPE tgi_request_failure counter\ntgi_request_failure{{err="overloaded"}} {failed}\n'
        f"# TYPE tgi_queue_size gauge\ntgi_queue_size {inside - 1}\n"
        f"# TYPE tgi_batch_current_size gauge\ntgi_batch_current_size 1\n"
        + histogram("tgi_request_duration", "", bounds, ok, slow)
    )


def generic(ok: int, slow: int, failed: int, inside: int) -> str:
    return (
        f'# TYPE requests_total counter\nrequests_total{{code="200"}} {ok}\nrequests_total{{code="503"}} {failed}\n'
        f"# TYPE requests_in_flight gauge\nrequests_in_flight {inside}\n"
        + histogram("request_duration_seconds", 'code="200"', (0.1, 0.25, 0.5, 1.0), ok, slow)
        + histogram("request_duration_seconds", 'code="503"', (0.1, 0.25, 0.5, 1.0), failed, 0).split("\n", 2)[2]
    )


PAGES: dict[str, Callable[[int, int, int, int], str]] = {
    "envoy": envoy,
    "fastapi": fastapi,
    "generic": generic,
    "istio": istio,
    "kserve": kserve,
    "kserve-revision": kserve_revision,
    "kserve-server": kserve_server,
    "starlette": starlette,
    "tgi": tgi,
    "torchserve": torchserve,
    "triton": triton,
    "vllm": vllm,
}
