"""The parts that a tick needs, opened from the settings and closed again: for the daemon and ``plan`` alike."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autoscaler.act.brakes import FleetLimits
from autoscaler.kube.client import KubeClient
from autoscaler.kube.connect import find_access
from autoscaler.kube.discovery import Discovery
from autoscaler.kube.pace import READ
from autoscaler.loop import Clock
from autoscaler.model.policy import Policy
from autoscaler.model.workload import Pod
from autoscaler.observe.cluster import ClusterObserver, Scope
from autoscaler.observe.fallback import Fallback
from autoscaler.observe.kubelet import KubeletSource
from autoscaler.observe.metrics_api import MetricsApiSource
from autoscaler.observe.policy_files import Policies
from autoscaler.observe.policy_object import POLICY_KIND
from autoscaler.observe.ports import RememberingSource, Watched
from autoscaler.observe.resources import CustomResources
from autoscaler.observe.scrape import ScrapeSource
from autoscaler.settings import Settings

FETCH_S: Final = 3.0
"""Deadline of one page that is read through the API server."""


@dataclass(frozen=True, slots=True)
class Parts:
    """``namespace``: the program's own, where its Lease and its pause switch are."""

    client: KubeClient
    observer: ClusterObserver
    source: Fallback
    clock: Clock
    namespace: str
    resources: CustomResources | None = None
    """Policies that are objects in the cluster; None when they aren't asked for."""

    def obeyed(self, files: Policies) -> Policies:
        """The policies of the files and, where asked for, of the cluster."""
        if self.resources is None:
            return files
        mixed = self.resources.mixed(files)
        return Policies(mixed.policies, mixed.budgets)

    async def watch(self) -> None:
        """Keep the sight of the cluster fresh, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.observer.run(), name="watch the cluster")
            if self.resources is not None:
                tasks.create_task(self.resources.run(), name="watch custom resources")

    async def wait_synced(self, timeout: float) -> bool:
        """Wait for the first sight of everything; False when it didn't come in time."""
        try:
            async with asyncio.timeout(timeout):
                if self.resources is not None:
                    await self.resources.wait_settled()
                return await self.observer.wait_synced(timeout)
        except TimeoutError:
            return False

    def look(self, pod: Pod) -> Pod | None:
        """The newest sight of a pod, None when it is gone."""
        seen = self.observer.known.pods.items.get(pod.uid)
        return seen.pod if seen is not None else None

    async def resource_names(self, policies: Policies) -> Mapping[tuple[str, str], str]:
        """Plural names by (apiVersion, kind) of all targets, as the server tells them."""
        discovery = Discovery(self.client)
        kinds = {(policy.target.api_version, policy.target.kind) for policy in policies.policies}
        found = {kind: await discovery.kind(*kind) for kind in sorted(kinds)}
        return {kind: resource.plural for kind, resource in found.items() if resource is not None}


@asynccontextmanager
async def opened(settings: Settings, *, epoch: float | None = None) -> AsyncIterator[Parts]:
    """Raises KubeError when there is no way to the cluster. ``epoch``: unix seconds now, for clocks that are not the
    wall's."""
    async with AsyncExitStack() as stack:
        access = find_access(settings.kubeconfig, settings.context, settings.server)
        client = await stack.enter_async_context(KubeClient(access, qps=settings.api.qps, burst=settings.api.burst))
        observer = ClusterObserver(client, Scope(namespace=settings.namespace), preset_container=container_of_preset)
        sources = await _sources(settings, client, stack)
        own = settings.leader.namespace or os.environ.get("POD_NAMESPACE") or client.namespace
        resources = CustomResources(client, settings.namespace) if settings.resources else None
        yield Parts(client, observer, Fallback(sources), Clock(epoch), own, resources)


async def _sources(settings: Settings, client: KubeClient, stack: AsyncExitStack) -> list[RememberingSource]:
    """All sources of this process; each policy says in which order it asks them."""
    clock = asyncio.get_running_loop().time

    async def fetch(path: str) -> bytes:
        return (await client.request("GET", path, deadline=FETCH_S, priority=READ)).expect(f"read {path}").body

    sources: list[RememberingSource] = [
        await stack.enter_async_context(ScrapeSource(clock=clock)),
        KubeletSource(fetch, clock=clock),
        MetricsApiSource(fetch, clock=clock),
    ]
    told = settings.prometheus
    if told.url is not None:
        # Imported here: requests costs a tenth of a second and ten megabytes that not everybody needs.
        from autoscaler.observe.prometheus import Prometheus, PrometheusSettings
        from autoscaler.observe.prometheus_source import PrometheusSource

        reached = PrometheusSettings(
            url=told.url,
            bearer_token_file=_path(told.token_file),
            username=told.username,
            password_file=_path(told.password_file),
            ca_file=_path(told.ca_file),
            client_certificate=(Path(told.certificate_file), Path(told.key_file))
            if told.certificate_file and told.key_file
            else None,
            insecure_skip_verify=told.insecure,
            proxy=told.proxy,
            headers=dict(header.split("=", 1) for header in told.headers),
            query_s=told.timeout,
            pod_label=told.pod_label,
            namespace_label=told.namespace_label,
            replica_labels=told.replica_labels,
        )
        door = await stack.enter_async_context(Prometheus(reached))
        sources.append(PrometheusSource(door, clock=clock, confine=from_cluster))
    return sources


def _path(name: str | None) -> Path | None:
    return Path(name) if name is not None else None


def from_cluster(watched: Watched) -> bool:
    """Whether the policy is a custom resource: whoever wrote it may not read what this process may."""
    return watched.policy.origin.startswith(f"{POLICY_KIND} ")


def limits_of(settings: Settings) -> FleetLimits:
    return FleetLimits(settings.brakes.cores_per_minute, settings.brakes.resizes_in_flight)


def container_of_preset(policy: Policy) -> str:
    """The usual container name of the policy's preset, empty when it has none."""
    from autoscaler.observe import presets
    from autoscaler.observe.names import UnknownPreset

    name = policy.spec.signals.preset
    if name is None:
        return ""
    try:
        return presets.get(name).container
    except UnknownPreset:
        return ""
