"""What the load needs, in cores: arrivals × CPU-seconds per request, what drains the backlog, and head-room.

Degrades step by step: without in-flight a backlog can't be seen; without a request rate the CPU in use stands for the
demand (and can't show more than the size allows); without CPU it is what was learned; with nothing it is unknown, which
blocks shrinking and is never zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log, sqrt

from autoscaler.decide import misses, serial, spin, staffing, traffic
from autoscaler.decide.history import Cost, History, Traffic
from autoscaler.decide.serial import Curve
from autoscaler.decide.standing import Standing
from autoscaler.model.policy import Policy
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.signal import Absent, Cause, Measured, Reading, Signals

GOAL = 0.1
"""Share of the allowed misses that head-room aims at: the rest is for what can't be foreseen."""
WORTH = 3.0
"""What being short for a share of the moments costs, against the same share of the load in cores kept ready."""
DRAIN_TARGETS = 4.0
"""A backlog is to be gone within this many targets."""
DRAIN_LEAST = 3.0
"""Seconds that draining takes at least: for a quick service a burst would buy whole nodes."""
REVERTS = 0.4
"""Part of a load's distance from its mean that is likely to be gone when it next moves."""
MEAN_KNOWN = 600.0
"""Seconds after which a mean is worth something."""
ALONE = 0.8
"""CPU-seconds over seconds of a request that is on one core all the time, nearly."""
NOTICE = 2.0
"""Seconds from a decision to its effect."""
THROTTLED = 0.1
BUSY = 0.85
PRESSURE = 0.25
USE_TARGET = 0.7
"""CPU use / size aimed at where only CPU is known and the policy doesn't say."""


@dataclass(slots=True)
class Demand:
    """``rho``: cores the arrivals burn, None when unknown; ``need``: with drain and head-room, None when unknown.

    ``misses``: share of requests, None when unknown; ``breach``: more missed than allowed; ``evidence``: whether the
    CPU is what is short (None: unknown); ``blocks``: why nothing may shrink. Cores throughout.
    """

    rho: float | None = None
    need: float | None = None
    drain: float = 0.0
    arrivals: float = 0.0
    work: float = 0.0
    used: float | None = None
    throttled: float | None = None
    misses: float | None = None
    allowed: float = 0.0
    target: float = 0.0
    in_flight: float | None = None
    breach: bool = False
    evidence: bool | None = None
    outdated: bool = False
    """The newest CPU sample began before requests were late: that it shows free CPU proves nothing."""
    stalled: bool = False
    backlog: float = 0.0
    """CPU-seconds that wait beyond what is usual."""
    scale: float = 0.0
    """Head-room of x cores leaves a chance of about e^(−x/scale) that a request finds too few."""
    drift: float = 0.0
    """Cores by which the load is likely to come back to its mean; negative above it."""
    lone: float = 0.0
    """Cores below which one request alone misses its target."""
    habit: float = 0.0
    """Cores of head-room for the load's usual surprises; ``back``: by which it is below what it comes back to."""
    back: float = 0.0
    own: float = 0.0
    """CPU-seconds that a request needs for itself, and the seconds (``aim``) it is to be answered in."""
    aim: float = 0.0
    speeds: Curve = ()
    """How much faster a request is on more cores."""
    fastest: float = 0.0
    """Seconds that one request alone takes, where that is more than the target at any size; else 0."""
    blocks: list[Reason] = field(default_factory=list)
    reason: Reason | None = None
    """Set where another objective than latency decided."""


def usable(reading: Reading, max_age: float) -> float | None:
    """The value of a reading that is there and not stale."""
    if isinstance(reading, Measured) and reading.fresh(max_age):
        return reading.value
    return None


def demand(signals: Signals, policy: Policy, past: History, stand: Standing, now: float) -> Demand:
    """The estimate for one workload; ``past`` has learned this tick's signals already."""
    spec = policy.spec
    max_age = spec.signals.max_age
    latency = spec.objective.latency
    out = Demand()
    live = stand.live / 1000.0
    out.used = usable(signals.cpu, max_age)
    if out.used is not None and isinstance(signals.cpu, Measured):
        out.used /= signals.cpu.coverage  # those that did not answer are taken to use as much
    out.throttled = usable(signals.throttled, max_age)
    out.in_flight = usable(signals.in_flight, max_age)
    rate = usable(signals.requests, max_age)
    if rate and out.used == 0.0:
        out.used = None  # a meter that has only just begun: what is answered takes CPU
    sized = live
    if isinstance(signals.cpu, Measured) and now - signals.cpu.age_s < past.sizes.changed_at + NOTICE:
        sized = past.sizes.changed_from / 1000.0  # the sample is from before the last change
    out.evidence = _evidence(out, signals, sized, max_age)
    if latency is not None:
        out.target, out.allowed = latency.target, 1.0 - latency.within
        _missed(out, signals, past, max_age)
        out.outdated = _outdated(signals, past, now)
        out.speeds = () if spin.spins(past.cost.pace) else serial.curve(past.cost.speeds)
        most = spec.vertical.cpu.max
        out.fastest = _unreachable(past.cost, out, most / 1000.0 if most is not None else 1e9)
    _blocks(out, signals, policy, max_age)
    work = past.cost.work
    out.work = max(0.0, work)
    if rate is not None and work > 0.0 and past.traffic.level >= 0.0:
        _by_requests(out, rate, past, stand)
    elif out.used is not None and stand.serving:
        if latency is not None and rate:
            # Use knows nothing of the floor below which one request alone is late.
            out.blocks.append(because(Code.NO_SIGNAL, signal="CPU per request", why="not learned yet"))
        _by_use(out, live, spec.objective.cpu.target_utilization if spec.objective.cpu else USE_TARGET)
    _other_objectives(out, signals, policy, stand, max_age)
    out.stalled = past.traffic.stalled_for > max(5.0, 2.0 * out.target) and bool(out.in_flight)
    if out.stalled and isinstance(signals.misses, Absent):
        # Whatever they wait for, that none was answered is no proof that less would do.
        out.blocks.append(because(Code.NO_SIGNAL, signal="misses", why=signals.misses.told))
    return out


def _outdated(signals: Signals, past: History, now: float) -> bool:
    since, cpu = past.elastic.waiting_since, signals.cpu
    return isinstance(cpu, Measured) and (since < 0.0 or now - cpu.age_s - cpu.window_s < since)


def _unreachable(cost: Cost, out: Demand, most: float) -> float:
    """What a request takes undisturbed on the largest pod, if that is more than the target: no size would do.

    A request that waits for something else is no such case (it is not CPU-bound).
    """
    swift = cost.pace.swift
    if out.speeds:
        least = cost.work * serial.slowness(most, out.speeds)
        return least if least > out.target else 0.0
    alone = ALONE * swift <= cost.work <= swift / ALONE
    return swift if swift > out.target and alone else 0.0


def _by_requests(out: Demand, rate: float, past: History, stand: Standing) -> None:
    seen = past.traffic
    out.arrivals = max(seen.level, 0.0)
    work = past.cost.work
    own = past.cost.own if past.cost.own > 0.0 else work
    out.rho = rho = out.arrivals * work
    if seen.mean >= 0.0:
        out.drift = REVERTS * min(1.0, seen.mean_time / MEAN_KNOWN) * (seen.mean - out.arrivals) * work
    queues = max(1, stand.count)
    if out.target <= 0.0:
        return
    if out.in_flight is not None:
        # Requests in service are no backlog; nor is what chance piles up.
        excess = out.in_flight - rho - 2.0 * sqrt(rho) - 2.0 * queues
        if excess > 0.0 and (out.evidence or rho > BUSY * stand.live / 1000.0):
            # What the present size works off before another could take effect needs no cores.
            left = excess * work - max(0.0, stand.have / 1000.0 - rho) * NOTICE
            if left > 0.0:
                out.backlog = left
                out.drain = left / max(DRAIN_TARGETS * out.target, DRAIN_LEAST)
    usual = min(1.0, seen.mean_time / MEAN_KNOWN) * max(0.0, seen.mean) * work
    # Surprises are of the load's usual size, also while there is less of it.
    out.habit = _habit(seen) * max(rho, usual)
    out.back = REVERTS * max(0.0, usual - rho)
    quickest = own * serial.least(out.speeds)
    # Where no size meets the target, waiting is held to the time that the request itself takes.
    if out.fastest > 0.0:
        out.aim = max(out.target, 2.0 * staffing.LARGE * max(quickest, min(own, out.fastest)))
    else:
        out.aim = max(out.target, quickest / staffing.FITS)
    out.own = own
    by_chance = chance(out, queues)
    out.scale = by_chance / log(1.0 / (GOAL * out.allowed))
    out.lone = queues * staffing.alone(own, out.aim if out.speeds else out.target, out.speeds)
    out.need = max(rho + out.back + out.drain + past.headroom.beta * max(by_chance, out.habit), out.lone)


def chance(out: Demand, queues: int) -> float:
    """Cores of head-room for what comes together by chance, on so many pods that are served at random."""
    rho = out.rho or 0.0
    return queues * staffing.need(rho / queues, out.own, out.aim, GOAL * out.allowed, out.speeds) - rho


def _habit(seen: Traffic) -> float:
    """Head-room for the load's usual surprises, in parts of the load.

    A newsvendor's: with chance p·e^(−x/s) that a moment exceeds x (``traffic.tail``), the sum x + WORTH·p·e^(−x/s) is
    least at x = s·ln(WORTH·p/s). A load of rare huge bursts gets less than a quantile would ask, a lively one more.
    """
    often, scale = traffic.tail(seen)
    return scale * log(WORTH * often / scale) if 0.0 < scale < WORTH * often else 0.0


def _by_use(out: Demand, live: float, target: float) -> None:
    """HPA's rule on the size: what is used now at the target utilisation. Throttled use is a lower bound."""
    used = out.used or 0.0
    out.rho = used
    out.need = used / target
    if out.throttled is not None and out.throttled > 0.25:
        out.need = max(out.need, live * 1.3)


def _evidence(out: Demand, signals: Signals, live: float, max_age: float) -> bool | None:
    pressure = usable(signals.pressure, max_age)
    if out.used is None and out.throttled is None and pressure is None:
        return None
    if out.throttled is not None and out.throttled >= THROTTLED:
        return True
    if out.used is not None and live > 0.0 and out.used >= BUSY * live:
        return True
    return pressure is not None and pressure >= PRESSURE


def _missed(out: Demand, signals: Signals, past: History, max_age: float) -> None:
    reading = signals.misses
    if isinstance(reading, Measured) and reading.fresh(max_age):
        out.misses = reading.value
        out.breach = misses.breach(past.headroom, reading, out.allowed)


def _blocks(out: Demand, signals: Signals, policy: Policy, max_age: float) -> None:
    named: list[tuple[str, Reading]] = []
    if policy.spec.objective.latency is not None:
        named = [("requests", signals.requests), ("misses", signals.misses)]
        if not isinstance(signals.in_flight, Absent) or signals.in_flight.cause is not Cause.NOT_CONFIGURED:
            named.append(("in-flight", signals.in_flight))
    if policy.spec.objective.latency is None or signals.cpu is not None:
        named.append(("cpu", signals.cpu))
    named.extend((name, reading) for name, reading in signals.custom.items())
    for name, reading in named:
        if isinstance(reading, Absent):
            if reading.cause is Cause.NO_TRAFFIC:
                continue
            out.blocks.append(because(Code.NO_SIGNAL, signal=name, why=reading.told))
        elif not reading.fresh(max_age):
            limit = max(max_age, reading.lasts_s)
            out.blocks.append(because(Code.STALE, signal=name, age=reading.age_s, limit=limit))
        elif reading.coverage < 0.999:
            out.blocks.append(
                because(Code.NO_SIGNAL, signal=name, why=f"Partial: known for {reading.coverage:.0%} of the pods")
            )
    if out.in_flight and isinstance(signals.requests, Absent) and signals.requests.cause is Cause.NO_TRAFFIC:
        out.blocks.append(because(Code.NO_SIGNAL, signal="requests", why="in flight without a rate"))


def _other_objectives(out: Demand, signals: Signals, policy: Policy, stand: Standing, max_age: float) -> None:
    """CPU and custom objectives beside latency: the largest need counts, as with several metrics in HPA."""
    objective = policy.spec.objective
    have = (stand.live + sum(member.live for member in stand.draining)) / 1000.0  # what drains still works
    if objective.cpu is not None and out.used is not None and have > 0.0:
        wanted = out.used / objective.cpu.target_utilization
        if out.need is None or wanted > out.need:
            out.need, out.rho = wanted, out.used
            out.reason = because(Code.CPU_TARGET, used=out.used / have, target=objective.cpu.target_utilization)
    for metric in objective.metrics:
        value = usable(signals.custom.get(metric.name, Absent(Cause.NO_SUCH_METRIC)), max_age)
        if value is None:
            if metric.name not in signals.custom:
                out.blocks.append(because(Code.NO_SIGNAL, signal=metric.name, why="not measured"))
            continue
        wanted = have * value / metric.target.value
        if out.need is None or wanted > out.need:
            out.need = wanted
            out.reason = because(Code.METRIC_TARGET, name=metric.name, value=value, target=metric.target.value)
