"""The pause switches: an annotation on one target, and a ConfigMap in the program's own namespace for everything."""

from __future__ import annotations

from typing import Final

from autoscaler.kube.client import MERGE, KubeClient
from autoscaler.kube.configmap import WatchedConfigMap, merge
from autoscaler.kube.discovery import Discovery, object_path
from autoscaler.kube.errors import KubeError
from autoscaler.model.workload import TargetRef
from autoscaler.observe.views import PAUSE

SWITCH = "inference-autoscaler-pause"
"""Name of the ConfigMap; everything is held while its key ``paused`` is ``true``."""


LEASES: Final = ("coordination.k8s.io/v1", "leases")


class PauseSwitch:
    """Watches the ConfigMap; ``paused`` is what it says now. Where it may not be read, nothing is paused by it."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._switch = WatchedConfigMap(client, namespace, SWITCH, "pause switch")

    async def run(self) -> None:
        await self._switch.run()

    @property
    def paused(self) -> bool:
        return self._switch.data.get("paused", "").lower() == "true"


async def obeying(client: KubeClient, lease: str, namespace: str) -> list[str] | None:
    """Other namespaces in which the program runs (its Lease is held), where it does not in this one: nobody obeys this
    one's switch then. Empty: it runs here. None: nothing was seen, or may be.
    """
    if await _held(client, object_path(*LEASES, namespace, lease)):
        return []
    try:
        answer = await client.request("GET", "/apis/coordination.k8s.io/v1/leases")
        found = answer.expect("look for the program's Lease").json().get("items") or []
    except KubeError:
        return None
    held = [one["metadata"]["namespace"] for one in found
            if one["metadata"]["name"] == lease and (one.get("spec") or {}).get("holderIdentity")]  # fmt: skip
    return sorted(held) or None


async def _held(client: KubeClient, path: str) -> bool:
    try:
        answer = await client.request("GET", path)
        spec = answer.expect("read the Lease").json().get("spec") if answer.status == 200 else None
    except KubeError:
        return False
    return bool((spec or {}).get("holderIdentity"))


async def set_all(client: KubeClient, namespace: str, paused: bool) -> None:
    """Turn the switch for everything. Raises KubeError."""
    value = {"paused": "true" if paused else "false"}
    answer = await merge(client, namespace, SWITCH, value, missing=value if paused else None)
    if answer.status == 404 and not paused:
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
