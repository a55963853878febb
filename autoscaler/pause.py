"""The pause switches: an annotation on one target, and a ConfigMap in the program's own namespace for everything."""

from __future__ import annotations

import msgspec

from autoscaler.kube.client import JSON, MERGE, KubeClient
from autoscaler.kube.discovery import Discovery, collection_path, object_path
from autoscaler.kube.errors import KubeError
from autoscaler.kube.store import Store
from autoscaler.kube.watch import Kind, Reflector
from autoscaler.model.workload import TargetRef
from autoscaler.observe.views import PAUSE

SWITCH = "inference-autoscaler-pause"
"""Name of the ConfigMap; everything is held while its key ``paused`` is ``true``."""


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
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


_DECODER = msgspec.json.Decoder(_ConfigMap)


class PauseSwitch:
    """Watches the ConfigMap; ``paused`` is what it says now. Where it may not be read, nothing is paused by it."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        query = {"fieldSelector": f"metadata.name={SWITCH}"}
        path = collection_path("v1", "configmaps", namespace)
        self._store: Store[_ConfigMap] = Store()
        self.reflector = Reflector(client, Kind("pause switch", path, _DECODER.decode, query), self._store)

    async def run(self) -> None:
        await self.reflector.run()

    @property
    def paused(self) -> bool:
        return any((found.data or {}).get("paused", "").lower() == "true" for found in self._store.items.values())


async def set_all(client: KubeClient, namespace: str, paused: bool) -> None:
    """Turn the switch for everything. Raises KubeError."""
    path = object_path("v1", "configmaps", namespace, SWITCH)
    value = {"data": {"paused": "true" if paused else "false"}}
    answer = await client.request("PATCH", path, body=value, content_type=MERGE, repeatable=True)
    if answer.status == 404 and paused:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SWITCH, "namespace": namespace}, **value}
        answer = await client.request(
            "POST", collection_path("v1", "configmaps", namespace), body=body, content_type=JSON
        )
    elif answer.status == 404:
        return
    answer.expect(f"set {SWITCH} in {namespace}")


async def set_one(client: KubeClient, namespace: str, target: TargetRef, paused: bool) -> None:
    """Turn the switch of one target: an annotation. Raises KubeError."""
    resource = await Discovery(client).kind(target.api_version, target.kind)
    if resource is None:
        raise KubeError(f"the server has no {target.kind} in {target.api_version}")
    body = {"metadata": {"annotations": {PAUSE: "true" if paused else None}}}
    path = resource.path(namespace, target.name)
    answer = await client.request("PATCH", path, body=body, content_type=MERGE, repeatable=True)
    answer.expect(f"annotate {target} in {namespace}")
