"""What decisions remember between ticks: one immutable value per workload.

``History()`` knows nothing. It is JSON-able (snapshots hold it whole); ``compact`` keeps the little that is worth
carrying over a restart, and ``restore`` starts from it: what is slow to learn, what was refused and what is barred is
back at once, what is fresh is measured again, and nothing shrinks meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

UNKNOWN = -1.0


class Traffic(msgspec.Struct, frozen=True):
    """The arrival rate as a level with change points, and how much it moves. Rates per second."""

    level: float = UNKNOWN
    samples: int = 0
    """Samples behind the level since it last jumped."""
    newest: float = UNKNOWN
    """The last sample."""
    mean: float = UNKNOWN
    """Of the last half hour or so."""
    mean_time: float = 0.0
    sampled_at: float = UNKNOWN
    in_flight: float = UNKNOWN
    rise: float = 0.0
    """Cumulated surprise upwards, in standard deviations; likewise ``fall``."""
    rise_sum: float = 0.0
    rise_time: float = 0.0
    fall: float = 0.0
    fall_sum: float = 0.0
    fall_time: float = 0.0
    earlier: tuple[float, ...] = ()
    """The level before each of the last few samples, newest last."""
    excess: float = UNKNOWN
    """Mean of what samples exceeded the level known a reaction time before, relative to it; below counts as 0."""
    excess_square: float = UNKNOWN
    """Mean square of the same."""
    gain: float = 0.2
    """How much of a surprise the level takes over, learned; ``spread``: mean square of surprises, in variances."""
    spread: float = 1.0
    surprise: float = 0.0
    """The last one, in its usual sizes."""
    binned: float = 0.0
    """Arrivals since the size of surprises was last measured, over so many seconds."""
    binned_time: float = 0.0
    stalled_for: float = 0.0
    """Seconds with requests in flight and none completed."""


class Pace(msgspec.Struct, frozen=True):
    """CPU per request at quiet and at busy times. Each: (requests a second, cores, samples)."""

    usual: float = UNKNOWN
    """Requests a second."""
    quiet: tuple[float, float, int] = (0.0, 0.0, 0)
    busy: tuple[float, float, int] = (0.0, 0.0, 0)
    swift: float = UNKNOWN
    """Mean latency while nothing was throttled, seconds."""


class Cost(msgspec.Struct, frozen=True):
    """CPU-seconds per request, from sums that forget."""

    work: float = UNKNOWN
    """What one more request costs."""
    own: float = UNKNOWN
    """What a request needs for itself: less where thread pools spin."""
    pace: Pace = Pace()
    speeds: tuple[tuple[float, float, float], ...] = ()
    """Seconds that a CPU-second of work takes on pods of so many cores: (cores, seconds, weight)."""
    cpu: float = 0.0
    done: float = 0.0
    counted: tuple[tuple[float, float], ...] = ()
    """(time, completions until then): what a CPU sample of a while ago is compared with."""
    sampled_at: float = UNKNOWN
    template: str = ""


class Headroom(msgspec.Struct, frozen=True):
    """Misses of the last minute, and the learned factor on head-room."""

    beta: float = 1.0
    requests: float = 0.0
    """In the last minute, forgetting; ``missed`` of them."""
    missed: float = 0.0
    lately: float = 0.0
    """Requests of the last interval, or of the last few where they are short; ``late`` of them."""
    late: float = 0.0
    judged_time: float = 0.0
    """Undisturbed seconds since the factor was last judged; requests and misses in them."""
    judged_requests: float = 0.0
    judged_missed: float = 0.0


class Elastic(msgspec.Struct, frozen=True):
    """What a pod was seen to be able to use."""

    ceiling: float = UNKNOWN
    """Millicores a pod can use; UNKNOWN: no limit seen."""
    template: str = ""
    sampled_at: float = UNKNOWN
    use: float = UNKNOWN
    """Cores used by all at the newest CPU sample."""
    most_used: float = 0.0
    """Most millicores that a pod of this template was seen to use, on the average of all."""
    waiting_inside: float = 0.0
    """Requests inside when they began to wait; the best answered since then, in cores."""
    answered: float = 0.0
    waiting_since: float = UNKNOWN
    """Requests have been waiting or missing at every tick since then."""
    watch_at: float = UNKNOWN
    """The last change of sizes that was noticed, and the use in cores before it."""
    watch_from: float = UNKNOWN
    watch_samples: int = 0
    """Samples in a row that say more can't be used; most use in them, and requests inside when they began."""
    watch_best: float = 0.0
    watch_inside: float = 0.0


class Replicas(msgspec.Struct, frozen=True):
    """The horizontal side."""

    adopted: int = 0
    """Replicas found when the workload was first seen."""
    start_up: float = 40.0
    """Seconds from creation to ready, learned."""
    start_ups: int = 0
    wishes: tuple[tuple[float, float], ...] = ()
    """(time, replicas that would do), decreasing, newest last: the first is the largest in the window."""
    lows: tuple[tuple[float, float], ...] = ()
    """The same, increasing: the first is the smallest in the window for scale-out."""
    changes: tuple[tuple[float, int], ...] = ()
    """Our own scale events (time, replicas added), for the behavior policies."""
    asked: int = 0
    """Replicas that are expected to be seen; ``asked_at``: since when we wait to see them, UNKNOWN once seen."""
    asked_at: float = UNKNOWN
    put_back: tuple[float, ...] = ()
    """When somebody else undid our replicas."""
    victim: str = ""
    """Uid of the pod that drains, and since when."""
    victim_at: float = UNKNOWN
    taken_at: float = UNKNOWN
    """When it was taken away; it may still be seen for a moment."""
    rest_until: float = UNKNOWN
    """No pod is chosen before: the others did not get what they needed."""
    short_count: int = 0
    """So many pods could not carry a need of ``short_need`` millicores: fewer pods wait for less load than that."""
    short_need: float = 0.0
    short_at: float = UNKNOWN
    carried: float = 0.0
    """Requests in flight per pod with which the objective is held; learned where pods have a GPU or the like."""


class Sizes(msgspec.Struct, frozen=True):
    """The vertical side. CPU totals in millicores."""

    wishes: tuple[tuple[float, float], ...] = ()
    """Wanted totals, decreasing, newest last: the first is the largest in the window."""
    lows: tuple[tuple[float, float], ...] = ()
    """The same, increasing: the first is the smallest in the grow window."""
    learned: int = 0
    """The size per pod in millicores that was last decided: new pods get it at once."""
    changed_at: float = UNKNOWN
    changed_from: int = 0
    """What the pods had in all before the last change: a CPU sample from then is compared with it."""
    shrunk_at: float = UNKNOWN
    shrunk_from: int = 0
    """Size per pod before the last shrink."""
    shrunk_demand: float = 0.0
    """Cores that the load burnt then."""
    barred_until: float = UNKNOWN
    barred_size: int = 0
    """Size per pod that a shrink was undone from: until then none goes near it. 0: nothing shrinks at all."""
    refused: Mapping[str, int] = {}
    """By ``uid@node``: the smallest size in millicores that was refused or deferred there."""
    refused_room: Mapping[str, int] = {}
    """By the same key: what was free on the node then."""
    refused_at: Mapping[str, float] = {}
    refused_why: Mapping[str, str] = {}


class Peaks(msgspec.Struct, frozen=True):
    """Memory of the pod that uses most, bytes."""

    peak: float = 0.0
    peak_at: float = UNKNOWN
    oom_at: float = UNKNOWN
    oom_floor: int = 0
    grown: tuple[float, ...] = ()
    grown_at: float = UNKNOWN
    shrunk_at: float = UNKNOWN
    canary: str = ""
    canary_at: float = UNKNOWN
    ooms: Mapping[str, float] = {}
    """By pod uid: when an OOM was last answered; and growths that have yet to prove that they helped."""
    proofs: Mapping[str, float] = {}
    asked: Mapping[str, int] = {}
    """By pod uid: the limit that has to prove it."""
    evicted: Mapping[str, float] = {}
    """By pod uid: when its eviction was first asked for."""
    spread: int = 0
    """Replicas asked for because more memory did not help and the pod could not be recreated; and when."""
    spread_at: float = UNKNOWN
    before: Mapping[str, int] = {}
    """By pod uid: the limit before a shrink that is on trial; ``trial_demand``: cores that the load burnt then."""
    trial_demand: float = 0.0
    owed: Mapping[str, int] = {}
    """By pod uid: the limit that an undone shrink is to be put back to, and why it was undone."""
    owed_why: str = ""
    barred_until: float = UNKNOWN
    refused: Mapping[str, int] = {}
    """By pod uid: the smallest limit that was refused or deferred; when, and the word."""
    refused_at: Mapping[str, float] = {}
    refused_why: Mapping[str, str] = {}
    template: str = ""
    """The pod template that all this was learned from."""


class History(msgspec.Struct, frozen=True):
    """All that is remembered of one workload."""

    at: float = UNKNOWN
    """The last tick."""
    since: float = UNKNOWN
    """The first tick of this process."""
    learning_until: float = UNKNOWN
    traffic: Traffic = Traffic()
    cost: Cost = Cost()
    headroom: Headroom = Headroom()
    elastic: Elastic = Elastic()
    replicas: Replicas = Replicas()
    sizes: Sizes = Sizes()
    peaks: Peaks = Peaks()


_KEPT: Mapping[str, tuple[str, ...]] = {
    "traffic": ("mean", "mean_time", "excess", "excess_square", "gain", "spread"),
    "cost": ("work", "own", "pace", "speeds", "cpu", "done", "template"),
    "headroom": ("beta",),
    "elastic": ("ceiling", "most_used", "template"),
    "replicas": (
        "adopted", "start_up", "start_ups", "changes", "put_back", "short_count", "short_need", "short_at", "carried",
    ),
    "sizes": (
        "learned", "shrunk_at", "shrunk_from", "shrunk_demand", "barred_until", "barred_size",
        "refused", "refused_room", "refused_at", "refused_why",
    ),
    "peaks": (
        "peak", "peak_at", "oom_at", "oom_floor", "shrunk_at", "canary", "canary_at", "ooms", "proofs", "asked",
        "evicted", "spread", "spread_at", "before", "trial_demand", "owed", "owed_why", "barred_until",
        "refused", "refused_at", "refused_why", "template",
    ),
}  # fmt: skip
_PARTS: Mapping[str, type[msgspec.Struct]] = {
    "traffic": Traffic, "cost": Cost, "headroom": Headroom, "elastic": Elastic, "replicas": Replicas, "sizes": Sizes,
    "peaks": Peaks,
}  # fmt: skip
_TYPES: Mapping[str, Any] = {
    f"{part}.{field.name}": field.type for part, struct in _PARTS.items() for field in msgspec.structs.fields(struct)
}
_EPOCH = 1e8
"""A float beyond this is a moment in unix seconds (or an amount of bytes): whole numbers say enough."""


def compact(history: History) -> dict[str, Any]:
    """What is worth keeping, by dotted name, JSON-able; what was not learned is left out. Numbers to six digits."""
    blank, kept = History(), {}
    for part, names in _KEPT.items():
        found, default = getattr(history, part), getattr(blank, part)
        for name in names:
            value = getattr(found, name)
            if value != getattr(default, name):
                kept[f"{part}.{name}"] = _short(msgspec.to_builtins(value))
    return kept


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(round(value)) if abs(value) >= _EPOCH else float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _short(one) for key, one in value.items()}
    return [_short(one) for one in value] if isinstance(value, list | tuple) else value


def restore(kept: Mapping[str, Any]) -> History:
    """A history that starts from ``compact``'s values. Unknown names and values of another type are left out."""
    parts: dict[str, Any] = {}
    for part, names in _KEPT.items():
        found: dict[str, Any] = {}
        for name in names:
            key = f"{part}.{name}"
            if key in kept and _finite(kept[key]):
                try:
                    found[name] = msgspec.convert(kept[key], _TYPES[key])
                except msgspec.ValidationError:
                    continue
        parts[part] = _PARTS[part](**found)
    return History(**parts)


def _finite(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_finite(one) for one in value.values())
    if isinstance(value, list | tuple):
        return all(_finite(one) for one in value)
    return not isinstance(value, float) or math.isfinite(value)
