"""How a request gets faster on more cores: learned from what is seen, used for what is not."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.decide import serial, staffing
from autoscaler.decide.serial import Curve, Point
from autoscaler.model.reason import Code
from autoscaler.model.signal import Measured
from tests.decide.world import Clock, pod, policy, signals

ONE_THREAD: Curve = ()
shares = st.floats(0.0, 0.85)
sizes = st.floats(1.5, 32.0)


def amdahl(work: float, share: float, cores: float, threads: float = 1000.0) -> float:
    return work / cores if cores <= 1.0 else work * (share + (1.0 - share) / min(cores, threads))


def seen(*cores: float, share: float, work: float = 0.4, threads: float = 1000.0) -> Curve:
    known: tuple[Point, ...] = ()
    for each in cores:
        for _ in range(10):
            known = serial.learn(known, work, amdahl(work, share, each, threads), each, 0.1)
    return serial.curve(known)


@given(shares, st.floats(2.0, 32.0), st.floats(1.0, 64.0))
def test_one_size_tells_all_others(share: float, at: float, asked: float) -> None:
    curve = seen(at, share=share)
    if not curve:
        assert amdahl(1.0, share, at) > serial.ALL * 0.99
        return
    assert serial.slowness(asked, curve) == pytest.approx(amdahl(1.0, share, asked), rel=1e-3, abs=1e-3)
    assert serial.least(curve) == pytest.approx(share, abs=1e-3)


@given(shares, st.lists(sizes, min_size=1, max_size=5), st.floats(1.0, 16.0))
def test_more_cores_are_never_slower_and_the_way_back_is_the_same(
    share: float, found: list[float], threads: float
) -> None:
    curve = seen(*found, share=share, threads=threads)
    times = [serial.slowness(cores / 4.0, curve) for cores in range(1, 200)]
    assert all(later <= sooner + 1e-9 for sooner, later in pairwise(times))
    assert all(time * cores / 4.0 >= 1.0 - 1e-6 for cores, time in zip(range(1, 200), times, strict=True))
    for goal in (2.0, 1.0, 0.7, 0.4, 0.2):
        cores = serial.cores_for(goal, curve)
        assert serial.slowness(cores, curve) <= max(goal, serial.NEAR * serial.least(curve)) + 1e-6
        assert serial.slowness(0.99 * cores, curve) >= min(goal, 1.0) - 1e-6 or cores <= 1.0


def test_threads_that_run_out_are_seen_once_there_are_more_cores() -> None:
    curve = seen(4.0, 16.0, share=0.0, threads=4.0)
    assert serial.least(curve) == pytest.approx(0.25)
    assert serial.cores_for(0.3, curve) <= 4.0
    assert serial.slowness(2.0, curve) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("cores", "use", "latency"),
    [(1.0, 0.1, 0.1), (4.0, 0.7, 0.1), (4.0, 0.1, 0.0)],
    ids=["one core tells nothing", "a busy pod tells of its queue", "no latency"],
)
def test_samples_that_teach_nothing(cores: float, use: float, latency: float) -> None:
    assert serial.learn((), 0.4, latency, cores, use) == ()


def test_nothing_is_believed_of_a_single_sample() -> None:
    assert serial.curve(serial.learn((), 0.4, 0.1, 4.0, 0.0)) == ONE_THREAD


@given(shares, st.floats(0.05, 4.0), st.floats(0.01, 1.0), st.floats(0.05, 2.0))
def test_the_size_that_is_needed_meets_the_target_where_any_does(
    share: float, rho: float, work: float, target: float
) -> None:
    curve = seen(4.0, share=share)
    cores = staffing.need(rho, work, target, 0.0005, curve)
    assert cores >= rho
    fastest = work * serial.least(curve)
    if target > 2.0 * staffing.LARGE * fastest:
        assert work * serial.slowness(cores, curve) <= target


def play(share: float, target: str, size: int = 4000, seconds: float = 1800.0) -> Clock:
    """Half a request a second of 0.4 CPU-seconds, on a pod that starts with ``size`` and takes what Amdahl says."""
    wanted = policy(objective={"latency": {"target": target, "within": "99%"}}, vertical={"cpu": {"max": "16"}})
    clock = Clock(wanted, pod(cpu=size))
    limit = wanted.spec.objective.latency
    assert limit is not None
    while seconds > 0.0:
        took = amdahl(0.4, share, clock.cpu / 1000.0)
        late = 1.0 if took > limit.target else 0.0
        throttled = 0.5 if clock.cpu < 1000 else 0.0
        clock.tick(
            signals(0.5, work=0.4, in_flight=0.5 * took, misses=late, throttled=throttled, mean_latency=Measured(took))
        )
        seconds -= clock.every
    return clock


def test_a_request_on_several_threads_keeps_the_cores_it_needs() -> None:
    clock = play(share=0.0, target="150ms")
    assert amdahl(0.4, 0.0, clock.cpu / 1000.0) <= 0.15
    assert not [reason for _, plan in clock.changes if (reason := plan.reason).code is Code.BREACH], "never too small"


def test_one_on_one_thread_gets_no_cores_to_be_faster() -> None:
    assert play(share=1.0, target="600ms").cpu <= 3000, "for those that come at the same time"


def test_a_serial_part_beyond_the_target_is_told_and_not_chased() -> None:
    clock = play(share=0.6, target="200ms")
    [said] = [hold for hold in clock.plan.holds if hold.code is Code.UNREACHABLE]
    assert said.numbers["target"] == pytest.approx(0.2)
    assert 0.24 <= said.numbers["fastest"] <= 0.27
    assert clock.cpu <= 4000
