"""Pods serving requests under a CPU quota, advanced from event to event without stepping through time.

A pod has `threads`; a thread serves one request (or one batch), which burns CPU and may then wait off it. All that
is on the CPU burns at the same rate, min(parallelism, cores / running), as long as the pod has quota; the quota is
refilled to limit x 100 ms every 100 ms (the kernel's CFS bandwidth control with burst 0,
https://docs.kernel.org/scheduler/sched-bwc.html). Because all rates are equal, one counter of virtual work a pod and a
finish mark a request say when the next one ends, through any number of throttled periods, in closed form.

A batch of b requests burns the sum of their works plus `batch_cpu` and waits the sum of their waits plus
`batch_wait`: with c cores that takes l(b, c) = g b/c + d b + e/c + h. A thread pool may spin for a while after it ran
out of work (`spin_window`, `spin_cores`): CPU that serves nobody and counts against the quota all the same.

Plain functions over `state.Fleet` in the subset that numba compiles: `build(jit)` gives a copy of this module whose
functions went through `jit`, and the emulator uses the module as it is. No imports besides the state's numbers.
"""

import sys
from collections.abc import Callable
from importlib.util import find_spec, module_from_spec
from typing import Any

from autoscaler.queueing.state import (
    BALANCE,
    BATCH,
    BATCH_CPU,
    BATCH_WAIT,
    DICE,
    DONE,
    DRAINING,
    EMPTY,
    FREE,
    IDLE,
    IN_SYSTEM,
    LEAST_OUTSTANDING,
    OFF_CPU,
    ON_CPU,
    PARALLELISM,
    PERIOD,
    PODS,
    QUEUE_LIMIT,
    RANDOM,
    SERVING,
    SHARED,
    SHARED_QUEUE,
    SPIN_CORES,
    SPIN_WINDOW,
    THREADS,
    TURN,
    Fleet,
)

NEVER = float("inf")
SLIVER = 1e-8  # CPU-seconds below which a request counts as finished: far above rounding, far below any latency


def burn_rate(fleet, pod):
    """Cores the pod burns while it has quota."""
    return min(fleet.on_cpu[pod] * fleet.spec[PARALLELISM], fleet.cores[pod])


def burn(fleet, pod, to):
    """Let the pod run inside its current period until `to`."""
    now = fleet.clock[pod]
    running = fleet.on_cpu[pod]
    rate = 0.0
    span = to - now
    if running > 0:
        rate = burn_rate(fleet, pod)
    elif now < fleet.spin_until[pod]:
        rate = min(fleet.spec[SPIN_CORES], fleet.cores[pod])
        span = min(span, fleet.spin_until[pod] - now)
    if rate > 0.0 and span > 0.0:
        ran = span
        if fleet.quota[pod] < rate * span:
            ran = fleet.quota[pod] / rate
            if span - ran > 1e-9:
                fleet.starved[pod] = 1
                fleet.throttled_time[pod] += span - ran
        spent = rate * ran
        fleet.quota[pod] = max(0.0, fleet.quota[pod] - spent)
        if running > 0:
            fleet.burnt[pod] += spent / running
        fleet.cpu[pod] += spent
        fleet.active[pod] = 1
    fleet.clock[pod] = to


def elapse(fleet, pod, to):
    """Advance the pod to `to`, at most its next event: its threads stay what they are on the way."""
    period = fleet.spec[PERIOD]
    while to >= fleet.refill[pod]:
        burn(fleet, pod, fleet.refill[pod])
        fleet.periods[pod] += fleet.active[pod]
        fleet.throttled[pod] += fleet.starved[pod]
        fleet.active[pod] = 0
        fleet.starved[pod] = 0
        allowance = fleet.limit[pod] * period
        fleet.quota[pod] = allowance
        running = fleet.on_cpu[pod]
        whole = 0
        if running > 0 or fleet.clock[pod] >= fleet.spin_until[pod]:
            # Whole periods that are all alike.
            whole = int((to - fleet.refill[pod]) / period)
        if whole > 0 and running > 0:
            rate = burn_rate(fleet, pod)
            spent = min(allowance, rate * period)
            fleet.burnt[pod] += whole * spent / running
            fleet.cpu[pod] += whole * spent
            fleet.periods[pod] += whole
            if rate * period - allowance > 1e-9 * rate:
                fleet.throttled[pod] += whole
                fleet.throttled_time[pod] += whole * (period - allowance / rate)
        fleet.clock[pod] = fleet.refill[pod] + whole * period
        fleet.refill[pod] += (whole + 1) * period
    burn(fleet, pod, to)


def foresee(fleet, pod):
    """Work out when the pod's next request leaves the CPU or ends."""
    threads = int(fleet.spec[THREADS])
    mark = NEVER
    soonest = NEVER
    for slot in range(pod * threads, (pod + 1) * threads):
        if fleet.slot_kind[slot] == ON_CPU:
            mark = min(mark, fleet.slot_mark[slot])
        elif fleet.slot_kind[slot] == OFF_CPU:
            soonest = min(soonest, fleet.slot_mark[slot])
    if mark < NEVER:
        rate = burn_rate(fleet, pod)
        needed = max(0.0, mark - fleet.burnt[pod]) * fleet.on_cpu[pod]
        now = fleet.clock[pod]
        here = min(fleet.quota[pod], rate * max(0.0, fleet.refill[pod] - now))
        if needed <= here:
            ends = now + needed / rate
        else:
            needed -= here
            period = fleet.spec[PERIOD]
            each = min(fleet.limit[pod] * period, rate * period)
            whole = int(needed / each)
            rest = needed - whole * each
            if rest <= 0.0 and whole > 0:
                whole -= 1
                rest = each
            ends = fleet.refill[pod] + whole * period + rest / rate
        soonest = min(soonest, ends)
    fleet.next_event[pod] = soonest


def report(fleet, request, at, pod):
    """Hand a request out (`at` negative: dropped) and take its place back."""
    place = fleet.cursor[DONE]
    fleet.done_when[place] = fleet.when[request]
    fleet.done_at[place] = at
    fleet.done_pod[place] = pod
    fleet.cursor[DONE] = place + 1
    fleet.cursor[IN_SYSTEM] -= 1
    fleet.follow[request] = fleet.cursor[FREE]
    fleet.cursor[FREE] = request


def fill(fleet, pod):
    """Let idle threads take what waits, a batch each."""
    threads = int(fleet.spec[THREADS])
    shared = fleet.spec[BALANCE] == SHARED_QUEUE
    queue = fleet.cursor[SHARED] if shared else pod
    if shared and fleet.status[pod] != SERVING:
        return
    slot = pod * threads
    while fleet.waiting[queue] > 0 and fleet.busy[pod] < threads:
        while fleet.slot_kind[slot] != IDLE:
            slot += 1
        first = fleet.head[queue]
        last = first
        taken = 0
        work = fleet.spec[BATCH_CPU]
        wait = fleet.spec[BATCH_WAIT]
        request = first
        while request >= 0 and taken < fleet.spec[BATCH]:
            work += fleet.work[request]
            wait += fleet.wait[request]
            last = request
            taken += 1
            request = fleet.follow[request]
        fleet.head[queue] = request
        if request < 0:
            fleet.tail[queue] = -1
        fleet.follow[last] = -1
        fleet.waiting[queue] -= taken
        if shared:
            fleet.inside[pod] += taken
            fleet.arrivals[pod] += taken
        fleet.slot_head[slot] = first
        fleet.slot_wait[slot] = wait
        fleet.busy[pod] += 1
        if work > SLIVER:
            if fleet.on_cpu[pod] == 0:
                fleet.burnt[pod] = 0.0
            fleet.slot_kind[slot] = ON_CPU
            fleet.slot_mark[slot] = fleet.burnt[pod] + work
            fleet.on_cpu[pod] += 1
        else:
            fleet.slot_kind[slot] = OFF_CPU
            fleet.slot_mark[slot] = fleet.clock[pod] + wait


def finish(fleet, pod, now):
    """Move on every thread whose mark is reached: off the CPU, or out."""
    threads = int(fleet.spec[THREADS])
    for slot in range(pod * threads, (pod + 1) * threads):
        kind = fleet.slot_kind[slot]
        if kind == IDLE:
            continue
        if kind == ON_CPU:
            if fleet.slot_mark[slot] - fleet.burnt[pod] > SLIVER:
                continue
            fleet.on_cpu[pod] -= 1
            if fleet.on_cpu[pod] == 0:
                fleet.spin_until[pod] = now + fleet.spec[SPIN_WINDOW]
            if fleet.slot_wait[slot] > 0.0:
                fleet.slot_kind[slot] = OFF_CPU
                fleet.slot_mark[slot] = now + fleet.slot_wait[slot]
                continue
        elif fleet.slot_mark[slot] > now:
            continue
        request = fleet.slot_head[slot]
        while request >= 0:
            following = fleet.follow[request]
            fleet.completions[pod] += 1
            fleet.inside[pod] -= 1
            report(fleet, request, now, pod)
            request = following
        fleet.slot_kind[slot] = IDLE
        fleet.slot_head[slot] = -1
        fleet.busy[pod] -= 1


def choose(fleet):
    """The pod that the next arrival goes to; -1 when none serves (or, with a shared queue, none has a thread idle)."""
    pods = fleet.cursor[PODS]
    balance = int(fleet.spec[BALANCE])
    best = -1
    if balance in (SHARED_QUEUE, LEAST_OUTSTANDING):
        # Looked at in turn from where the last one went, so that equals share.
        fewest = fleet.spec[THREADS] if balance == SHARED_QUEUE else NEVER
        turn = fleet.cursor[TURN]
        for step in range(pods):
            pod = turn + 1 + step
            if pod >= pods:
                pod -= pods
            if fleet.status[pod] == SERVING:
                load = fleet.busy[pod] if balance == SHARED_QUEUE else fleet.inside[pod]
                if load < fewest:
                    fewest = load
                    best = pod
    elif balance == RANDOM:
        serving = 0
        for pod in range(pods):
            serving += fleet.status[pod] == SERVING
        if serving > 0:
            fleet.cursor[DICE] = (fleet.cursor[DICE] * 1664525 + 1013904223) & 0xFFFFFFFF
            left = int(fleet.cursor[DICE] / 4294967296.0 * serving)
            for pod in range(pods):
                if fleet.status[pod] == SERVING:
                    if left == 0:
                        best = pod
                        break
                    left -= 1
    else:
        pod = fleet.cursor[TURN]
        for _ in range(pods):
            pod += 1
            if pod >= pods:
                pod = 0
            if fleet.status[pod] == SERVING:
                best = pod
                break
    if best >= 0:
        fleet.cursor[TURN] = best
    return best


def accept(fleet, at, work, wait):
    """One arrival: into a thread, a queue, or out again."""
    request = fleet.cursor[FREE]
    fleet.cursor[FREE] = fleet.follow[request]
    fleet.when[request] = at
    fleet.work[request] = work
    fleet.wait[request] = wait
    fleet.follow[request] = -1
    fleet.cursor[IN_SYSTEM] += 1
    shared = fleet.spec[BALANCE] == SHARED_QUEUE
    pod = choose(fleet)
    queue = fleet.cursor[SHARED] if shared else pod
    if pod < 0 and not shared:
        report(fleet, request, -1.0, -1)
        return
    if not shared:
        fleet.arrivals[pod] += 1
    idle = pod >= 0 and fleet.busy[pod] < fleet.spec[THREADS]
    if not idle and fleet.waiting[queue] >= fleet.spec[QUEUE_LIMIT]:
        if not shared:
            fleet.dropped[pod] += 1
        report(fleet, request, -1.0, pod)
        return
    if fleet.waiting[queue] == 0:
        fleet.head[queue] = request
    else:
        fleet.follow[fleet.tail[queue]] = request
    fleet.tail[queue] = request
    fleet.waiting[queue] += 1
    if not shared:
        fleet.inside[pod] += 1
    if idle:
        elapse(fleet, pod, at)
        fill(fleet, pod)
        foresee(fleet, pod)


def advance(fleet, times, works, waits, first, last, until):
    """Serve the arrivals first..last-1 (sorted, none before the fleet's clock) and all that ends, up to `until`.

    Returns the index of the first arrival after `until`. Finished and dropped requests wait in `done_*`, which the
    caller empties; room for everything inside plus all arrivals offered is the caller's to provide.
    """
    upcoming = first
    while True:
        arrival = NEVER
        if upcoming < last:
            arrival = times[upcoming]
        pod = -1
        at = NEVER
        for candidate in range(fleet.cursor[PODS]):
            if fleet.next_event[candidate] < at:
                at = fleet.next_event[candidate]
                pod = candidate
        if at <= arrival:
            if at > until or pod < 0:
                break
            elapse(fleet, pod, at)
            finish(fleet, pod, at)
            fill(fleet, pod)
            foresee(fleet, pod)
        else:
            if arrival > until:
                break
            accept(fleet, arrival, works[upcoming], waits[upcoming])
            upcoming += 1
    for pod in range(fleet.cursor[PODS]):
        if fleet.status[pod] != EMPTY:
            elapse(fleet, pod, until)
    return upcoming


def open_pod(fleet, pod, at, limit, cores):
    """Start serving at `at` in an empty place; its counters start at zero."""
    fleet.status[pod] = SERVING
    fleet.limit[pod] = limit
    fleet.cores[pod] = cores
    fleet.clock[pod] = at
    fleet.refill[pod] = at + fleet.spec[PERIOD]
    fleet.quota[pod] = limit * fleet.spec[PERIOD]
    fleet.burnt[pod] = 0.0
    fleet.cpu[pod] = 0.0
    fleet.throttled_time[pod] = 0.0
    fleet.spin_until[pod] = 0.0
    fleet.next_event[pod] = NEVER
    fleet.on_cpu[pod] = 0
    fleet.busy[pod] = 0
    fleet.active[pod] = 0
    fleet.starved[pod] = 0
    fleet.inside[pod] = 0
    fleet.arrivals[pod] = 0
    fleet.completions[pod] = 0
    fleet.dropped[pod] = 0
    fleet.periods[pod] = 0
    fleet.throttled[pod] = 0
    fleet.cursor[PODS] = max(fleet.cursor[PODS], pod + 1)
    fill(fleet, pod)
    foresee(fleet, pod)


def drain_pod(fleet, pod):
    """No more arrivals; what is inside is finished."""
    fleet.status[pod] = DRAINING


def close_pod(fleet, pod):
    """Stop at once: what is inside is dropped, the place is free."""
    threads = int(fleet.spec[THREADS])
    for slot in range(pod * threads, (pod + 1) * threads):
        request = fleet.slot_head[slot]
        while request >= 0:
            following = fleet.follow[request]
            fleet.dropped[pod] += 1
            report(fleet, request, -1.0, pod)
            request = following
        fleet.slot_kind[slot] = IDLE
        fleet.slot_head[slot] = -1
    request = fleet.head[pod]
    while request >= 0:
        following = fleet.follow[request]
        fleet.dropped[pod] += 1
        report(fleet, request, -1.0, pod)
        request = following
    fleet.head[pod] = -1
    fleet.tail[pod] = -1
    fleet.waiting[pod] = 0
    fleet.on_cpu[pod] = 0
    fleet.busy[pod] = 0
    fleet.inside[pod] = 0
    fleet.next_event[pod] = NEVER
    fleet.status[pod] = EMPTY


def set_limit(fleet, pod, limit):
    """A new quota, working at once: writing it refills the bucket and wakes what was throttled."""
    fleet.limit[pod] = limit
    fleet.quota[pod] = limit * fleet.spec[PERIOD]
    foresee(fleet, pod)


def set_cores(fleet, pod, cores):
    """Another share of the node's cores, from the pod's clock on."""
    fleet.cores[pod] = cores
    foresee(fleet, pod)


COMPILED = (
    "burn_rate",
    "burn",
    "elapse",
    "foresee",
    "report",
    "fill",
    "finish",
    "choose",
    "accept",
    "advance",
    "open_pod",
    "drain_pod",
    "close_pod",
    "set_limit",
    "set_cores",
)


def build(jit: Callable[[Any], Any]) -> Any:
    """A copy of this module whose functions went through `jit`; they find one another as that copy's globals."""
    spec = find_spec(__name__)
    if spec is None or spec.loader is None:
        raise ImportError(f"{__name__} cannot be loaded a second time")
    copy = module_from_spec(spec)
    spec.loader.exec_module(copy)
    for name in COMPILED:
        setattr(copy, name, jit(getattr(copy, name)))
    return copy


def interpreted() -> Any:
    """This module itself."""
    return sys.modules[__name__]


__all__ = ["Fleet", "build", "interpreted", *COMPILED]
