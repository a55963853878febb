"""The controllers beside ours do what their published algorithms say."""

from __future__ import annotations

import pytest

from autoscaler.simulate.controllers.base import horizontal_shapes, vertical_shapes
from autoscaler.simulate.controllers.hpa import Behavior, PodUse, Stabilizer, replicas_wanted
from autoscaler.simulate.controllers.kpa import PodScaler
from autoscaler.simulate.controllers.names import MADE, make
from autoscaler.simulate.controllers.vpa import CpuHistogram, recommend
from autoscaler.simulate.faro.rules import Counter, aiad, oneshot
from autoscaler.simulate.generate import generate
from autoscaler.simulate.scenario import Scenario


def used(*shares: float | None, unready: tuple[int, ...] = ()) -> list[PodUse]:
    return [PodUse(share, number not in unready) for number, share in enumerate(shares)]


@pytest.mark.parametrize(
    ("current", "pods", "target", "wanted"),
    [
        # The first rows are cases of Kubernetes' own replica calculator tests.
        (3, used(0.3, 0.5, 0.7), 0.3, 5),
        (3, used(0.3, 0.5, 0.7, unready=(0,)), 0.3, 4),
        (3, used(0.4, 0.5, 0.7, unready=(1, 2)), 0.3, 3),
        (5, used(0.1, 0.3, 0.5, 0.25, 0.25), 0.5, 3),
        (4, used(0.2, 0.4), 0.1, 6),  # 2 pods at thrice the target
        (2, used(0.77, 0.73), 0.7, 2),  # within the tolerance
        (4, used(0.0, 0.0, None, None), 0.7, 3),  # missing pods count in full when shrinking
        (4, used(1.0, None, None, None), 0.7, 4),  # and as idle when growing, which turns the direction here
        (3, used(None, None, None), 0.7, 3),
    ],
)
def test_hpa_wants(current: int, pods: list[PodUse], target: float, wanted: int) -> None:
    assert replicas_wanted(current, pods, target) == wanted


def test_hpa_keeps_the_highest_wish_of_five_minutes_before_it_shrinks() -> None:
    stable = Stabilizer(Behavior())
    assert stable.allow(0.0, 10, 10) == 10
    assert stable.allow(15.0, 10, 4) == 10
    assert stable.allow(300.0, 10, 3) == 10
    assert stable.allow(315.0, 10, 3) == 4  # of the wishes after the ten


def test_hpa_grows_by_four_pods_or_doubles_in_a_period() -> None:
    stable = Stabilizer(Behavior())
    assert stable.allow(0.0, 1, 100) == 5
    assert stable.allow(15.0, 5, 100) == 10
    assert stable.allow(20.0, 10, 100) == 10
    assert stable.allow(30.0, 10, 100) == 20


def test_vpa_recommends_the_ninetieth_percentile_with_margin_between_bounds_that_close() -> None:
    histogram = CpuHistogram()
    for minute in range(100):
        histogram.add(0.5 if minute < 80 else 1.0, 1.0, 60.0 * minute)
    lower, target, upper = recommend(histogram)
    assert target == pytest.approx(1.15 * 1.0, rel=0.06)
    assert lower <= 1.15 * 0.5 * 1.06
    assert upper > 5.0 * target  # after 100 minutes it knows little
    for minute in range(100, 4 * 1440):
        histogram.add(0.5, 1.0, 60.0 * minute)
    lower, target, upper = recommend(histogram)
    assert target == pytest.approx(1.15 * 0.5, rel=0.06)
    assert upper == pytest.approx(target * (1 + 1 / histogram.confidence), rel=1e-6)
    assert histogram.confidence == pytest.approx(4.0, rel=0.01)


def test_vpa_gives_more_to_what_is_recent() -> None:
    histogram = CpuHistogram()
    histogram.add(1.0, 1.0, 0.0)
    histogram.add(0.2, 1.0, 24 * 3600.0)  # weighs twice as much after a half-life
    assert histogram.percentile(0.6) < 0.25
    assert histogram.percentile(0.7) > 0.99


def test_kpa_follows_a_minutes_average_and_panics_on_six_seconds() -> None:
    scaler = PodScaler(target=7.0)
    for second in range(60):
        assert scaler.wanted(float(second), 14.0, 2) == 2
    assert scaler.wanted(60.0, 14.0, 2) == 2
    for second in range(61, 68):
        wanted = scaler.wanted(float(second), 140.0, 2)
    assert wanted == 20  # the panic window is full of it, the stable one is not
    for second in range(68, 110):
        assert scaler.wanted(float(second), 7.0, 20) == 20  # nothing goes down in panic
    for second in range(110, 240):
        wanted = scaler.wanted(float(second), 7.0, 20)
    assert wanted == 10  # by half at most


def test_faros_counter_acts_at_three_ups_or_sixty_downs_in_a_row() -> None:
    counter = Counter()
    assert [counter.poll(True) for _ in range(6)] == [0, 0, 1, 0, 0, 1]
    assert [counter.poll(True), counter.poll(True), counter.poll(False), counter.poll(True)] == [0, 0, 0, 0]
    downs = [counter.poll(False) for _ in range(120)]
    assert [place for place, due in enumerate(downs) if due] == [59, 119]


def test_faros_steps() -> None:
    assert (aiad(3, 5.0, 1), aiad(3, 0.1, -1)) == (4, 2)
    assert (oneshot(3, 1.44, 1), oneshot(10, 0.2, -1), oneshot(3, 0.1, 0)) == (6, 3, 3)


@pytest.mark.parametrize("name", ["nobody", "hpa:0", "hpa:fast", "static:-1", "vpa:3", "ours:1"])
def test_a_controller_that_makes_no_sense_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        make(name)


def test_every_controller_has_a_start_that_fits_the_node() -> None:
    scenario = Scenario((generate("steady"),) * 3, cpus=8.0)
    for name in ["ours", "ours-horizontal", *MADE]:
        shapes = make(name).shapes(scenario, [3.0, 2.0, 2.5])
        assert len(shapes) == 3
        if name != "static":
            assert sum(shape.replicas * shape.milli for shape in shapes) <= 8000, name
    with pytest.raises(ValueError, match="raise --cpus"):
        horizontal_shapes(Scenario((), cpus=2.0), [1.0, 1.0, 1.0], share=0.7)
    with pytest.raises(ValueError, match="raise --cpus"):
        vertical_shapes(Scenario((), cpus=0.2), [1.0, 1.0, 1.0])
