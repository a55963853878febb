"""Who acts already: the Lease and its holder, and pods that were resized in our name although nobody holds it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from autoscaler.act.patches import FIELD_MANAGER
from autoscaler.check.findings import Finding, fine, warn
from autoscaler.kube.client import KubeClient
from autoscaler.kube.discovery import object_path
from autoscaler.kube.errors import KubeError
from autoscaler.model.seen import Subject

LATELY_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Held:
    """The Lease ``name`` (namespace/name); ``holder`` empty while nobody holds it, ``renewed`` as the holder wrote."""

    name: str
    holder: str = ""
    renewed: str = ""


async def read(client: KubeClient, namespace: str, name: str) -> Held | None:
    """None where it can't be read, which a lacking right says already."""
    told = f"{namespace}/{name}"
    try:
        answer = await client.request("GET", object_path("coordination.k8s.io/v1", "leases", namespace, name))
        if answer.status == 404:
            return Held(told)
        spec = answer.expect("read the lease").json().get("spec") or {}
    except KubeError:
        return None
    return Held(told, spec.get("holderIdentity") or "", spec.get("renewTime") or "")


def of_lease(held: Held | None, elect: bool, subjects: Iterable[Subject], now: float) -> Iterator[Finding]:
    """``elect``: whether ``run`` would ask for the Lease; ``now`` in unix seconds."""
    if held is not None and held.holder:
        text = f"{held.holder} holds the lease {held.name} (renewed {held.renewed})"
        if elect:
            yield fine("cluster", "leader", f"{text}: another `run` stands by until it ends")
        else:
            yield warn("cluster", "leader", f"{text}, and a `run` without leader election would act beside it",
                       "end one of them, or leave out --no-leader-elect")  # fmt: skip
        return
    ages = {
        f"{pod.namespace}/{pod.name}": now - pod.resized_at
        for subject in subjects for pod in subject.view.pods
        if pod.resized_by == FIELD_MANAGER and pod.resized_at is not None and now - pod.resized_at < LATELY_S
    }  # fmt: skip
    if ages:
        pod, age = min(ages.items(), key=lambda one: one[1])
        lease = f"nobody holds the lease {held.name}" if held is not None else "the lease can't be read"
        yield warn(
            "cluster", "leader", f"{pod} was resized as {FIELD_MANAGER} {max(0.0, age):.0f}s ago, and {lease}: another"
            " process may act with another Lease or none", "end it first, or give both the same --leader-namespace and"
            " --leader-name",
        )  # fmt: skip
