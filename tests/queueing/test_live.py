"""Pods under a CPU quota: closed forms, throttling, the quota write, draining, dropping."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.queueing.live import ServingPods
from autoscaler.queueing.state import BALANCING


def one_pod(*, limit=None, cores=64.0, **fleet):
    serving = ServingPods(keep_finished=True, **fleet)
    serving.add_pod("a", at=0.0, limit=limit, cores=cores)
    return serving


def latencies(serving):
    return [end - arrival for _, arrival, end in serving.finished()]


def mean_sojourn(*, servers, load, fixed, requests):
    """Mean time in system over mean service time of a queue with Poisson arrivals, by simulation."""
    dice = random.Random(7)
    serving = one_pod(threads=servers, balance="shared")
    now, service, total, count = 0.0, 0.02, 0.0, 0
    for number in range(1, requests + 1):
        now += dice.expovariate(load * servers / service)
        serving.offer(now, service if fixed else dice.expovariate(1 / service))
        if number % 1000 == 0:
            serving.advance(now)
            for _, arrival, end in serving.finished():
                total, count = total + end - arrival, count + 1
    return total / count / service


def test_single_server_queues_have_their_textbook_waits():
    assert mean_sojourn(servers=1, load=0.5, fixed=False, requests=40_000) == pytest.approx(2.0, rel=0.03)
    assert mean_sojourn(servers=1, load=0.5, fixed=True, requests=40_000) == pytest.approx(1.5, rel=0.02)


def test_a_request_longer_than_its_quota_waits_for_the_refills():
    serving = one_pod(limit=0.5, threads=1)
    serving.offer(0.0, work=0.120)  # 50 ms now, 50 ms at 100 ms, 20 ms at 200 ms
    serving.advance(1.0)
    assert latencies(serving) == [pytest.approx(0.220)]
    pod = serving.sample("a")
    assert pod.periods == 3 and pod.throttled_periods == 2
    assert pod.throttled_seconds == pytest.approx(0.100)
    assert pod.cpu_seconds == pytest.approx(0.120)


def test_threads_burn_the_quota_together():
    serving = one_pod(limit=0.5, threads=4)
    for _ in range(4):
        serving.offer(0.0, work=0.020)  # 50 ms of quota last 12.5 ms; 30 ms are left for the next period
    serving.advance(1.0)
    assert latencies(serving) == [pytest.approx(0.1075)] * 4


def test_cores_of_the_node_bound_the_burst():
    serving = one_pod(limit=8.0, cores=2.0, threads=4)
    for _ in range(4):
        serving.offer(0.0, work=0.020)
    serving.advance(1.0)
    assert latencies(serving) == [pytest.approx(0.040)] * 4


def test_one_request_can_use_several_cores():
    serving = one_pod(limit=4.0, threads=1, parallelism=2.0)
    serving.offer(0.0, work=0.050)
    serving.advance(1.0)
    assert latencies(serving) == [pytest.approx(0.025)]


def test_a_larger_quota_works_at_once():
    serving = one_pod(limit=0.1, threads=1)
    serving.offer(0.0, work=0.050)
    serving.set_limit("a", 1.0, at=0.030)  # 10 ms were burnt by then
    serving.advance(1.0)
    assert latencies(serving) == [pytest.approx(0.070)]


def test_waiting_off_the_cpu_holds_the_thread_and_burns_nothing():
    serving = one_pod(limit=1.0, threads=1)
    serving.offer(0.0, work=0.010, wait=0.200)
    serving.offer(0.0, work=0.010)
    serving.advance(1.0)
    assert latencies(serving) == [pytest.approx(0.210), pytest.approx(0.220)]
    assert serving.sample("a").cpu_seconds == pytest.approx(0.020)


def test_a_batch_pays_its_fixed_part_once():
    serving = one_pod(threads=1, batch=3, batch_cpu=0.020, batch_wait=0.005)
    serving.offer(0.0, work=0.010)
    for _ in range(3):
        serving.offer(0.001, work=0.010, wait=0.001)
    serving.advance(1.0)
    alone = 0.010 + 0.020 + 0.005
    together = 3 * 0.010 + 0.020 + 3 * 0.001 + 0.005
    assert latencies(serving) == [pytest.approx(alone)] + [pytest.approx(alone + together - 0.001)] * 3


def test_beyond_the_queue_limit_arrivals_are_dropped():
    serving = one_pod(threads=1, queue_limit=2, balance="round-robin")
    for _ in range(5):
        serving.offer(0.0, work=0.010)
    serving.advance(1.0)
    pod = serving.sample("a")
    assert (pod.arrivals, pod.completions, pod.dropped, serving.dropped) == (5, 3, 2, 2)


def test_a_drained_pod_finishes_what_it_has_and_is_gone():
    serving = one_pod(threads=1)
    serving.offer(0.0, work=0.010)
    serving.offer(0.0, work=0.010)
    serving.advance(0.005)
    serving.add_pod("b", at=0.005, limit=None)
    serving.remove_pod("a")
    serving.offer(0.006, work=0.001)
    serving.advance(1.0)
    assert list(serving.pods) == ["b"]
    assert [name for name, _, end in serving.finished() if end > 0] == ["b", "a", "a"]


def test_a_killed_pod_drops_what_it_has():
    serving = one_pod(threads=1)
    serving.offer(0.0, work=0.010)
    serving.offer(0.0, work=0.010)
    serving.advance(0.005)
    serving.remove_pod("a", drain=False)
    assert serving.dropped == 2 and serving.in_flight == 0


def test_without_a_pod_arrivals_are_refused_except_from_a_shared_queue():
    refusing, waiting = ServingPods(balance="random"), ServingPods(balance="shared")
    for serving in (refusing, waiting):
        serving.offer(0.0, work=0.010)
        serving.advance(1.0)
    assert refusing.dropped == 1
    assert waiting.dropped == 0 and waiting.shared_waiting == 1
    waiting.add_pod("a", at=1.0, limit=1.0)
    waiting.advance(2.0)
    assert waiting.sample("a").completions == 1


requests = st.lists(
    st.tuples(st.floats(0.0, 3.0), st.floats(0.0, 0.2), st.sampled_from([0.0, 0.01])), min_size=1, max_size=60
)


@settings(deadline=None)
@given(
    requests,
    st.sampled_from(sorted(BALANCING)),
    st.integers(1, 4),
    st.floats(0.05, 2.0),
    st.integers(0, 5),
    st.integers(1, 3),
    st.lists(st.floats(0.0, 3.0), max_size=4),
)
def test_nothing_is_lost_and_the_quota_is_never_exceeded(load, balance, threads, limit, queue, batch, stops):
    serving = ServingPods(threads=threads, balance=balance, queue_limit=queue, batch=batch, keep_finished=True)
    for name in "abc":
        serving.add_pod(name, at=0.0, limit=limit, cores=2.0)
    for arrival, work, wait in sorted(load):
        serving.offer(arrival, work, wait)
    for stop in sorted(stops):
        serving.advance(stop)
        assert serving.in_flight >= 0
    serving.advance(500.0)
    done = list(serving.finished())
    assert len(done) == len(load)
    assert all(end < 0 or end >= arrival for _, arrival, end in done)
    served = sum(pod.completions for pod in serving.pods.values())
    assert served + serving.dropped == len(load) and serving.in_flight == 0
    for pod in serving.pods.values():
        assert pod.cpu_seconds <= limit * 0.1 * (pod.periods + 1) + 1e-6
        assert pod.throttled_periods <= pod.periods
    if not serving.dropped:
        total = sum(work for _, work, _ in load)
        assert sum(pod.cpu_seconds for pod in serving.pods.values()) == pytest.approx(total, abs=1e-6)


# Always the same examples: an end that falls on a quota's refill to the last digit may go to either of two pods.
@settings(deadline=None, derandomize=True)
@given(requests, st.lists(st.floats(0.0, 3.0), max_size=6))
def test_looking_in_between_changes_nothing(load, stops):
    def ends(stops):
        serving = ServingPods(threads=2, balance="shared", keep_finished=True)
        for name in "ab":
            serving.add_pod(name, at=0.0, limit=0.3, cores=2.0)
        for arrival, work, wait in sorted(load):
            serving.offer(arrival, work, wait)
        for stop in sorted(stops):
            serving.advance(stop)
        serving.advance(500.0)
        return sorted(end for _, _, end in serving.finished())

    assert ends(stops) == pytest.approx(ends([]), abs=1e-6)


def test_a_spinning_thread_pool_makes_cpu_per_request_depend_on_the_gap():
    def cpu_per_request(gap):
        serving = one_pod(threads=1, spin_window=0.064)
        for number in range(50):
            serving.offer(number * (0.018 + gap), work=0.018)
        serving.advance(50 * (0.018 + gap))
        return serving.sample("a").cpu_seconds / 50

    assert cpu_per_request(0.0) == pytest.approx(0.018)
    assert cpu_per_request(0.03) == pytest.approx(0.048)
    assert cpu_per_request(0.4) == pytest.approx(0.082)
