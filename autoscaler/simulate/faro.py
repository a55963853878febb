"""Faro's experiment: its path, its workers and its policies, to calibrate the simulator by (beomyeol/faro @b595c4ad).

FairShare, AIAD and Oneshot act on the mean latency of the requests that ended in the last 30 s, dropped ones included;
above 720 ms counts up, else down, three in a row (up) or sixty (down) act. HPA at a CPU target is here for comparison,
on an ideal 30 s average.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from autoscaler.simulate import faro_path
from autoscaler.simulate.arrivals import Arrivals
from autoscaler.simulate.compiled import compile_module, floats, wholes
from autoscaler.simulate.controllers.hpa_rules import Behavior, Stabilizer
from autoscaler.simulate.faro_path import ENDED, HELD, LISTED, MOST_REPLICAS, PER_REPLICA, TURN, Job
from autoscaler.simulate.load import Load
from autoscaler.simulate.scenario import FARO_SERVICE, WARM_UP_S
from autoscaler.simulate.scores import Scores, minute_metric
from autoscaler.simulate.service import Fixed, Lognormal

ROUTER = Lognormal(0.003485, 0.000988, 0.481)
TARGET_S = 0.72
POLL_S = 10.0
WINDOW_S = 30.0
UP_AFTER, DOWN_AFTER = 3, 60
HOT_START_S, COLD_START_S, RETRY_S, REMOVAL_S = 3.0, 35.0, 5.0, 3.0
IDLE_S, IDLE_CHECK_S = 30.0, 5.0
MAX_REPLICAS = 100
POLICIES = ("fairshare", "aiad", "oneshot", "hpa")


@dataclass(slots=True)
class Counter:
    """Polls above (positive) or not above (negative) the target in a row."""

    value: int = 0

    def poll(self, above: bool) -> int:
        """+1 when an up is due, -1 for a down, 0 else; it starts anew after either."""
        if above:
            self.value = self.value + 1 if self.value > 0 else 1
        else:
            self.value = self.value - 1 if self.value < 0 else -1
        if self.value >= UP_AFTER:
            self.value = 0
            return 1
        if self.value <= -DOWN_AFTER:
            self.value = 0
            return -1
        return 0


def aiad(current: int, mean: float, due: int) -> int:
    """One more, one less."""
    return current + due


def oneshot(current: int, mean: float, due: int) -> int:
    """In proportion to latency over target, both ways."""
    return math.ceil(current * mean / TARGET_S - 1e-9) if due else current


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


def new_job(load: Load, process: str, seed: int) -> Job:
    length = load.length
    drawn = Arrivals(load, process, FARO_SERVICE, Fixed(0.0), length=length, seed=seed)
    batches = [drawn.between(60.0 * minute, 60.0 * (minute + 1)) for minute in range(math.ceil(length / 60.0))]
    # What a minute drew beyond the end of the trace comes too.
    arrival = np.concatenate([batch.times for batch in batches] + [drawn.late])
    dice = np.random.default_rng([seed, 5])
    count = len(arrival)
    at = wholes(9, 0)
    at[HELD] = -1
    bins = math.ceil(length / 5.0) + 40
    return Job(
        at=at,
        ends=floats(1, math.inf),
        arrival=arrival,
        service=FARO_SERVICE.draw(dice, count),
        router_in=ROUTER.draw(dice, count),
        router_out=ROUTER.draw(dice, count),
        latency=floats(count, -1.0),
        router=wholes(1 << 18, 0),
        queue=wholes(1 << 7, 0),
        order=wholes(MOST_REPLICAS, 0),
        inside=wholes(MOST_REPLICAS, 0),
        first=wholes(MOST_REPLICAS, 0),
        flight=wholes(MOST_REPLICAS * PER_REPLICA, 0),
        done=floats(MOST_REPLICAS, math.inf),
        ended_count=wholes(bins, 0),
        ended_latency=floats(bins, 0.0),
        busy=floats(bins, 0.0),
    )


def experiment(
    loads: Sequence[Load], policy: str, *, cpus: int, seed: int, process: str = "faro", target: float = 0.7
) -> Scores:
    """One run. `policy`: fairshare, aiad, oneshot, or hpa with `target` as the share of CPU used."""
    began = time.perf_counter()
    serve = compile_module(faro_path).serve
    dice = np.random.default_rng([seed, 6])
    jobs = [new_job(load, process, seed * 1009 + number) for number, load in enumerate(loads)]
    sets = [Replicas(job, dice) for job in jobs]
    each = max(1, cpus // len(jobs)) if policy == "fairshare" else 1
    for one in sets:
        one.begin(each)
    counters = [Counter() for _ in jobs]
    stable = [Stabilizer(Behavior(most=MAX_REPLICAS)) for _ in jobs]
    end = max(load.length for load in loads)
    cores = started = 0.0
    steps = int(end / IDLE_CHECK_S)
    now = 0.0
    for step in range(1, steps + 1):
        border = step * IDLE_CHECK_S
        while now < border:
            upto = min([border, *(at for one in sets for at in one.starting)])
            for job in jobs:
                serve(job, upto)
            cores += (upto - now) * sum(one.workers for one in sets) * (upto > WARM_UP_S)
            now = upto
            for one in sets:
                one.ready(now)
        for one in sets:
            one.expire(now)
        before = [one.target for one in sets]
        if policy == "hpa" and step % 3 == 0:
            _hpa(sets, stable, step, now, target, cpus)
        elif policy in ("aiad", "oneshot") and step % 2 == 0:
            _threshold(sets, counters, step, now, oneshot if policy == "oneshot" else aiad, cpus)
        started += sum(max(0, one.target - old) for one, old in zip(sets, before, strict=True))
        for one in sets:
            one.place(now, cpus - sum(other.workers for other in sets))
    for job in jobs:
        serve(job, end + 600.0)
    return _scores(jobs, end, cores, int(started), time.perf_counter() - began)


def recent(job: Job, step: int) -> float:
    """Mean latency of what ended in the last 30 s; nothing: 0."""
    bins = slice(max(0, step - int(WINDOW_S / 5.0)), step)
    count = int(job.ended_count[bins].sum())
    return float(job.ended_latency[bins].sum()) / count if count else 0.0


def _threshold(
    sets: list[Replicas],
    counters: list[Counter],
    step: int,
    now: float,
    rule: Callable[[int, float, int], int],
    cpus: int,
) -> None:
    wanted: list[tuple[Replicas, int]] = []
    for one, counter in zip(sets, counters, strict=True):
        mean = recent(one.job, step)
        due = counter.poll(mean > TARGET_S)
        if due and not one.acting(now):
            wanted.append((one, min(MAX_REPLICAS, max(1, rule(one.target, mean, due))) - one.target))
    _carry_out(sets, wanted, now, cpus)


def _hpa(sets: list[Replicas], stable: list[Stabilizer], step: int, now: float, target: float, cpus: int) -> None:
    wanted = []
    for one, stabilizer in zip(sets, stable, strict=True):
        ready = len(one.listed)
        use = float(one.job.busy[max(0, step - 6) : step].sum()) / min(now, WINDOW_S) / max(1, ready)
        ratio = use / target
        wish = one.target if abs(ratio - 1.0) <= 0.1 else max(1, math.ceil(ready * ratio - 1e-9))
        allowed = stabilizer.allow(now, one.target, wish)
        wanted.append((one, allowed - one.target))
    _carry_out(sets, wanted, now, cpus)


def _carry_out(sets: list[Replicas], wanted: list[tuple[Replicas, int]], now: float, cpus: int) -> None:
    """Downs first, then ups in the jobs' order, each cut to the quota left."""
    for one, change in wanted:
        if change < 0:
            one.shrink(-change, now)
    for one, change in wanted:
        if change > 0:
            allowed = min(change, cpus - sum(other.target for other in sets))
            if allowed > 0:
                one.grow(allowed)


def _scores(jobs: Sequence[Job], end: float, core_seconds: float, started: int, wall: float) -> Scores:
    minutes = math.ceil(end / 60.0)
    arrivals, within, shares, waits = [], [], [], []
    total = good_total = 0
    for job in jobs:
        in_time = job.arrival < end
        minute = (job.arrival[in_time] / 60.0).astype(np.int64)
        met = ((job.latency >= 0.0) & (job.latency <= TARGET_S))[in_time]
        arrivals.append(np.bincount(minute, minlength=minutes))
        within.append(np.bincount(minute[met], minlength=minutes))
        scored = arrivals[-1][5:].sum(), within[-1][5:].sum()
        total, good_total = total + scored[0], good_total + scored[1]
        shares.append(1.0 - scored[1] / max(1, scored[0]))
        latency = job.latency[in_time][minute >= 5]
        waits.append(np.where(latency < 0.0, math.inf, latency))
    ranked = np.sort(np.concatenate(waits))

    def at(share: float) -> float | None:
        value = float(ranked[min(len(ranked) - 1, math.ceil(share * len(ranked)) - 1)])
        return value if math.isfinite(value) else None

    used = float(sum(job.busy[60:].sum() for job in jobs))
    assert all(int(job.at[ENDED]) <= len(job.arrival) for job in jobs)
    return Scores(
        violations_minute=minute_metric(arrivals, within),
        violations=float(np.mean(shares)),
        violations_overall=float(1.0 - good_total / max(1, total)),
        p50=at(0.50),
        p95=at(0.95),
        p99=at(0.99),
        core_hours=float(core_seconds / 3600.0),
        mean_cores=float(core_seconds / (end - WARM_UP_S)),
        slack=float(1.0 - used / core_seconds) if core_seconds else 0.0,
        resizes=0,
        replicas_started=started,
        reversals=0,
        requests=int(total),
        wall_s=wall,
    )
