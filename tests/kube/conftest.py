from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from autoscaler.kube.client import KubeClient
from autoscaler.kube.connect import find_access
from tests.kube.api_server import ApiServer


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as running:
        yield running


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[KubeClient]:
    async with KubeClient(find_access(server=server.url), jitter_s=0.01) as connected:
        yield connected
