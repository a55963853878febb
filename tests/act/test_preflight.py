"""Everything a server would refuse or silently change, known before anything is sent: the rows of "Refusals"."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.act.preflight import preflight
from autoscaler.act.scene import Scene
from autoscaler.act.sizes import qos_of
from autoscaler.model.plan import LimitRangeView, QuotaView, Resize
from autoscaler.model.reason import Code, Reason
from autoscaler.model.signal import Absent, Cause, Measured, PodSignals
from autoscaler.model.workload import Container, Pod, Qos, Resources
from tests.act.made import GI, MI, NOW, SIZE, container, ledger, node, pod, resize, resized, revert

GUARANTEED = Resources(1000, 1000, GI, GI)


def check(action: Any, **more: Any) -> Reason | None:
    known = {"pod": action.pod, "ledger": ledger(), "now": NOW, "signals_at": NOW} | more
    return preflight(Scene(action, **known))


def refused(action: Any, code: Code, *words: str, **more: Any) -> Reason:
    reason = check(action, **more)
    assert reason is not None, "nothing was refused"
    assert reason.code is code, reason.text
    for word in words:
        assert word in reason.text
    return reason


def memory(usage: float, age: float = 5.0, peak: float | None = None) -> PodSignals:
    return PodSignals(
        memory_usage=Measured(usage, age_s=age),
        peak_memory=Measured(peak) if peak is not None else Absent(Cause.NOT_CONFIGURED),
    )


def test_an_ordinary_growth_passes() -> None:
    assert check(resize(pod(), Resources(1000, 2000))) is None


def test_a_pod_replaced_since_the_decision() -> None:
    refused(resize(pod(), Resources(1000, 2000)), Code.HELD, "another pod", pod=pod(uid="new"))


@pytest.mark.parametrize("ending", [{"deleting": True}, {"phase": "Succeeded"}, {"phase": "Failed"}])
def test_an_ending_pod_takes_the_patch_and_never_observes_it(ending: dict[str, Any]) -> None:
    refused(resize(pod(), Resources(1000, 2000)), Code.HELD, "ending", pod=pod(**ending))


def test_an_unknown_container() -> None:
    refused(resize(pod(), Resources(1000, 2000), of="nobody"), Code.HELD, "nobody")


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ({"static": True}, "static"),
        ({"windows": True}, "Windows"),
        ({"qos": Qos.BEST_EFFORT}, "BestEffort"),
        ({"whole": Resources(cpu_request=4000)}, "pod-level"),
    ],
)
def test_pods_that_no_server_resizes(kind: dict[str, Any], word: str) -> None:
    refused(resize(pod(**kind), Resources(1000, 2000)), Code.UNSUPPORTED, word)


def test_a_size_that_someone_changed_since_the_decision() -> None:
    action = resize(pod(), Resources(1000, 2000))
    refused(action, Code.HELD, "meanwhile", pod=resized(action.pod, desired=replace(SIZE, cpu_limit=1500)))


def test_a_change_of_another_key_since_the_decision_does_not_matter() -> None:
    action = resize(pod(), Resources(1000, 2000))
    assert check(action, pod=resized(action.pod, desired=replace(SIZE, memory_limit=3 * GI))) is None


def test_a_request_above_a_limit_left_over() -> None:
    refused(resize(pod(), Resources(cpu_request=1500)), Code.REFUSED, "cpu request 1500m", "limit 1")


def test_a_limit_below_the_request() -> None:
    refused(resize(pod(), Resources(cpu_limit=400)), Code.REFUSED, "exceed")


def test_a_limit_without_a_request_would_silently_become_the_request() -> None:
    bare = pod(container(size=Resources(memory_request=GI, memory_limit=2 * GI)))
    refused(resize(bare, Resources(cpu_limit=1000)), Code.REFUSED, "cpu request would silently become the limit")
    assert check(resize(bare, Resources(cpu_request=500, cpu_limit=1000))) is None


def test_requests_without_limits_are_resized_alone() -> None:
    bare = pod(container(size=Resources(cpu_request=500, memory_request=GI)))
    assert check(resize(bare, Resources(cpu_request=900))) is None


class TestQos:
    def test_guaranteed_moves_both_sides(self) -> None:
        one = pod(container(size=GUARANTEED), qos=Qos.GUARANTEED)
        refused(resize(one, Resources(cpu_limit=2000)), Code.REFUSED, "QoS")
        refused(resize(one, Resources(cpu_request=500)), Code.REFUSED, "QoS")
        assert check(resize(one, Resources(cpu_request=2000, cpu_limit=2000))) is None

    def test_burstable_never_becomes_guaranteed(self) -> None:
        one = pod(container(size=Resources(500, 1000, GI, GI)))
        refused(resize(one, Resources(cpu_request=1000)), Code.REFUSED, "from Burstable to Guaranteed")

    def test_another_container_keeps_a_pod_burstable(self) -> None:
        one = pod(container(size=Resources(500, 1000, GI, GI)), container("proxy", Resources(cpu_request=100)))
        assert check(resize(one, Resources(cpu_request=1000))) is None

    def test_a_container_out_of_sight_keeps_a_pod_burstable(self) -> None:
        one = pod(container(size=GUARANTEED), qos=Qos.BURSTABLE)
        assert check(resize(one, Resources(cpu_request=2000, cpu_limit=2000))) is None

    @given(st.builds(Resources, *(st.none() | st.integers(10, 4000),) * 2, *(st.none() | st.integers(MI, GI),) * 2))
    def test_whatever_passes_keeps_the_class(self, after: Resources) -> None:
        for size in (SIZE, GUARANTEED, Resources(500, None, GI, None), Resources(500, 1000, GI, GI)):
            one = pod(container(size=size))
            action = resize(one, after)
            if check(action, signals=memory(0)) is None:
                scene = Scene(action, one, ledger(), NOW)
                assert qos_of(one) is qos_of(resized(one, desired=scene.result))
                result = scene.result
                assert result.cpu_limit is None or (result.cpu_request or 10**9) <= result.cpu_limit
                assert result.memory_limit is None or (result.memory_request or 2**60) <= result.memory_limit


class TestAmounts:
    def test_a_memory_limit_of_one_byte_would_be_in_progress_for_ever(self) -> None:
        tiny = Resources(memory_request=1, memory_limit=1)
        refused(resize(pod(container(size=Resources(500, 1000, GI, 2 * GI))), tiny), Code.REFUSED, "so little")

    def test_cpu_limits_under_ten_milli_are_not_what_they_say(self) -> None:
        refused(resize(pod(), Resources(cpu_request=5, cpu_limit=5)), Code.REFUSED, "10m")

    def test_a_request_of_zero_counts_as_removed(self) -> None:
        refused(resize(pod(), Resources(cpu_request=0)), Code.REFUSED, "removed")


class TestMemoryShrink:
    SHRINK = Resources(memory_request=700 * MI, memory_limit=GI)

    def test_below_usage_is_refused_with_all_its_numbers(self) -> None:
        reason = refused(
            resize(pod(), self.SHRINK), Code.MEMORY_UNSAFE, "1Gi", "1229Mi", "margin", signals=memory(1.2 * GI, age=7)
        )
        assert reason.numbers["wanted"] == GI
        assert reason.numbers["usage"] == 1.2 * GI
        assert reason.numbers["age"] == 7
        assert reason.numbers["margin"] == pytest.approx(0.12 * GI)

    def test_exactly_at_usage_plus_margin_passes_and_one_byte_less_does_not(self) -> None:
        usage = 500 * MI
        edge = int(usage * 1.1)
        assert (
            check(resize(pod(), Resources(memory_request=400 * MI, memory_limit=edge)), signals=memory(usage)) is None
        )
        below = Resources(memory_request=400 * MI, memory_limit=edge - 1)
        refused(resize(pod(), below), Code.MEMORY_UNSAFE, signals=memory(usage))

    def test_the_peak_counts_as_usage_does(self) -> None:
        refused(resize(pod(), self.SHRINK), Code.MEMORY_UNSAFE, signals=memory(500 * MI, peak=GI))

    @pytest.mark.parametrize("cause", [Cause.NOT_CONFIGURED, Cause.STALE])
    def test_unknown_usage_is_not_zero(self, cause: Cause) -> None:
        signals = PodSignals(memory_usage=Absent(cause))
        refused(resize(pod(), self.SHRINK), Code.MEMORY_UNSAFE, signals=signals)
        refused(resize(pod(), self.SHRINK), Code.MEMORY_UNSAFE, signals=None)

    def test_a_sample_of_twenty_seconds_is_too_old(self) -> None:
        assert check(resize(pod(), self.SHRINK), signals=memory(300 * MI, age=19)) is None
        refused(resize(pod(), self.SHRINK), Code.MEMORY_UNSAFE, signals=memory(300 * MI, age=20))

    def test_the_sample_ages_until_the_patch_goes_out(self) -> None:
        refused(resize(pod(), self.SHRINK), Code.MEMORY_UNSAFE, signals=memory(300 * MI, age=15), signals_at=NOW - 6)

    def test_soon_after_a_start_the_peak_is_not_known(self) -> None:
        fresh = pod(container(started_at=NOW - 30))
        refused(resize(fresh, self.SHRINK), Code.MEMORY_UNSAFE, signals=memory(300 * MI))

    def test_it_travels_without_cpu(self) -> None:
        both = replace(self.SHRINK, cpu_request=800, cpu_limit=2000)
        refused(resize(pod(), both), Code.REFUSED, "alone", signals=memory(300 * MI))

    def test_a_request_alone_is_no_shrink_of_the_limit(self) -> None:
        assert check(resize(pod(), Resources(memory_request=512 * MI))) is None

    def test_growth_needs_no_sample(self) -> None:
        assert check(resize(pod(), Resources(memory_limit=3 * GI))) is None

    @given(st.floats(0, 2 * GI), st.floats(0, 60), st.integers(64 * MI, 2 * GI - 1))
    def test_nothing_below_usage_ever_leaves(self, usage: float, age: float, limit: int) -> None:
        one = pod(container(size=Resources(500, 1000, 32 * MI, 2 * GI)))
        if check(resize(one, Resources(memory_limit=limit)), signals=memory(usage, age)) is None:
            assert limit > usage
            assert age < 20


class TestLimitRange:
    def test_the_recorded_refusals(self) -> None:
        """The LimitRange of the recordings: container max 500m, min 50m, ratio 4, pod max 700m."""
        bounds = LimitRangeView(cpu_min=50, cpu_max=500, cpu_ratio=4.0, pod_cpu_max=700)
        size = Resources(100, 200, 64 * MI, 128 * MI)
        two = pod(container("a", size), container("b", size))
        books = ledger(limit_ranges={"serving": bounds})

        def ask(change: Resources) -> str | None:
            reason = check(resize(two, change, of="a"), ledger=books)
            assert reason is None or reason.code is Code.LIMIT_RANGE
            return None if reason is None else reason.text

        assert ask(Resources(490, 500)) is None
        assert "at most 500m" in (ask(Resources(600, 600)) or "")
        assert "at least 50m" in (ask(Resources(10, 40)) or "")
        assert "limit/request 8" in (ask(Resources(50, 400)) or "")
        tight = replace(bounds, pod_cpu_max=600)
        books = ledger(limit_ranges={"serving": tight})
        assert "pod: cpu limits 700m" in (ask(Resources(490, 500)) or "")

    def test_tightened_later_it_also_refuses_decreases(self) -> None:
        books = ledger(limit_ranges={"serving": LimitRangeView(cpu_max=800)})
        refused(resize(pod(), Resources(cpu_limit=900)), Code.LIMIT_RANGE, ledger=books)

    def test_another_namespace_is_not_concerned(self) -> None:
        books = ledger(limit_ranges={"other": LimitRangeView(cpu_max=100)})
        assert check(resize(pod(), Resources(1000, 2000)), ledger=books) is None


class TestRoom:
    def test_more_than_the_node_has_left(self) -> None:
        books = ledger(node(cpu=2000), committed_cpu={"node-1": 1700})
        reason = refused(resize(pod(), Resources(1000, 2000)), Code.NODE_FULL, "500m", "300m", ledger=books)
        assert reason.numbers["node"] == "node-1"

    def test_what_was_sent_this_tick_is_spent(self) -> None:
        books = ledger(node(cpu=2000), committed_cpu={"node-1": 1000})
        assert check(resize(pod(), Resources(1000, 2000)), ledger=books) is None
        refused(resize(pod(), Resources(1000, 2000)), Code.NODE_FULL, ledger=books, sent_cpu=600)

    def test_a_limit_above_the_node_is_taken_and_actuated(self) -> None:
        books = ledger(node(cpu=2000), committed_cpu={"node-1": 2000})
        assert check(resize(pod(), Resources(cpu_limit=64_000)), ledger=books) is None

    def test_memory_room(self) -> None:
        books = ledger(node(memory=4 * GI), committed_memory={"node-1": 3 * GI})
        refused(
            resize(pod(), Resources(memory_request=int(2.5 * GI), memory_limit=3 * GI)), Code.NODE_FULL, ledger=books
        )

    def test_where_nodes_cannot_be_seen_the_kubelet_answers(self) -> None:
        books = ledger(node(cpu=1), nodes_known=False)
        assert check(resize(pod(), Resources(1000, 2000)), ledger=books) is None

    def test_shrinking_needs_no_room(self) -> None:
        books = ledger(node(cpu=2000), committed_cpu={"node-1": 5000})
        assert check(resize(pod(), Resources(400, 800)), ledger=books) is None

    def test_a_revert_needs_no_room(self) -> None:
        books = ledger(node(cpu=100), committed_cpu={"node-1": 100})
        assert check(revert(pod(), Resources(900, 1200)), ledger=books) is None


class TestQuota:
    def books(self, **used: int) -> Any:
        hard = {"requests.cpu": 3000, "limits.memory": 4 * GI}
        return ledger(quotas=(QuotaView("serving", "q", hard, {"requests.cpu": 2700, "limits.memory": 3 * GI} | used),))

    def test_the_delta_counts(self) -> None:
        refused(resize(pod(), Resources(1000, 2000)), Code.QUOTA, "requests.cpu 500m", "300m", "q", ledger=self.books())
        assert check(resize(pod(), Resources(800, 2000)), ledger=self.books()) is None

    def test_limits_count_as_well(self) -> None:
        refused(resize(pod(), Resources(memory_limit=4 * GI)), Code.QUOTA, "limits.memory", ledger=self.books())

    def test_plain_cpu_means_requests(self) -> None:
        books = ledger(quotas=(QuotaView("serving", "q", {"cpu": 3000}, {"cpu": 2900}),))
        refused(resize(pod(), Resources(1000, 2000)), Code.QUOTA, ledger=books)

    def test_what_was_sent_this_tick_is_spent(self) -> None:
        refused(resize(pod(), Resources(800, 2000)), Code.QUOTA, ledger=self.books(), sent_quota={"requests.cpu": 100})

    def test_a_full_quota_lets_a_shrink_pass(self) -> None:
        """What it frees is seen late; waiting for that is the next decision's business."""
        assert check(resize(pod(), Resources(400, 900)), ledger=self.books(**{"requests.cpu": 9000})) is None


def test_other_resources_are_not_even_known_here() -> None:
    """A GPU can't be dropped by a type that doesn't hold it."""
    one = pod(container(extended={"nvidia.com/gpu": "1"}))
    action: Resize = resize(one, Resources(1000, 2000))
    assert check(action) is None
    assert {"cpu_request", "cpu_limit", "memory_request", "memory_limit"} == set(Resources.__dataclass_fields__)
    assert isinstance(one, Pod)
    assert isinstance(one.containers[0], Container)
