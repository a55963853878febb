"""Every row of the table that says when a resize is complete, as the watch would show it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.act.lifecycle import OOM_AGAIN, OOM_PROOF_S, follow
from autoscaler.act.record import Record, adopt, bound, succeed
from autoscaler.model.reason import Code
from autoscaler.model.workload import OPEN_STATES, Pod, ResizeRestart, ResizeState, Resources
from tests.act.made import GI, NOW, REF, SIZE, container, pod, record, requests, resized, revert, watch

State = ResizeState
GROW = Resources(cpu_request=1000, cpu_limit=2000)
GROWN = Resources(1000, 2000, 1 * GI, 2 * GI)


def asked(one: Pod | None = None, size: Resources = GROWN, **more: Any) -> Pod:
    """The server has accepted it, the kubelet has not looked yet."""
    return resized(one or pod(), desired=size, **({"generation": 2} | more))


def observed(one: Pod | None = None, size: Resources = GROWN, **more: Any) -> Pod:
    return asked(one, size, **({"observed_generation": 2} | more))


def applying(one: Pod | None = None, size: Resources = GROWN, **more: Any) -> Pod:
    return resized(observed(one, size, resizing=True), allocated=requests(size), **more)


def done(one: Pod | None = None, size: Resources = GROWN, **more: Any) -> Pod:
    return resized(observed(one, size), allocated=requests(size), actual=size, **more)


def test_the_recorded_course_of_a_resize() -> None:
    steps = [(0.01, asked(), State.SENT), (0.04, applying(), State.APPLYING), (0.065, done(), State.COMPLETE)]
    now = record(pod(), GROW)
    for after, sight, expected in steps:
        now = follow(now, sight, NOW + after)
        assert now.state is expected
    assert now.attempt.until == NOW + 0.065
    assert now.attempt.granted
    assert not now.attempt.open


def test_a_missed_condition_is_no_obstacle() -> None:
    assert watch(record(pod(), GROW), (5, done())).state is State.COMPLETE


def test_a_pod_that_is_gone() -> None:
    assert watch(record(pod(), GROW), (1, None)).state is State.GONE


def test_a_pod_replaced_under_the_same_name() -> None:
    assert watch(record(pod(), GROW), (1, done(uid="another"))).state is State.GONE


@pytest.mark.parametrize("ending", [{"deleting": True}, {"phase": "Succeeded"}, {"phase": "Failed"}])
def test_an_ending_pod_is_terminated_though_its_conditions_are_wiped(ending: dict[str, Any]) -> None:
    assert watch(record(pod(), GROW), (1, done(**ending))).state is State.TERMINATED


def test_someone_elses_resize_supersedes_ours() -> None:
    theirs = asked(size=replace(GROWN, cpu_limit=3000), generation=3)
    ended = watch(record(pod(), GROW), (1, theirs))
    assert ended.state is State.SUPERSEDED
    assert "3" in ended.message


def test_someone_elses_resize_of_another_key_leaves_ours_standing() -> None:
    theirs = done(size=replace(GROWN, memory_limit=3 * GI), generation=3, observed_generation=3)
    assert watch(record(pod(), GROW), (1, theirs)).state is State.COMPLETE


def test_a_watch_that_lags_behind_the_answer_is_waited_for() -> None:
    assert watch(record(pod(), GROW), (0.1, pod())).state is State.SENT


def test_deferred_is_known_at_first_sight() -> None:
    message = "Node didn't have enough resource: cpu, requested: 1000, used: 1200, capacity: 2000"
    now = watch(record(pod(), GROW), (0.1, observed(resize_pending="Deferred", resize_pending_message=message)))
    assert now.state is State.DEFERRED
    assert now.attempt.open
    assert (now.refusal, now.message) == ("Deferred", message)
    assert not now.granted


def test_a_pending_condition_of_an_earlier_generation_says_nothing() -> None:
    sight = asked(observed_generation=1, resize_pending="Infeasible")
    assert watch(record(pod(), GROW), (0.1, sight)).state is State.SENT


def test_deferred_then_room() -> None:
    deferred = observed(resize_pending="Deferred")
    now = watch(record(pod(), GROW), (1, deferred), (30, deferred), (31, done()))
    assert now.state is State.COMPLETE
    assert now.refusal == ""


def test_deferred_too_long_is_timed_out_ungranted() -> None:
    deferred = observed(resize_pending="Deferred")
    now = watch(record(pod(), GROW), (1, deferred), (60, deferred))
    assert now.state is State.DEFERRED
    now = watch(now, (61, deferred))
    assert now.state is State.TIMED_OUT
    assert not now.granted


def test_the_deferred_clock_is_not_restarted_by_asking_again() -> None:
    deferred = observed(resize_pending="Deferred")
    first = watch(record(pod(), GROW), (1, deferred))
    again = record(deferred, Resources(cpu_request=900), generation=3)
    again = succeed(replace(again, sent=NOW + 50, first_sent=NOW + 50), first)
    other = resized(deferred, desired=Resources(900, 2000, GI, 2 * GI), generation=3, observed_generation=3)
    assert watch(again, (51, other), (61, other)).state is State.TIMED_OUT


def test_infeasible_is_final() -> None:
    now = watch(record(pod(), GROW), (0.1, observed(resize_pending="Infeasible", resize_pending_message="static CPU")))
    assert now.state is State.INFEASIBLE
    assert not now.attempt.open
    assert watch(now, (99, done())).state is State.INFEASIBLE


def test_an_unknown_pending_reason_of_a_newer_server_holds_and_ends() -> None:
    sight = observed(resize_pending="Preempting")
    now = watch(record(pod(), GROW), (1, sight))
    assert now.state is State.SENT
    assert "Preempting" in now.message
    assert watch(now, (61, sight)).state is State.TIMED_OUT


def test_an_unknown_progress_reason_of_a_newer_server_holds_and_ends() -> None:
    sight = applying(resize_error="Throttled")
    now = watch(record(pod(), GROW), (1, sight))
    assert now.state is State.APPLYING
    assert watch(now, (61, sight)).state is State.OVERDUE
    assert watch(now, (301, sight)).state is State.TIMED_OUT


def test_not_seen_by_the_kubelet_in_time() -> None:
    now = watch(record(pod(), GROW), (30, asked()), (60, asked()))
    assert now.state is State.TIMED_OUT
    assert not now.granted


def test_a_node_that_is_not_ready_applies_when_it_is_back() -> None:
    now = watch(record(pod(), GROW), (30, asked()), node_ready=False)
    assert now.state is State.SENT
    assert "not ready" in now.message
    assert watch(now, (41, done())).state is State.COMPLETE


def test_a_node_that_stays_away_is_timed_out() -> None:
    assert watch(record(pod(), GROW), (60, asked()), node_ready=False).state is State.TIMED_OUT


def test_generation_observed_but_nothing_applied_is_not_done() -> None:
    """A kubelet that restarts meanwhile shows exactly this for 30 s."""
    now = watch(record(pod(), GROW), (1, observed()), (30, observed()))
    assert now.state is State.SENT
    assert watch(now, (32, done())).state is State.COMPLETE
    assert watch(now, (60, observed())).state is State.TIMED_OUT


def test_a_change_of_limits_only_that_is_never_applied_is_not_done() -> None:
    """allocatedResources holds requests only and so agrees from the start."""
    size = replace(SIZE, cpu_limit=2000)
    stuck = observed(size=size)
    now = watch(record(pod(), Resources(cpu_limit=2000)), (1, stuck))
    assert now.state is State.SENT
    assert not now.granted
    assert watch(now, (60, stuck)).state is State.TIMED_OUT


def test_conditions_that_vanish_before_the_size_is_there() -> None:
    early = resized(observed(), allocated=requests(GROWN))
    now = watch(record(pod(), GROW), (0.1, early))
    assert now.state is State.GRANTED
    assert watch(now, (2, done())).state is State.COMPLETE


def test_granted_and_late_is_an_alarm_and_never_ungranted() -> None:
    early = resized(observed(), allocated=requests(GROWN))
    now = watch(record(pod(), GROW), (0.1, early), (61, early))
    assert now.state is State.OVERDUE
    assert now.attempt.granted
    assert now.attempt.open
    assert watch(now, (90, done())).state is State.COMPLETE
    ended = watch(now, (301, early))
    assert ended.state is State.TIMED_OUT
    assert ended.attempt.granted


def test_a_cpu_within_ten_milli_is_done() -> None:
    near = resized(done(), actual=replace(GROWN, cpu_request=993, cpu_limit=2010))
    assert watch(record(pod(), GROW), (1, near)).state is State.COMPLETE


def test_another_actual_size_is_waited_for_and_then_done_with_drift() -> None:
    drift = resized(done(), actual=replace(GROWN, cpu_limit=1500))
    now = watch(record(pod(), GROW), (1, drift))
    assert now.state is State.GRANTED
    now = watch(now, (61, drift))
    assert now.state is State.COMPLETE
    assert "drift" in now.message


def test_keys_we_did_not_set_are_not_waited_for() -> None:
    other = resized(done(), actual=replace(GROWN, memory_limit=None))
    assert watch(record(pod(), GROW), (1, other)).state is State.COMPLETE


def test_error_is_not_final() -> None:
    stuck = applying(resize_error="Error", resize_error_message="cannot decrease memory limits")
    now = watch(record(pod(), GROW), (12, stuck))
    assert now.state is State.ERROR
    assert now.attempt.open
    assert watch(now, (26, done())).state is State.COMPLETE
    assert watch(now, (72, stuck)).state is State.TIMED_OUT


def test_the_error_clock_belongs_to_the_first_attempt() -> None:
    """Any new PATCH clears reason=Error for about ten seconds."""
    stuck = applying(resize_error="Error")
    first = watch(record(pod(), GROW), (12, stuck))
    size = replace(GROWN, cpu_limit=3000)
    again = succeed(record(stuck, Resources(cpu_limit=3000), generation=3), first)
    again = replace(again, sent=NOW + 40, state_at=NOW + 40)
    hidden = resized(stuck, desired=size, generation=3, observed_generation=3, resize_error="")
    now = watch(again, (41, hidden))
    assert now.state is State.ERROR
    shown = replace(hidden, resize_error="Error")
    assert watch(now, (52, shown), (72, shown)).state is State.TIMED_OUT


def test_pending_and_error_together_is_pending() -> None:
    both = observed(resize_pending="Deferred", resizing=True, resize_error="Error")
    assert watch(record(pod(), GROW), (1, both)).state is State.DEFERRED


def test_a_container_that_does_not_run_gets_it_at_its_start() -> None:
    waiting = resized(done(), inside={"running": False, "waiting_reason": "CrashLoopBackOff", "ready": False})
    now = watch(record(pod(), GROW), (1, waiting))
    assert now.state is State.GRANTED
    assert "starts" in now.message
    again = resized(done(), inside={"started_at": NOW + 20})
    assert watch(now, (21, again)).state is State.COMPLETE


def test_matching_sizes_of_a_crash_looping_container_are_not_done() -> None:
    crashed = resized(done(), inside={"running": False, "ready": False})
    assert watch(record(pod(), GROW), (1, crashed), (30, crashed)).state is State.GRANTED


def test_a_container_that_crashed_meanwhile_is_done_when_ready_again() -> None:
    back = resized(done(), inside={"started_at": NOW + 1, "ready": False})
    now = watch(record(pod(), GROW), (1, back))
    assert now.state is State.APPLYING
    assert watch(now, (5, resized(back, inside={"ready": True}))).state is State.COMPLETE


def test_an_overloaded_pod_that_is_not_ready_is_done_all_the_same() -> None:
    """It is NotReady because it needs the growth."""
    assert watch(record(pod(ready=False), GROW), (1, done(ready=False))).state is State.COMPLETE


def test_an_unscheduled_pod_gets_it_when_it_is_scheduled() -> None:
    waiting = pod(container(allocated=None, actual=None, running=False), node="", phase="Pending", unschedulable=True,
                  observed_generation=None)  # fmt: skip
    now = watch(record(waiting, GROW), (1, asked(waiting)))
    assert now.state is State.GRANTED
    assert watch(now, (30, done())).state is not State.TIMED_OUT


class TestRestartContainer:
    PICKY = pod(container(cpu_restart=ResizeRestart.RESTART_CONTAINER))

    def test_it_is_done_only_when_restarted_and_ready(self) -> None:
        start = record(self.PICKY, GROW)
        assert start.attempt.restarts
        before = done(self.PICKY)
        assert watch(start, (1, before)).state is State.APPLYING
        restarted = resized(before, inside={"restart_count": 1, "started_at": NOW + 1}, ready=False)
        assert watch(start, (2, restarted)).state is State.APPLYING
        assert watch(start, (3, replace(restarted, ready=True))).state is State.COMPLETE

    def test_another_key_does_not_restart(self) -> None:
        assert not record(self.PICKY, Resources(memory_limit=3 * GI)).restarts


class TestOom:
    GROWTH = Resources(memory_request=2 * GI, memory_limit=4 * GI)
    SIZE = replace(SIZE, memory_request=2 * GI, memory_limit=4 * GI)

    def begun(self) -> tuple[Pod, Record]:
        killed = pod(container(oom_at=NOW - 5, restart_count=3))
        return killed, record(killed, self.GROWTH, code=Code.OOM)

    def test_it_has_helped_when_running_ready_and_not_killed_again(self) -> None:
        killed, start = self.begun()
        well = done(killed, self.SIZE)
        now = watch(start, (1, well))
        assert now.state is State.GRANTED
        assert watch(now, (1 + OOM_PROOF_S, well)).state is State.COMPLETE

    def test_ready_lost_starts_the_proof_again(self) -> None:
        killed, start = self.begun()
        well = done(killed, self.SIZE)
        now = watch(start, (1, well), (6, replace(well, ready=False)), (7, well), (1 + OOM_PROOF_S, well))
        assert now.state is State.GRANTED

    def test_killed_again_says_so(self) -> None:
        """Raising the limit of a crash-looping pod may not raise its pod cgroup."""
        killed, start = self.begun()
        again = resized(done(killed, self.SIZE), inside={"oom_at": NOW + 8, "running": False})
        now = watch(start, (1, done(killed, self.SIZE)), (9, again))
        assert (now.state, now.refusal, now.granted) == (State.TIMED_OUT, OOM_AGAIN, True)

    def test_a_kill_before_the_grant_is_the_old_sizes(self) -> None:
        killed, start = self.begun()
        late = resized(asked(killed, self.SIZE), inside={"oom_at": NOW + 0.5})
        well = resized(done(killed, self.SIZE), inside={"oom_at": NOW + 0.5})
        assert watch(start, (1, late), (2, well), (3 + OOM_PROOF_S, well)).state is State.COMPLETE


class TestAlphaDialect:
    """Before 1.33: status.resize, no generation of pods, no conditions."""

    OLD = pod(observed_generation=None)

    def sight(self, dialect: str, size: Resources = GROWN, **more: Any) -> Pod:
        return resized(self.OLD, desired=size, resize_dialect=dialect, **more)

    def begun(self) -> Record:
        return record(self.OLD, GROW, generation=None)

    def test_its_course(self) -> None:
        states = []
        now = self.begun()
        allocated = {"allocated": requests(GROWN)}
        for after, sight in (
            (0.1, self.OLD),
            (0.2, self.sight("Proposed")),
            (1, self.sight("InProgress", **allocated)),
            (2, self.sight("", **allocated, actual=GROWN)),
        ):
            now = follow(now, sight, NOW + after)
            states.append(now.state)
        assert states == [State.SENT, State.SENT, State.APPLYING, State.COMPLETE]

    def test_a_literal_completed_is_done(self) -> None:
        assert watch(self.begun(), (1, self.sight("Completed", allocated=requests(GROWN), actual=GROWN))).state is (
            State.COMPLETE
        )

    def test_completed_from_a_server_that_fills_nothing_else_is_done(self) -> None:
        bare = pod(container(allocated=None, actual=None), observed_generation=None)
        sight = resized(bare, desired=GROWN, resize_dialect="Completed")
        assert watch(record(bare, GROW, generation=None), (1, sight)).state is State.COMPLETE

    def test_completed_left_over_from_the_last_resize_is_not_believed(self) -> None:
        stale = self.sight("Completed")  # allocated and actual are still the old size
        assert watch(self.begun(), (1, stale)).state is State.SENT

    @pytest.mark.parametrize(("word", "state"), [("Deferred", State.DEFERRED), ("Infeasible", State.INFEASIBLE)])
    def test_its_refusals(self, word: str, state: ResizeState) -> None:
        assert watch(self.begun(), (1, self.sight(word))).state is state

    def test_someone_elses_resize(self) -> None:
        theirs = self.sight("Proposed", size=replace(GROWN, cpu_limit=9000))
        assert watch(self.begun(), (1, theirs)).state is State.SUPERSEDED


class TestLostAnswer:
    def begun(self) -> Record:
        return record(pod(), GROW, generation=None, answered=False)

    def test_it_arrived(self) -> None:
        assert watch(self.begun(), (1, applying()), (2, done())).state is State.COMPLETE

    def test_it_never_arrived(self) -> None:
        now = watch(self.begun(), (1, pod()))
        assert now.state is State.SENT
        now = watch(now, (10, pod()))
        assert (now.state, now.refusal) == (State.REFUSED, "Lost")


class TestReverts:
    def test_a_completed_revert_is_reverted(self) -> None:
        deferred = observed(resize_pending="Deferred")
        back = revert(deferred, SIZE, None).after
        start = record(deferred, Resources(cpu_request=back.cpu_request, cpu_limit=back.cpu_limit), generation=3,
                       reverts=GROW)  # fmt: skip
        home = resized(deferred, desired=SIZE, generation=3, observed_generation=3, resize_pending="")
        now = watch(start, (0.1, home))
        assert now.state is State.REVERTED
        assert now.attempt.reverts == GROW

    def test_it_has_its_own_clocks(self) -> None:
        first = watch(record(pod(), GROW), (1, observed(resize_pending="Deferred")))
        start = replace(record(observed(), GROW, reverts=GROW), first_sent=NOW + 61)
        assert succeed(start, first).first_sent == NOW + 61


class TestAdoption:
    """After a restart of the daemon: what is under way is found and followed to its end."""

    def adopted(self, one: Pod) -> Record | None:
        return adopt(one, workload=REF, container="server", manager="inference-autoscaler", now=NOW, timeout=60.0)

    @pytest.mark.parametrize(
        "sight",
        [
            observed(resize_pending="Deferred"),
            applying(),
            applying(resize_error="Error"),
            observed(),
            resized(done(), actual=SIZE),
            asked(observed_generation=None, resize_dialect="InProgress"),
        ],
    )
    def test_what_is_under_way_is_adopted(self, sight: Pod) -> None:
        mine = self.adopted(replace(sight, resized_by="inference-autoscaler"))
        assert mine is not None
        assert mine.state is State.SENT
        assert mine.before.cpu_limit == 1000
        ended = watch(mine, (1, sight), (2, done()))
        assert ended.state is State.COMPLETE

    def test_what_is_at_rest_is_not(self) -> None:
        assert self.adopted(replace(done(), resized_by="inference-autoscaler")) is None

    def test_someone_elses_is_not_ours_to_end(self) -> None:
        assert self.adopted(observed(resize_pending="Deferred", resized_by="kubectl-patch")) is None

    def test_where_nobody_is_named_an_unallocated_size_is_taken_for_ours(self) -> None:
        assert self.adopted(observed()) is not None

    def test_an_adopted_deferred_resize_ends_as_well(self) -> None:
        sight = observed(resize_pending="Deferred")
        mine = self.adopted(sight)
        assert mine is not None
        assert watch(mine, (0, sight), (60, sight)).state is State.TIMED_OUT


_SIZES = st.sampled_from([SIZE, GROWN, replace(GROWN, cpu_limit=1500), replace(GROWN, cpu_request=700)])


@st.composite
def sights(draw: st.DrawFn) -> Pod | None:
    if draw(st.integers(0, 40)) == 0:
        return None
    size = draw(_SIZES)
    one = container(
        size=draw(st.sampled_from([SIZE, GROWN, GROWN, GROWN])),
        allocated=draw(st.none() | st.just(requests(size))),
        actual=draw(st.none() | _SIZES),
        running=draw(st.booleans()),
        ready=draw(st.booleans()),
        started_at=draw(st.sampled_from([NOW - 3600, NOW + 5])),
        restart_count=draw(st.integers(0, 2)),
        oom_at=draw(st.sampled_from([None, NOW + 3])),
    )
    return pod(
        one,
        generation=draw(st.sampled_from([1, 2, 2, 2])),
        observed_generation=draw(st.sampled_from([None, 1, 2])),
        resize_pending=draw(st.sampled_from(["", "", "Deferred", "Soon"])),
        resizing=draw(st.booleans()),
        resize_error=draw(st.sampled_from(["", "", "Error", "Novel"])),
        resize_dialect=draw(st.sampled_from(["", "", "", "Proposed", "InProgress", "Completed"])),
        ready=draw(st.booleans()),
        node=draw(st.sampled_from(["node-1", "node-1", ""])),
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.01, 40), sights()), min_size=8, max_size=20),
    st.booleans(),
    st.sampled_from([Code.DEMAND, Code.OOM]),
    st.sampled_from([ResizeRestart.NOT_REQUIRED, ResizeRestart.RESTART_CONTAINER]),
)
def test_whatever_the_cluster_shows_it_ends_within_its_bound(
    course: list[tuple[float, Pod | None]], answered: bool, code: Code, policy: ResizeRestart
) -> None:
    start = record(pod(container(cpu_restart=policy)), GROW, answered=answered, code=code)
    now, at = start, NOW
    ended: Record | None = None
    for wait, sight in [*course, (8 * 60.0, course[-1][1])]:
        at += wait
        now = follow(now, sight, at)
        assert now.uid == start.uid
        assert (now.state in OPEN_STATES) == (now.attempt.until is None)
        assert now.first_sent == NOW
        if ended is not None:
            assert now == ended, "a closed record stays closed"
        elif not now.open:
            ended = now
        assert now.open is False or at < bound(start)
    assert ended is not None
