"""One job's replicas: listed, starting, waiting for a CPU, and the idle workers that the next ones may have."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from autoscaler.simulate.faro.path import LISTED, MOST_REPLICAS, TURN, Job

HOT_START_S, COLD_START_S, REMOVAL_S = 3.0, 35.0, 3.0
IDLE_S = 30.0


@dataclass(slots=True)
class Replicas:
    """One job's replicas and the workers they run on; each worker holds a CPU."""

    job: Job
    dice: np.random.Generator
    listed: list[int] = field(default_factory=list)  # replicas that take requests, oldest first
    starting: list[float] = field(default_factory=list)  # when each is ready
    waiting: int = 0  # replicas that found no free CPU yet
    idle: list[float] = field(default_factory=list)  # since when a worker is idle
    target: int = 0
    busy_until: float = -1.0

    @property
    def workers(self) -> int:
        return len(self.listed) + len(self.starting) + len(self.idle)

    def acting(self, now: float) -> bool:
        return bool(self.starting or self.waiting) or now < self.busy_until

    def begin(self, count: int) -> None:
        self.target = count
        for _ in range(count):
            self._list()
        self._shuffle()

    def grow(self, count: int) -> None:
        self.target += count
        self.waiting += count

    def shrink(self, count: int, now: float) -> None:
        """The newest go; their workers idle, their requests are finished outside the CPU count."""
        self.target -= count
        for _ in range(min(count, len(self.listed))):
            self.listed.pop()
            self.idle.append(now)
        self.busy_until = now + REMOVAL_S
        self._shuffle()

    def place(self, now: float, free: int) -> int:
        """Find workers for waiting replicas: idle ones first, then new ones. CPUs taken."""
        taken = 0
        while self.waiting and (self.idle or taken < free):
            self.waiting -= 1
            if self.idle:
                self.idle.pop(0)
                self.starting.append(now + HOT_START_S)
            else:
                taken += 1
                self.starting.append(now + COLD_START_S)
        return taken

    def ready(self, now: float) -> None:
        come = [at for at in self.starting if at <= now]
        if come:
            self.starting = [at for at in self.starting if at > now]
            for _ in come:
                self._list()
            self._shuffle()

    def expire(self, now: float) -> None:
        """Idle workers end after their timeout; one worker stays in any case."""
        keep = [since for since in self.idle if now - since < IDLE_S - 1e-9]
        short = 1 - (len(self.listed) + len(self.starting) + len(keep))
        self.idle = keep if short <= 0 else self.idle[-1:]

    def _list(self) -> None:
        used = set(self.listed)
        # A replica that still finishes requests after its removal is not taken again.
        free = (place for place in range(MOST_REPLICAS) if place not in used and self.job.inside[place] == 0)
        self.listed.append(next(free))

    def _shuffle(self) -> None:
        order = list(self.listed)
        self.dice.shuffle(order)
        self.job.order[: len(order)] = order
        self.job.at[LISTED] = len(order)
        self.job.at[TURN] = 0
