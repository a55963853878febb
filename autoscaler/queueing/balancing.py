"""Where an arrival goes: which pod, and there into a thread, a queue, or out again."""

from autoscaler.queueing.quota import elapse, foresee
from autoscaler.queueing.state import (
    BALANCE,
    DICE,
    FREE,
    IN_SYSTEM,
    LEAST_OUTSTANDING,
    NEVER,
    PODS,
    QUEUE_LIMIT,
    RANDOM,
    SERVING,
    SHARED,
    SHARED_QUEUE,
    THREADS,
    TURN,
)
from autoscaler.queueing.threads import fill, report


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


COMPILED = (
    "choose",
    "accept",
)
