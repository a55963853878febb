"""A load: how many requests come when, for one workload."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Load:
    """Either `rates` (requests per second, one a `step`) or the requests themselves (`times`, perhaps `tokens`)."""

    name: str
    rates: np.ndarray | None = None
    step: float = 1.0
    times: np.ndarray | None = None
    tokens: np.ndarray | None = None  # a row a request: tokens read and written, or the CPU-seconds it took

    @property
    def recorded(self) -> bool:
        """Whether it says what each request took."""
        return self.tokens is not None and self.tokens.shape[1] == 1

    @property
    def length(self) -> float:
        """Seconds."""
        if self.rates is not None:
            return len(self.rates) * self.step
        assert self.times is not None
        return float(np.ceil(self.times[-1])) if len(self.times) else 0.0

    def mean_rate(self, begin: float = 0.0, end: float | None = None) -> float:
        """Requests per second between two moments."""
        end = self.length if end is None else min(end, self.length)
        if self.rates is not None:
            first, last = int(begin // self.step), max(int(np.ceil(end / self.step)), int(begin // self.step) + 1)
            return float(self.rates[first:last].mean())
        assert self.times is not None
        count = np.searchsorted(self.times, end) - np.searchsorted(self.times, begin)
        return float(count) / max(end - begin, 1e-9)

    def peak_rate(self) -> float:
        """Requests per second in the busiest minute."""
        if self.rates is not None:
            width = max(1, round(60.0 / self.step))
            whole = len(self.rates) // width * width
            rows = self.rates[:whole].reshape(-1, width) if whole else self.rates[None, :]
            return float(rows.mean(axis=1).max()) if self.rates.size else 0.0
        assert self.times is not None
        return float(np.bincount((self.times / 60.0).astype(np.int64)).max()) / 60.0 if len(self.times) else 0.0

    def scaled(self, factor: float) -> Load:
        """Rates times `factor`; requests themselves can't be scaled."""
        if self.rates is None:
            raise ValueError(f"load {self.name} is a list of requests: its rate can't be scaled")
        return replace(self, rates=self.rates * factor)

    def cut(self, seconds: float) -> Load:
        """Its first `seconds`."""
        if self.rates is not None:
            return replace(self, rates=self.rates[: int(np.ceil(seconds / self.step))])
        assert self.times is not None
        last = int(np.searchsorted(self.times, seconds))
        tokens: Any = None if self.tokens is None else self.tokens[:last]
        return replace(self, times=self.times[:last], tokens=tokens)
