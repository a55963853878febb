"""The path of one request in Faro's experiment, event by event (beomyeol/faro, EuroSys'25).

One serial router per job handles each request twice, in and out. Behind it a job queue (dropped on entry when more than
50 wait, one more is held by the dispatcher), then round-robin over the replicas, skipping those with 4 in flight; a
replica serves one request at a time. Plain functions in the subset that numba compiles.
"""

from typing import Any, NamedTuple

QUEUE_LIMIT = 50
PER_REPLICA = 4
MOST_REPLICAS = 128
NEVER = float("inf")

# Places in `Job.at`.
UPCOMING, ROUTER_HEAD, ROUTER_LENGTH, QUEUE_HEAD, QUEUE_LENGTH, HELD, LISTED, TURN, ENDED = range(9)


class Job(NamedTuple):
    """One job. Requests are numbered by arrival; rings have a power of two of places."""

    at: Any  # small integers, see above
    ends: Any  # [when the router is done with its first item]
    arrival: Any
    service: Any
    router_in: Any
    router_out: Any
    latency: Any  # seconds; negative until answered; infinite when dropped
    router: Any  # ring: 2 x request + (1 on the way out)
    queue: Any  # ring
    order: Any  # the shuffled list of replicas that take requests
    inside: Any  # per replica: in flight
    first: Any  # per replica: place of its oldest in `flight`
    flight: Any  # per replica, 4 places
    done: Any  # per replica: when its running request ends
    ended_count: Any  # per 5 s: requests that ended, dropped ones included
    ended_latency: Any  # and the sum of their latencies
    busy: Any  # and seconds of service


def push_router(job, item, now):
    """Queue at the router; start if it is idle."""
    places = len(job.router)
    job.router[(job.at[ROUTER_HEAD] + job.at[ROUTER_LENGTH]) & (places - 1)] = item
    job.at[ROUTER_LENGTH] += 1
    if job.at[ROUTER_LENGTH] == 1:
        start_router(job, now)


def start_router(job, now):
    item = job.router[job.at[ROUTER_HEAD]]
    request = item >> 1
    job.ends[0] = now + (job.router_out[request] if item & 1 else job.router_in[request])


def finish_router(job, now):
    """One pass is over: into the queue, or out to the client."""
    places = len(job.router)
    item = job.router[job.at[ROUTER_HEAD]]
    job.at[ROUTER_HEAD] = (job.at[ROUTER_HEAD] + 1) & (places - 1)
    job.at[ROUTER_LENGTH] -= 1
    request = item >> 1
    if item & 1:
        bin_ = min(len(job.ended_count) - 1, int(now / 5.0))
        job.ended_count[bin_] += 1
        job.ended_latency[bin_] += now - job.arrival[request]
        if job.latency[request] != NEVER:
            job.latency[request] = now - job.arrival[request]
        job.at[ENDED] += 1
    elif job.at[QUEUE_LENGTH] > QUEUE_LIMIT:
        job.latency[request] = NEVER
        push_router(job, 2 * request + 1, now)
        return  # it started the router if nothing else waits
    else:
        job.queue[(job.at[QUEUE_HEAD] + job.at[QUEUE_LENGTH]) & (len(job.queue) - 1)] = request
        job.at[QUEUE_LENGTH] += 1
    if job.at[ROUTER_LENGTH] > 0:
        start_router(job, now)
    else:
        job.ends[0] = NEVER


def finish_replica(job, replica, now):
    """Its running request is answered, the next one in it starts."""
    request = job.flight[replica * PER_REPLICA + job.first[replica]]
    job.first[replica] = (job.first[replica] + 1) % PER_REPLICA
    job.inside[replica] -= 1
    bin_ = min(len(job.busy) - 1, int(now / 5.0))
    job.busy[bin_] += job.service[request]
    if job.inside[replica] > 0:
        job.done[replica] = now + job.service[job.flight[replica * PER_REPLICA + job.first[replica]]]
    else:
        job.done[replica] = NEVER
    push_router(job, 2 * request + 1, now)


def dispatch(job, now):
    """Give what waits to replicas with room, in turn."""
    listed = job.at[LISTED]
    while True:
        if job.at[HELD] < 0:
            if job.at[QUEUE_LENGTH] == 0:
                return
            job.at[HELD] = job.queue[job.at[QUEUE_HEAD]]
            job.at[QUEUE_HEAD] = (job.at[QUEUE_HEAD] + 1) & (len(job.queue) - 1)
            job.at[QUEUE_LENGTH] -= 1
        found = -1
        for _ in range(listed):
            if job.at[TURN] >= listed:
                job.at[TURN] = 0
            replica = job.order[job.at[TURN]]
            job.at[TURN] += 1
            if job.inside[replica] < PER_REPLICA:
                found = replica
                break
        if found < 0:
            return
        request = job.at[HELD]
        job.at[HELD] = -1
        job.flight[found * PER_REPLICA + (job.first[found] + job.inside[found]) % PER_REPLICA] = request
        job.inside[found] += 1
        if job.inside[found] == 1:
            job.done[found] = now + job.service[request]


def serve(job, until):
    """Everything up to `until`."""
    total = len(job.arrival)
    while True:
        upcoming = job.at[UPCOMING]
        arrival = job.arrival[upcoming] if upcoming < total else NEVER
        soonest = NEVER
        replica = -1
        for candidate in range(MOST_REPLICAS):
            if job.done[candidate] < soonest:
                soonest = job.done[candidate]
                replica = candidate
        routed = job.ends[0]
        if min(arrival, soonest, routed) > until:
            return
        if routed <= arrival and routed <= soonest:
            finish_router(job, routed)
            dispatch(job, routed)
        elif soonest <= arrival:
            finish_replica(job, replica, soonest)
            dispatch(job, soonest)
        else:
            job.at[UPCOMING] = upcoming + 1
            push_router(job, 2 * upcoming, arrival)


COMPILED = ("push_router", "start_router", "finish_router", "finish_replica", "dispatch", "serve")
