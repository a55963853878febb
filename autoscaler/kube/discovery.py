"""What this server is and offers: version, resize dialect, kinds with their plurals and subresources."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import msgspec

from autoscaler.kube.client import KubeClient
from autoscaler.kube.errors import NotFound
from autoscaler.kube.wire import Wire


@dataclass(frozen=True, slots=True, order=True)
class ServerVersion:
    major: int
    minor: int
    text: str = ""

    def __str__(self) -> str:
        return self.text or f"v{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True)
class ApiResource:
    """One kind of one API group version."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    scalable: bool

    def path(self, namespace: str, name: str, subresource: str = "") -> str:
        return object_path(self.api_version, self.plural, namespace if self.namespaced else None, name, subresource)


class _Version(Wire):
    major: str = ""
    minor: str = ""
    git_version: str = ""


class _Resource(Wire):
    name: str = ""
    kind: str = ""
    namespaced: bool = False


class _Resources(Wire):
    resources: list[_Resource] | None = None


_VERSION: Final = msgspec.json.Decoder(_Version)
_RESOURCES: Final = msgspec.json.Decoder(_Resources)


def group_path(api_version: str) -> str:
    """``v1`` → ``/api/v1``; ``apps/v1`` → ``/apis/apps/v1``."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def collection_path(api_version: str, plural: str, namespace: str | None) -> str:
    """A collection in one namespace, or everywhere (None)."""
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"{group_path(api_version)}{inside}/{plural}"


def object_path(api_version: str, plural: str, namespace: str | None, name: str, subresource: str = "") -> str:
    end = f"/{subresource}" if subresource else ""
    return f"{collection_path(api_version, plural, namespace)}/{name}{end}"


async def server_version(client: KubeClient) -> ServerVersion:
    """Raises KubeError when it isn't told."""
    answer = (await client.request("GET", "/version")).expect("ask the server's version")
    said = _VERSION.decode(answer.body)
    numbers = re.match(r"v?(\d+)\.(\d+)", said.git_version) or re.match(r"(\d+)\.(\d+)", f"{said.major}.{said.minor}")
    return ServerVersion(int(numbers[1]), int(numbers[2]), said.git_version) if numbers else ServerVersion(0, 0)


class Discovery:
    """Asks once per group version and remembers; ``forget`` when a CRD may have come or gone."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._known: dict[str, tuple[_Resource, ...]] = {}

    def forget(self) -> None:
        self._known.clear()

    async def has(self, api_version: str, resource: str) -> bool:
        """Whether the server has a resource or subresource, such as ``("v1", "pods/resize")``."""
        return any(found.name == resource for found in await self._resources(api_version))

    async def kind(self, api_version: str, kind: str) -> ApiResource | None:
        """The resource of a kind; None when the server has none."""
        listed = await self._resources(api_version)
        for found in listed:
            if found.kind == kind and "/" not in found.name:
                scalable = any(other.name == f"{found.name}/scale" for other in listed)
                return ApiResource(api_version, kind, found.name, found.namespaced, scalable)
        return None

    async def _resources(self, api_version: str) -> tuple[_Resource, ...]:
        if api_version not in self._known:
            try:
                answer = (await self._client.request("GET", group_path(api_version))).expect(f"discover {api_version}")
            except NotFound:
                return ()
            self._known[api_version] = tuple(_RESOURCES.decode(answer.body).resources or ())
        return self._known[api_version]
