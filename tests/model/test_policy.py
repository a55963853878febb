"""The policy: every field, default and unit of the object users write."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from autoscaler.model.policy import PolicySpec

MINIMAL: dict[str, Any] = {"scaleTargetRef": {"name": "resnet"}, "objective": {"latency": {"target": "500ms"}}}


def spec(**changes: Any) -> PolicySpec:
    return PolicySpec.model_validate({**MINIMAL, **changes})


def test_the_whole_object_of_the_documentation_is_read() -> None:
    full = PolicySpec.model_validate(
        {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "resnet"},
            "mode": "Auto",
            "priority": 0,
            "budget": "vision",
            "objective": {
                "latency": {"target": "500ms", "within": "99%"},
                "cpu": {"targetUtilization": "70%"},
                "metrics": [{"name": "queue", "query": "sum(q)", "target": {"type": "AverageValue", "value": "500m"}}],
            },
            "signals": {
                "preset": "triton",
                "latency": {"histogram": "h", "unit": "us"},
                "requests": {"counter": "c"},
                "failures": {"counter": "f"},
                "inFlight": {"gauge": "g"},
                "sources": ["prometheus", "scrape"],
                "maxAge": "30s",
            },
            "vertical": {
                "container": "server",
                "cpu": {"min": "250m", "max": "8", "step": "100m", "controls": "RequestsAndLimits"},
                "memory": {"min": "1Gi", "max": "8Gi", "headroom": "20%", "shrink": "Never"},
                "behavior": {
                    "grow": {"stabilizationWindowSeconds": 0},
                    "shrink": {"stabilizationWindowSeconds": 60, "minChange": "10%"},
                },
                "template": "Keep",
            },
            "horizontal": {"minReplicas": 2, "maxReplicas": 10, "behavior": {}},
            "resize": {"timeoutSeconds": 60, "maxUnavailable": 1},
        }
    )
    assert full.objective.latency is not None
    assert (full.objective.latency.target, full.objective.latency.within) == (0.5, 0.99)
    assert (full.vertical.cpu.min, full.vertical.cpu.max, full.vertical.cpu.step) == (250, 8000, 100)
    assert full.vertical.memory.max == 8 * 2**30
    assert full.objective.metrics[0].target.value == 0.5
    assert PolicySpec.model_validate(full.model_dump(by_alias=True, mode="json")) == full


def test_percentile_is_read_as_within() -> None:
    latency = spec(objective={"latency": {"target": "1s", "percentile": 0.95}}).objective.latency
    assert latency is not None and latency.within == 0.95


@pytest.mark.parametrize(
    ("changes", "place", "words"),
    [
        ({"objective": {}}, ("objective",), "at least one"),
        (
            {"objective": {"latency": {"target": "1s", "within": "99%", "percentile": 0.9}}},
            ("objective", "latency"),
            "same",
        ),
        ({"objective": {"latency": {"target": "0s"}}}, ("objective", "latency", "target"), "greater than 0"),
        (
            {"objective": {"latency": {"target": "1s", "within": "100%"}}},
            ("objective", "latency", "within"),
            "less than 1",
        ),
        ({"vertical": {"cpu": {"min": "4", "max": "2"}}}, ("vertical", "cpu"), "min is above max"),
        ({"vertical": {"cpu": {"min": "4 cores"}}}, ("vertical", "cpu", "min"), "not a quantity"),
        ({"horizontal": {"minReplicas": 3, "maxReplicas": 2}}, ("horizontal",), "above maxReplicas"),
        ({"horizontl": {}}, ("horizontl",), "Extra"),
        ({"mode": "auto"}, ("mode",), "Auto"),
    ],
)
def test_what_can_not_be_meant_is_refused_where_it_stands(
    changes: dict[str, Any], place: tuple[str], words: str
) -> None:
    with pytest.raises(ValidationError, match=words) as caught:
        spec(**changes)
    assert place in [tuple(error["loc"]) for error in caught.value.errors()]
