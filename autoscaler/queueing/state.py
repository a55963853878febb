"""What a fleet of serving pods is made of: flat arrays in one NamedTuple.

The same fields are Python lists where the emulator runs and NumPy arrays where the simulator does; the kernel only
indexes them, so one text serves both. Everything is flat because lists of lists and two-dimensional arrays are
indexed differently. Units: seconds, CPU-seconds, cores.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

NEVER = float("inf")

# Places in `Fleet.spec`.
THREADS, PARALLELISM, BATCH, BATCH_CPU, BATCH_WAIT, QUEUE_LIMIT, BALANCE, PERIOD, SPIN_WINDOW, SPIN_CORES = range(10)
# Places in `Fleet.cursor`.
FREE, TURN, DICE, DONE, PODS, SHARED, IN_SYSTEM = range(7)
# How arrivals are spread (`spec[BALANCE]`).
SHARED_QUEUE, ROUND_ROBIN, RANDOM, LEAST_OUTSTANDING = range(4)
BALANCING = {
    "shared": SHARED_QUEUE,
    "round-robin": ROUND_ROBIN,
    "random": RANDOM,
    "least-outstanding": LEAST_OUTSTANDING,
}
# `Fleet.status` of a pod's place.
EMPTY, SERVING, DRAINING = range(3)
# `Fleet.slot_kind`: what the thread is doing.
IDLE, ON_CPU, OFF_CPU = range(3)


class Fleet(NamedTuple):
    """State of all pods of one workload. Per pod the index is its place; queues have one place more, the shared one."""

    spec: Any  # the parameters, see the places above
    cursor: Any  # small integers that move: free list, turn, dice, number of finished requests to collect
    # one a pod
    status: Any  # EMPTY, SERVING, DRAINING
    limit: Any  # cores of quota; may be infinite
    cores: Any  # cores of the node the pod can burn at once
    quota: Any  # CPU-seconds left in this period
    clock: Any  # how far this pod has been advanced
    refill: Any  # when the next period starts
    burnt: Any  # virtual work: CPU-seconds that each running request has got since the pod was last idle
    on_cpu: Any  # threads that want the CPU
    busy: Any  # threads taken
    next_event: Any  # when the next request finishes or leaves the CPU
    active: Any  # 1 when the current period has seen use
    starved: Any  # 1 when the current period has been throttled
    inside: Any  # requests in the pod, waiting ones included
    arrivals: Any
    completions: Any
    dropped: Any
    cpu: Any  # CPU-seconds used
    periods: Any  # periods with use that have ended
    throttled: Any  # of these, periods in which the quota ran out with work left
    throttled_time: Any  # seconds spent with work and no quota
    spin_until: Any  # idle threads spin until then, burning CPU that serves nobody
    # one a queue
    waiting: Any
    head: Any
    tail: Any
    # one a thread
    slot_kind: Any
    slot_mark: Any  # value of `burnt` (on the CPU) or time (off it) at which the batch moves on
    slot_wait: Any  # time off the CPU still owed
    slot_head: Any  # first request of the batch
    # one a request
    when: Any
    work: Any
    wait: Any
    follow: Any
    # finished requests not collected yet: `cursor[DONE]` of them
    done_when: Any
    done_at: Any  # negative: dropped
    done_pod: Any


FLOATS_PER_POD: tuple[str, ...] = ("limit", "cores", "quota", "clock", "refill", "burnt", "next_event", "cpu")
FLOATS_PER_POD += ("throttled_time", "spin_until")
WHOLES_PER_POD = (
    "status",
    "on_cpu",
    "busy",
    "active",
    "starved",
    "inside",
    "arrivals",
    "completions",
    "dropped",
    "periods",
    "throttled",
)

Filled = Callable[[int, float], Any]  # (length, value) -> array of floats
Counted = Callable[[int, int], Any]  # (length, value) -> array of integers


def empty_fleet(
    *,
    floats: Filled,
    wholes: Counted,
    pods: int,
    requests: int,
    threads: int,
    parallelism: float,
    balance: str,
    queue_limit: int,
    batch: int = 1,
    batch_cpu: float = 0.0,
    batch_wait: float = 0.0,
    period: float = 0.1,
    spin_window: float = 0.0,
    spin_cores: float = 0.0,
    seed: int = 1,
) -> Fleet:
    """A fleet with room for `pods` pods and `requests` requests inside at once, made of the given kind of array."""
    spec = floats(10, 0.0)
    spec[SPIN_WINDOW], spec[SPIN_CORES] = spin_window, spin_cores
    spec[THREADS], spec[PARALLELISM], spec[BATCH] = threads, parallelism, batch
    spec[BATCH_CPU], spec[BATCH_WAIT] = batch_cpu, batch_wait
    spec[QUEUE_LIMIT], spec[BALANCE], spec[PERIOD] = queue_limit, BALANCING[balance], period
    cursor = wholes(7, 0)
    cursor[DICE], cursor[PODS], cursor[SHARED] = (seed * 2654435761 + 12345) & 0xFFFFFFFF, 0, pods
    fields: dict[str, Any] = {name: floats(pods, 0.0) for name in FLOATS_PER_POD}
    fields |= {name: wholes(pods, 0) for name in WHOLES_PER_POD}
    for place in range(pods):
        fields["next_event"][place] = float("inf")
    follow = wholes(requests, -1)
    for place in range(requests - 1):
        follow[place] = place + 1
    return Fleet(
        spec=spec,
        cursor=cursor,
        waiting=wholes(pods + 1, 0),
        head=wholes(pods + 1, -1),
        tail=wholes(pods + 1, -1),
        slot_kind=wholes(pods * threads, IDLE),
        slot_mark=floats(pods * threads, 0.0),
        slot_wait=floats(pods * threads, 0.0),
        slot_head=wholes(pods * threads, -1),
        when=floats(requests, 0.0),
        work=floats(requests, 0.0),
        wait=floats(requests, 0.0),
        follow=follow,
        done_when=floats(requests, 0.0),
        done_at=floats(requests, 0.0),
        done_pod=wholes(requests, 0),
        **fields,
    )


def with_room(fleet: Fleet, *, floats: Filled, wholes: Counted, pods: int, requests: int) -> Fleet:
    """The same fleet with room for at least `pods` pods and `requests` requests; what is inside stays inside."""
    old_pods, old_requests = len(fleet.status), len(fleet.when)
    pods, requests = max(pods, old_pods), max(requests, old_requests)
    threads = int(fleet.spec[THREADS])

    def grown(old: Any, make: Any, length: int, value: float) -> Any:
        new = make(length, value)
        for place in range(len(old)):
            new[place] = old[place]
        return new

    changed: dict[str, Any] = {}
    if pods > old_pods:
        for name in FLOATS_PER_POD:
            value = float("inf") if name == "next_event" else 0.0
            changed[name] = grown(getattr(fleet, name), floats, pods, value)
        for name in WHOLES_PER_POD:
            changed[name] = grown(getattr(fleet, name), wholes, pods, 0)
        for name, value in (("waiting", 0), ("head", -1), ("tail", -1)):
            queue = getattr(fleet, name)
            shared = queue[old_pods]
            queue[old_pods] = value
            changed[name] = grown(queue, wholes, pods + 1, value)
            changed[name][pods] = shared
        for name, make, value in (
            ("slot_kind", wholes, IDLE),
            ("slot_mark", floats, 0.0),
            ("slot_wait", floats, 0.0),
            ("slot_head", wholes, -1),
        ):
            changed[name] = grown(getattr(fleet, name), make, pods * threads, value)
        fleet.cursor[SHARED] = pods
    if requests > old_requests:
        for name in ("when", "work", "wait", "done_when", "done_at"):
            changed[name] = grown(getattr(fleet, name), floats, requests, 0.0)
        changed["done_pod"] = grown(fleet.done_pod, wholes, requests, 0)
        follow = grown(fleet.follow, wholes, requests, -1)
        for place in range(old_requests, requests - 1):
            follow[place] = place + 1
        follow[requests - 1] = fleet.cursor[FREE]
        fleet.cursor[FREE] = old_requests
        changed["follow"] = follow
    return fleet._replace(**changed)
