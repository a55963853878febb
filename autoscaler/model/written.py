"""How policies are written: quantities, durations and shares in Kubernetes spelling, and the base of every part.

They arrive as text and are exact numbers past this file (millicores, bytes, seconds, shares in [0, 1]).
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel

from autoscaler.model import quantity

_QUANTITY_SCHEMA = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_SHARE_SCHEMA = {"anyOf": [{"type": "number"}, {"type": "string"}], "x-kubernetes-int-or-string": True}

CpuAmount = Annotated[
    int,
    BeforeValidator(quantity.parse_written_cpu),
    PlainSerializer(quantity.format_cpu),
    WithJsonSchema(_QUANTITY_SCHEMA),
]
"""Millicores; written ``250m``, ``2``, ``"1.5"``."""
MemoryAmount = Annotated[
    int,
    BeforeValidator(quantity.parse_memory),
    PlainSerializer(quantity.format_memory),
    WithJsonSchema(_QUANTITY_SCHEMA),
]
"""Bytes; written ``1Gi``, ``512Mi``."""
Duration = Annotated[
    float,
    BeforeValidator(quantity.parse_written_duration),
    PlainSerializer(quantity.format_duration),
    WithJsonSchema({"type": "string"}),
]
"""Seconds; written ``500ms``, ``30s``, ``1m30s``."""
Share = Annotated[
    float,
    BeforeValidator(quantity.parse_share),
    PlainSerializer(quantity.format_share),
    WithJsonSchema(_SHARE_SCHEMA),
]
"""A share in [0, 1]; written ``99%`` or ``0.99``."""


class Spec(BaseModel):
    """Base: frozen, camelCase on the wire, unknown fields are errors."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, strict=False
    )
