"""From what was given to a scenario: loads, servers and cluster, every unit parsed and every bound checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoscaler.model.policy import PolicySpec
from autoscaler.model.quantity import parse_duration, parse_share
from autoscaler.simulate import service
from autoscaler.simulate.engine import settled
from autoscaler.simulate.faro.path import QUEUE_LIMIT as FARO_QUEUE
from autoscaler.simulate.generate import generate
from autoscaler.simulate.inputs import read
from autoscaler.simulate.load import Load
from autoscaler.simulate.scenario import FARO_SERVICE, Scenario, Serving


def build(given: Mapping[str, Any], policy: PolicySpec | None) -> Scenario:
    """The scenario, with every unit parsed and every bound checked."""
    loads = load_all(given)
    arrivals = str(given["arrivals"])
    if given["service"] is None and all(load.recorded for load in loads):
        given = {**given, "service": "recorded"}
    serving = build_serving(given, limited=given["load_format"] == "faro" or arrivals == "faro")
    if given["mean_erlang"] is not None:
        loads = scaled(loads, serving, float(given["mean_erlang"]))
    serving = replace(settled(serving, loads), threads=serving.threads or enough_threads(loads, serving, given["pods"]))
    latency = policy.objective.latency if policy is not None else None
    slo = _time(given["slo"], "--slo") if given["slo"] is not None else (latency.target if latency else 0.72)
    within = parse_share(given["within"]) if given["within"] is not None else (latency.within if latency else 0.995)
    cold, cold_spread = _cold_start(str(given["cold_start"]))
    scenario = Scenario(
        loads=loads,
        serving=serving,
        arrivals=arrivals,
        target=slo,
        within=within,
        cpus=_number(given["cpus"], "--cpus"),
        budget=_number(given["budget"], "--budget"),
        room=None if given["room"] is None else parse_share(given["room"]),
        pods=int(given["pods"]),
        pod_cpu=float(given["pod_cpu"]),
        max_replicas=None if given["max_replicas"] is None else int(given["max_replicas"]),
        scrape=_time(given["scrape"], "--scrape"),
        actuation=_time(given["actuation"], "--actuation"),
        cold_start=cold,
        cold_start_spread=cold_spread,
        warm_up=_time(given["warm_up"], "--warm-up"),
        length=None if given["length"] is None else _time(given["length"], "--length"),
    )
    for value, flag in ((scenario.target, "--slo"), (scenario.scrape, "--scrape"), (scenario.pod_cpu, "--pod-cpu")):
        if value <= 0:
            raise ValueError(f"{flag} must be above zero")
    if not 0.0 < scenario.within < 1.0:
        raise ValueError("--within must be a share between 0 and 100%")
    if scenario.pods < 1 or serving.parallelism <= 0:
        raise ValueError("--pods must be at least 1 and --parallelism above zero")
    if scenario.cpus is not None and scenario.room is not None:
        raise ValueError("--cpus and --room are two kinds of cluster: give one of them")
    return scenario


def enough_threads(loads: Sequence[Load], serving: Serving, pods: Any) -> int:
    """Half more than the busiest minute of any workload keeps busy in each of its pods, at least 8."""
    held = serving.service.mean / serving.parallelism + serving.wait.mean
    busiest = max(load.peak_rate() for load in loads) * held / max(1, int(pods))
    return max(8, min(1024, math.ceil(1.5 * busiest)))


def scaled(loads: tuple[Load, ...], serving: Serving, cores: float) -> tuple[Load, ...]:
    """All rates by one factor, so that their work is `cores` on average."""
    if cores <= 0:
        raise ValueError("--mean-erlang must be above zero")
    now = sum(load.mean_rate() for load in loads) * serving.service.mean
    if now <= 0:
        raise ValueError("--mean-erlang can't scale a load without requests")
    return tuple(load.scaled(cores / now) for load in loads)


def load_all(given: Mapping[str, Any]) -> tuple[Load, ...]:
    """Loads from files, from our generator and from Prometheus, together."""
    loads: list[Load] = []
    for path in given["load"]:
        loads += read(Path(path), given["load_format"])
    loads += [generate(text) for text in given["generate"]]
    if given["from_prometheus"]:
        if not given["query"]:
            raise ValueError("--from-prometheus needs --query, as in sum(rate(http_requests_total[1m]))")
        from autoscaler.simulate.prometheus_range import fetch

        since, step = _time(given["since"], "--since"), _time(given["step"], "--step")
        loads += fetch(str(given["from_prometheus"]), str(given["query"]), since=since, step=step)
    if not loads:
        raise ValueError("no load: give --load FILE, --generate SHAPE or --from-prometheus URL")
    return tuple(loads)


def build_serving(given: Mapping[str, Any], *, limited: bool) -> Serving:
    """`limited`: Faro's jobs drop what finds 50 waiting, unless a limit is given."""
    batch, gamma, delta, epsilon, eta = _batch(given["batch"])
    if batch > 1 and given["service"] is not None and gamma is not None:
        raise ValueError("--batch's gamma and --service both say what a request costs: give one of them")
    cost = service.Fixed(gamma) if gamma is not None else FARO_SERVICE
    limit = given["queue_limit"]
    return Serving(
        service=service.parse(str(given["service"])) if given["service"] is not None else cost,
        wait=service.Fixed(delta) if delta else service.parse(str(given["wait"])),
        threads=0 if given["threads"] is None else _threads(given["threads"]),
        parallelism=1.0 if given["parallelism"] is None else float(given["parallelism"]),
        balance=str(given["balance"] or "shared"),
        queue_limit=int(limit) if limit is not None else (FARO_QUEUE if limited else 1_000_000),
        batch=batch,
        batch_cpu=epsilon,
        batch_wait=eta,
    )


def _threads(value: Any) -> int:
    if int(value) < 1:
        raise ValueError("--threads must be at least 1")
    return int(value)


def _batch(text: Any) -> tuple[int, float | None, float, float, float]:
    if text is None:
        return 1, None, 0.0, 0.0, 0.0
    size, *parts = str(text).split(",")
    values: dict[str, float] = {}
    for part in parts:
        name, equals, value = part.strip().partition("=")
        if not equals or name not in ("gamma", "delta", "epsilon", "eta"):
            raise ValueError(f"--batch {text}: {part!r} is none of gamma=, delta=, epsilon=, eta=")
        values[name] = _time(value, f"--batch {name}")
    if not size.isdigit() or int(size) < 1:
        raise ValueError(f"--batch {text}: begins with the number of requests in a batch, as 8,gamma=5ms")
    epsilon, eta = values.get("epsilon", 0.0), values.get("eta", 0.0)
    return int(size), values.get("gamma"), values.get("delta", 0.0), epsilon, eta


def _cold_start(text: str) -> tuple[float, float]:
    if not text.startswith("lognormal:"):
        return _time(text, "--cold-start"), 0.0
    mean, _, shape = text.removeprefix("lognormal:").partition(",")
    try:
        return _time(mean, "--cold-start"), float(shape)
    except ValueError as error:
        raise ValueError(f"--cold-start {text}: write for example 35s or lognormal:35s,0.3") from error


def _time(text: Any, flag: str) -> float:
    if isinstance(text, str) and text.endswith("d") and text[:-1].replace(".", "", 1).isdigit():
        return float(text[:-1]) * 86400.0
    try:
        value = float(parse_duration(text))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{flag} {text}: {error}") from error
    if value < 0:
        raise ValueError(f"{flag} {text}: a time can't be negative")
    return value


def _number(value: Any, flag: str) -> float | None:
    if value is None:
        return None
    if not float(value) > 0:
        raise ValueError(f"{flag} must be above zero")
    return float(value)
