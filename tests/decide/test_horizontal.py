"""Replicas as HPA's users expect them: rates, windows, tolerance; pods that don't come; other owners."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.decide import behavior
from autoscaler.model.plan import Plan, Resize, Scale
from autoscaler.model.policy import ScalingRules
from autoscaler.model.reason import Code
from autoscaler.model.signal import Measured
from autoscaler.model.workload import Pod, ScaleView
from tests.decide.test_consolidate import Cluster
from tests.decide.world import REF, START, Clock, ledger, pod, policy, signals

NOW = 1000.0
BUSY = {"work": 0.18, "throttled": 0.5, "misses": 0.2}


def rules(**written: Any) -> ScalingRules:
    return ScalingRules.model_validate(written)


def pods(kind: str, value: int, seconds: int = 60) -> dict[str, Any]:
    return {"type": kind, "value": value, "periodSeconds": seconds}


class TestRates:
    """HPA's arithmetic, by its documentation's examples."""

    @pytest.mark.parametrize(("replicas", "allowed"), [(1, 5), (3, 7), (4, 8), (10, 20)])
    def test_up_by_default_four_pods_or_double(self, replicas: int, allowed: int) -> None:
        assert behavior.most(rules(), NOW, replicas, ()) == allowed

    def test_down_by_default_to_nothing(self) -> None:
        assert behavior.least(rules(), NOW, 80, ()) == 0

    @pytest.mark.parametrize(("replicas", "allowed"), [(80, 72), (10, 6), (40, 36)])
    def test_the_larger_change_of_two_policies(self, replicas: int, allowed: int) -> None:
        both = rules(policies=[pods("Pods", 4), pods("Percent", 10)])
        assert behavior.least(both, NOW, replicas, ()) == allowed

    def test_the_smaller_change_where_min_is_selected(self) -> None:
        both = rules(policies=[pods("Pods", 4), pods("Percent", 10)], selectPolicy="Min")
        assert behavior.least(both, NOW, 80, ()) == 76
        assert behavior.most(rules(selectPolicy="Min"), NOW, 10, ()) == 14

    def test_disabled_is_no_change(self) -> None:
        assert behavior.most(rules(selectPolicy="Disabled"), NOW, 3, ()) == 3
        assert behavior.least(rules(selectPolicy="Disabled"), NOW, 3, ()) == 3

    def test_changes_within_the_period_count(self) -> None:
        two = rules(policies=[pods("Pods", 2, 60)])
        assert behavior.most(two, NOW, 5, ((NOW - 30, 2),)) == 5
        assert behavior.most(two, NOW, 5, ((NOW - 61, 2),)) == 7
        assert behavior.least(two, NOW, 5, ((NOW - 30, -1),)) == 4
        assert behavior.least(two, NOW, 5, ((NOW - 30, -2),)) == 5

    @given(
        st.integers(0, 500), st.lists(st.tuples(st.floats(0, NOW), st.integers(-20, 20)), max_size=8),
        st.sampled_from(["Max", "Min", "Disabled"]),
        st.lists(st.tuples(st.sampled_from(["Pods", "Percent"]), st.integers(1, 300), st.integers(1, 1800)),
                 min_size=1, max_size=3),
    )  # fmt: skip
    @settings(max_examples=200, deadline=None)
    def test_never_past_the_present_number(self, replicas: int, changes: Any, select: str, chosen: Any) -> None:
        some = rules(selectPolicy=select, policies=[pods(*one) for one in chosen])
        changes = tuple(sorted(changes))
        assert behavior.most(some, NOW, replicas, changes) >= replicas
        assert 0 <= behavior.least(some, NOW, replicas, changes) <= replicas


def world(count: int = 2, **horizontal: Any) -> Cluster:
    spec = policy(
        objective={"latency": {"target": "2s", "within": "99%"}},
        vertical={"cpu": {"min": "100m", "max": "1"}},
        horizontal={"minReplicas": 1, "maxReplicas": 20, **horizontal},
    )
    made = [pod(f"p{n}", 1000, created_at=START - 600 - n) for n in range(count)]
    return Cluster(spec, *made, room=ledger(cpu=64_000, committed=2000))


def scales(plan: Plan) -> list[tuple[int, int]]:
    return [(one.before, one.after) for one in plan.actions if isinstance(one, Scale)]


def code(plan: Plan, wanted: Code) -> Any:
    return next((hold.numbers for hold in plan.holds if hold.code is wanted), None)


def test_more_than_size_can_give_becomes_replicas_at_once_but_not_faster_than_allowed() -> None:
    cluster = world(2)
    cluster.run(60, signals(5.0))
    while cluster.replicas == 2:
        plan = cluster.tick(signals(60.0))
    assert cluster.replicas == 6  # two and four more
    held = [one for _, p in cluster.changes for one in p.holds if one.code is Code.RATE_LIMITED] + [
        hold for hold in plan.holds if hold.code is Code.RATE_LIMITED
    ]
    assert held
    assert held[0].numbers["allowed"] == 6
    assert held[0].numbers["wanted"] > 6
    cluster.run(20, signals(60.0))
    assert 6 < cluster.replicas <= 12  # at most doubled


def test_the_same_number_is_not_asked_for_twice_in_one_tick() -> None:
    cluster = world(2, maxReplicas=4)
    cluster.every = 0.5
    stale = ScaleView(2, 2, "7", template_hash="t1")
    cluster.run(60, signals(5.0), scale=stale)
    while not scales(cluster.tick(signals(60.0), scale=stale)):
        assert cluster.now < START + 300
    assert not scales(cluster.tick(signals(60.0), scale=stale))
    assert scales(cluster.tick(signals(60.0), scale=stale))
    assert cluster.plan.want is not None
    assert cluster.plan.want.replicas == 4


def test_a_window_for_scale_out_waits_for_the_smallest_wish_in_it() -> None:
    cluster = world(2, behavior={"scaleUp": {"stabilizationWindowSeconds": 60}})
    plan = cluster.run(50, signals(60.0, **BUSY))
    assert cluster.replicas == 2
    assert code(plan, Code.REPLICAS_STABILIZING)["wanted"] > 2
    cluster.run(20, signals(60.0, **BUSY))
    assert cluster.replicas > 2


def test_disabled_directions_stay() -> None:
    up = world(2, behavior={"scaleUp": {"selectPolicy": "Disabled"}})
    plan = up.run(60, signals(60.0, **BUSY))
    assert up.replicas == 2
    assert code(plan, Code.RATE_LIMITED)["allowed"] == 2
    down = world(4, behavior={"scaleDown": {"selectPolicy": "Disabled", "stabilizationWindowSeconds": 0}})
    plan = down.run(300, signals(1.0))
    assert down.replicas == 4
    assert code(plan, Code.RATE_LIMITED)["allowed"] == 4


def test_the_window_for_scale_in_is_five_minutes_by_default() -> None:
    cluster = world(4)
    plan = cluster.run(290, signals(1.0))
    assert cluster.replicas == 4
    assert code(plan, Code.REPLICAS_STABILIZING)["have"] == 4
    cluster.run(120, signals(1.0))  # the first minute only learns
    assert cluster.replicas < 4


def test_below_the_minimum_is_raised_and_above_the_maximum_lowered() -> None:
    low, high = world(2, minReplicas=3), world(4, maxReplicas=3, minReplicas=3)
    low.run(5, signals(1.0))
    assert low.replicas == 3
    high.run(600, signals(1.0))
    assert high.replicas == 3


class TestOwners:
    def test_another_controller_is_left_alone(self) -> None:
        cluster = world(2)
        owned = ScaleView(2, 2, "7", template_hash="t1", other_owner="hpa/h")
        plan = cluster.run(60, signals(60.0, **BUSY), scale=owned)
        assert cluster.replicas == 2
        assert code(plan, Code.OTHER_OWNER) == {"owner": "hpa/h"}

    def test_a_persons_number_is_kept_for_a_while(self) -> None:
        cluster = world(2, keepManualSeconds=400)
        busy = signals(60.0, **BUSY)
        cluster.run(30, signals(1.0))
        plan = cluster.tick(busy, scale=ScaleView(5, 5, "8", template_hash="t1", scaled_by="kubectl-scale"))
        assert not scales(plan)
        assert code(plan, Code.OTHER_OWNER)["owner"].startswith("kubectl-scale")
        cluster.replicas = 5
        cluster.run(370, busy)
        assert cluster.replicas == 5
        cluster.run(60, busy)
        assert cluster.replicas > 5

    @pytest.mark.parametrize("fast", [True, False])
    def test_who_puts_the_replicas_back_again_and_again_is_their_owner(self, fast: bool) -> None:
        cluster = world(2, maxReplicas=4)
        busy = signals(60.0, **BUSY)
        when = []
        while cluster.now < START + 3 * 3600:
            plan = cluster.tick(busy)
            if scales(plan):
                when.append(cluster.now)
                if not fast:
                    cluster.tick(busy)  # it was seen
                cluster.replicas, cluster.pods = 2, cluster.pods[:2]
                hand = ScaleView(2, 2, "9", template_hash="t1", scaled_by="operator", scaled_at=cluster.now)
                cluster.tick(busy, scale=hand)
        # Not every ten minutes for ever: three times, then an hour of peace, then once more.
        assert 4 <= len(when) <= 6
        assert when[3] - when[2] > 3000

    def test_our_own_change_is_not_taken_for_somebody_elses(self) -> None:
        cluster = world(2)
        for _ in range(120):
            plan = cluster.tick(signals(60.0, **BUSY))
            assert code(plan, Code.OTHER_OWNER) is None
        assert not cluster.history[REF].replicas.put_back

    def test_a_change_that_is_seen_late_is_still_ours(self) -> None:
        cluster = world(2)
        busy = signals(60.0, **BUSY)
        assert scales(cluster.tick(busy))
        stale = ScaleView(2, 2, "7", template_hash="t1")
        for _ in range(6):
            assert code(cluster.tick(busy, scale=stale), Code.OTHER_OWNER) is None
        assert code(cluster.tick(busy), Code.OTHER_OWNER) is None


class TestAccelerated:
    """Pods with a GPU: by what is in flight, learned, not by their CPU."""

    def gpus(self, count: int) -> Cluster:
        cluster = world(count, behavior={"scaleDown": {"stabilizationWindowSeconds": 30}})
        cluster.pods = [self.gpu(one) for one in cluster.pods]
        return cluster

    @staticmethod
    def gpu(one: Pod) -> Pod:
        return replace(one, containers=(replace(one.containers[0], extended={"nvidia.com/gpu": "1"}),))

    def run(self, cluster: Cluster, seconds: float, **seen: Any) -> Plan:
        plan = Plan(REF)
        until = cluster.now + seconds
        while cluster.now < until:
            plan = cluster.tick(signals(20.0, work=0.001, **seen))
            cluster.pods = [self.gpu(one) for one in cluster.pods]
        return plan

    def test_a_queue_and_misses_ask_for_pods_not_for_cores(self) -> None:
        cluster = self.gpus(2)
        self.run(cluster, 60, in_flight=8.0)
        cores = cluster.cpu
        self.run(cluster, 5, in_flight=40.0, misses=0.3)
        assert cluster.replicas == 4
        scaled = next(one for one in cluster.scales())
        assert scaled.reason.code is Code.METRIC_TARGET
        assert not [one for _, plan in cluster.changes for one in plan.actions if isinstance(one, Resize)]
        assert cluster.cpu >= cores

    def test_late_requests_without_a_queue_buy_nothing(self) -> None:
        cluster = self.gpus(2)
        plan = self.run(cluster, 60, in_flight=1.0, misses=0.3)
        assert cluster.replicas == 2
        assert "would not help" in code(plan, Code.HELD)["why"]

    def test_throttling_is_answered_with_cpu(self) -> None:
        cluster = self.gpus(2)
        self.run(cluster, 10, in_flight=1.0)
        cluster.policy = policy(vertical={"cpu": {"min": "100m", "max": "4"}}, horizontal={"maxReplicas": 2})
        self.run(cluster, 30, in_flight=1.0, throttled=0.4)
        assert cluster.cpu > 2000
        assert cluster.replicas == 2

    def test_fewer_pods_when_so_much_in_each_was_carried(self) -> None:
        cluster = self.gpus(4)
        self.run(cluster, 120, in_flight=32.0)
        assert cluster.replicas == 4
        self.run(cluster, 300, in_flight=10.0)
        assert cluster.replicas == 2  # eight in each were carried
        self.run(cluster, 600, in_flight=10.0)
        assert cluster.replicas == 2


def late(name: str, since: float, **more: Any) -> Pod:
    waiting = more.pop("waiting", "")
    one = pod(name, 1000, ready=False, created_at=since, **more)
    return replace(one, containers=(replace(one.containers[0], waiting_reason=waiting),))


class TestNotComing:
    busy = signals(14.0)

    def asked(self) -> Cluster:
        """Two pods that started in 30 s, and more that were just asked for."""
        cluster = world(2)
        cluster.run(60, signals(5.0))
        while not scales(cluster.tick(self.busy)):
            assert cluster.now < START + 200
        return cluster

    def test_what_starts_counts(self) -> None:
        cluster = self.asked()
        asked = cluster.replicas
        cluster.pods = cluster.pods[:2] + [late(f"n{n}", cluster.now) for n in range(asked - 2)]
        cluster.run(30, self.busy)
        assert cluster.replicas == asked

    def test_what_does_not_come_is_said_and_replaced(self) -> None:
        cluster = self.asked()
        asked = cluster.replicas
        stuck = [late(f"n{n}", cluster.now, waiting="ImagePullBackOff") for n in range(asked - 2)]
        cluster.pods = cluster.pods[:2] + stuck
        plan = cluster.run(50, self.busy)
        assert cluster.replicas == asked
        assert code(plan, Code.NOT_COMING) is None
        plan = cluster.run(30, self.busy)
        assert code(plan, Code.NOT_COMING)["pods"] == asked - 2
        assert "ImagePullBackOff" in code(plan, Code.NOT_COMING)["why"]
        assert cluster.replicas > asked

    def test_where_nothing_can_be_scheduled_no_more_are_asked_for(self) -> None:
        cluster = self.asked()
        asked = cluster.replicas
        cluster.pods = cluster.pods[:2] + [
            late(f"n{n}", cluster.now, node="", unschedulable=True) for n in range(asked - 2)
        ]
        plan = cluster.run(120, self.busy)
        assert cluster.replicas == asked
        assert "scheduled" in code(plan, Code.NOT_COMING)["why"]

    def test_the_start_up_time_is_learned_from_the_pods(self) -> None:
        cluster = world(2)
        cluster.tick(signals(1.0))
        assert cluster.history[REF].replicas.start_up == pytest.approx(30.0)
        cluster.pods[0] = pod("slow", created_at=cluster.now - 50, ready_at=cluster.now - 1)
        cluster.tick(signals(1.0))
        assert 30.0 < cluster.history[REF].replicas.start_up < 50.0


def test_running_pods_keep_their_burst_while_others_start_then_sizes_settle() -> None:
    cluster = world(2)
    cluster.policy = policy(
        objective={"latency": {"target": "2s", "within": "99%"}},
        vertical={"cpu": {"min": "100m", "max": "2"}, "behavior": {"shrink": {"stabilizationWindowSeconds": 5}}},
        horizontal={"minReplicas": 1, "maxReplicas": 20},
    )
    for number in range(24):
        Clock.tick(cluster, signals(5.0 if number < 12 else 40.0, work=0.18))
    asked, size = cluster.replicas, cluster.pods[0].containers[0].desired.cpu
    assert asked > 4
    cluster.pods += [late(f"n{n}", cluster.now) for n in range(asked - 2)]
    for _ in range(4):
        plan = Clock.tick(cluster, signals(8.0))
        running = {one.uid for one in cluster.pods[:2]}
        assert not [one for one in plan.actions if isinstance(one, Resize) and one.pod.uid in running]
    assert cluster.pods[0].containers[0].desired.cpu == size
    cluster.pods[2:] = [pod(f"n{n}", 2000, created_at=cluster.now - 40, ready_at=cluster.now) for n in range(asked - 2)]
    reasons = set()
    for _ in range(24):
        reasons |= {one.reason.code for one in Clock.tick(cluster, signals(34.0)).actions}
    assert Code.SETTLE in reasons


@given(
    rate=st.floats(0.5, 60.0), count=st.integers(1, 8), work=st.floats(0.02, 0.4), biggest=st.sampled_from([1, 2, 8])
)
@settings(max_examples=40, deadline=None)
def test_constant_load_comes_to_rest(rate: float, count: int, work: float, biggest: int) -> None:
    cluster = world(count)
    cluster.policy = policy(
        objective={"latency": {"target": "2s", "within": "99%"}},
        vertical={"cpu": {"min": "100m", "max": str(biggest)}},
        horizontal={"minReplicas": 1, "maxReplicas": 12},
    )
    cluster.run(2 * 3600, signals(rate, work=work, in_flight=min(2.0, rate)))
    numbers = [before for _, plan in cluster.changes for before, _ in scales(plan)] + [cluster.replicas]
    steps = [then - was for was, then in itertools.pairwise(numbers)]
    # Up while the load is new, then down as far as it goes: what was taken away is never asked for again.
    turns = sum(first * second < 0 for first, second in itertools.pairwise(steps))
    assert turns == 0 or (turns == 1 and steps[0] > 0), numbers


@given(
    rates=st.lists(st.floats(0.0, 80.0), min_size=3, max_size=8), least=st.integers(1, 3), most=st.integers(3, 12),
    gaps=st.sets(st.integers(0, 7)),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_bounds_hold_and_missing_data_takes_nothing(rates: list[float], least: int, most: int, gaps: set[int]) -> None:
    cluster = world(3, minReplicas=least, maxReplicas=most, behavior={"scaleDown": {"stabilizationWindowSeconds": 20}})
    for number, rate in enumerate(rates):
        seen = signals(rate, work=0.1)
        if number in gaps:
            seen = replace(seen, misses=Measured(0.0, age_s=300.0))
        before = cluster.replicas
        for _ in range(30):
            plan = cluster.tick(seen)
            for was, then in scales(plan):
                assert least <= then <= most
                assert then >= was - 1
        if number in gaps:
            assert cluster.replicas >= before


def test_a_frozen_workload_is_left_as_it_is() -> None:
    cluster = world(4, behavior={"scaleDown": {"stabilizationWindowSeconds": 0}})
    rolling = ScaleView(4, 4, "7", template_hash="t2", rollout=True)
    assert not cluster.run(300, signals(1.0), scale=rolling).actions
    off = ScaleView(0, 0, "7", template_hash="t1")
    plan = cluster.run(300, signals(1.0), scale=off)
    assert not plan.actions
    assert plan.reason is not None
    assert plan.reason.code is Code.SCALED_TO_ZERO
