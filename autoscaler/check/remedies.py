"""What to do about a signal without a value: it hangs on what it is, and on who was asked."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from autoscaler.model.policy import Policy
from autoscaler.model.signal import Absent, Cause


class Told(enum.Enum):
    """Who tells a signal, and so where its name is written."""

    PAGE = "the server's own metrics page"
    CPU = "the kubelet's CPU and memory figures"
    THROTTLING = "the kubelet's throttled periods"
    QUERY = "a metric of objective.metrics"


LOOK_LONGER: Final = "look longer: --watch-for 30s"
STALE: Final = "look why its source stopped, or raise signals.maxAge"
PARTIAL: Final = "look which pods don't answer"
NO_BUCKET: Final = "give the server's histogram a bucket at the target, or choose a target that has one"
_ANYWHERE: Final[Mapping[Cause, str]] = {
    Cause.STALE: STALE,
    Cause.PARTIAL: PARTIAL,
    Cause.NO_BUCKET: NO_BUCKET,
    Cause.TOO_SHORT: LOOK_LONGER,
    Cause.COUNTER_RESET: LOOK_LONGER,
    Cause.NO_PODS: "wait until pods serve",
}
_DOWN: Final[Mapping[str, str]] = {
    "scrape": "look whether the pods' metrics port (prometheus.io/port) can be reached from here",
    "prometheus": "look whether --prometheus-url is right and Prometheus answers there",
    "kubelet": "look whether the API server reaches the nodes' kubelets, or take kubelet out of signals.sources",
    "metrics.k8s.io": "look whether metrics-server runs, or take metrics.k8s.io out of signals.sources",
}
_REFUSED: Final[Mapping[str, str]] = {
    "scrape": "let the pods' page answer in Prometheus' text format, or read the signal from Prometheus",
    "kubelet": "grant nodes/proxy (manifests/components/kubelet-metrics), or take kubelet out of signals.sources",
    "metrics.k8s.io": "grant list on pods of metrics.k8s.io (manifests/rbac/metrics-api.yaml)",
}
_THROTTLED: Final = "kubelets tell it for containers with a CPU limit, soon after their start: give them one"
_CREDENTIALS: Final = "name valid credentials: --prometheus-token-file, or --prometheus-username and its password"


def remedy(absent: Absent, told: Told, policy: Policy, otherwise: str = "correct it at its source") -> str:
    """One clause. ``otherwise``: for causes that no set-up brings about."""
    match absent.cause:
        case Cause.NOT_CONFIGURED:
            return _not_configured(absent, told, policy)
        case Cause.NO_SUCH_METRIC:
            return _no_such_metric(absent, told)
        case Cause.SOURCE_DOWN:
            return _DOWN.get(absent.source, "look whether the sources under signals.sources can be reached")
        case Cause.REFUSED:
            if "refuses the credentials" in absent.detail:
                return _CREDENTIALS
            return _REFUSED.get(absent.source, "correct the query that the policy writes")
    return _ANYWHERE.get(absent.cause, otherwise)


def _not_configured(absent: Absent, told: Told, policy: Policy) -> str:
    sources = ", ".join(policy.spec.signals.sources)
    if "signals.sources" in absent.detail:
        return f"this process has none of [{sources}]: start it with --prometheus-url, or add scrape to signals.sources"
    if "prometheus.io/" in absent.detail:
        return "correct that annotation of the pods"
    match told:
        case Told.QUERY:
            return "a query needs a Prometheus: start with --prometheus-url, and name prometheus in signals.sources"
        case Told.CPU:
            return "add prometheus (with --prometheus-url), kubelet or metrics.k8s.io to signals.sources"
        case Told.THROTTLING:
            return "only Prometheus (--prometheus-url) and kubelet tell it: add one to signals.sources"
    return "name it under spec.signals, or the server's preset (autoscaler presets)"


def _no_such_metric(absent: Absent, told: Told) -> str:
    match told:
        case Told.QUERY:
            return "correct its query under objective.metrics: it finds no series"
        case Told.THROTTLING:
            if absent.source == "prometheus":
                return f"{_THROTTLED}, and let Prometheus scrape the kubelets' /metrics/cadvisor"
            return f"{_THROTTLED}; where pods have one, look longer (--watch-for 30s)"
        case Told.CPU:
            if absent.source == "prometheus":
                return "let Prometheus scrape the kubelets' /metrics/cadvisor, or add kubelet to signals.sources"
            return "add prometheus (with --prometheus-url), kubelet or metrics.k8s.io to signals.sources"
    if absent.source == "prometheus":
        return (
            "look whether Prometheus scrapes these pods and labels them as --prometheus-pod-label says, or correct the "
            "name under spec.signals or its preset"
        )
    return "correct its name under spec.signals, or name the server's preset (autoscaler presets)"
