"""A pod's CPU under its quota: how much it burns up to a moment, and when its next request ends.

All that is on the CPU burns at the same rate, min(parallelism, cores / running), as long as the pod has quota; the
quota is refilled to limit x 100 ms every 100 ms (the kernel's CFS bandwidth control with burst 0,
https://docs.kernel.org/scheduler/sched-bwc.html). Because all rates are equal, one counter of virtual work a pod and a
finish mark a request say when the next one ends, through any number of throttled periods, in closed form.

A thread pool may spin for a while after it ran out of work (`spin_window`, `spin_cores`): CPU that serves nobody and
counts against the quota all the same.
"""

from autoscaler.queueing.state import NEVER, OFF_CPU, ON_CPU, PARALLELISM, PERIOD, SPIN_CORES, THREADS


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


COMPILED = (
    "burn_rate",
    "burn",
    "elapse",
    "foresee",
)
