"""Everything a check asks: the server, the rights, and one look at each workload as a tick would see it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from autoscaler.act.apply import Applier
from autoscaler.act.show import PrintingSink
from autoscaler.check import leading, metrics, probe, rights, server, workloads
from autoscaler.check.findings import Finding, warn, wrong
from autoscaler.kube.discovery import Discovery, server_version
from autoscaler.kube.errors import KubeError, NoRight, Refused
from autoscaler.loop import ControlLoop
from autoscaler.model.seen import Seen
from autoscaler.observe.policy_files import Policies
from autoscaler.parts import Parts, opened
from autoscaler.settings import Settings

SYNC_S: Final = 15.0
NOT_INSTALLED: Final = "(HTTP 404)"
"""A kind that this cluster doesn't have (VPA, KEDA) can't be in the way."""


@dataclass(frozen=True, slots=True)
class Asked:
    """``looks`` at the load, one interval apart (rates need two); ``probe``: also ask by a trial resize."""

    looks: int = 2
    probe: bool = False


async def look(settings: Settings, policies: Policies, asked: Asked) -> tuple[Finding, ...]:
    """All findings, the cluster's first. Raises KubeconfigError where there is no way to a cluster at all."""
    async with opened(settings) as parts:
        try:
            version = await server_version(parts.client)
            resize = await Discovery(parts.client).has("v1", "pods/resize")
        except KubeError as error:
            return (_no_server(parts.client.where, error),)
        found: list[Finding] = []
        seen, obeyed = await _see(parts, settings, policies, asked.looks, found)
        found = [*server.of_server(version, resize, obeyed.policies), *await _rights(parts, settings, obeyed), *found]
        if not settings.dry_run:
            held = await leading.read(parts.client, parts.namespace, settings.leader.name)
            found += leading.of_lease(held, settings.leader.elect, seen.subjects, parts.clock.now())
        pages = await asyncio.gather(*(metrics.of_page(subject) for subject in seen.subjects))
        for subject, page in zip(seen.subjects, pages, strict=True):
            found += workloads.of_workload(subject, seen.ledger)
            found += [*metrics.of_metrics(subject), *page]
            if asked.probe:
                found += await probe.probe(parts.client, (subject,))
        if not obeyed.policies:
            found.append(warn("cluster", "policies", "no policy is obeyed", "name one with --policy"))
        return tuple(found)


def _no_server(where: str, error: KubeError) -> Finding:
    """The server refuses the login, answers with an error, or doesn't answer: three things to do."""
    if isinstance(error, NoRight) and error.refusal.status == 401:
        todo = "log in anew, or name credentials that are valid with --kubeconfig and --context"
        return wrong("cluster", "server", f"{where} refuses the login: {error}", todo)
    if isinstance(error, NoRight):
        return wrong("cluster", "server", f"{where} refuses a look at its version: {error}", "grant system:discovery")
    if isinstance(error, Refused):
        return wrong("cluster", "server", f"{where} answers no API: {error}", "name an API server with --kubeconfig")
    todo = "look whether it runs and can be reached, or name another with --kubeconfig, --context or --server"
    return wrong("cluster", "server", f"{where} doesn't answer: {error}", todo)


async def _see(
    parts: Parts, settings: Settings, policies: Policies, looks: int, found: list[Finding]
) -> tuple[Seen, Policies]:
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(parts.watch(), name="watch")
        try:
            if not await parts.wait_synced(SYNC_S):
                for problem in parts.observer.problems() or ("pods and targets were not read in time",):
                    found.append(wrong("cluster", "sight", problem, "without sight nothing is decided"))
                return Seen(parts.clock.now(), ()), parts.obeyed(policies)
            obeyed = parts.obeyed(policies)
            found += _resources(parts, policies)
            found += [
                warn("cluster", "sight", problem, "allow it, or live without it")
                for problem in parts.observer.problems()
                if NOT_INSTALLED not in problem
            ]
            loop = ControlLoop(
                parts.observer, parts.source, Applier(PrintingSink(), clock=parts.clock.now), parts.clock, obeyed
            )
            for turn in range(looks):
                if turn:
                    await asyncio.sleep(settings.interval)
                seen = await loop.observe()
            return seen, obeyed
        finally:
            watching.cancel()


def _resources(parts: Parts, policies: Policies) -> Iterable[Finding]:
    """Custom resources that are refused."""
    if parts.resources is None:
        return ()
    refused = parts.resources.mixed(policies).refused
    return [wrong("cluster", "policies", line, "correct it") for line in refused.values()]


async def _rights(parts: Parts, settings: Settings, obeyed: Policies) -> tuple[Finding, ...]:
    try:
        plurals = await parts.resource_names(obeyed)
    except KubeError:
        plurals = {}
    needed = rights.needed(
        obeyed.policies,
        namespace=settings.namespace,
        own_namespace=parts.namespace,
        plurals=plurals,
        dry_run=settings.dry_run,
        resources=settings.resources,
        lease=settings.leader.name if settings.leader.elect and not settings.dry_run else None,
    )
    return await rights.ask(parts.client, needed)
