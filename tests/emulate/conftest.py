"""A small emulated cluster, and short ways to ask it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest

from autoscaler.emulate.cluster import ClusterSpec, EmulatedCluster, NodeSpec, WorkloadSpec

Json = dict[str, Any]
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"


class Asked:
    """A client of one cluster: `status` and `headers` of the last answer, its body as JSON returned."""

    def __init__(self, cluster: EmulatedCluster, session: aiohttp.ClientSession) -> None:
        self.cluster = cluster
        self.session = session
        self.status = 0
        self.headers: Any = {}

    async def __call__(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json", token: str = ""
    ) -> Json:
        headers = {"Content-Type": content_type} | ({"Authorization": f"Bearer {token}"} if token else {})
        data = body if isinstance(body, bytes) or body is None else json.dumps(body)
        async with self.session.request(method, self.cluster.url + path, data=data, headers=headers) as response:
            self.status, self.headers = response.status, response.headers
            raw = await response.read()
        try:
            read: Json = json.loads(raw)
        except ValueError:
            return {"text": raw.decode()}
        return read

    async def resize(self, pod: Json, *, query: str = "", container: str = "server", **sides: Json) -> Json:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/resize{query}"
        patch = {"spec": {"containers": [{"name": container, "resources": sides}]}}
        return await self("PATCH", path, patch, content_type=STRATEGIC)


Ask = Callable[[EmulatedCluster], Asked]


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture
def asked(session: aiohttp.ClientSession) -> Ask:
    return lambda cluster: Asked(cluster, session)


def small(**more: Any) -> ClusterSpec:
    """One node of 4 cores, one Deployment of two pods (500m..1 core, 256Mi..512Mi)."""
    workload = WorkloadSpec(
        "web", namespace="serving", replicas=2, cpu="500m", memory="256Mi", cpu_limit="1", memory_limit="512Mi", grace=1
    )
    spec: dict[str, Any] = {"nodes": [NodeSpec("node-1", cpu="4", memory="8Gi")], "workloads": [workload]}
    return ClusterSpec(**(spec | more))


def conditions(pod: Json) -> dict[str, Json]:
    return {one["type"]: one for one in pod["status"]["conditions"]}
