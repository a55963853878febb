"""What a check says about each thing that may be in the way."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.check.findings import Finding, Level, as_json, as_text, fine, warn, works, wrong
from autoscaler.check.metrics import of_metrics
from autoscaler.check.rights import needed
from autoscaler.check.server import of_server
from autoscaler.check.workloads import of_workload
from autoscaler.kube.discovery import ServerVersion
from autoscaler.model.plan import Ledger, LimitRangeView, QuotaView
from autoscaler.model.seen import Subject
from autoscaler.model.signal import Absent, Cause, Measured, Signals
from autoscaler.model.workload import Pod, Qos, ResizeRestart, Resources, ScaleView, WorkloadView
from tests.act.made import GI, container, ledger, node, pod, policy, view

PLURALS = {("apps/v1", "Deployment"): "deployments"}


def findings(one: WorkloadView | None = None, books: Ledger | None = None, **spec: Any) -> list[Finding]:
    seen = one if one is not None else view(pod())
    subject = Subject(seen, policy(**spec))
    return list(of_workload(subject, books or ledger()))


def said(found: list[Finding], level: Level, *words: str) -> Finding:
    for finding in found:
        if finding.level is level and all(word in f"{finding.text}: {finding.remedy}" for word in words):
            return finding
    raise AssertionError(f"no {level} with {words} in\n{as_text(found)}")


def levels(found: list[Finding]) -> set[Level]:
    return {finding.level for finding in found}


class TestServer:
    def test_a_known_version_is_fine(self) -> None:
        assert levels(list(of_server(ServerVersion(1, 36), True, (policy(),)))) == {Level.OK}

    @pytest.mark.parametrize(("minor", "word"), [(31, "upgrade"), (32, "alpha feature gate"), (34, "feature gate")])
    def test_without_the_subresource_sizes_cannot_change(self, minor: int, word: str) -> None:
        found = list(of_server(ServerVersion(1, minor), False, (policy(),)))
        said(found, Level.PROBLEM, "pods/resize", word)

    def test_replicas_only_needs_no_subresource(self) -> None:
        only = policy(vertical={"enabled": False})
        assert works(list(of_server(ServerVersion(1, 30), False, (only,))))

    def test_1_33_does_not_shrink_memory(self) -> None:
        shrinking = policy(vertical={"memory": {"max": "4Gi", "shrink": "WhenSafe"}})
        said(list(of_server(ServerVersion(1, 33), True, (shrinking,))), Level.WARNING, "1.33", "memory")
        assert levels(list(of_server(ServerVersion(1, 34), True, (shrinking,)))) == {Level.OK}

    def test_a_newer_server_than_known_is_told(self) -> None:
        said(list(of_server(ServerVersion(1, 41), True, ())), Level.WARNING, "newer")


class TestWorkload:
    def test_an_ordinary_one_is_fine(self) -> None:
        assert works(findings())

    def test_a_target_that_cannot_be_decided_on(self) -> None:
        found = findings(view(hold="deployment/resnet doesn't exist"))
        assert len(found) == 1
        said(found, Level.PROBLEM, "doesn't exist")

    @pytest.mark.parametrize(
        ("one", "word"),
        [
            (pod(static=True), "static"),
            (pod(windows=True), "Windows"),
            (pod(container(size=Resources()), qos=Qos.BEST_EFFORT), "BestEffort"),
            (pod(container(size=Resources(memory_request=GI))), "neither a CPU request nor a limit"),
        ],
    )
    def test_pods_that_cannot_be_resized(self, one: Pod, word: str) -> None:
        said(findings(view(one)), Level.PROBLEM, word)

    def test_guaranteed_pods_move_both_sides(self) -> None:
        one = view(pod(container(size=Resources(1000, 1000, GI, GI)), qos=Qos.GUARANTEED))
        said(findings(one, vertical={"cpu": {"controls": "RequestsOnly"}}), Level.PROBLEM, "RequestsAndLimits")
        said(findings(one), Level.WARNING, "static CPU")

    def test_limits_only_needs_a_limit(self) -> None:
        one = view(pod(container(size=Resources(500, None, GI, None))))
        said(findings(one, vertical={"cpu": {"controls": "LimitsOnly"}}), Level.PROBLEM, "no CPU limit")
        said(findings(one), Level.WARNING, "only the request is set")

    def test_restart_container_is_told(self) -> None:
        one = view(pod(container(cpu_restart=ResizeRestart.RESTART_CONTAINER)))
        said(findings(one), Level.WARNING, "CPU restarts")

    def test_a_device_is_told(self) -> None:
        said(findings(view(pod(container(extended={"nvidia.com/gpu": "1"})))), Level.WARNING, "GPU")

    def test_live_sizes_outside_the_bounds(self) -> None:
        said(findings(vertical={"cpu": {"max": "500m"}}), Level.WARNING, "vertical.cpu.max is 500m")
        said(findings(vertical={"cpu": {"min": "2", "max": "4"}}), Level.WARNING, "vertical.cpu.min is 2")
        said(findings(vertical={"cpu": {"min": "500m", "max": "4"}}), Level.OK, "500m to 4")

    def test_another_owner_of_replicas_or_sizes(self) -> None:
        one = view(pod(), scale=ScaleView(1, 1, other_owner="hpa/x"))
        said(findings(one), Level.PROBLEM, "hpa/x")
        assert works(findings(one, horizontal={"enabled": False}))
        said(findings(view(pod(), size_owner="vpa/y")), Level.PROBLEM, "vpa/y")

    def test_a_limit_range_within_the_bounds(self) -> None:
        books = ledger(limit_ranges={"serving": LimitRangeView(cpu_max=1500, cpu_min=200)})
        found = findings(books=books, vertical={"cpu": {"max": "4"}})
        said(found, Level.WARNING, "at most 1500m")
        said(found, Level.WARNING, "at least 200m")

    def test_a_full_quota(self) -> None:
        books = ledger(quotas=(QuotaView("serving", "q", {"requests.cpu": 1000}, {"requests.cpu": 950}),))
        said(findings(books=books), Level.WARNING, "quota q", "50m")

    def test_a_quota_that_leaves_a_step_and_no_new_pod(self) -> None:
        books = ledger(quotas=(QuotaView("serving", "q", {"requests.cpu": 600}, {"requests.cpu": 500}),))
        bounds = {"vertical": {"cpu": {"max": "4"}}}
        one = view(pod(), template=Resources(500, 1000))
        found = findings(one, books=books, **bounds, horizontal={"maxReplicas": 3})
        said(found, Level.WARNING, "100m of requests.cpu left (600m hard, 500m used)", "takes 500m", "maxReplicas: 1")
        found = findings(one, books=books, **bounds)
        said(found, Level.WARNING, "100m of requests.cpu left", "allow 1500m more", "vertical.cpu.max")
        said(findings(one, books=books, vertical={"cpu": {"max": "1200m"}}), Level.OK, "100m of requests.cpu left")

    def test_a_quota_of_limits_and_of_memory(self) -> None:
        hard, used = {"limits.cpu": 2000, "limits.memory": 4 * GI}, {"limits.cpu": 1000, "limits.memory": 2 * GI}
        books = ledger(quotas=(QuotaView("serving", "q", hard, used), QuotaView("other", "o", {"cpu": 1}, {"cpu": 1})))
        found = findings(view(pod()), books, vertical={"cpu": {"max": "3"}, "memory": {"max": "6Gi"}})
        said(found, Level.WARNING, "1 of limits.cpu left", "allow 2 more")
        said(found, Level.WARNING, "2Gi of limits.memory left", "allow 4Gi more", "vertical.memory.max")
        assert not any("quota o" in one.text for one in found)
        only = findings(view(pod()), books, vertical={"cpu": {"max": "3", "controls": "RequestsOnly"}})
        said(only, Level.OK, "1 of limits.cpu left")

    def test_a_quota_of_pods(self) -> None:
        books = ledger(quotas=(QuotaView("serving", "q", {"pods": 2}, {"pods": 1}),))
        said(findings(books=books, horizontal={"maxReplicas": 2}), Level.OK, "1 of pods left (2 hard, 1 used)")
        found = findings(books=books, horizontal={"maxReplicas": 3})
        said(found, Level.WARNING, "allow 2 more", "lower horizontal.maxReplicas")

    def test_a_minimum_that_nothing_can_give(self) -> None:
        books = ledger(node(cpu=16000))
        said(findings(books=books, vertical={"cpu": {"min": "64"}}), Level.PROBLEM, "any node can give", "has 16 CPU")
        assert works(findings(books=books, vertical={"cpu": {"min": "16"}}))
        books = ledger(limit_ranges={"serving": LimitRangeView(pod_cpu_max=1500)})
        said(findings(books=books, vertical={"cpu": {"min": "2"}}), Level.PROBLEM, "1500m CPU a pod", "or less")

    def test_a_full_node(self) -> None:
        books = ledger(node(cpu=4000), committed_cpu={"node-1": 3950})
        said(findings(books=books), Level.WARNING, "no room to grow on 1 of its 1 nodes (node-1)")
        said(findings(books=ledger(node(cpu=4000))), Level.OK, "4 CPU free")

    def test_a_maximum_beyond_its_nodes(self) -> None:
        said(findings(books=ledger(node(cpu=4000)), vertical={"cpu": {"max": "8"}}), Level.WARNING, "any of its nodes")

    def test_nodes_out_of_sight(self) -> None:
        said(findings(books=Ledger(nodes_known=False)), Level.WARNING, "nodes can't be seen")

    def test_replicas(self) -> None:
        said(findings(), Level.WARNING, "maxReplicas is not set")
        said(findings(horizontal={"maxReplicas": 4}), Level.OK, "at most 4")
        said(findings(view(pod(), scale=None)), Level.WARNING, "no scale subresource")
        said(findings(view(scale=ScaleView(0, 0))), Level.WARNING, "means off")
        said(findings(view(pod(), pdb_min_available=1)), Level.WARNING, "none may be away")

    def test_modes_that_do_not_act(self) -> None:
        said(findings(mode="DryRun"), Level.WARNING, "nothing is sent")
        said(findings(mode="Off"), Level.WARNING, "nothing is decided")
        said(findings(view(pod(), paused=True)), Level.WARNING, "autoscaler resume serving/resnet")

    def test_a_resize_under_way(self) -> None:
        waiting = pod(container(allocated=Resources(cpu_request=300)))
        said(findings(view(waiting)), Level.WARNING, "not granted")


class TestMetrics:
    GOOD = Signals(
        requests=Measured(5),
        misses=Measured(0.0, age_s=2.0, source="scrape"),
        in_flight=Measured(1),
        cpu=Measured(0.5),
        throttled=Measured(0.0),
        working_set=Measured(GI),
    )

    def found(self, signals: Signals, **spec: Any) -> list[Finding]:
        return list(of_metrics(Subject(view(pod(), signals=signals), policy(**spec))))

    def test_measured_and_fresh(self) -> None:
        found = self.found(self.GOOD)
        assert levels(found) == {Level.OK}
        said(found, Level.OK, "by scrape", "2s old")

    @pytest.mark.parametrize("cause", sorted(set(Cause) - {Cause.NO_TRAFFIC, Cause.NAN}))
    def test_every_cause_has_its_line(self, cause: Cause) -> None:
        found = self.found(replace(self.GOOD, misses=Absent(cause, "somewhere")))
        assert all(finding.remedy for finding in found)
        assert any(str(cause) in finding.text and "somewhere" in finding.text for finding in found)

    def test_what_nobody_measures_is_a_problem(self) -> None:
        said(self.found(replace(self.GOOD, misses=Absent(Cause.NO_SUCH_METRIC))), Level.PROBLEM, "spec.signals")
        said(self.found(replace(self.GOOD, misses=Absent(Cause.NO_BUCKET))), Level.PROBLEM, "bucket at the target")

    @pytest.mark.parametrize(
        ("name", "absent", "words"),
        [
            ("misses", Absent(Cause.NOT_CONFIGURED, "none of signals.sources is set up in this process"),
             ("--prometheus-url", "[prometheus, scrape, kubelet")),
            ("misses", Absent(Cause.NO_SUCH_METRIC, "x", "prometheus"), ("scrapes these pods", "spec.signals")),
            ("misses", Absent(Cause.NO_SUCH_METRIC, "x", "scrape"), ("autoscaler presets",)),
            ("misses", Absent(Cause.REFUSED, "h:9090 refuses the credentials (HTTP 401)", "prometheus"),
             ("--prometheus-token-file",)),
            ("misses", Absent(Cause.SOURCE_DOWN, "x", "prometheus"), ("--prometheus-url",)),
            ("misses", Absent(Cause.SOURCE_DOWN, "x", "scrape"), ("prometheus.io/port",)),
            ("throttled", Absent(Cause.NO_SUCH_METRIC, "x", "kubelet"), ("CPU limit",)),
            ("throttled", Absent(Cause.NO_SUCH_METRIC, "x", "prometheus"), ("CPU limit", "cadvisor")),
            ("cpu", Absent(Cause.NO_SUCH_METRIC, "x", "scrape"), ("signals.sources",)),
            ("cpu", Absent(Cause.REFUSED, "x", "kubelet"), ("nodes/proxy",)),
            ("cpu", Absent(Cause.NOT_CONFIGURED), ("signals.sources",)),
        ],
    )  # fmt: skip
    def test_the_remedy_is_of_who_was_asked_for_what(self, name: str, absent: Absent, words: tuple[str, ...]) -> None:
        found = self.found(replace(self.GOOD, **{name: absent}))
        (told,) = [one for one in found if one.level is not Level.OK]
        assert all(word in told.remedy for word in words), told.remedy
        if name != "misses":
            assert "spec.signals" not in told.remedy

    def test_no_traffic_is_not(self) -> None:
        said(self.found(replace(self.GOOD, misses=Absent(Cause.NO_TRAFFIC))), Level.WARNING, "send it some requests")

    def test_another_objective_stands_in(self) -> None:
        both = {"latency": {"target": "500ms"}, "cpu": {"targetUtilization": "70%"}}
        assert works(self.found(replace(self.GOOD, misses=Absent(Cause.NO_SUCH_METRIC)), objective=both))

    def test_old_partial_or_noted_readings(self) -> None:
        said(self.found(replace(self.GOOD, misses=Measured(0.0, age_s=45))), Level.WARNING, "signals.maxAge 30s")
        said(self.found(replace(self.GOOD, misses=Measured(0.0, coverage=0.5))), Level.WARNING, "50% of the pods")
        noted = Measured(0.0, note="bucket 0.25 instead of 0.5")
        said(self.found(replace(self.GOOD, misses=noted)), Level.WARNING, "bucket 0.25")

    def test_what_only_helps_is_no_problem(self) -> None:
        bare = Signals(misses=self.GOOD.misses)
        found = self.found(bare)
        assert works(found)
        said(found, Level.WARNING, "CPU use", "buys no CPU")


class TestRights:
    def asked(self, *policies: Any, **more: Any) -> set[tuple[str, str, str | None]]:
        known = {"namespace": None, "own_namespace": "me", "plurals": PLURALS} | more
        rights = needed(policies or (policy(),), **known)
        return {(verb, right.words, right.namespace) for right in rights for verb in right.verbs}

    def test_every_verb_that_is_used(self) -> None:
        asked = self.asked()
        assert ("patch", "pods/resize in serving", "serving") in asked
        assert ("get", "pods/resize in serving", "serving") in asked
        assert ("patch", "deployments/scale.apps in serving", "serving") in asked
        assert ("create", "events.events.k8s.io in serving", "serving") in asked
        assert ("watch", "pods", None) in asked

    def test_pods_are_recreated_only_where_memory_may_grow(self) -> None:
        evict = ("create", "pods/eviction in serving", "serving")
        assert evict not in self.asked()
        assert evict in self.asked(policy(vertical={"memory": {"max": "4Gi"}}))

    def test_a_dry_run_writes_nothing(self) -> None:
        verbs = {verb for verb, _, _ in self.asked(dry_run=True)}
        assert verbs == {"list", "watch"}
        shown = {verb for verb, words, _ in self.asked(policy(mode="DryRun")) if "events" not in words}
        assert shown == {"list", "watch"}

    def test_leaders_need_a_lease(self) -> None:
        assert ("update", "leases.coordination.k8s.io in me", "me") in self.asked(lease="x")

    def test_one_namespace_is_asked_about_alone(self) -> None:
        assert ("list", "pods in serving", "serving") in self.asked(namespace="serving")

    def test_replicas_left_alone_need_no_scale(self) -> None:
        words = {words for _, words, _ in self.asked(policy(horizontal={"enabled": False}))}
        assert not any("/scale" in one for one in words)


def test_one_line_a_finding_and_a_last_line_that_counts() -> None:
    found = [fine("cluster", "server", "fine"), warn("serving/a", "x", "so so", "do"), wrong("b", "y", "bad", "mend")]
    lines = as_text(found).splitlines()
    assert lines == [
        "ok       cluster    fine",
        "warning  serving/a  so so: do",
        "problem  b          bad: mend",
        "1 ok, 1 warnings, 1 problems",
    ]


def test_json_says_the_same() -> None:
    shown = json.loads(as_json([wrong("b", "y", "bad", "mend")]))
    assert shown == {
        "works": False,
        "findings": [{"level": "problem", "about": "b", "topic": "y", "text": "bad", "remedy": "mend"}],
    }
