"""Pods serving requests under a CPU quota, advanced from event to event without stepping through time.

The text of the kernel stands in `quota`, `threads`, `balancing`, `places` and here, each using those before it: plain
functions over `state.Fleet` in the subset that numba compiles. The emulator runs them as they are, over lists; the
simulator runs copies that went through numba, over arrays (`simulate/compiled.py`). Each module names in `COMPILED`
what is to be compiled, and imports nothing besides the functions of the others and the state's numbers.
"""

from autoscaler.queueing.balancing import accept
from autoscaler.queueing.quota import elapse, foresee
from autoscaler.queueing.state import EMPTY, NEVER, PODS
from autoscaler.queueing.threads import fill, finish


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


COMPILED = ("advance",)
