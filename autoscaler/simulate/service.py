"""How much CPU a request needs: distributions of CPU-seconds, and their spelling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from autoscaler.model.quantity import parse_duration


class Service(Protocol):
    """A distribution of seconds."""

    @property
    def mean(self) -> float: ...

    def draw(self, dice: Any, count: int, tokens: Any | None = None) -> Any:
        """`count` values from a NumPy generator; `tokens`: rows of (context, generated) where the trace has them."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same."""

    seconds: float

    @property
    def mean(self) -> float:
        return self.seconds

    def draw(self, dice: Any, count: int, tokens: Any | None = None) -> Any:
        import numpy as np

        return np.full(count, self.seconds)


@dataclass(frozen=True, slots=True)
class Exponential:
    """Memoryless, for the textbook queues."""

    seconds: float

    @property
    def mean(self) -> float:
        return self.seconds

    def draw(self, dice: Any, count: int, tokens: Any | None = None) -> Any:
        return dice.exponential(self.seconds, count)


@dataclass(frozen=True, slots=True)
class Lognormal:
    """location + scale x e^(shape x N(0,1)), seconds."""

    location: float
    scale: float
    shape: float

    @property
    def mean(self) -> float:
        return self.location + self.scale * math.exp(self.shape**2 / 2)

    def draw(self, dice: Any, count: int, tokens: Any | None = None) -> Any:
        import numpy as np

        return self.location + self.scale * np.exp(self.shape * dice.standard_normal(count))


@dataclass(frozen=True, slots=True)
class Tokens:
    """base + context x (tokens read) + generated x (tokens written), seconds; the trace gives the tokens."""

    context: float
    generated: float
    base: float = 0.0
    typical: tuple[float, float] = (1000.0, 100.0)  # mean tokens, set from the trace when it is read

    @property
    def mean(self) -> float:
        return self.base + self.context * self.typical[0] + self.generated * self.typical[1]

    def draw(self, dice: Any, count: int, tokens: Any | None = None) -> Any:
        if tokens is None and count:
            raise ValueError("service tokens:… needs a load with tokens (--load-format requests)")
        if tokens is None:
            return dice.random(0)
        return self.base + tokens[:, 0] * self.context + tokens[:, 1] * self.generated


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the trace says each request took; `typical` is its mean, set when it is read."""

    typical: float = 0.0

    @property
    def mean(self) -> float:
        return self.typical

    def draw(self, dice: Any, count: int, tokens: Any | None = None) -> Any:
        if tokens is None:
            if count:
                raise ValueError("service recorded needs a load that says what each request took, as a column cpu_ms")
            return dice.random(0)
        return tokens[:, 0]


def parse(text: str) -> Service:
    """`fixed:180ms`, `exponential:20ms`, `lognormal:MEAN,SHAPE`, `lognormal:location=…,scale=…,shape=…`,
    `tokens:context=0.1ms,generated=8ms[,base=20ms]`, `recorded`. ValueError names what is wrong.
    """
    kind, _, rest = text.partition(":")
    named = {}
    plain = []
    for part in filter(None, (part.strip() for part in rest.split(","))):
        name, equals, value = part.partition("=")
        if equals:
            named[name.strip()] = value.strip()
        else:
            plain.append(part)
    try:
        match kind, plain, sorted(named):
            case "recorded", [], []:
                return Recorded()
            case "fixed", [seconds], []:
                return Fixed(_seconds(seconds))
            case "exponential", [seconds], []:
                return Exponential(_seconds(seconds))
            case "lognormal", [mean, shape], []:
                spread = float(shape)
                return Lognormal(0.0, _seconds(mean) / math.exp(spread**2 / 2), spread)
            case "lognormal", [], ["location", "scale", "shape"]:
                return Lognormal(_seconds(named["location"]), _seconds(named["scale"]), float(named["shape"]))
            case "tokens", [], _ if {"context", "generated"} <= set(named) <= {"context", "generated", "base"}:
                return Tokens(
                    _seconds(named["context"]), _seconds(named["generated"]), _seconds(named.get("base", "0s"))
                )
    except ValueError as error:
        raise ValueError(f"service {text!r}: {error}") from error
    raise ValueError(
        f"service {text!r} is none of fixed:180ms, exponential:20ms, lognormal:150ms,0.4, "
        "lognormal:location=80ms,scale=70ms,shape=0.4, recorded, tokens:context=0.1ms,generated=8ms"
    )


def _seconds(text: str) -> float:
    """A duration that may be a fraction of a millisecond."""
    for unit, scale in (("us", 1e-6), ("ms", 1e-3)):
        if text.endswith(unit):
            value = float(text[: -len(unit)]) * scale
            break
    else:
        value = float(parse_duration(text))
    if value < 0 or not math.isfinite(value):
        raise ValueError(f"{text} is not a duration")
    return value
