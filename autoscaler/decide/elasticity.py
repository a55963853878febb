"""What pods can use: many servers size their thread pools at start, and cores beyond them change nothing.

Two signs, each over three fresh CPU samples while requests wait or miss and nothing is throttled:

* after a grow, use rose by less than a quarter of the cores that were added;
* the pods leave cores unused although less is answered than arrives.

Then the most they used is their ceiling: what is beyond goes back, the rest is for the replicas. A slow dependency is
no such case: all that arrives is answered, only late. Forgotten at a new template, or when more is used after all.
"""

from __future__ import annotations

from math import sqrt

import msgspec

from autoscaler.decide.demand import BUSY, Demand
from autoscaler.decide.history import UNKNOWN, Elastic, History
from autoscaler.decide.standing import Standing
from autoscaler.model.signal import Counts, Measured, Signals

SAMPLES = 3
"""Fresh CPU samples in a row that must agree."""
USED = 0.25
"""Part of the added cores whose use proves that they can be used."""
UNMET = 0.95
"""Use below this part of what the arrivals burn: less is answered than arrives, if more and more wait, too."""
SHORT = 0.85
"""Use so far below needs no such proof (a server that sheds keeps its queue short)."""
CALM = 0.05
"""Share of throttled periods up to which a quota is not what holds the pods back."""
PILED = 10.0
"""Seconds in which more and more requests wait."""
LIKE_EVER = 0.9
ROOM = 1.1
"""The ceiling is this much above what was used."""
BEYOND = 1.3
"""Use above the ceiling by this factor disproves it; over a second a quota of ``ROOM`` shows up to a tenth more."""
AFTER = 2.0
"""Seconds after a change before a sample is of the new size."""


def learn(past: History, out: Demand, signals: Signals, stand: Standing, template: str, now: float) -> Elastic:
    """The newest CPU sample's lesson; the same value when there is no newer one."""
    known = past.elastic
    if template and template != known.template:
        known = Elastic(template=template)
    waiting = _waiting(out, stand)
    if waiting != (known.waiting_since >= 0.0):
        inside = out.in_flight or 0.0
        known = msgspec.structs.replace(
            known, waiting_since=now if waiting else UNKNOWN, waiting_inside=inside, answered=0.0
        )
    known = _by_answers(known, out, signals, stand, now)
    cpu = signals.cpu
    if not isinstance(cpu, Measured) or cpu.coverage < 0.999 or stand.count == 0 or out.used is None:
        return known
    sampled_at = now - cpu.age_s
    if sampled_at - known.sampled_at < 1.0:
        return known
    known = msgspec.structs.replace(known, sampled_at=sampled_at)
    each = cpu.value / stand.count * 1000.0
    if each > known.most_used:
        known = msgspec.structs.replace(known, most_used=each)
    if known.ceiling > 0.0 and each > known.ceiling * BEYOND:
        known = msgspec.structs.replace(known, ceiling=UNKNOWN)
    changed = past.sizes.changed_at
    if changed > known.watch_at:
        # A change since the last look: what was used until now is what it is measured against.
        known = msgspec.structs.replace(known, watch_at=changed, watch_from=known.use, watch_samples=0, watch_best=0.0)
    began = sampled_at - cpu.window_s
    if began < known.watch_at + AFTER:
        return msgspec.structs.replace(known, use=cpu.value)
    live = stand.live / 1000.0
    added = (stand.live - past.sizes.changed_from) / 1000.0 if known.watch_at >= 0.0 else 0.0
    # Where throttling isn't measured, requests that waited all the while would have used up any quota.
    free = (out.throttled is None or out.throttled <= CALM) and cpu.value < BUSY * live
    # A sample is of a while ago: it counts when requests waited all through it.
    waited = waiting and began >= known.waiting_since
    if not (free and waited and _unmet(out, cpu.value, known, added, stand)):
        return msgspec.structs.replace(known, use=cpu.value, watch_samples=0, watch_best=0.0)
    best = max(known.watch_best, cpu.value)
    samples = known.watch_samples + 1
    inside = out.in_flight or 0.0
    first = inside if samples == 1 else known.watch_inside
    ceiling = known.ceiling
    if (
        samples >= SAMPLES
        and _saturated(known, best, stand)
        and (_grew(first, inside, stand) or best < SHORT * (out.rho or 0.0) or _idle(best, known, added))
    ):
        ceiling = best / stand.count * 1000.0
    return msgspec.structs.replace(
        known, use=cpu.value, watch_samples=samples, watch_best=best, watch_inside=first, ceiling=ceiling
    )


def _by_answers(known: Elastic, out: Demand, signals: Signals, stand: Standing, now: float) -> Elastic:
    """The same without waiting for three CPU samples: what is answered is fresh at each scrape.

    Requests have piled up for ``PILED`` seconds though answering takes fewer cores than the pods have, and a CPU sample
    of that time has not seen a quota at work.
    """
    requests, cpu, since = signals.requests, signals.cpu, known.waiting_since
    if since < 0.0 or signals.counts is not Counts.COMPLETIONS or out.work <= 0.0 or out.in_flight is None:
        return known
    if not isinstance(requests, Measured) or not isinstance(cpu, Measured) or stand.count == 0:
        return known
    answered = requests.value * out.work
    best = max(known.answered, answered)
    known = msgspec.structs.replace(known, answered=best)
    live = stand.live / 1000.0
    looked = now - cpu.age_s >= since + AFTER and cpu.coverage >= 0.999
    free = (out.throttled is None or out.throttled <= CALM) and max(cpu.value, best) < BUSY * live
    if now - since < PILED or not looked or not free or not _grew(known.waiting_inside, out.in_flight, stand):
        return known
    if not _saturated(known, best, stand):
        return known
    return msgspec.structs.replace(known, ceiling=best / stand.count * 1000.0)


def _saturated(known: Elastic, cores: float, stand: Standing) -> bool:
    """Whether the pods work as hard as they were ever seen to: in an outage they idle, and that is no ceiling."""
    return cores * 1000.0 >= LIKE_EVER * known.most_used * stand.count


def _grew(before: float, now: float, stand: Standing) -> bool:
    return now - before > 2.0 * sqrt(before + 1.0) + 2.0 * stand.count


def _waiting(out: Demand, stand: Standing) -> bool:
    """Whether requests miss, or more are inside than chance explains."""
    return out.breach or out.stalled or _crowded(out, stand)


def _crowded(out: Demand, stand: Standing) -> bool:
    usual = (out.rho or 0.0) + 2.0 * sqrt(out.rho or 0.0) + 2.0 * stand.count
    return out.in_flight is not None and out.in_flight > usual


def _unmet(out: Demand, used: float, known: Elastic, added: float, stand: Standing) -> bool:
    """Whether this sample says that more can't be used.

    Where all that arrives is answered and nothing waits, they have no use for more, which is something else: the
    objective is out of reach, or what is slow is not the CPU.
    """
    if out.rho is None:
        return out.breach and _idle(used, known, added)
    crowded = out.in_flight is None or _crowded(out, stand)
    return used < UNMET * out.rho or (out.breach and crowded and _idle(used, known, added))


def _idle(used: float, known: Elastic, added: float) -> bool:
    return added > 0.0 and known.watch_from >= 0.0 and used - known.watch_from < USED * added


def most(known: Elastic, step: int) -> int | None:
    """Millicores a pod can use, with a little room, in whole steps; None: no limit was seen."""
    if known.ceiling <= 0.0:
        return None
    return max(step, int(-(-known.ceiling * ROOM // step)) * step)
