"""The text of a pod's /metrics, and what can be wrong with it."""

import dataclasses

from autoscaler.emulate.serving import Fleet, Process
from autoscaler.queueing.live import PodCounters

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# What `Faults.pages` may hold for a pod; `pages.py` plays the ones that are no text.
FAULTS = ("stale", "nan", "inf", "negative", "huge", "slow", "html", "reset", "missing", "refused", "no-histogram")
HUGE = 40 * 1024 * 1024  # bytes of a page nobody should read to its end
SLOW = 30.0  # seconds before a slow page answers


def render(
    fleet: Fleet,
    process: Process,
    now: float,
    wall: float,
    working_set: int,
    *,
    fault: str = "",
    base: PodCounters | None = None,
) -> str:
    """The page as of the fleet's last advance. `base` is what a counter reset took away."""
    counters = fleet.counters(process)
    if base is not None:
        counters = _less(counters, base)
    cpu = process.startup_cpu * min(1.0, now - process.started_at) + counters.cpu_seconds
    cpu += fleet.service.idle_cores * (now - process.started_at)
    failed = int(counters.completions * fleet.service.failures)
    good = counters.completions - failed
    lines = ["# HELP request_duration_seconds Time from arrival to the end of the answer."]
    lines.append("# TYPE request_duration_seconds histogram")
    if fault != "no-histogram":
        share = good / counters.completions if counters.completions else 1.0
        for bound, count in zip((*fleet.pods.bounds, None), counters.latency_buckets, strict=True):
            le = "+Inf" if bound is None else f"{bound:g}"
            lines.append(f'request_duration_seconds_bucket{{code="200",le="{le}"}} {_share(count, share)}')
        total = _number(counters.latency_sum * share, fault)
        lines.append(f'request_duration_seconds_sum{{code="200"}} {total}')
        lines.append(f'request_duration_seconds_count{{code="200"}} {_number(good, fault)}')
    lines += [
        "# HELP requests_total Requests answered, by status code.",
        "# TYPE requests_total counter",
        f'requests_total{{code="200"}} {_number(good, fault)}',
        f'requests_total{{code="500"}} {failed}',
        f'requests_total{{code="503"}} {counters.dropped}',
        "# HELP requests_in_flight Requests inside, waiting ones included.",
        "# TYPE requests_in_flight gauge",
        f"requests_in_flight {_number(counters.in_flight, fault)}",
        "# HELP process_cpu_seconds_total CPU time of this process.",
        "# TYPE process_cpu_seconds_total counter",
        f"process_cpu_seconds_total {_number(cpu, fault)}",
        "# HELP process_resident_memory_bytes Resident memory.",
        "# TYPE process_resident_memory_bytes gauge",
        f"process_resident_memory_bytes {_number(working_set, fault)}",
        "# HELP process_start_time_seconds Start of this process.",
        "# TYPE process_start_time_seconds gauge",
        f"process_start_time_seconds {wall - (now - process.started_at):.3f}",
    ]
    return "\n".join(lines) + "\n"


def _less(counters: PodCounters, base: PodCounters) -> PodCounters:
    return dataclasses.replace(
        counters,
        completions=counters.completions - base.completions,
        dropped=counters.dropped - base.dropped,
        cpu_seconds=counters.cpu_seconds - base.cpu_seconds,
        latency_sum=counters.latency_sum - base.latency_sum,
        latency_buckets=[now - then for now, then in zip(counters.latency_buckets, base.latency_buckets, strict=True)],
    )


def _share(count: int, share: float) -> int:
    return count if share == 1.0 else int(count * share)


def _number(value: float, fault: str) -> str:
    match fault:
        case "nan":
            return "NaN"
        case "inf":
            return "+Inf"
        case "negative":
            return f"{-abs(value) - 1:g}"
    return str(value) if isinstance(value, int) else f"{value:.6f}"
