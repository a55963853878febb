"""Plans through a sink: order, looking again, remembering, brakes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.act.apply import Applier
from autoscaler.act.brakes import FleetLimits
from autoscaler.act.ports import Outcome, Patch, Result
from autoscaler.act.show import PrintingSink
from autoscaler.model.plan import Evict, QuotaView, Resize, Scale
from autoscaler.model.reason import Code
from autoscaler.model.signal import Measured, PodSignals, Signals
from autoscaler.model.workload import (
    Pod,
    ResizeRestart,
    ResizeState,
    Resources,
    TargetRef,
    WorkloadRef,
)
from tests.act.made import (
    GI,
    MI,
    NOW,
    REF,
    SIZE,
    WHY,
    Memory,
    container,
    ledger,
    node,
    plan,
    pod,
    policy,
    requests,
    resize,
    resized,
    revert,
    seen,
    view,
)

GROW = Resources(cpu_request=1000, cpu_limit=2000)
GROWN = Resources(1000, 2000, 1 * GI, 2 * GI)
TARGET = TargetRef("apps/v1", "Deployment", "resnet")


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def applier(sink: Any, **more: Any) -> Applier:
    return Applier(sink, clock=more.pop("clock", Clock()), **more)


def attempt_of(hand: Applier, one: Pod, at: float) -> Any:
    told = hand.watch(seen(view(one), at=at))
    return told.subjects[0].view.pods[0].attempt


async def test_a_resize_is_sent_remembered_followed_and_told() -> None:
    sink, one = Memory(), pod()
    hand = applier(sink)
    now = hand.watch(seen(view(one)))
    sending = await hand.send([plan(resize(one, GROW))], now)
    assert [sent.outcome.result for sent in sending.sent] == [Result.ACCEPTED]
    assert sending.refused == frozenset()
    assert attempt_of(hand, one, NOW + 0.5).state is ResizeState.SENT
    done = resized(one, desired=GROWN, allocated=requests(GROWN), actual=GROWN, generation=2, observed_generation=2)
    told = attempt_of(hand, done, NOW + 1)
    assert (told.state, told.wanted, told.until) == (ResizeState.COMPLETE, GROW, NOW + 1)


async def test_until_the_watch_shows_it_the_accepted_size_is_the_desired_one() -> None:
    one = pod()
    hand = applier(Memory())
    await hand.send([plan(resize(one, GROW))], hand.watch(seen(view(one))))
    told = hand.watch(seen(view(one), at=NOW + 1)).subjects[0].view.pods[0]
    assert told.containers[0].desired == GROWN
    assert hand.follower.unseen({one.uid: one}.get) == {"node-1": (500, 0)}
    assert hand.follower.promised() == {one.uid: ("server", GROWN)}


async def test_the_largest_shortfall_goes_first_and_a_workload_keeps_its_order() -> None:
    order: list[str] = []

    class Slow(Memory):
        async def send(self, patch: Patch) -> Outcome:
            order.append(f"{patch.action.workload.name}:{patch.path.rsplit('/', 1)[1]}")
            await asyncio.sleep(0)
            return await super().send(patch)

    refs = {name: WorkloadRef("serving", name) for name in ("calm", "worse", "worst")}
    pods = {name: pod(name=name) for name in refs}
    plans = [
        plan(resize(pods["calm"], GROW, ref=refs["calm"]), ref=refs["calm"]),
        plan(resize(pods["worse"], GROW, ref=refs["worse"]), ref=refs["worse"], urgent=3),
        plan(
            resize(pods["worst"], GROW, ref=refs["worst"]),
            Scale(refs["worst"], TARGET, "serving", 1, 2, WHY),
            ref=refs["worst"],
            urgent=9,
        ),
    ]
    now = seen(*(view(pods[name], ref=ref) for name, ref in refs.items()))
    await applier(Slow(), concurrency=1).send(plans, now)
    assert [one.split(":")[0] for one in order if one.endswith("resize")] == ["worst", "worse", "calm"]
    assert order.index("worst:resize") < order.index("worst:scale")


async def test_no_more_than_the_bound_at_once() -> None:
    class Counting(Memory):
        running = most = 0

        async def send(self, patch: Patch) -> Outcome:
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0)
            self.running -= 1
            return await super().send(patch)

    sink = Counting()
    pods = [pod(name=f"p{index}") for index in range(20)]
    await applier(sink, concurrency=4).send(
        [plan(*(resize(one, Resources(cpu_limit=1100)) for one in pods))], seen(view(*pods))
    )
    assert len(sink.patches) == 20
    assert sink.most == 4


async def test_dry_run_is_another_sink_and_remembers_nothing() -> None:
    sink, one = PrintingSink(), pod()
    hand = applier(sink)
    sending = await hand.send([plan(resize(one, GROW))], hand.watch(seen(view(one))))
    assert sending.sent[0].outcome.result is Result.PRINTED
    assert len(sink.taken()) == 1
    assert attempt_of(hand, one, NOW + 1) is None


@pytest.mark.parametrize(
    "result",
    [Result.NODE_CAPACITY, Result.QUOTA, Result.LIMIT_RANGE, Result.INVALID, Result.WEBHOOK, Result.UNSUPPORTED],
)
async def test_a_refusal_becomes_an_attempt_that_can_be_decided_on_in_the_same_tick(result: Result) -> None:
    one = pod()
    hand = applier(Memory({"resnet-1": Outcome(result, "no", 403)}))
    now = hand.watch(seen(view(one)))
    sending = await hand.send([plan(resize(one, GROW))], now)
    assert sending.refused == {REF}
    told = hand.watch(now).subjects[0].view.pods[0].attempt
    assert told is not None
    assert (told.state, told.refusal, told.message) == (ResizeState.REFUSED, result.value, "no")
    assert told.wanted == GROW


async def test_a_lost_answer_is_followed_and_found_out() -> None:
    one = pod()
    hand = applier(Memory({"resnet-1": Outcome(Result.UNAVAILABLE, "no answer")}))
    await hand.send([plan(resize(one, GROW))], hand.watch(seen(view(one))))
    assert attempt_of(hand, one, NOW + 1).state is ResizeState.SENT
    arrived = resized(one, desired=GROWN, allocated=requests(GROWN), actual=GROWN, generation=2, observed_generation=2)
    assert attempt_of(hand, arrived, NOW + 2).state is ResizeState.COMPLETE


async def test_what_is_known_before_sending_is_never_sent_and_is_remembered() -> None:
    sink = Memory()
    one = pod()
    signals = Signals(pods={one.uid: PodSignals(memory_usage=Measured(1.2 * GI, age_s=4))})
    hand = applier(sink)
    now = hand.watch(seen(view(one, signals=signals)))
    sending = await hand.send([plan(resize(one, Resources(memory_request=900 * MI, memory_limit=GI)))], now)
    assert sink.patches == []
    assert sending.sent[0].reason is not None
    assert sending.sent[0].reason.code is Code.MEMORY_UNSAFE
    assert sending.refused == {REF}
    told = hand.watch(now).subjects[0].view.pods[0].attempt
    assert told is not None
    assert told.refusal == "MemoryUnsafe"


async def test_the_newest_sight_of_the_pod_decides_right_before_sending() -> None:
    sink, one = Memory(), pod()
    gone = applier(sink, look=lambda _: None)
    assert (await gone.send([plan(resize(one, GROW))], seen(view(one)))).sent[0].outcome.result is Result.SKIPPED
    newer = resized(one, desired=replace(SIZE, cpu_limit=1800))
    raced = applier(sink, look=lambda _: newer)
    assert (await raced.send([plan(resize(one, GROW))], seen(view(one)))).sent[0].outcome.result is Result.SKIPPED
    assert sink.patches == []


async def test_two_pods_never_spend_the_same_free_core() -> None:
    sink, first, second = Memory(), pod(name="a"), pod(name="b")
    books = ledger(node(cpu=2000), committed_cpu={"node-1": 1400})
    sending = await applier(sink).send(
        [plan(resize(first, GROW), resize(second, GROW))], seen(view(first, second), ledger=books)
    )
    assert sorted(one.outcome.result for one in sending.sent) == [Result.ACCEPTED, Result.NODE_CAPACITY]
    assert len(sink.patches) == 1


async def test_two_pods_never_spend_the_same_quota() -> None:
    sink, first, second = Memory(), pod(name="a"), pod(name="b")
    books = ledger(quotas=(QuotaView("serving", "q", {"requests.cpu": 2000}, {"requests.cpu": 1400}),))
    await applier(sink).send([plan(resize(first, GROW), resize(second, GROW))], seen(view(first, second), ledger=books))
    assert len(sink.patches) == 1


async def test_room_that_a_refused_resize_did_not_take_is_free_again() -> None:
    first, second = pod(name="a"), pod(name="b")
    books = ledger(node(cpu=2000), committed_cpu={"node-1": 1400})
    sink = Memory({"a/": Outcome(Result.WEBHOOK, "no", 403)})
    hand = applier(sink, concurrency=1)
    await hand.send([plan(resize(first, GROW), resize(second, GROW))], seen(view(first, second), ledger=books))
    assert [patch.path.split("/")[6] for patch in sink.patches] == ["a", "b"]


async def test_fleet_limits_hold_growth_and_let_shrinks_pass() -> None:
    sink = Memory()
    pods = [pod(name=name) for name in "abc"]
    hand = applier(sink, limits=FleetLimits(cpu_per_minute=1500))
    now = hand.watch(seen(view(*pods)))
    assert now.ledger.fleet_cpu_left == 1500
    shrink = resize(pods[2], Resources(cpu_request=300, cpu_limit=600))
    sending = await hand.send([plan(resize(pods[0], GROW), resize(pods[1], GROW), shrink)], now)
    held = [one for one in sending.sent if one.reason is not None]
    assert [one.reason.code for one in held if one.reason] == [Code.FLEET_LIMIT]
    assert len(sink.patches) == 2
    assert sending.refused == frozenset()
    assert hand.watch(seen(view(*pods), at=NOW + 1)).ledger.fleet_cpu_left == 500


async def test_resizes_in_flight_are_limited_across_a_tick() -> None:
    sink = Memory()
    pods = [pod(name=name) for name in "abc"]
    hand = applier(sink, limits=FleetLimits(in_flight=2))
    now = hand.watch(seen(view(*pods)))
    await hand.send([plan(*(resize(one, GROW) for one in pods))], now)
    assert len(sink.patches) == 2
    assert hand.watch(seen(view(*pods), at=NOW + 1)).ledger.fleet_resizes_left == 0


async def test_restarts_go_one_at_a_time() -> None:
    sink = Memory()
    pods = [pod(container(cpu_restart=ResizeRestart.RESTART_CONTAINER), name=name) for name in "abc"]
    hand = applier(sink)
    await hand.send([plan(*(resize(one, GROW) for one in pods))], hand.watch(seen(view(*pods))))
    assert len(sink.patches) == 1
    await hand.send([plan(*(resize(one, GROW) for one in pods[1:]))], hand.watch(seen(view(*pods), at=NOW + 5)))
    assert len(sink.patches) == 1


async def test_as_many_restarts_as_the_policy_allows() -> None:
    sink = Memory()
    pods = [pod(container(cpu_restart=ResizeRestart.RESTART_CONTAINER), name=name) for name in "abc"]
    now = seen(view(*pods), policies=(policy(resize={"maxUnavailable": 2}),))
    await applier(sink).send([plan(*(resize(one, GROW) for one in pods))], now)
    assert len(sink.patches) == 2


async def test_failed_resizes_open_the_breaker_for_the_next_decision() -> None:
    hand = applier(Memory())
    pods = [pod(name=f"p{index}") for index in range(12)]
    await hand.send([plan(*(resize(one, GROW) for one in pods))], hand.watch(seen(view(*pods))))
    stuck = [
        resized(one, desired=GROWN, generation=2, observed_generation=2, resize_pending="Infeasible") for one in pods
    ]
    told = hand.watch(seen(view(*stuck), at=NOW + 5))
    assert told.brakes_open
    opened = hand.breaker(NOW + 5)
    assert opened is not None
    assert opened.numbers["bad"] == 12
    assert not hand.watch(seen(view(*stuck), at=NOW + 2000)).brakes_open


async def test_a_shrink_followed_by_misses_counts_as_harm() -> None:
    hand = applier(Memory())
    calm, bad = Signals(misses=Measured(0.001)), Signals(misses=Measured(0.3))
    pods = [pod(name=f"p{index}") for index in range(12)]
    small = replace(SIZE, cpu_request=300, cpu_limit=600)
    change = Resources(cpu_request=300, cpu_limit=600)
    await hand.send([plan(*(resize(one, change) for one in pods))], hand.watch(seen(view(*pods, signals=calm))))
    done = [
        resized(one, desired=small, allocated=requests(small), actual=small, generation=2, observed_generation=2)
        for one in pods
    ]
    assert not hand.watch(seen(view(*done, signals=calm), at=NOW + 1)).brakes_open
    assert hand.watch(seen(view(*done, signals=bad), at=NOW + 20)).brakes_open


async def test_a_revert_goes_out_though_there_is_no_room_and_ends_reverted() -> None:
    one = pod()
    hand = applier(Memory())
    await hand.send([plan(resize(one, GROW))], hand.watch(seen(view(one))))
    deferred = resized(one, desired=GROWN, generation=2, observed_generation=2, resize_pending="Deferred")
    told = hand.watch(seen(view(deferred), at=NOW + 1)).subjects[0].view.pods[0]
    assert told.attempt is not None
    assert told.attempt.state is ResizeState.DEFERRED
    full = ledger(node(cpu=100), committed_cpu={"node-1": 100})
    back = revert(told, Resources(cpu_request=500, cpu_limit=1000), told.attempt)
    sending = await hand.send([plan(back)], seen(view(told), at=NOW + 1, ledger=full))
    assert sending.sent[0].outcome.result is Result.ACCEPTED
    home = resized(deferred, desired=SIZE, generation=3, observed_generation=3, resize_pending="")
    ended = attempt_of(hand, home, NOW + 2)
    assert (ended.state, ended.reverts) == (ResizeState.REVERTED, GROW)


async def test_pods_of_a_workload_first_seen_are_adopted() -> None:
    mine = resized(pod(resized_by="inference-autoscaler"), desired=GROWN, generation=4, observed_generation=4)
    hand = applier(Memory())
    told = attempt_of(hand, replace(mine, resize_pending="Deferred"), NOW)
    assert (told.state, told.wanted) == (ResizeState.DEFERRED, GROWN)
    assert attempt_of(hand, replace(mine, resize_pending="Deferred"), NOW + 61).state is ResizeState.TIMED_OUT


async def test_nothing_is_concluded_from_an_old_sight() -> None:
    one = pod()
    hand = applier(Memory())
    await hand.send([plan(resize(one, GROW))], hand.watch(seen(view(one))))
    blind = hand.watch(seen(view(one, seen_age_s=60.0), at=NOW + 100)).subjects[0].view.pods[0]
    assert blind.attempt is not None
    assert blind.attempt.state is ResizeState.SENT


async def test_what_nobody_shows_any_more_ends_all_the_same() -> None:
    one = pod()
    hand = applier(Memory())
    await hand.send([plan(resize(one, GROW))], hand.watch(seen(view(one))))
    hand.watch(seen(at=NOW + 8 * 60))
    assert hand.follower.in_flight() == 0


async def test_ended_attempts_are_forgotten_after_a_while() -> None:
    one = pod()
    hand = applier(Memory({"resnet-1": Outcome(Result.QUOTA, "no", 403)}))
    await hand.send([plan(resize(one, GROW))], hand.watch(seen(view(one))))
    assert attempt_of(hand, one, NOW + 800) is not None
    hand.watch(seen(view(one), at=NOW + 1000))
    assert attempt_of(hand, one, NOW + 1001) is None


async def test_scale_and_eviction_pass_through_with_their_answers() -> None:
    one = pod()
    budget = Outcome(Result.DISRUPTION_BUDGET, "Cannot evict pod", 429)
    sink = Memory({"resnet-1/eviction": budget, "resnet/scale": Outcome(Result.CONFLICT, "modified", 409)})
    sending = await applier(sink).send(
        [plan(Scale(REF, TARGET, "serving", 1, 2, WHY, "1"), Evict(REF, one, WHY))], seen(view(one))
    )
    assert [sent.outcome.result for sent in sending.sent] == [Result.CONFLICT, Result.DISRUPTION_BUDGET]
    assert sending.refused == {REF}


@pytest.mark.parametrize(
    ("result", "code", "sent"), [(Result.GONE, 404, ["resnet-1"]), (Result.FORBIDDEN, 403, ["resnet-1", "scale"])]
)
async def test_a_scale_whose_victim_is_gone_is_not_sent_one_that_may_not_mark_is(
    result: Result, code: int, sent: list[str]
) -> None:
    sink = Memory({"pods/resnet-1": Outcome(result, "no", code)})
    await applier(sink).send([plan(Scale(REF, TARGET, "serving", 2, 1, WHY, victims=(pod(),)))], seen(view(pod())))
    assert [patch.path.rsplit("/", 1)[1] for patch in sink.patches] == sent


async def test_cancelling_stops_what_was_not_answered() -> None:
    class Never(Memory):
        async def send(self, patch: Patch) -> Outcome:
            await asyncio.Event().wait()
            raise AssertionError

    one = pod()
    task = asyncio.create_task(applier(Never()).send([plan(resize(one, GROW))], seen(view(one))))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(resize(one, GROW), Resize)


async def test_what_one_workload_gives_back_goes_first_and_is_room_for_another() -> None:
    """The taker is more urgent, and still waits for the giver's answer."""
    sink = Memory()
    giver, taker = WorkloadRef("serving", "giver"), WorkloadRef("serving", "taker")
    big, small = pod(container(size=replace(SIZE, cpu_request=900, cpu_limit=1800)), name="big"), pod(name="small")
    books = ledger(node(cpu=2000), committed_cpu={"node-1": 1900})
    sending = await applier(sink).send(
        [
            plan(resize(big, Resources(cpu_request=300, cpu_limit=600), ref=giver), ref=giver),
            plan(resize(small, GROW, ref=taker), ref=taker, urgent=9),
        ],
        seen(view(big, ref=giver), view(small, ref=taker), ledger=books),
    )
    assert [patch.path.split("/")[6] for patch in sink.patches] == ["big", "small"]
    assert {one.outcome.result for one in sending.sent} == {Result.ACCEPTED}


async def test_memory_given_back_is_no_room_yet() -> None:
    sink = Memory()
    first, second = pod(name="a"), pod(name="b")
    signals = Signals(pods={first.uid: PodSignals(memory_usage=Measured(300 * MI, age_s=3))})
    books = ledger(node(memory=4 * GI), committed_memory={"node-1": 4 * GI})
    shrink, grow = Resources(memory_request=512 * MI, memory_limit=GI), Resources(memory_request=GI + 256 * MI)
    now = seen(view(first, second, signals=signals), ledger=books)
    await applier(sink).send([plan(resize(first, shrink), resize(second, grow))], now)
    assert [patch.path.split("/")[6] for patch in sink.patches] == ["a"]


async def test_taking_back_an_infeasible_size_frees_nothing() -> None:
    sink = Memory()
    stuck = pod(container(size=replace(SIZE, cpu_request=8000, cpu_limit=8000)), name="a", resize_pending="Infeasible")
    other = pod(name="b")
    books = ledger(node(cpu=2000), committed_cpu={"node-1": 1900})
    back = revert(stuck, Resources(cpu_request=500, cpu_limit=1000))
    await applier(sink).send([plan(back, resize(other, GROW))], seen(view(stuck, other), ledger=books))
    assert [patch.path.split("/")[6] for patch in sink.patches] == ["a"]


@pytest.mark.parametrize(
    ("status", "state"), [(0, ResizeState.SENT), (504, ResizeState.SENT), (503, ResizeState.REFUSED)]
)
async def test_an_answer_that_leaves_it_open_is_looked_into(status: int, state: ResizeState) -> None:
    one = pod()
    hand = applier(Memory({"resnet-1": Outcome(Result.UNAVAILABLE, "no", status)}))
    await hand.send([plan(resize(one, GROW))], hand.watch(seen(view(one))))
    assert attempt_of(hand, one, NOW + 1).state is state
