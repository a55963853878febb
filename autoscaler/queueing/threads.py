"""A pod's threads: each serves one request (or one batch), which burns CPU and may then wait off it.

A batch of b requests burns the sum of their works plus `batch_cpu` and waits the sum of their waits plus
`batch_wait`: with c cores that takes l(b, c) = g b/c + d b + e/c + h.
"""

from autoscaler.queueing.state import (
    BALANCE,
    BATCH,
    BATCH_CPU,
    BATCH_WAIT,
    DONE,
    FREE,
    IDLE,
    IN_SYSTEM,
    OFF_CPU,
    ON_CPU,
    SERVING,
    SHARED,
    SHARED_QUEUE,
    SPIN_WINDOW,
    THREADS,
)

SLIVER = 1e-8  # CPU-seconds below which a request counts as finished: far above rounding, far below any latency


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


COMPILED = (
    "report",
    "fill",
    "finish",
)
