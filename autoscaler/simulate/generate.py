"""Loads of our own, for who has no trace: seeded, in requests per second, one value a second.

steady:rate=20,length=1h        diurnal:rate=20,swing=0.6,period=1h,length=2h
steps:rate=20,high=60,every=10m bursts:rate=20,high=80,every=10m,lasts=30s
flash:rate=20,high=200,at=20m   idle:rate=0.2
"""

from __future__ import annotations

import numpy as np

from autoscaler.model.quantity import parse_duration
from autoscaler.simulate.load import Load

SHAPES: dict[str, dict[str, str]] = {
    "steady": {"rate": "20", "length": "1h"},
    "diurnal": {"rate": "20", "swing": "0.6", "period": "1h", "length": "1h"},
    "steps": {"rate": "20", "high": "60", "every": "10m", "length": "1h"},
    "bursts": {"rate": "20", "high": "80", "every": "10m", "lasts": "30s", "length": "1h"},
    "flash": {"rate": "20", "high": "200", "at": "20m", "rises": "30s", "lasts": "10m", "length": "1h"},
    "idle": {"rate": "0.2", "length": "1h"},
}
_DURATIONS = ("length", "period", "every", "lasts", "at", "rises")


def generate(text: str, *, seed: int = 1) -> Load:
    """The load described by `SHAPE[:name=value,…]`. ValueError says which names there are."""
    shape, _, rest = text.partition(":")
    if shape not in SHAPES:
        raise ValueError(f"generated load {shape!r} is none of {', '.join(SHAPES)}")
    written = dict(SHAPES[shape])
    for part in filter(None, (part.strip() for part in rest.split(","))):
        name, equals, value = part.partition("=")
        if not equals or name not in written:
            raise ValueError(f"generated load {text!r}: {part!r} is none of {', '.join(f'{key}=' for key in written)}")
        written[name] = value
    values = {}
    for name, value in written.items():
        try:
            values[name] = parse_duration(value) if name in _DURATIONS else float(value)
        except ValueError as error:
            raise ValueError(f"generated load {text!r}, {name}: {error}") from error
        if values[name] < 0:
            raise ValueError(f"generated load {text!r}: {name} is negative")
    return Load(shape, rates=_rates(shape, values, np.random.default_rng([seed, 9])))


def _rates(shape: str, values: dict[str, float], dice: np.random.Generator) -> np.ndarray:
    seconds = np.arange(max(1, int(values["length"])), dtype=float)
    rate, high = values["rate"], values.get("high", 0.0)
    match shape:
        case "diurnal":
            wave = np.sin(2 * np.pi * seconds / values["period"])
            return np.maximum(0.0, rate * (1.0 + values["swing"] * wave))
        case "steps":
            return np.where((seconds // values["every"]) % 2 == 1, high, rate)
        case "bursts":
            # Each burst comes somewhere in its stretch, so that nobody learns the clock.
            rates = np.full(len(seconds), rate)
            for start in np.arange(0.0, len(seconds), values["every"]):
                begin = start + dice.random() * max(0.0, values["every"] - values["lasts"])
                rates[(seconds >= begin) & (seconds < begin + values["lasts"])] = high
            return rates
        case "flash":
            risen = np.clip((seconds - values["at"]) / max(values["rises"], 1e-9), 0.0, 1.0)
            over = seconds >= values["at"] + values["rises"] + values["lasts"]
            return np.where(over, rate, rate + (high - rate) * risen)
    return np.full(len(seconds), rate)
