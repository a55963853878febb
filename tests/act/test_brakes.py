"""Fleet limits, the breaker, and the care that restarts need."""

from __future__ import annotations

from dataclasses import replace

from autoscaler.act.brakes import (
    RESTART_GAP_S,
    Brakes,
    FleetLimits,
    Trial,
    breaker,
    cpu_left,
    failed,
    fleet_limit,
    judge,
    may_restart,
    spend,
    verdict,
)
from autoscaler.act.record import refused
from autoscaler.model.reason import Code
from autoscaler.model.seen import Subject
from autoscaler.model.signal import Measured, Signals
from autoscaler.model.workload import ResizeRestart, ResizeState, Resources
from tests.act.made import NOW, container, pod, policy, record, view

LIMITS = FleetLimits(cpu_per_minute=4000, in_flight=2)


def test_cores_added_count_for_a_minute() -> None:
    brakes = spend(spend(Brakes(), 1500, NOW), 1000, NOW + 30)
    assert cpu_left(brakes, LIMITS, NOW + 30) == 1500
    assert cpu_left(brakes, LIMITS, NOW + 61) == 3000
    assert cpu_left(brakes, FleetLimits(), NOW) is None


def test_more_than_is_left_waits() -> None:
    brakes = spend(Brakes(), 3000, NOW)
    assert fleet_limit(brakes, LIMITS, milli=1000, in_flight=0, now=NOW) is None
    waiting = fleet_limit(brakes, LIMITS, milli=1001, in_flight=0, now=NOW)
    assert waiting is not None
    assert waiting.code is Code.FLEET_LIMIT
    assert fleet_limit(brakes, LIMITS, milli=1000, in_flight=0, now=NOW, unanswered=1) is not None


def test_too_many_in_flight_wait() -> None:
    assert fleet_limit(Brakes(), LIMITS, milli=100, in_flight=1, now=NOW) is None
    assert fleet_limit(Brakes(), LIMITS, milli=100, in_flight=2, now=NOW) is not None


def test_giving_back_never_waits() -> None:
    full = spend(Brakes(), 9000, NOW)
    assert fleet_limit(full, LIMITS, milli=-500, in_flight=99, now=NOW) is None


def ended(good: int, bad: int) -> Brakes:
    brakes = Brakes()
    for index in range(good + bad):
        brakes = judge(brakes, index >= bad, NOW + index)
    return brakes


def test_the_breaker_opens_above_a_fifth_of_fifty() -> None:
    assert breaker(ended(40, 10), NOW + 60) is None
    opened = breaker(ended(39, 11), NOW + 60)
    assert opened is not None
    assert (opened.code, opened.numbers["bad"], opened.numbers["total"]) == (Code.BREAKER, 11, 50)


def test_a_few_resizes_are_no_judgement() -> None:
    assert breaker(ended(0, 9), NOW + 20) is None
    assert breaker(ended(7, 3), NOW + 20) is not None


def test_it_closes_when_good_ones_push_the_bad_out_or_with_time() -> None:
    brakes = ended(39, 11)
    for index in range(1, 3):
        brakes = judge(brakes, True, NOW + 60 + index)
    assert breaker(brakes, NOW + 70) is None
    assert breaker(ended(0, 50), NOW + 1000) is None


def test_only_faults_count_against_resizing() -> None:
    start = record(pod(), Resources(1000, 2000))
    assert failed(replace(start, state=ResizeState.TIMED_OUT)) is True
    assert failed(replace(start, state=ResizeState.INFEASIBLE)) is True
    assert failed(refused(start, "Invalid", "", NOW)) is True
    assert failed(refused(start, "Quota", "", NOW)) is None
    assert failed(replace(start, state=ResizeState.GONE)) is None
    assert failed(replace(start, state=ResizeState.COMPLETE)) is False


def subject(misses: float) -> Subject:
    return Subject(view(pod(), signals=Signals(misses=Measured(misses))), policy())


def test_a_shrink_is_on_trial_for_a_minute() -> None:
    shrunk = record(pod(), Resources(cpu_request=300, cpu_limit=600))
    trial = Trial.of(shrunk, subject(0.001), NOW)
    assert trial is not None
    assert verdict(trial, subject(0.001), NOW + 30) is None
    assert verdict(trial, subject(0.2), NOW + 30) is False
    assert verdict(trial, subject(0.001), NOW + 60) is True
    assert verdict(trial, None, NOW + 60) is True


def test_a_growth_is_not_on_trial_nor_is_a_shrink_amid_misses() -> None:
    assert Trial.of(record(pod(), Resources(1000, 2000)), subject(0.001), NOW) is None
    assert Trial.of(record(pod(), Resources(cpu_request=300, cpu_limit=600)), subject(0.2), NOW) is None


class TestRestarts:
    ONE, TWO, THREE = (
        pod(container(cpu_restart=ResizeRestart.RESTART_CONTAINER), name=name) for name in ("a", "b", "c")
    )

    def test_one_at_a_time(self) -> None:
        seen = view(self.ONE, self.TWO, self.THREE)
        assert may_restart(self.ONE, seen, (), max_unavailable=1, now=NOW) is None
        other = record(self.TWO, Resources(1000, 2000))
        assert may_restart(self.ONE, seen, (other,), max_unavailable=1, now=NOW) is not None
        assert may_restart(self.ONE, seen, (other,), max_unavailable=2, now=NOW) is None
        assert may_restart(self.ONE, seen, (), max_unavailable=1, now=NOW, restarting={self.TWO.uid}) is not None

    def test_a_pod_that_is_away_counts(self) -> None:
        seen = view(self.ONE, replace(self.TWO, ready=False), self.THREE)
        assert may_restart(self.ONE, seen, (), max_unavailable=1, now=NOW) is not None

    def test_restarting_a_pod_that_is_away_makes_it_no_worse(self) -> None:
        away = replace(self.ONE, ready=False)
        assert may_restart(away, view(away, self.TWO), (), max_unavailable=1, now=NOW) is None

    def test_within_the_disruption_budget(self) -> None:
        seen = view(self.ONE, self.TWO, self.THREE, pdb_min_available=3)
        assert may_restart(self.ONE, seen, (), max_unavailable=1, now=NOW) is not None
        assert may_restart(self.ONE, replace(seen, pdb_min_available=2), (), max_unavailable=1, now=NOW) is None

    def test_twelve_seconds_before_the_next_on_the_same_pod(self) -> None:
        """Closer together they count as crashes: the 4th, 6th and 8th wait 12, 25 and 50 s."""
        seen = view(self.ONE, self.TWO)
        last = replace(record(self.ONE, Resources(1000, 2000)), state=ResizeState.COMPLETE, state_at=NOW + 1)
        assert may_restart(self.ONE, seen, (last,), max_unavailable=1, now=NOW + 5) is not None
        assert may_restart(self.ONE, seen, (last,), max_unavailable=1, now=NOW + 1 + RESTART_GAP_S) is None
        assert may_restart(self.TWO, seen, (last,), max_unavailable=1, now=NOW + 5) is None
