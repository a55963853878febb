"""The places that pods are served in: opened, drained, closed, given another size."""

from autoscaler.queueing.quota import foresee
from autoscaler.queueing.state import DRAINING, EMPTY, IDLE, NEVER, PERIOD, PODS, SERVING, THREADS
from autoscaler.queueing.threads import fill, report


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
    "open_pod",
    "drain_pod",
    "close_pod",
    "set_limit",
    "set_cores",
)
