"""Memory: grows on the working set and OOM, never on page cache; taken back only where allowed, safe, step by step."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.decide.history import compact, restore
from autoscaler.decide.memory_shrink import FRESH, MARGIN
from autoscaler.decide.memory_size import PROOF
from autoscaler.model.plan import Evict, LimitRangeView, Plan, Resize, Scale
from autoscaler.model.reason import Code
from autoscaler.model.signal import Absent, Cause, Measured, PodSignals
from autoscaler.model.workload import Attempt, Pod, Qos, ResizeState, Resources, ScaleView
from tests.decide.world import GI, START, Clock, ledger, pod, policy, signals

MI = 2**20


def spec(**changes: Any) -> Any:
    bounds = {"min": "512Mi", "max": "8Gi", **changes}
    return policy(vertical={"cpu": {"min": "100m", "max": "8"}, "memory": bounds})


def using(*pods: Pod, working_set: float, usage: float | None = None, age: float = 2.0) -> dict[str, PodSignals]:
    used = working_set if usage is None else usage
    return {
        one.uid: PodSignals(working_set=Measured(working_set, age_s=age), memory_usage=Measured(used, age_s=age))
        for one in pods
    }


def memory_of(plan: Plan) -> list[tuple[str, int]]:
    return [
        (one.pod.name, one.after.memory_limit)
        for one in plan.actions
        if isinstance(one, Resize) and one.after.memory_limit is not None
    ]


def tick(clock: Clock, **used: Any) -> Plan:
    return clock.tick(signals(pods=using(*clock.pods, **used)))


def test_a_working_set_that_eats_the_head_room_grows_before_it_is_killed() -> None:
    clock = Clock(spec(), pod(memory=2 * GI))
    assert memory_of(tick(clock, working_set=1.7 * GI)) == []
    plan = tick(clock, working_set=1.9 * GI)
    ((_, limit),) = memory_of(plan)
    assert 1.9 * GI * 1.2 <= limit <= 1.9 * GI * 1.2 + 1 * MI
    (action,) = [one for one in plan.actions if isinstance(one, Resize)]
    assert action.reason.code is Code.MEMORY_GROW
    assert action.after.cpu_limit is None, "alone in its patch"


def test_page_cache_grows_nothing() -> None:
    clock = Clock(spec(), pod(memory=2 * GI))
    assert memory_of(tick(clock, working_set=0.5 * GI, usage=1.99 * GI)) == []


def test_a_leak_stops_at_the_maximum_and_is_told() -> None:
    clock = Clock(spec(max="3Gi"), pod(memory=2 * GI))
    held = []
    for step in range(40):
        plan = tick(clock, working_set=min(2.9 * GI, (1.5 + 0.1 * step) * GI))
        held += [hold for hold in plan.holds if hold.code is Code.LEAK]
    assert clock.pods[0].containers[0].desired.memory_limit == 3 * GI
    assert held and held[-1].numbers["limit"] == 3 * GI


def killed(clock: Clock, place: int, at: float) -> None:
    one = clock.pods[place]
    clock.pods[place] = replace(one, containers=(replace(one.containers[0], oom_at=at),))


def test_an_oom_kill_raises_all_pods_and_stays_the_floor() -> None:
    clock = Clock(spec(shrink="WhenSafe"), pod("a", memory=2 * GI), pod("b", memory=2 * GI))
    tick(clock, working_set=1.0 * GI)
    killed(clock, 0, clock.now - 1.0)
    plans = [tick(clock, working_set=1.0 * GI), tick(clock, working_set=1.0 * GI)]
    raised = [one for plan in plans for one in memory_of(plan)]
    assert {name for name, _ in raised} == {"a", "b"}
    assert {limit for _, limit in raised} == {-(-int(2 * GI * 1.2) // (1 * MI)) * 1 * MI}
    assert all(one.reason.code is Code.OOM for plan in plans for one in plan.actions if isinstance(one, Resize))
    for _ in range(200):
        assert memory_of(tick(clock, working_set=0.3 * GI)) == [], "what was killed for want of memory keeps it"


def test_a_pod_that_crashes_on_is_recreated() -> None:
    clock = Clock(spec(), pod("a", memory=2 * GI), pod("b", memory=2 * GI))
    tick(clock, working_set=1.0 * GI)
    killed(clock, 0, clock.now - 1.0)
    tick(clock, working_set=1.0 * GI)
    one = clock.pods[0]
    crashing = replace(one.containers[0], running=False, ready=False, waiting_reason="CrashLoopBackOff")
    clock.pods[0] = replace(one, ready=False, containers=(crashing,))
    evicted = []
    for _ in range(24):
        plan = tick(clock, working_set=1.0 * GI)
        evicted += [clock.now for action in plan.actions if isinstance(action, Evict) and action.pod.name == "a"]
    assert evicted
    assert all(later - first >= PROOF for first, later in itertools.pairwise(evicted))


def test_never_is_the_default_and_takes_nothing() -> None:
    clock = Clock(spec(), pod(memory=8 * GI))
    for _ in range(100):
        assert memory_of(tick(clock, working_set=0.5 * GI)) == []


def test_a_shrink_goes_step_by_step_one_pod_at_a_time() -> None:
    clock = Clock(spec(shrink="WhenSafe"), pod("a", memory=4 * GI), pod("b", memory=4 * GI))
    seen: list[tuple[float, str, int]] = []
    for _ in range(400):
        at = clock.now
        seen += [(at, *one) for one in memory_of(tick(clock, working_set=1.0 * GI))]
    assert seen, "it is allowed"
    assert all(later[0] - first[0] >= PROOF or later[0] == first[0] for first, later in itertools.pairwise(seen))
    sizes = {"a": 4 * GI, "b": 4 * GI}
    for _, name, limit in seen:
        assert 0.89 * sizes[name] <= limit < sizes[name]
        sizes[name] = limit
    assert max(sizes.values()) <= 1.4 * GI
    assert min(sizes.values()) >= 1.2 * GI


@pytest.mark.parametrize(
    ("used", "code"),
    [
        ({"working_set": 1.0 * GI, "usage": 3.9 * GI}, Code.MEMORY_UNSAFE),
        ({"working_set": 1.0 * GI, "age": 25.0}, Code.STALE),
    ],
)
def test_what_is_not_safe_is_refused_with_its_numbers(used: dict[str, float], code: Code) -> None:
    clock = Clock(spec(shrink="WhenSafe"), pod(memory=4 * GI))
    holds = []
    for _ in range(40):
        plan = tick(clock, **used)
        assert memory_of(plan) == []
        holds += [hold for hold in plan.holds if hold.code is code]
    assert holds
    if code is Code.MEMORY_UNSAFE:
        assert holds[-1].numbers["usage"] == 3.9 * GI
        assert {"wanted", "age", "margin"} <= set(holds[-1].numbers)
        assert "?" not in holds[-1].text


def test_a_guaranteed_pod_moves_both_sides_and_a_burstable_one_keeps_its_share() -> None:
    for qos, request in ((Qos.GUARANTEED, 2 * GI), (Qos.BURSTABLE, GI)):
        one = pod(cpu=4000, memory=2 * GI, qos=qos)
        sizes = replace(one.containers[0].desired, memory_request=request)
        one = replace(one, containers=(replace(one.containers[0], desired=sizes),))
        clock = Clock(spec(), one)
        clock.every = 1.0
        plan = tick(clock, working_set=1.9 * GI)
        (after,) = [action.after for action in plan.actions if isinstance(action, Resize)]
        assert after.memory_limit is not None and after.memory_request is not None
        assert after.memory_request == pytest.approx(after.memory_limit * request / (2 * GI), abs=MI)


@given(
    limit=st.integers(600, 8192), working_set=st.integers(1, 8192), cache=st.integers(0, 4096),
    age=st.floats(0.0, 60.0), absent=st.booleans(),
)  # fmt: skip
def test_no_shrink_ever_goes_below_usage_and_margin(
    limit: int, working_set: int, cache: int, age: float, absent: bool
) -> None:
    clock = Clock(spec(shrink="WhenSafe"), pod(memory=limit * MI))
    usage = float((working_set + cache) * MI)
    for _ in range(16):
        seen = using(*clock.pods, working_set=float(working_set * MI), usage=usage, age=age)
        if absent:
            seen = {uid: PodSignals(working_set=Absent(Cause.STALE), memory_usage=Absent(Cause.STALE)) for uid in seen}
        before = clock.pods[0].containers[0].desired.memory_limit or 0
        for _, wanted in memory_of(clock.tick(signals(pods=seen))):
            assert 512 * MI <= wanted <= 8 * GI
            if wanted < before:
                assert not absent and age <= FRESH
                assert wanted >= usage + MARGIN
    assert clock.now > START


def test_a_new_pod_that_starts_slowly_at_the_raised_floor_is_left_to_start() -> None:
    clock = Clock(spec(), pod("a", memory=2 * GI), pod("b", memory=2 * GI))
    tick(clock, working_set=1.0 * GI)
    killed(clock, 0, clock.now - 1.0)
    tick(clock, working_set=1.0 * GI)
    clock.pods.append(pod("c", memory=2 * GI, ready=False, created_at=clock.now))
    plans = [tick(clock, working_set=1.0 * GI) for _ in range(36)]
    limits = {one.containers[0].desired.memory_limit for one in clock.pods}
    assert len(limits) == 1, "it is born with too little, as the others were"
    assert not [action for plan in plans for action in plan.actions if isinstance(action, Evict)]


def shrunk(*pods: Pod) -> Clock:
    """Four GiB for a working set of one: the first pod has just been given less."""
    clock = Clock(spec(shrink="WhenSafe"), *(pods or (pod("a", memory=4 * GI), pod("b", memory=4 * GI))))
    for _ in range(40):
        if memory_of(tick(clock, working_set=1.0 * GI)):
            break
    assert sizes(clock) == {"a": -(-int(3.6 * GI) // MI) * MI, "b": 4 * GI}
    return clock


def sizes(clock: Clock) -> dict[str, int]:
    return {one.name: one.containers[0].desired.memory_limit or 0 for one in clock.pods}


def changed(clock: Clock, place: int, **more: Any) -> None:
    one = clock.pods[place]
    clock.pods[place] = replace(one, containers=(replace(one.containers[0], **more),))


def restarted(clock: Clock) -> None:
    changed(clock, 0, started_at=clock.now - 1.0, restart_count=1)


def oom(clock: Clock) -> None:
    changed(clock, 0, started_at=clock.now - 1.0, restart_count=1, oom_at=clock.now - 2.0)


def missed(clock: Clock) -> None:
    clock.tick(signals(pods=using(*clock.pods, working_set=1.0 * GI), misses=0.6))


@pytest.mark.parametrize("harm", [restarted, oom, missed])
def test_harm_after_a_canary_shrink_undoes_it_and_bars_the_next(harm: Any) -> None:
    clock = shrunk()
    clock.now += 10.0
    harm(clock)
    for _ in range(3):
        tick(clock, working_set=1.0 * GI)
    assert min(sizes(clock).values()) >= 4 * GI
    if harm is not oom:
        said = [one.reason for _, plan in clock.changes for one in plan.actions if isinstance(one, Resize)]
        (undo,) = [reason for reason in said if reason.code is Code.MEMORY_UNDO]
        assert "restarted" in undo.text or "objective is missed" in undo.text
    undone = clock.now
    held = set()
    while clock.now < undone + 850.0:
        plan = tick(clock, working_set=1.0 * GI)
        assert memory_of(plan) == []
        held |= {hold.code for hold in plan.holds}
    assert Code.BARRED in held or harm is oom, "after an OOM the floor is above all this"
    seen = [memory_of(tick(clock, working_set=1.0 * GI)) for _ in range(60)]
    assert any(seen) is (harm is not oom), "it is tried again later, but never below what killed"


def test_a_breach_that_more_load_brings_does_not_undo_it() -> None:
    clock = shrunk()
    clock.now += 10.0
    clock.tick(signals(40.0, pods=using(*clock.pods, working_set=1.0 * GI), misses=0.6, throttled=0.4))
    tick(clock, working_set=1.0 * GI)
    assert sizes(clock)["a"] < 4 * GI


@pytest.mark.parametrize("ours", [True, False])
def test_a_canary_of_an_earlier_process_is_found_again(ours: bool) -> None:
    clock = shrunk()
    if ours:
        clock.pods[0] = replace(clock.pods[0], resized_by="inference-autoscaler", resized_at=clock.now - 5.0)
    began = clock.now
    clock.history = {}
    tick(clock, working_set=1.0 * GI)
    if ours:
        restarted(clock)
        for _ in range(3):
            tick(clock, working_set=1.0 * GI)
        assert sizes(clock) == {"a": 4 * GI, "b": 4 * GI}
        return
    while clock.now < began + PROOF:
        assert memory_of(tick(clock, working_set=1.0 * GI)) == [], "it stands on trial first"
    for _ in range(4):
        tick(clock, working_set=1.0 * GI)
    first = sizes(clock)["a"]
    assert sizes(clock) == {"a": first, "b": first}, "its peer follows it before it goes on"


def test_what_is_learned_over_a_restart_knows_the_canary_and_the_bar() -> None:
    clock = shrunk()
    kept = restore(compact(clock.history[clock.policy.ref])).peaks
    assert kept.canary == "uid-a"
    assert kept.shrunk_at == pytest.approx(clock.now - clock.every)
    clock.history = {clock.policy.ref: restore(compact(clock.history[clock.policy.ref]))}
    tick(clock, working_set=1.0 * GI)
    restarted(clock)
    tick(clock, working_set=1.0 * GI)
    tick(clock, working_set=1.0 * GI)
    assert min(sizes(clock).values()) == 4 * GI
    assert restore(compact(clock.history[clock.policy.ref])).peaks.barred_until > clock.now + 850.0


def test_a_second_kill_soon_after_the_growth_recreates_and_then_spreads_instead_of_growing_on() -> None:
    more = {"horizontal": {"minReplicas": 2, "maxReplicas": 4}}
    bounds = {"cpu": {"min": "100m", "max": "8"}, "memory": {"min": "512Mi", "max": "64Gi"}}
    clock = Clock(policy(vertical=bounds, **more), pod("a", memory=2 * GI), pod("b", memory=2 * GI))
    tick(clock, working_set=1.0 * GI)
    killed(clock, 0, clock.now - 1.0)
    tick(clock, working_set=1.0 * GI)
    grown = sizes(clock)["a"]
    assert grown > 2 * GI
    evicted = []
    for step in range(60):
        if step % 4 == 0:  # a kill each twenty seconds, whatever it gets
            killed(clock, 0, clock.now - 1.0)
        plan = tick(clock, working_set=1.0 * GI)
        evicted += [(clock.now, one) for one in plan.actions if isinstance(one, Evict)]
    assert sizes(clock)["a"] == grown, "no growth without end"
    assert "was OOMKilled again" in evicted[0][1].reason.text
    assert all(later - first >= PROOF for (first, _), (later, _) in itertools.pairwise(evicted))
    assert clock.replicas == 3, "where it can't be recreated one more takes part of the load, once"
    scaled = [one for _, plan in clock.changes for one in plan.actions if isinstance(one, Scale)]
    assert [one.reason.code for one in scaled] == [Code.SPREAD]


def test_a_pod_that_was_helped_grows_at_a_later_kill_again() -> None:
    clock = Clock(spec(), pod("a", memory=2 * GI))
    tick(clock, working_set=1.0 * GI)
    for at in (1.0, 2.0):
        before = sizes(clock)["a"]
        killed(clock, 0, clock.now - at)
        for _ in range(40):
            plan = tick(clock, working_set=1.0 * GI)
            assert not [one for one in plan.actions if isinstance(one, Evict)]
        assert sizes(clock)["a"] > before


def test_growth_that_was_not_granted_has_nothing_to_prove() -> None:
    clock = Clock(spec(), pod("a", memory=2 * GI), room=ledger(committed_memory={"n1": 64 * GI}))
    one = clock.pods[0]
    crashing = replace(one.containers[0], running=False, oom_at=clock.now - 1.0, waiting_reason="CrashLoopBackOff")
    clock.pods.append(replace(pod("b", memory=2 * GI, ready=False), containers=(crashing,)))
    for _ in range(40):
        plan = tick(clock, working_set=1.0 * GI)
        assert not memory_of(plan) and not [one for one in plan.actions if isinstance(one, Evict)]
    assert Code.NODE_FULL in {hold.code for hold in plan.holds}


@pytest.mark.parametrize(("shrink", "used", "code"), [
    ("WhenSafe", 3.2, Code.MEMORY_UNSAFE), ("WhenSafe", 1.0, None), ("Never", 1.0, Code.HELD),
])  # fmt: skip
def test_a_maximum_lowered_below_the_limit_is_gone_to_as_far_as_it_is_safe(
    shrink: str, used: float, code: Code | None
) -> None:
    clock = Clock(spec(shrink=shrink, max="2Gi"), pod("a", memory=4 * GI))
    held = []
    for _ in range(400):
        held += [hold for hold in tick(clock, working_set=used * GI).holds if hold.code is code]
    if code is None:
        assert 1.2 * GI <= sizes(clock)["a"] <= 2 * GI
        return
    assert sizes(clock)["a"] >= (used * GI + MARGIN if shrink == "WhenSafe" else 4 * GI)
    assert held
    if code is Code.MEMORY_UNSAFE:
        assert held[-1].numbers["wanted"] == 2 * GI
        assert held[-1].numbers["usage"] == used * GI
    else:
        assert "memory.shrink is Never" in held[-1].text


def test_another_template_learns_anew() -> None:
    clock = Clock(spec(), pod(memory=4 * GI))
    tick(clock, working_set=3.0 * GI)
    assert clock.history[clock.policy.ref].peaks.peak == 3.0 * GI
    for _ in range(3):
        clock.tick(
            signals(pods=using(*clock.pods, working_set=1.0 * GI)), scale=ScaleView(1, 1, "8", template_hash="t2")
        )
    assert clock.history[clock.policy.ref].peaks.peak == 1.0 * GI


def test_a_new_pod_gets_what_its_peers_were_seen_to_need() -> None:
    clock = Clock(spec(), pod("a", memory=4 * GI))
    tick(clock, working_set=3.0 * GI)
    clock.pods.append(pod("c", memory=2 * GI, ready=False, created_at=clock.now))
    clock.replicas = 2
    clock.tick(signals(pods=using(clock.pods[0], working_set=3.0 * GI)))
    assert sizes(clock)["c"] >= 3.6 * GI


def test_a_kill_that_an_earlier_process_answered_is_not_answered_again() -> None:
    for ours, grows in (("inference-autoscaler", False), ("kubectl", True)):
        clock = Clock(spec(), pod("a", cpu=4000, memory=2 * GI))
        clock.pods[0] = replace(clock.pods[0], resized_by=ours, resized_at=clock.now - 50.0)
        killed(clock, 0, clock.now - 100.0)
        tick(clock, working_set=1.0 * GI)
        assert (sizes(clock)["a"] > 2 * GI) is grows
        changed_by_us = replace(clock.pods[0], resized_by="inference-autoscaler", resized_at=clock.now)
        clock.pods[0] = changed_by_us
        before = sizes(clock)["a"]
        killed(clock, 0, clock.now)
        tick(clock, working_set=1.0 * GI)
        assert sizes(clock)["a"] > before, "the next one is"


def test_a_late_answer_to_a_pod_that_has_long_recovered_has_nothing_to_prove() -> None:
    clock = Clock(spec(), pod("a", cpu=4000, memory=2 * GI))
    killed(clock, 0, clock.now - 200.0)
    tick(clock, working_set=1.0 * GI)
    assert sizes(clock)["a"] > 2 * GI
    killed(clock, 0, clock.now)
    plans = [tick(clock, working_set=1.0 * GI) for _ in range(3)]
    assert not [one for plan in plans for one in plan.actions if isinstance(one, Evict)]


@pytest.mark.parametrize("state", [ResizeState.DEFERRED, ResizeState.REFUSED])
def test_more_memory_that_never_came_proves_nothing(state: ResizeState) -> None:
    clock = Clock(spec(), pod("a", cpu=4000, memory=2 * GI))
    tick(clock, working_set=1.0 * GI)
    killed(clock, 0, clock.now - 1.0)
    tick(clock, working_set=1.0 * GI)
    grown = clock.pods[0].containers[0].desired
    before = replace(grown, memory_limit=2 * GI, memory_request=GI)
    refused = state is ResizeState.REFUSED
    for _ in range(40):
        until = clock.now if refused else None
        wanted = Resources(memory_limit=grown.memory_limit)
        attempt = Attempt(state, wanted, clock.now, "Quota", before=before, until=until)
        changed(clock, 0, running=False, desired=before if refused else grown, allocated=before, actual=before)
        clock.pods[0] = replace(
            clock.pods[0], ready=False, attempt=replace(attempt, until=clock.now if refused else None)
        )
        plan = tick(clock, working_set=1.0 * GI)
        assert not [one for one in plan.actions if isinstance(one, Evict)]


def test_a_shrink_that_the_kubelet_refused_bars_the_next() -> None:
    clock = shrunk()
    since = clock.now - 20.0
    undone = Resources(memory_limit=sizes(clock)["a"])
    changed(clock, 0, desired=replace(clock.pods[0].containers[0].desired, memory_limit=4 * GI))
    attempt = Attempt(ResizeState.REVERTED, Resources(memory_limit=4 * GI), since, until=clock.now, reverts=undone)
    clock.pods[0] = replace(clock.pods[0], attempt=attempt)
    while clock.now < since + 890.0:
        assert memory_of(tick(clock, working_set=1.0 * GI)) == []
    assert Code.BARRED in {hold.code for hold in clock.plan.holds}


def test_the_limit_ranges_minimum_ends_a_shrink() -> None:
    limits = {"serving": LimitRangeView(memory_min=int(1.5 * GI))}
    clock = Clock(spec(shrink="WhenSafe"), pod("a", memory=4 * GI), room=ledger(limit_ranges=limits))
    for _ in range(400):
        tick(clock, working_set=1.0 * GI)
    desired = clock.pods[0].containers[0].desired
    assert 1.5 * GI <= (desired.memory_request or 0) <= 1.67 * GI, "down to what is worth no further step"


def test_the_servers_own_peak_counts_where_it_is_known() -> None:
    clock = Clock(spec(shrink="WhenSafe"), pod("a", memory=4 * GI))
    for _ in range(60):
        seen = using(*clock.pods, working_set=1.0 * GI)
        seen = {uid: msgspec.structs.replace(one, peak_memory=Measured(3.9 * GI)) for uid, one in seen.items()}
        assert memory_of(clock.tick(signals(pods=seen))) == []


def test_a_leak_is_followed_upwards_alone() -> None:
    """2 MiB a second: what was just given is never taken back."""
    clock = Clock(spec(shrink="WhenSafe"), pod("a", memory=1 * GI))
    used, limits = 0.82 * GI, []
    for _ in range(240):
        tick(clock, working_set=used)
        used += 10 * MI
        limits.append(sizes(clock)["a"])
    assert limits == sorted(limits), "never down"
    assert limits[-1] > limits[0]


def test_little_is_not_taken_back() -> None:
    clock = Clock(spec(shrink="WhenSafe"), pod("a", memory=1 * GI))
    for _ in range(400):
        tick(clock, working_set=0.8 * GI)  # with head-room 0.96 GiB
    assert sizes(clock)["a"] == 1 * GI


def test_a_shrink_that_never_came_is_no_trial() -> None:
    """A server before 1.34 refuses it: nobody has less, so nothing is on trial, and it is not asked for each minute."""
    clock = Clock(spec(shrink="WhenSafe"), pod("a", memory=4 * GI), pod("b", memory=4 * GI))
    asked = 0
    for _ in range(150):
        asked += len(memory_of(tick(clock, working_set=1.0 * GI)))
        for place, one in enumerate(clock.pods):
            kept = replace(one.containers[0].desired, memory_request=2 * GI, memory_limit=4 * GI)
            changed(clock, place, desired=kept, allocated=kept, actual=kept)
        said = [hold.text for hold in clock.plan.holds if "on trial" in hold.text]
        assert not said or clock.now - clock.changes[-1][0] - START <= 15.0, said
    assert asked == 1


def test_pods_that_crash_on_are_recreated_one_after_the_other() -> None:
    """The first is gone at once when evicted: its successor gets its time before the next one goes."""
    clock = Clock(spec(), pod("a", memory=1 * GI), pod("b", memory=1 * GI), pod("c", memory=1 * GI))
    evicted: list[tuple[float, str]] = []
    for _ in range(60):
        for place, one in enumerate(clock.pods):
            if one.name in "ab":
                changed(clock, place, oom_at=clock.now - 1.0, started_at=clock.now - 0.5, running=True)
        plan = tick(clock, working_set=0.9 * GI)
        for action in plan.actions:
            if isinstance(action, Evict):
                evicted.append((clock.now, action.pod.name))
                clock.pods = [one for one in clock.pods if one.name != action.pod.name]
    assert sorted(name for _, name in evicted) == ["a", "b"]
    assert evicted[1][0] - evicted[0][0] >= PROOF
