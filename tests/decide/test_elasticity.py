"""What pods can use: a thread pool sized at start is found out, an elastic pod and a slow dependency are not."""

from __future__ import annotations

import msgspec
import pytest

from autoscaler.decide import elasticity
from autoscaler.decide.demand import Demand
from autoscaler.decide.history import UNKNOWN, Elastic, History, Sizes
from autoscaler.decide.standing import Standing
from autoscaler.model.signal import Absent, Cause, Counts, Measured, Reading, Signals

SPACING = 15.0


def standing(pods: int, each: int) -> Standing:
    found = Standing(serving=[None] * pods, starting=[], draining=[])  # type: ignore[list-item]
    found.have = found.live = pods * each
    return found


def watch(
    past: History, *, used: list[float], rho: float, inside: list[float], each: int = 1500,
    throttled: float | None = 0.0, coverage: float = 1.0, at: float = 1000.0, breach: bool = True, template: str = "a",
) -> Elastic:  # fmt: skip
    """Samples ``SPACING`` apart, four pods."""
    if breach:  # requests have been waiting for a while
        past = msgspec.structs.replace(
            past,
            elastic=msgspec.structs.replace(
                past.elastic, waiting_since=at - 100.0, template=past.elastic.template or template
            ),
        )
    for place, (cores, waiting) in enumerate(zip(used, inside, strict=True)):
        out = Demand(rho=rho, used=cores, throttled=throttled, in_flight=waiting, breach=breach)
        cpu: Reading = Measured(cores, age_s=5.0, window_s=SPACING, coverage=coverage)
        now = at + place * SPACING
        learned = elasticity.learn(past, out, Signals(cpu=cpu), standing(4, each), template, now)
        past = msgspec.structs.replace(past, elastic=learned)
    return past.elastic


def test_cores_left_unused_while_more_and_more_wait_are_a_ceiling() -> None:
    found = watch(History(), used=[4.0, 4.0, 4.0], rho=4.5, inside=[60, 110, 160])
    assert found.ceiling == pytest.approx(1000.0)
    assert elasticity.most(found, 100) == 1100


def test_where_throttling_is_not_measured_unused_cores_speak_for_themselves() -> None:
    """CPU from the process's own page comes without throttling: cores that wait beside requests are no quota."""
    assert watch(History(), used=[4.0] * 3, rho=4.5, inside=[60, 110, 160], throttled=None).ceiling == 1000.0
    full = watch(History(), used=[5.6] * 3, rho=6.5, inside=[60, 110, 160], throttled=None)
    assert full.ceiling == UNKNOWN


def test_two_samples_are_not_enough() -> None:
    assert watch(History(), used=[4.0, 4.0], rho=4.5, inside=[60, 110]).ceiling == UNKNOWN


def test_a_slow_dependency_is_none() -> None:
    """All that arrives is answered: use is what the arrivals burn, and as many wait as before."""
    found = watch(History(), used=[1.0, 0.94, 0.94, 0.94], rho=1.0, inside=[60, 61, 59, 62])
    assert found.ceiling == UNKNOWN


def test_throttled_pods_are_short_of_quota_not_of_threads() -> None:
    found = watch(History(), used=[4.0, 4.0, 4.0], rho=4.5, inside=[60, 110, 160], throttled=0.4)
    assert found.ceiling == UNKNOWN


def test_full_pods_can_use_more() -> None:
    found = watch(History(), used=[5.6, 5.7, 5.8], rho=8.0, inside=[60, 110, 160])
    assert found.ceiling == UNKNOWN


def test_a_grow_that_changed_nothing_is_a_ceiling_and_one_that_was_used_is_none() -> None:
    before = History(sizes=Sizes(changed_at=900.0, changed_from=4000), elastic=Elastic(use=3.9, template="a"))
    idle = watch(before, used=[4.0, 4.1, 4.1], rho=4.1, inside=[60, 60, 60], each=1500)
    assert idle.ceiling == pytest.approx(4100 / 4)
    used = watch(before, used=[4.9, 4.9, 4.9], rho=4.9, inside=[60, 60, 60], each=1500)
    assert used.ceiling == UNKNOWN


def test_samples_from_before_the_change_say_nothing_of_the_new_size() -> None:
    before = History(sizes=Sizes(changed_at=1030.0, changed_from=4000), elastic=Elastic(use=3.9, template="a"))
    found = watch(before, used=[4.0, 4.0, 4.0], rho=4.5, inside=[60, 110, 160])  # the last is of 1025
    assert found.ceiling == UNKNOWN


@pytest.mark.parametrize("what", ["partial", "absent"])
def test_what_is_not_measured_teaches_nothing(what: str) -> None:
    if what == "partial":
        found = watch(History(), used=[4.0] * 3, rho=4.5, inside=[60, 110, 160], coverage=0.5)
    else:
        signals = Signals(cpu=Absent(Cause.STALE))
        found = elasticity.learn(History(), Demand(rho=4.5), signals, standing(4, 1500), "a", 1000.0)
    assert found.ceiling == UNKNOWN


def test_a_new_template_and_greater_use_forget_it() -> None:
    known = History(elastic=Elastic(ceiling=1000.0, template="a"))
    assert watch(known, used=[2.0], rho=2.0, inside=[2], template="b").ceiling == UNKNOWN
    assert watch(known, used=[2.0], rho=2.0, inside=[2]).ceiling == 1000.0
    assert watch(known, used=[5.5], rho=5.5, inside=[5]).ceiling == UNKNOWN


def test_a_sample_from_before_requests_waited_says_nothing() -> None:
    """A burst has just come: in flight is of now, the CPU sample is of a while ago."""
    out = Demand(rho=4.5, used=1.0, throttled=0.0, in_flight=200, breach=True)
    past = History(elastic=Elastic(template="a"))
    for now in (1000.0, 1015.0, 1030.0):
        cpu = Measured(1.0, age_s=12.0, window_s=SPACING)
        past = msgspec.structs.replace(
            past, elastic=elasticity.learn(past, out, Signals(cpu=cpu), standing(4, 1500), "a", now)
        )
    assert past.elastic.watch_samples == 1 and past.elastic.ceiling == UNKNOWN


def piling(
    *, each: int = 1700, answered: float = 26.0, inside: tuple[float, ...] = (33, 47, 79, 105), cores: float = 3.4,
    throttled: float = 0.0, known: Elastic | None = None, age: float = 6.0, counts: Counts = Counts.COMPLETIONS,
) -> Elastic:  # fmt: skip
    """A scrape each five seconds since requests began to wait; one CPU sample that has seen some of that time."""
    past = History(elastic=known or Elastic(template="a", most_used=1000.0))
    for place, waiting in enumerate(inside):
        out = Demand(rho=4.5, work=0.154, used=cores, throttled=throttled, in_flight=waiting, breach=True)
        cpu = Measured(cores, age_s=age, window_s=15.0)
        seen = Signals(cpu=cpu, requests=Measured(answered, window_s=5.0), counts=counts)
        learned = elasticity.learn(past, out, seen, standing(4, each), "a", 1000.0 + 5.0 * place)
        past = msgspec.structs.replace(past, elastic=learned)
    return past.elastic


def test_what_is_answered_shows_a_ceiling_before_three_cpu_samples_do() -> None:
    assert piling().ceiling == pytest.approx(26.0 * 0.154 / 4 * 1000.0)


@pytest.mark.parametrize(
    "other",
    [
        {"each": 1100},
        {"throttled": 0.3},
        {"cores": 6.2},
        {"inside": (33, 35, 34, 36)},
        {"inside": (33, 79)},
        {"age": 40.0},
        {"answered": 2.0, "cores": 0.3},
        {"counts": Counts.ARRIVALS},
    ],
    ids=[
        "answering takes all they have", "a quota is at work", "they use what they have", "nothing piles up",
        "too early", "the CPU sample is of before", "an outage: they idle", "arrivals are no answers",
    ],
)  # fmt: skip
def test_and_is_no_ceiling_where(other: dict[str, object]) -> None:
    assert piling(**other).ceiling == UNKNOWN  # type: ignore[arg-type]


def test_an_outage_is_no_ceiling_however_many_samples_say_so() -> None:
    busy = Elastic(template="a", most_used=1000.0, waiting_since=900.0)
    found = watch(History(elastic=busy), used=[0.2, 0.2, 0.2, 0.2], rho=4.5, inside=[60, 110, 160, 210])
    assert found.ceiling == UNKNOWN
