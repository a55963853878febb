"""What any client meets: watches, pages, conflicts, rights, and a server in trouble. Over HTTP, in virtual time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from autoscaler.emulate.authorize import Rule
from autoscaler.emulate.cluster import EmulatedCluster
from autoscaler.emulate.faults import Trouble
from tests.emulate.conftest import MERGE, STRATEGIC, Ask, Json, small

pytestmark = pytest.mark.looptime
MAPS = "/api/v1/namespaces/serving/configmaps"
SCALE = "/apis/apps/v1/namespaces/serving/deployments/web/scale"


async def events(session: aiohttp.ClientSession, url: str, *, most: int = 1000) -> list[Json]:
    """All events of a watch until it ends, or the first `most`."""
    found: list[Json] = []
    async with session.get(url, timeout=aiohttp.ClientTimeout(None)) as response:
        assert response.status == 200
        async for line in response.content:
            found.append(json.loads(line))
            if len(found) == most:
                break
    return found


def told(found: list[Json]) -> list[tuple[str, str]]:
    return [(one["type"], one["object"]["metadata"].get("name", "")) for one in found]


async def test_a_watch_replays_what_was_missed_then_follows(asked: Ask, session: aiohttp.ClientSession) -> None:
    async with EmulatedCluster(small()) as cluster:
        ask = asked(cluster)
        revision = (await ask("GET", MAPS))["metadata"]["resourceVersion"]
        await ask("POST", MAPS, {"metadata": {"name": "a", "labels": {"k": "v"}}})
        watching = asyncio.create_task(
            events(session, f"{cluster.url}{MAPS}?watch=1&resourceVersion={revision}&timeoutSeconds=5")
        )
        await asyncio.sleep(1.0)
        await ask("PATCH", f"{MAPS}/a", {"data": {"x": "1"}}, content_type=MERGE)
        await ask("DELETE", f"{MAPS}/a")
        assert told(await watching) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_leaving_a_selector_is_a_deletion(asked: Ask, session: aiohttp.ClientSession) -> None:
    async with EmulatedCluster(small()) as cluster:
        ask = asked(cluster)
        url = f"{cluster.url}{MAPS}?watch=1&labelSelector=k%3Dv&timeoutSeconds=5"
        watching = asyncio.create_task(events(session, url))
        await asyncio.sleep(1.0)
        await ask("POST", MAPS, {"metadata": {"name": "a", "labels": {"k": "v"}}})
        await ask("POST", MAPS, {"metadata": {"name": "b", "labels": {"k": "w"}}})
        await ask("PATCH", f"{MAPS}/a", {"metadata": {"labels": {"k": "w"}}}, content_type=MERGE)
        await ask("PATCH", f"{MAPS}/b", {"metadata": {"labels": {"k": "v"}}}, content_type=MERGE)
        assert told(await watching) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "b")]


async def test_a_compacted_revision_is_410_inside_a_200(asked: Ask, session: aiohttp.ClientSession) -> None:
    async with EmulatedCluster(small()) as cluster:
        await asked(cluster)("POST", MAPS, {"metadata": {"name": "a"}})
        cluster.plane.store.compact()
        (error,) = await events(session, f"{cluster.url}{MAPS}?watch=1&resourceVersion=1")
        assert (error["type"], error["object"]["code"], error["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_bookmarks_come_every_minute_and_near_the_end(session: aiohttp.ClientSession) -> None:
    async with EmulatedCluster(small(workloads=[])) as cluster:
        url = f"{cluster.url}{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=150"
        begin = asyncio.get_running_loop().time()
        kinds = [kind for kind, _ in told(await events(session, url))]
        assert kinds == ["BOOKMARK", "BOOKMARK", "BOOKMARK"]
        assert 149 < asyncio.get_running_loop().time() - begin < 152


async def test_initial_events_end_with_a_marked_bookmark(asked: Ask, session: aiohttp.ClientSession) -> None:
    async with EmulatedCluster(small()) as cluster:
        await asked(cluster)("POST", MAPS, {"metadata": {"name": "a"}})
        query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        first, mark = await events(session, f"{cluster.url}{MAPS}?{query}", most=2)
        assert first["type"] == "ADDED"
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_pages_show_one_moment_and_expire_with_a_fresh_token(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        ask = asked(cluster)
        for number in range(5):
            await ask("POST", MAPS, {"metadata": {"name": f"m{number}"}})
        page = await ask("GET", f"{MAPS}?limit=2")
        assert [one["metadata"]["name"] for one in page["items"]] == ["m0", "m1"]
        assert page["metadata"]["remainingItemCount"] == 3
        await ask("DELETE", f"{MAPS}/m3")
        token = page["metadata"]["continue"]
        second = await ask("GET", f"{MAPS}?limit=2&continue={token}")
        assert [one["metadata"]["name"] for one in second["items"]] == ["m2", "m3"]
        cluster.plane.store.compact()
        gone = await ask("GET", f"{MAPS}?limit=2&continue={token}")
        assert (ask.status, gone["reason"]) == (410, "Expired")
        rest = await ask("GET", f"{MAPS}?limit=5&continue={gone['metadata']['continue']}")
        assert [one["metadata"]["name"] for one in rest["items"]] == ["m2", "m4"]


async def test_a_stale_revision_conflicts_and_an_equal_write_changes_nothing(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask = asked(cluster)
        before = await ask("GET", SCALE)
        stale = {"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 3}}
        await ask("PATCH", SCALE, stale, content_type=MERGE)
        assert ask.status == 409
        same = await ask("PATCH", SCALE, {"spec": {"replicas": 2}}, content_type=MERGE)
        assert same["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        await ask("PATCH", f"{SCALE}?dryRun=All", {"spec": {"replicas": 9}}, content_type=MERGE)
        assert (await ask("GET", SCALE))["spec"] == {"replicas": 2}


async def test_scaling_makes_and_removes_pods_of_the_templates_size(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask, kept = asked(cluster), cluster.pods("serving")[0]
        await ask.resize(kept, requests={"cpu": "700m"})
        await ask("PATCH", SCALE, {"spec": {"replicas": 3}}, content_type=MERGE)
        await cluster.settled()
        sizes = sorted(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in cluster.pods("serving"))
        assert sizes == ["500m", "500m", "700m"]
        path = f"/api/v1/namespaces/serving/pods/{kept['metadata']['name']}"
        cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "100"}}}
        await ask("PATCH", path, cost, content_type=MERGE)
        await ask("PATCH", SCALE, {"spec": {"replicas": 1}}, content_type=MERGE)
        await cluster.settled()
        assert [pod["metadata"]["name"] for pod in cluster.pods("serving")] == [kept["metadata"]["name"]]


async def test_a_new_template_is_rolled_out_without_losing_availability(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask, old = asked(cluster), {pod["metadata"]["uid"] for pod in cluster.pods("serving")}
        least = 2
        path = "/apis/apps/v1/namespaces/serving/deployments/web"
        patch = {"spec": {"template": {"spec": {"containers": [{"name": "server", "image": "example.com/server:2"}]}}}}
        await ask("PATCH", path, patch, content_type=STRATEGIC)
        assert ask.status == 200
        for _ in range(400):
            await asyncio.sleep(0.05)
            deployment = cluster.object("Deployment", "serving", "web")
            least = min(least, deployment["status"].get("availableReplicas", 0))
        await cluster.settled()
        assert not old & {pod["metadata"]["uid"] for pod in cluster.pods("serving")}
        assert least == 2


async def test_rights_are_those_of_the_role(asked: Ask, session: aiohttp.ClientSession) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask, pod = asked(cluster), cluster.pods("serving")[0]["metadata"]["name"]
        cluster.add_user("daemon", token="t", rules=[Rule(("",), ("pods",), ("list",), ("serving",))])
        await ask("GET", "/api/v1/namespaces/serving/pods", token="t")
        assert ask.status == 200
        refused = await ask("PATCH", f"/api/v1/namespaces/serving/pods/{pod}/resize", {}, token="t")
        assert refused["message"] == (
            f'pods "{pod}" is forbidden: User "daemon" cannot patch resource "pods/resize" in API group "" in the '
            'namespace "serving"'
        )
        everywhere = await ask("GET", "/api/v1/pods", token="t")
        assert everywhere["message"].endswith("at the cluster scope")
        await ask("GET", "/api/v1/pods", token="nobody knows it")
        assert ask.status == 401
        review = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "serving"}}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        assert (await ask("POST", path, review, token="t"))["status"]["allowed"] is True


async def test_the_audit_tells_reads_from_writes(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask = asked(cluster)
        await ask("GET", "/api/v1/pods")
        assert cluster.audit.writes() == []
        await ask("PATCH", f"{SCALE}?dryRun=All", {"spec": {"replicas": 3}}, content_type=MERGE)
        (entry,) = cluster.audit.writes()
        assert (entry.verb, entry.resource, entry.subresource, entry.name) == ("patch", "deployments", "scale", "web")
        assert (entry.code, entry.dry_run, entry.namespace) == (200, True, "serving")


async def test_the_server_can_be_away_and_come_back_on_its_port(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        ask = asked(cluster)
        await cluster.server_down()
        with pytest.raises(aiohttp.ClientConnectionError):
            await ask("GET", "/version")
        await cluster.server_up()
        await ask("GET", "/version")
        assert ask.status == 200


async def test_troubles_are_answered_as_told_and_as_often(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        ask = asked(cluster)
        cluster.faults.troubles += [
            Trouble("GET /version", code=429, retry_after=7, times=1),
            Trouble("GET /version", code=503, times=1),
            Trouble("POST /version", code=0, times=1),
            Trouble("GET /version", delay=30.0, times=1),
        ]
        await ask("GET", "/version")
        assert (ask.status, ask.headers["Retry-After"]) == (429, "7")
        await ask("GET", "/version")
        assert ask.status == 503
        with pytest.raises(aiohttp.ClientConnectionError):
            await ask("POST", "/version")
        begin = asyncio.get_running_loop().time()
        await ask("GET", "/version")
        assert (ask.status, asyncio.get_running_loop().time() - begin >= 30.0) == (200, True)


async def test_watches_can_be_cut_and_silenced(asked: Ask, session: aiohttp.ClientSession) -> None:
    async with EmulatedCluster(small()) as cluster:
        url = f"{cluster.url}{MAPS}?watch=1"
        watching = asyncio.create_task(events(session, url))
        await asyncio.sleep(1.0)
        cluster.silence_watches()
        await asked(cluster)("POST", MAPS, {"metadata": {"name": "a"}})
        await asyncio.sleep(600.0)
        assert not watching.done()
        cluster.cut_watches()
        cluster.silence_watches(False)
        assert await watching == []


async def test_eviction_keeps_the_disruption_budget(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask = asked(cluster)
        budget: Any = {
            "metadata": {"name": "b"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }
        await ask("POST", "/apis/policy/v1/namespaces/serving/poddisruptionbudgets", budget)
        await asyncio.sleep(1.0)
        codes = []
        for pod in cluster.pods("serving"):
            path = f"/api/v1/namespaces/serving/pods/{pod['metadata']['name']}/eviction"
            answer = await ask("POST", path, {"metadata": {"name": pod["metadata"]["name"]}})
            codes.append((ask.status, (answer.get("details") or {}).get("causes", [{}])[0].get("reason")))
        assert codes == [(201, None), (429, "DisruptionBudget")]
        await cluster.settled()
        assert len(cluster.pods("serving")) == 2


async def test_quota_is_charged_at_once_and_freed_late(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask, (one, other) = asked(cluster), cluster.pods("serving")
        path = "/api/v1/namespaces/serving/resourcequotas"
        cluster.plane.books.freed_after = 5.0
        await ask("POST", path, {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "1200m"}}})
        await asyncio.sleep(1.0)
        await ask.resize(one, requests={"cpu": "700m"})
        assert (await ask("GET", f"{path}/q"))["status"]["used"] == {"requests.cpu": "1200m"}
        refused = await ask.resize(other, requests={"cpu": "600m"})
        assert "exceeded quota: q, requested: requests.cpu=100m, used: requests.cpu=1200m" in refused["message"]
        await ask.resize(one, requests={"cpu": "500m"})
        await asyncio.sleep(1.0)
        await ask.resize(other, requests={"cpu": "600m"})
        assert ask.status == 403
        await asyncio.sleep(10.0)
        await ask.resize(other, requests={"cpu": "600m"})
        assert ask.status == 200


async def test_a_quota_counts_only_the_pods_in_its_scopes(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask, (one, _) = asked(cluster), cluster.pods("serving")
        path = "/api/v1/namespaces/serving/resourcequotas"
        for name, scope, hard in (("jobs", "Terminating", "1m"), ("rest", "NotTerminating", "1200m")):
            spec = {"hard": {"requests.cpu": hard}, "scopes": [scope]}
            await ask("POST", path, {"metadata": {"name": name}, "spec": spec})
        urgent = [{"scopeName": "PriorityClass", "operator": "In", "values": ["urgent"]}]
        spec = {"hard": {"requests.cpu": "1m"}, "scopeSelector": {"matchExpressions": urgent}}
        await ask("POST", path, {"metadata": {"name": "urgent"}, "spec": spec})
        await asyncio.sleep(1.0)
        used = {name: (await ask("GET", f"{path}/{name}"))["status"]["used"] for name in ("jobs", "rest", "urgent")}
        assert [list(of.values()) for of in used.values()] == [["0"], ["1"], ["0"]]
        refused = await ask.resize(one, requests={"cpu": "800m"})
        assert (ask.status, "exceeded quota: rest" in refused["message"]) == (403, True)
        await ask.resize(one, requests={"cpu": "700m"})
        assert ask.status == 200


async def test_a_resize_where_the_pod_itself_has_resources_is_not_guessed(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask = asked(cluster)
        sizes = {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}
        spec = {"containers": [{"name": "app", "image": "app", "resources": sizes}], "resources": sizes}
        await ask("POST", "/api/v1/namespaces/serving/pods", {"metadata": {"name": "whole"}, "spec": spec})
        assert ask.status == 201
        path = "/api/v1/namespaces/serving/pods/whole/resize"
        body = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "150m"}}}]}}
        await ask("PATCH", path, body, content_type=STRATEGIC)
        assert ask.status == 501
        await ask("GET", path)
        assert ask.status == 200


async def test_custom_resources_have_a_status_of_their_own_and_crds_add_kinds(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        ask = asked(cluster)
        path = "/apis/inference-autoscaler.dev/v1alpha1/namespaces/serving/inferenceautoscalers"
        spec = {"scaleTargetRef": {"name": "web"}, "objective": {"latency": {"target": "500ms"}}}
        await ask("POST", path, {"metadata": {"name": "web"}, "spec": spec, "status": {"cpu": "1"}})
        made = await ask("GET", f"{path}/web")
        assert ("status" in made, made["metadata"]["generation"]) == (False, 1)
        await ask("PATCH", f"{path}/web/status", {"status": {"cpu": "2"}, "spec": {"mode": "Off"}}, content_type=MERGE)
        after = await ask("GET", f"{path}/web")
        assert (after["status"], after["spec"]["mode"], after["metadata"]["generation"]) == ({"cpu": "2"}, "Auto", 1)
        await ask("PATCH", f"{path}/web", {"spec": {}}, content_type=STRATEGIC)
        assert ask.status == 415
        names = {"kind": "ScaledObject", "plural": "scaledobjects"}
        version = {"name": "v1alpha1", "served": True, "storage": True}
        definition = {
            "metadata": {"name": "scaledobjects.keda.sh"},
            "spec": {"group": "keda.sh", "names": names, "scope": "Namespaced", "versions": [version]},
        }
        await ask("GET", "/apis/keda.sh/v1alpha1/namespaces/serving/scaledobjects")
        assert ask.status == 404
        await ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        await ask("GET", "/apis/keda.sh/v1alpha1/namespaces/serving/scaledobjects")
        assert ask.status == 200


async def test_what_is_not_played_says_501(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask, pod = asked(cluster), cluster.pods("serving")[0]["metadata"]["name"]
        base = f"/api/v1/namespaces/serving/pods/{pod}"
        for method, path in (("GET", f"{base}/exec"), ("PATCH", f"{base}/ephemeralcontainers")):
            refused = await ask(method, path)
            assert (ask.status, refused["reason"]) == (501, "NotImplemented")
        await ask("PATCH", f"{base}/resize?fieldManager=x", b"{}", content_type="application/apply-patch+yaml")
        assert ask.status == 501
        await ask(
            "PATCH", f"{base}/resize", {"spec": {"resources": {"requests": {"cpu": "1"}}}}, content_type=STRATEGIC
        )
        assert ask.status == 501


async def test_a_resource_that_is_not_served_is_forbidden_first_and_missing_then(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        path = "/apis/keda.sh/v1alpha1/namespaces/serving/scaledobjects"
        cluster.add_user("blind", token="blind", rules=[])
        cluster.add_user("seer", token="seer", rules=[Rule(("keda.sh",), ("scaledobjects",), ("list",))])
        ask = asked(cluster)
        refused = await ask("GET", path, token="blind")
        assert (ask.status, refused["message"]) == (
            403,
            'scaledobjects.keda.sh is forbidden: User "blind" cannot list resource "scaledobjects" in API group '
            '"keda.sh" in the namespace "serving"',
        )
        await ask("GET", path, token="seer")
        assert ask.status == 404
        assert [entry.code for entry in cluster.audit.of("list", "scaledobjects")] == [403, 404]
