"""The whole check against emulated clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoscaler import settings as tree
from autoscaler.check.findings import Finding, Level, as_text, works
from autoscaler.check.look import Asked, look
from autoscaler.emulate.authorize import Rule
from autoscaler.emulate.cluster import ClusterSpec, EmulatedCluster, NodeSpec, WorkloadSpec
from autoscaler.emulate.faults import Trouble
from autoscaler.emulate.spec import LoadSpec, ServiceSpec
from autoscaler.kube.client import STRATEGIC_MERGE, KubeClient
from autoscaler.kube.connect import find_access
from autoscaler.observe.policy_files import Policies
from tests.act.made import policy
from tests.manifests.test_rights import role_rules

pytestmark = pytest.mark.looptime

SIGNALS = {"preset": "generic", "sources": ["scrape"]}


def spec(**workload: Any) -> ClusterSpec:
    known = {"namespace": "serving", "replicas": 2, "cpu": "500m", "cpu_limit": "1", "memory": "1Gi"} | workload
    return ClusterSpec(
        nodes=[NodeSpec("node-1", cpu="4", memory="16Gi")],
        workloads=[WorkloadSpec("resnet", **known)],
        kubernetes=known.pop("kubernetes", "1.36"),
    )


async def check(cluster: EmulatedCluster, *, probe: bool = False, **more: Any) -> tuple[Finding, ...]:
    fixed = {"server": cluster.url, "interval": 1.0} | more
    settings, _ = tree.load(None, {}, **fixed)
    policies = Policies((policy(signals=SIGNALS, horizontal={"maxReplicas": 4}),))
    return await look(settings, policies, Asked(looks=3, probe=probe))


def said(found: tuple[Finding, ...], level: Level, *words: str) -> None:
    assert any(one.level is level and all(word in f"{one.text}: {one.remedy}" for word in words) for one in found), (
        as_text(found)
    )


async def test_a_service_under_load_that_will_be_sized() -> None:
    service = ServiceSpec(work=0.02, startup=0.5, startup_cpu=1.0)
    async with EmulatedCluster(spec(service=service, load=LoadSpec(steps=[(0.0, 10.0)]))) as cluster:
        await cluster.settled()
        found = await check(cluster, probe=True)
        assert works(found), as_text(found)
        said(found, Level.OK, "running pods can be resized")
        said(found, Level.OK, "rights that are used are granted")
        said(found, Level.OK, "misses of the latency objective measured by scrape")
        said(found, Level.OK, "the server would take")
        assert not any("HTTP 404" in one.text for one in found)
        changed = [entry for entry in cluster.audit.writes() if "accessreviews" not in str(entry)]
        assert changed
        assert all("dryRun=All" in str(entry) for entry in changed), changed


async def test_missing_rights_are_named_with_what_they_cost(tmp_path: Path) -> None:
    async with EmulatedCluster(spec()) as cluster:
        await cluster.settled()
        rules = [
            Rule(("",), ("pods",), ("list", "watch")),
            Rule(("apps",), ("deployments", "replicasets", "statefulsets"), ("list", "watch")),
        ]
        cluster.add_user("poor", token="poor", rules=rules)
        kubeconfig = cluster.kubeconfig(tmp_path / "config", token="poor")
        found = await check(cluster, server=None, kubeconfig=str(kubeconfig))
        said(found, Level.PROBLEM, "may not patch pods/resize in serving", "no built-in role grants it")
        said(found, Level.PROBLEM, "may not patch deployments/scale.apps", "grant patch")
        said(found, Level.WARNING, "nodes", "room")
        assert not works(found)


@pytest.mark.parametrize("overlay", ["cluster", "dry-run"])
async def test_the_roles_we_ship_are_enough(overlay: str, tmp_path: Path) -> None:
    async with EmulatedCluster(spec()) as cluster:
        await cluster.settled()
        cluster.add_user("daemon", token="daemon", rules=role_rules(overlay))
        kubeconfig = cluster.kubeconfig(tmp_path / "config", token="daemon")
        found = await check(cluster, server=None, kubeconfig=str(kubeconfig), dry_run=overlay == "dry-run",
                            leader={"namespace": "inference-autoscaler"})  # fmt: skip
        assert not [one for one in found if one.topic in ("rights", "sight") and one.level is Level.PROBLEM]
        missing = {one.text for one in found if one.topic == "rights" and one.level is Level.WARNING}
        kubectl_only = "may not get pods/resize in serving, so commands of `plan -o kubectl` can't be pasted"
        assert all(text.startswith(kubectl_only) for text in missing)
        assert len(missing) == (0 if overlay == "dry-run" else 1)


async def test_a_server_that_is_away() -> None:
    async with EmulatedCluster(spec()) as cluster:
        await cluster.server_down()
        found = await check(cluster)
        said(found, Level.PROBLEM, "doesn't answer")


async def test_a_target_that_is_not_there() -> None:
    async with EmulatedCluster(ClusterSpec(nodes=[NodeSpec("node-1")])) as cluster:
        cluster.plane.add_namespace("serving")
        said(await check(cluster), Level.PROBLEM, "doesn't exist")


async def test_pods_without_a_metrics_page() -> None:
    async with EmulatedCluster(spec()) as cluster:
        await cluster.settled()
        found = await check(cluster)
        said(found, Level.PROBLEM, "misses of the latency objective")


async def test_a_probe_meets_the_webhook() -> None:
    async with EmulatedCluster(spec()) as cluster:
        await cluster.settled()
        body = (
            b'{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden",'
            b'"message":"admission webhook \\"sizes.example.com\\" denied the request: sizes are frozen"}'
        )
        cluster.faults.troubles.append(Trouble("PATCH .*/resize", code=403, body=body, content_type="application/json"))
        said(await check(cluster, probe=True), Level.PROBLEM, "sizes are frozen", "webhook")


async def test_another_preset_is_proposed_from_what_a_pods_page_shows() -> None:
    service = ServiceSpec(work=0.02, startup=0.5, startup_cpu=1.0)
    async with EmulatedCluster(spec(service=service, load=LoadSpec(steps=[(0.0, 10.0)]))) as cluster:
        await cluster.settled()
        settings, _ = tree.load(None, {}, server=cluster.url, interval=1.0)
        for signals in ({"preset": "triton", "sources": ["scrape"]}, {"sources": ["scrape"]}):
            policies = Policies((policy(signals=signals, horizontal={"maxReplicas": 4}),))
            found = await look(settings, policies, Asked(looks=3))
            said(found, Level.WARNING, "A server instrumented by hand", "set signals.preset: generic")


async def test_who_acts_already_is_named() -> None:
    async with EmulatedCluster(spec()) as cluster:
        await cluster.settled()
        (pod, *_) = cluster.pods("serving")
        path = f"/api/v1/namespaces/serving/pods/{pod['metadata']['name']}/resize?fieldManager=inference-autoscaler"
        size = {"spec": {"containers": [{"name": "server", "resources": {"requests": {"cpu": "600m"}}}]}}
        lease = {"metadata": {"name": "inference-autoscaler"}, "spec": {"holderIdentity": "a-pod"}}
        async with KubeClient(find_access(server=cluster.url)) as client:
            (await client.request("PATCH", path, None, size, STRATEGIC_MERGE)).expect("resize")
            said(await check(cluster), Level.WARNING, "was resized as inference-autoscaler", "nobody holds the lease")
            leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
            (await client.request("POST", leases, None, lease)).expect("lease")
        said(await check(cluster), Level.OK, "a-pod holds the lease default/inference-autoscaler", "stands by")
        said(await check(cluster, leader={"elect": False}), Level.WARNING, "would act beside it")
