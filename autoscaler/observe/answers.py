"""What a source got from each pod, and what one workload's answers are reduced against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from autoscaler.model.policy import LatencyObjective
from autoscaler.model.signal import NOT_CONFIGURED, Absent, Cause, Reading
from autoscaler.model.workload import Pod
from autoscaler.observe.counters import Growth, PodSample, Role
from autoscaler.observe.names import SignalNames


@dataclass(slots=True)
class PodAnswer:
    """What a source got from one pod. ``age_s``: since the sample, by the source's own clock."""

    sample: PodSample | None = None
    growth: Growth | Absent | None = None
    age_s: float = 0.0
    why: Absent | None = None
    """Why there is no sample."""
    settled: Settled | None = None
    """What it comes to for who asked, worked out once for all signals."""


KUBELET_ROLES = frozenset(
    {Role.CPU, Role.PERIODS, Role.THROTTLED, Role.PRESSURE, Role.WORKING_SET, Role.MEMORY_USAGE, Role.PEAK_MEMORY}
)
"""What the kubelet tells of a container."""


PROCESS_ROLES = frozenset({Role.PROCESS_CPU, Role.PROCESS_MEMORY})


def page_roles(names: SignalNames) -> frozenset[Role]:
    """What a server's page is read for."""
    kept = _PAGE_ROLES.get(id(names))
    if kept is not None and kept[0] is names:
        return kept[1]
    wanted = {
        Role.REQUESTS: names.requests,
        Role.FAILURES: names.failures,
        Role.IN_FLIGHT: names.in_flight,
        Role.PROCESS_CPU: names.process_cpu,
        Role.PROCESS_MEMORY: names.process_memory,
        Role.LATENCY_SUM: names.busy_s or names.histogram or names.summary,
        Role.FINISHED: names.histogram or names.summary,
    }
    roles = frozenset(role for role, selectors in wanted.items() if selectors)
    if len(_PAGE_ROLES) > 4096:
        _PAGE_ROLES.clear()
    _PAGE_ROLES[id(names)] = (names, roles)
    return roles


_PAGE_ROLES: dict[int, tuple[SignalNames, frozenset[Role]]] = {}
"""By identity, as names are long to hash and asked for every tick."""


@dataclass(slots=True)
class Asked:
    """What one workload's answers are reduced against.

    ``age_fixed``: ``max_age_s`` is a person's, and holds however rarely the source is scraped.
    ``expected``: uids of the pods that must answer for full coverage; ``roles``: what the source was asked for.
    """

    names: SignalNames
    objective: LatencyObjective | None
    max_age_s: float
    source: str
    expected: Collection[str]
    roles: frozenset[Role]
    age_fixed: bool = False


SCRAPES_LAST = 2.0
"""A sample may be as old as so many scrapes: one that is late or missed is no fault."""
LONGEST_S = 120.0


def lasting(max_age_s: float, fixed: bool, every_s: float) -> float:
    """How old a sample may be where there is a new one every ``every_s`` seconds (0: not known).

    ``fixed``: a person has said ``max_age_s``, and means it.
    """
    return max_age_s if fixed else max(max_age_s, min(LONGEST_S, SCRAPES_LAST * every_s))


@dataclass(slots=True)
class Settled:
    """One pod's answer against what was asked: its growth, if it is young enough, and how old it may be (seconds)."""

    asked: Asked
    growth: Growth | Absent
    lasts_s: float


def settled(asked: Asked, answer: PodAnswer) -> Settled:
    kept = answer.settled
    if kept is None or kept.asked is not asked:
        every_s = answer.growth.every_s if isinstance(answer.growth, Growth) else 0.0
        limit = lasting(asked.max_age_s, asked.age_fixed, every_s)
        kept = answer.settled = Settled(asked, _grown(asked, answer, limit), limit)
    return kept


def lasts(asked: Asked, answer: PodAnswer) -> float:
    """How old this pod's sample may be, in seconds: the policy's maxAge, or what its scrapes make of it."""
    return settled(asked, answer).lasts_s


def grown(asked: Asked, answer: PodAnswer) -> Growth | Absent:
    """What the pod's counters grew by, or why that can't be told."""
    return settled(asked, answer).growth


def _grown(asked: Asked, answer: PodAnswer, limit: float) -> Growth | Absent:
    if answer.sample is None or answer.growth is None:
        return answer.why or Absent(Cause.SOURCE_DOWN, "no answer", asked.source)
    if answer.age_s > limit:
        return Absent(Cause.STALE, f"{answer.age_s:.0f}s old, {limit:.0f}s are allowed", asked.source)
    return answer.growth


def expected_pods(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Pods that serve or have served: active, running, ready once. One that is starting can't answer yet."""
    return tuple(pod for pod in pods if pod.active and pod.phase == "Running" and (pod.ready or pod.ready_at))


def coverage_of(asked: Asked, answered: Collection[str]) -> float:
    if not asked.expected:
        return 1.0
    missing = len(set(asked.expected).difference(answered))
    if missing < len(asked.expected):
        return 1.0 - missing / len(asked.expected)
    return 0.5 / len(asked.expected)  # only pods that are starting answered


def why_absent(asked: Asked, readings: Iterable[Reading]) -> Absent:
    """The cause most pods give; NO_PODS where there are none. Where some pods have shown the metric and then stopped,
    it isn't a metric that doesn't exist: pods that started since have just never been seen."""
    causes = [reading for reading in readings if isinstance(reading, Absent)]
    if not causes:
        return Absent(Cause.NO_PODS, "no running pod", asked.source)
    told = [absent for absent in causes if absent.cause is not Cause.NOT_CONFIGURED]
    if not told:
        return NOT_CONFIGURED
    by_cause = Counter(absent.cause for absent in told)
    if by_cause[Cause.STALE]:
        del by_cause[Cause.NO_SUCH_METRIC]
    cause, times = by_cause.most_common(1)[0]
    detail = next(absent.detail for absent in told if absent.cause is cause)
    if len(causes) > 1:
        detail = f"{times} of {len(causes)} pods: {detail}"
    return Absent(cause, detail, asked.source)


def named(absent: Absent, asked: Asked) -> Absent:
    if absent.source or absent.cause is Cause.NOT_CONFIGURED:
        return absent
    return Absent(absent.cause, absent.detail, asked.source)
