"""`metadata.managedFields`: who resized, who set the replicas."""

from __future__ import annotations

import asyncio

import pytest

from autoscaler.emulate.cluster import EmulatedCluster
from tests.emulate.conftest import MERGE, STRATEGIC, Ask, Json, small

pytestmark = pytest.mark.looptime
BASE = "/apis/apps/v1/namespaces/serving/deployments/web"


def entries(thing: Json) -> dict[tuple[str, str], Json]:
    listed = thing["metadata"].get("managedFields") or []
    return {(one["manager"], one.get("subresource", "")): one["fieldsV1"] for one in listed}


async def test_a_resize_and_a_scale_leave_their_managers_name(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask, pod = asked(cluster), cluster.pods("serving")[0]
        answer = await ask.resize(pod, query="?fieldManager=ours", requests={"cpu": "600m"})
        owned = entries(answer)["ours", "resize"]
        assert owned == {
            "f:spec": {"f:containers": {'k:{"name":"server"}': {"f:resources": {"f:requests": {"f:cpu": {}}}}}}
        }
        answer = await ask.resize(pod, query="?fieldManager=theirs", requests={"cpu": "700m"})
        assert list(entries(answer)) == [("theirs", "resize")]
        await ask("PATCH", f"{BASE}/scale?fieldManager=ours", {"spec": {"replicas": 3}}, content_type=MERGE)
        assert entries(await ask("GET", BASE))["ours", "scale"] == {"f:spec": {"f:replicas": {}}}


async def test_a_write_that_changes_nothing_owns_nothing(asked: Ask) -> None:
    async with EmulatedCluster(small()) as cluster:
        await cluster.settled()
        ask, pod = asked(cluster), cluster.pods("serving")[0]
        same = await ask.resize(pod, query="?fieldManager=ours", requests={"cpu": "0.5"})
        assert entries(same) == {}
        path = f"{BASE}?fieldManager=ours"
        await ask("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, content_type=STRATEGIC)
        before = await ask("GET", BASE)
        await asyncio.sleep(5.0)
        again = await ask("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, content_type=STRATEGIC)
        assert again["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
