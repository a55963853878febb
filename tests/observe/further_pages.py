"""More servers' pages, as in ``server_pages``: each written from that server's own documentation or source."""

from __future__ import annotations

from collections.abc import Callable

from tests.observe.server_pages import histogram

COMMON = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
GROWING_US = tuple(float(f"{10 * 1.8**n:.6g}") for n in range(33))
"""TensorFlow's and OpenVINO's exponential bounds, in microseconds."""


def counter(name: str, *series: tuple[str, float]) -> str:
    return f"# TYPE {name} counter\n" + "".join(f"{name}{{{labels}}} {value}\n" for labels, value in series)


def gauge(name: str, labels: str, value: float) -> str:
    return f"# TYPE {name} gauge\n{name}{{{labels}}} {value}\n"


def headless(text: str) -> str:
    """Without its HELP and TYPE: a family has one head, however many label sets."""
    return text.split("\n", 2)[2]


def sglang(ok: int, slow: int, failed: int, inside: int) -> str:
    of = 'engine_type="unified",model_name="meta-llama/Llama-3.1-8B-Instruct",pp_rank="0",tp_rank="0"'
    seen = 'model_name="meta-llama/Llama-3.1-8B-Instruct"'
    bounds = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400)
    return (
        gauge("sglang:num_running_reqs", of, inside - 1)
        + gauge("sglang:num_queue_reqs", of, 1)
        + gauge("sglang:token_usage", of, 0.28)
        + counter("sglang:num_requests_total", (seen, ok + failed))
        + counter("sglang:num_aborted_requests_total", (seen, failed))
        + histogram("sglang:time_to_first_token_seconds", seen, (0.1, 0.2, 0.4, 0.6), ok, 0)
        + histogram("sglang:e2e_request_latency_seconds", seen, bounds, ok + failed, slow)
    )


def llamacpp(ok: int, slow: int, failed: int, inside: int) -> str:
    return f"""# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total {ok * 30}
# HELP llamacpp:tokens_predicted_total Number of generation tokens processed.
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total {ok * 100}
# HELP llamacpp:n_decode_total Total number of llama_decode() calls
# TYPE llamacpp:n_decode_total counter
llamacpp:n_decode_total {ok * 100}
# HELP llamacpp:predicted_tokens_seconds Average generation throughput in tokens/s.
# TYPE llamacpp:predicted_tokens_seconds gauge
llamacpp:predicted_tokens_seconds nan
# HELP llamacpp:requests_processing Number of requests processing.
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing {inside - 1}
# HELP llamacpp:requests_deferred Number of requests deferred.
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 1
"""


def tensorflow(ok: int, slow: int, failed: int, inside: int) -> str:
    return (
        counter(
            ":tensorflow:serving:request_count",
            ('model_name="resnet",status="OK"', ok),
            ('model_name="resnet",status="RESOURCE_EXHAUSTED"', failed),
        )
        + histogram(
            ":tensorflow:serving:request_latency",
            'model_name="resnet",API="predict",entrypoint="REST"',
            GROWING_US,
            ok,
            slow,
            1e-6,
            help_="Distribution of wall time (in microseconds) for Tensorflow Serving requests.",
        )
        + histogram(":tensorflow:serving:runtime_latency", 'model_name="resnet"', GROWING_US, ok, 0, 1e-6)
        + counter(":tensorflow:core:graph_runs", ("", ok))
    )


def openvino(ok: int, slow: int, failed: int, inside: int) -> str:
    def of(method: str) -> str:
        return f'api="KServe",interface="REST",method="{method}",name="resnet",version="1"'

    return (
        gauge("ovms_streams", 'name="resnet",version="1"', 4)
        + gauge("ovms_current_requests", 'name="resnet",version="1"', inside)
        + counter("ovms_requests_success", (of("ModelInfer"), ok), (of("ModelReady"), ok * 7))
        + counter("ovms_requests_fail", (of("ModelInfer"), failed), (of("ModelReady"), 3))
        + histogram("ovms_request_time_us", 'interface="REST",name="resnet",version="1"', GROWING_US, ok, slow, 1e-6)
        + histogram("ovms_inference_time_us", 'name="resnet",version="1"', GROWING_US, ok, 0, 1e-6)
    )


def mlserver(ok: int, slow: int, failed: int, inside: int) -> str:
    of = 'app_name="mlserver",method="POST",path="/v2/models/iris/infer"'
    good, bad = f'{of},status_code="200"', f'{of},status_code="500"'
    name = "rest_server_request_duration_seconds"
    return (
        counter("rest_server_requests_total", (good, ok), (bad, failed))
        + histogram(name, good, COMMON, ok, slow)
        + headless(histogram(name, bad, COMMON, failed, 0))
        + gauge("rest_server_requests_in_progress", 'app_name="mlserver",method="POST"', inside)
        + counter("model_infer_request_success_total", ('model="iris",version="1"', ok))
        + counter("model_infer_request_failure_total", ('model="iris",version="1"', failed))
    )


def bentoml(ok: int, slow: int, failed: int, inside: int) -> str:
    of = 'endpoint="/encode",runner_name="Encoder",service_name="Encoder",service_version="1"'
    good, bad = f'{of},http_response_code="200"', f'{of},http_response_code="503"'
    name = "bentoml_service_request_duration_seconds"
    return (
        gauge("bentoml_service_request_in_progress", of, inside)
        + counter("bentoml_service_request_total", (good, ok), (bad, failed))
        + histogram(name, good, COMMON, ok, slow)
        + headless(histogram(name, bad, COMMON, failed, 0))
    )


def ray_serve(ok: int, slow: int, failed: int, inside: int) -> str:
    of = 'Component="core_worker",application="default",deployment="Translator",replica="a1b2c3"'
    bounds = (1, 2, 5, 10, 20, 50, 100, 200, 300, 400, 500, 1000, 2000, 5000, 10000, 60000, 120000, 300000, 600000)
    name, routed = "ray_serve_deployment_processing_latency_ms", f'{of},route="/"'
    return (
        histogram(name, routed, bounds, ok + failed, slow, 1e-3)
        + counter("ray_serve_deployment_request_counter_total", (routed, ok))
        + counter("ray_serve_deployment_error_counter_total", (routed, failed))
        + gauge("ray_serve_deployment_error_counter", routed, failed)
        + gauge("ray_serve_replica_processing_queries", of, inside)
        + gauge("ray_node_cpu_utilization", 'instance="n1"', 3.5)
    )


def linkerd(ok: int, slow: int, failed: int, inside: int) -> str:
    def of(direction: str, code: int) -> str:
        return f'direction="{direction}",target_port="8000",tls="true",status_code="{code}"'

    bounds = (1, 2, 3, 4, 5, 10, 20, 30, 40, 50, 100, 200, 300, 400, 500, 1000, 2000, 3000, 4000, 5000, 10000, 50000)
    name = "response_latency_ms"
    return (
        counter("request_total", ('direction="inbound",target_port="8000",tls="true"', ok + failed + inside))
        + counter(
            "response_total",
            (of("inbound", 200) + ',classification="success"', ok),
            (of("inbound", 503) + ',classification="failure"', failed),
            (of("outbound", 200) + ',classification="success"', ok * 3),
        )
        + histogram(name, of("inbound", 200), bounds, ok, slow, 1e-3)
        + headless(histogram(name, of("inbound", 503), bounds, failed, 0, 1e-3))
        + headless(histogram(name, of("outbound", 200), bounds, ok * 3, ok, 1e-3))
    )


def litellm(ok: int, slow: int, failed: int, inside: int) -> str:
    of = 'end_user="None",hashed_api_key="k",requested_model="gpt"'
    bounds = (0.005, 0.00625, 0.0125, 0.025, 0.05, 0.1, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 5.0, 10.0, 30.0, 60.0, 240.0)
    return (
        counter(
            "litellm_proxy_total_requests_metric_total",
            (f'{of},status_code="200"', ok),
            (f'{of},status_code="429"', failed),
        )
        + counter("litellm_proxy_failed_requests_metric_total", (f'{of},exception_status="429"', failed))
        + gauge("litellm_in_flight_requests", "", inside)
        + histogram("litellm_request_total_latency_metric", of, bounds, ok, slow)
    )


def tei(ok: int, slow: int, failed: int, inside: int) -> str:
    bounds = tuple(float(f"{1e-5 * 1.5**n:.6g}") for n in range(36))
    return (
        counter("te_request_count", ('method="single"', ok + failed))
        + counter("te_request_success", ('method="single"', ok))
        + counter("te_request_failure", ('err="overloaded"', failed))
        + gauge("te_queue_size", "", inside)
        + histogram("te_request_duration", "", bounds, ok, slow)
    )


def otel_http(ok: int, slow: int, failed: int, inside: int) -> str:
    of = 'http_request_method="POST",http_route="/predict",otel_scope_name="http",url_scheme="http"'
    good, bad = f'{of},http_response_status_code="200"', f'{of},http_response_status_code="500"'
    name = "http_server_request_duration_seconds"
    return (
        histogram(name, good, COMMON, ok, slow)
        + headless(histogram(name, bad, COMMON, failed, 0))
        + gauge("http_server_active_requests", 'http_request_method="POST",url_scheme="http"', inside)
        + gauge("target_info", 'service_name="predict"', 1)
    )


def http(ok: int, slow: int, failed: int, inside: int) -> str:
    good, bad = 'code="200",method="post"', 'code="503",method="post"'
    return (
        histogram("http_request_duration_seconds", good, COMMON, ok, slow)
        + headless(histogram("http_request_duration_seconds", bad, COMMON, failed, 0))
        + gauge("http_requests_in_flight", "", inside)
        + gauge("go_goroutines", "", 9)
    )


def starlette_prometheus(ok: int, slow: int, failed: int, inside: int) -> str:
    of = 'method="POST",path_template="/predict"'
    return (
        counter("starlette_requests_total", (of, ok + failed + inside))
        + counter("starlette_responses_total", (f'{of},status_code="200"', ok), (f'{of},status_code="500"', failed))
        + histogram("starlette_requests_processing_time_seconds", of, COMMON, ok + failed, slow)
        + gauge("starlette_requests_in_progress", of, inside)
    )


FURTHER: dict[str, Callable[[int, int, int, int], str]] = {
    "bentoml": bentoml,
    "http": http,
    "linkerd": linkerd,
    "litellm": litellm,
    "llamacpp": llamacpp,
    "mlserver": mlserver,
    "openvino": openvino,
    "otel-http": otel_http,
    "ray-serve": ray_serve,
    "sglang": sglang,
    "starlette-prometheus": starlette_prometheus,
    "tei": tei,
    "tensorflow": tensorflow,
}
