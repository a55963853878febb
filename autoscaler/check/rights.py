"""Whether this login may do what the program does: one SelfSubjectAccessReview for each verb that is used."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autoscaler.check.findings import Finding, Level, fine
from autoscaler.kube.client import KubeClient
from autoscaler.kube.errors import KubeError
from autoscaler.model.policy import Mode, Policy

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@dataclass(frozen=True, slots=True)
class Right:
    """``group`` empty: the core group. ``namespace`` None: everywhere. ``without``: what is missing without it."""

    verbs: tuple[str, ...]
    group: str
    resource: str
    namespace: str | None
    without: str
    level: Level = Level.PROBLEM
    name: str = ""

    @property
    def words(self) -> str:
        group = f".{self.group}" if self.group else ""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.resource}{group}{where}"


def needed(
    policies: Sequence[Policy],
    *,
    namespace: str | None,
    own_namespace: str,
    plurals: Mapping[tuple[str, str], str],
    dry_run: bool = False,
    resources: bool = False,
    lease: str | None = None,
) -> tuple[Right, ...]:
    """Every right the program uses with these policies. ``namespace``: the one watched, None for all.

    ``plurals``: resource names by (apiVersion, kind); ``lease``: name of the Lease where leaders are elected.
    """
    return (
        *_reading(namespace, resources),
        *(() if dry_run else _writing(policies, plurals)),
        *(() if lease is None else _leading(lease, own_namespace)),
    )


def _reading(namespace: str | None, resources: bool) -> Iterator[Right]:
    look = ("list", "watch")
    yield Right(look, "", "pods", namespace, "nothing can be seen")
    for plural in ("deployments", "replicasets"):
        yield Right(look, "apps", plural, namespace, "targets can't be seen")
    yield Right(look, "apps", "statefulsets", namespace, "StatefulSets can't be targets", Level.WARNING)
    yield Right(look, "", "nodes", None, "room on the nodes is not known: the kubelet defers what doesn't fit",
                Level.WARNING)  # fmt: skip
    for group, plural, without in (
        ("", "limitranges", "LimitRanges are only met as refusals"),
        ("", "resourcequotas", "quotas are only met as refusals"),
        ("policy", "poddisruptionbudgets", "disruption budgets don't hold back restarts and scale-in"),
        ("autoscaling", "horizontalpodautoscalers", "an HPA on the same target goes unnoticed"),
    ):
        yield Right(look, group, plural, namespace, without, Level.WARNING)
    if resources:
        for plural in ("inferenceautoscalers", "capacitybudgets"):
            yield Right(look, "inference-autoscaler.dev", plural, namespace, "policies in the cluster can't be read")
        for plural in ("inferenceautoscalers/status", "capacitybudgets/status"):
            yield Right(("patch",), "inference-autoscaler.dev", plural, namespace,
                        "policies and budgets don't show their status", Level.WARNING)  # fmt: skip


def _writing(policies: Sequence[Policy], plurals: Mapping[tuple[str, str], str]) -> Iterator[Right]:
    acting = [policy for policy in policies if policy.spec.mode is Mode.AUTO]
    for namespace in sorted({policy.ref.namespace for policy in acting}):
        inside = [policy for policy in acting if policy.ref.namespace == namespace]
        if any(policy.spec.vertical.enabled for policy in inside):
            yield Right(("patch",), "", "pods/resize", namespace, "sizes can't be changed (no built-in role grants it)")
            yield Right(("get",), "", "pods/resize", namespace,
                        "commands of `plan -o kubectl` can't be pasted under this login", Level.WARNING)  # fmt: skip
        if any(policy.spec.vertical.enabled and policy.spec.vertical.memory.max is not None for policy in inside):
            yield Right(("create",), "", "pods/eviction", namespace,
                        "a pod that more memory doesn't help is not recreated", Level.WARNING)  # fmt: skip
        if any(policy.spec.horizontal.enabled for policy in inside):
            yield Right(("patch",), "", "pods", namespace,
                        "which pods go first at scale-in can't be chosen", Level.WARNING)  # fmt: skip
            for version, kind in sorted({(p.target.api_version, p.target.kind) for p in inside}):
                plural = plurals.get((version, kind))
                if plural is not None:
                    group = version.rpartition("/")[0]
                    yield Right(("patch",), group, f"{plural}/scale", namespace, "replicas can't be changed")
        yield Right(("create",), "events.k8s.io", "events", namespace, "no Events are written", Level.WARNING)


def _leading(lease: str, namespace: str) -> Iterator[Right]:
    yield Right(("create",), "coordination.k8s.io", "leases", namespace, "no leader can be elected")
    yield Right(("get", "update"), "coordination.k8s.io", "leases", namespace, "no leader can be elected", name=lease)


async def ask(client: KubeClient, rights: Iterable[Right]) -> tuple[Finding, ...]:
    """A finding for each right that is missing or couldn't be asked about; one ok when all are there."""
    rights = tuple(rights)
    pairs = [(right, verb) for right in rights for verb in right.verbs]
    answers = await asyncio.gather(*(_may(client, right, verb) for right, verb in pairs))
    found: list[Finding] = []
    for right in rights:
        lacking = [verb for (one, verb), may in zip(pairs, answers, strict=True) if one is right and may is False]
        unknown = [may for (one, _), may in zip(pairs, answers, strict=True) if one is right and isinstance(may, str)]
        if lacking:
            remedy = f"grant {' and '.join(lacking)} on {right.words} (manifests/rbac)"
            text = f"may not {' or '.join(lacking)} {right.words}, so {right.without}"
            found.append(Finding(right.level, "cluster", "rights", text, remedy))
        elif unknown:
            found.append(
                Finding(Level.WARNING, "cluster", "rights", f"rights on {right.words} are not known", str(unknown[0]))
            )
    if not found:
        return (fine("cluster", "rights", f"all {len(pairs)} rights that are used are granted"),)
    return tuple(found)


async def _may(client: KubeClient, right: Right, verb: str) -> bool | str:
    """Whether it is allowed; a text when the server couldn't say."""
    resource, _, subresource = right.resource.partition("/")
    attributes = {"verb": verb, "group": right.group, "resource": resource}
    if subresource:
        attributes["subresource"] = subresource
    if right.namespace:
        attributes["namespace"] = right.namespace
    if right.name:
        attributes["name"] = right.name
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    try:
        answer = (await client.request("POST", REVIEWS, None, body, repeatable=True)).expect("ask for rights")
        return bool((answer.json().get("status") or {}).get("allowed"))
    except KubeError as error:
        return str(error)
