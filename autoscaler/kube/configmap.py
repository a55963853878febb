"""One ConfigMap by its name: watched, and changed key by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from autoscaler.kube.answer import Response
from autoscaler.kube.client import DEADLINE_S, MERGE, KubeClient
from autoscaler.kube.discovery import collection_path, object_path
from autoscaler.kube.store import Store
from autoscaler.kube.watch import Kind, Reflector


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _ConfigMap(msgspec.Struct):
    metadata: _Meta
    data: dict[str, str] | None = None

    @property
    def key(self) -> str:
        return self.metadata.uid

    @property
    def resource_version(self) -> str:
        return self.metadata.resource_version


_DECODER: Final = msgspec.json.Decoder(_ConfigMap)


class WatchedConfigMap:
    """``told``: what messages call it. Where it isn't there, or may not be read, it holds nothing."""

    def __init__(self, client: KubeClient, namespace: str, name: str, told: str) -> None:
        self._store: Store[_ConfigMap] = Store()
        path = collection_path("v1", "configmaps", namespace)
        kind = Kind(told, path, _DECODER.decode, {"fieldSelector": f"metadata.name={name}"})
        self._reflector = Reflector(client, kind, self._store)

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._reflector.run()

    @property
    def data(self) -> Mapping[str, str]:
        """What it holds now."""
        return {key: text for found in self._store.items.values() for key, text in (found.data or {}).items()}

    def put(self, answer: Response) -> None:
        """Know what the server said to a write before the watch tells it."""
        self._store.put(_DECODER.decode(answer.body))


async def merge(
    client: KubeClient,
    namespace: str,
    name: str,
    change: Mapping[str, str | None],
    *,
    missing: Mapping[str, str] | None,
    deadline: float = DEADLINE_S,
) -> Response:
    """Change some keys, None takes one away. ``missing``: the data to create it with; None leaves it missing.

    Gives the server's answer, be it yes or no. Raises Unreachable.
    """
    path = object_path("v1", "configmaps", namespace, name)
    answer = await client.request(
        "PATCH", path, body={"data": change}, content_type=MERGE, deadline=deadline, repeatable=True
    )
    if answer.status != 404 or missing is None:
        return answer
    meta = {"name": name, "namespace": namespace}
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": missing}
    return await client.request("POST", collection_path("v1", "configmaps", namespace), body=body, deadline=deadline)
