"""What every command that touches a cluster begins with: settings, policies, and one line for what is wrong."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

from autoscaler import settings as tree
from autoscaler.cli import FAILED, Wrong
from autoscaler.kube.errors import KubeconfigError, KubeError
from autoscaler.observe import policy_files
from autoscaler.observe.policy_files import Policies
from autoscaler.observe.policy_measures import asks_prometheus
from autoscaler.observe.policy_object import PolicyError
from autoscaler.serve import logs
from autoscaler.settings import Settings, SettingsError

T = TypeVar("T")


def settings_of(args: argparse.Namespace) -> Settings:
    """Flags, variables and file; raises Wrong. Variables that only look like settings are told on stderr."""
    try:
        settings, warnings = tree.load(args)
    except SettingsError as error:
        raise Wrong(*error.lines) from None
    for warning in warnings:
        print(warning, file=sys.stderr)
    one_way_in(settings)
    logs.configure(settings.log.format, settings.log.level)
    return settings


def one_way_in(settings: Settings) -> None:
    """Raises Wrong for two ways to an API server, of which one would be ignored."""
    if settings.server and (settings.kubeconfig or settings.context):
        raise Wrong(
            "--server goes not with --kubeconfig or --context: it says where the API server is; name one of them"
        )


def policies_of(settings: Settings, *, needed: bool = True) -> Policies:
    """The policies that the settings name; raises Wrong."""
    if not settings.policy:
        if needed and not settings.resources:
            raise Wrong(
                "no policy: name a file or directory with --policy, or obey those in the cluster with --resources"
            )
        return Policies()
    try:
        policies = policy_files.load(settings.policy, settings.namespace or "default")
    except PolicyError as error:
        raise Wrong(*error.lines) from None
    if not settings.prometheus.url:
        queries = [line for policy in policies.policies for line in asks_prometheus(policy)]
        if queries:
            raise Wrong(*queries)
    return policies


def finish(work: Callable[[], Awaitable[T]]) -> T:
    """Run to the end; what a person can mend becomes one line."""

    async def inside() -> T:
        return await work()

    try:
        return asyncio.run(inside())
    except* Wrong as group:
        raise _first(group) from None
    except* KubeconfigError as group:
        raise Wrong(*_lines(group)) from None
    except* KubeError as group:
        raise Wrong(*_lines(group), code=FAILED) from None
    except* OSError as group:
        raise Wrong(*_lines(group), code=FAILED) from None


def _first(group: BaseExceptionGroup[Wrong]) -> Wrong:
    """What a person has to mend, said inside a task."""
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _lines(group: BaseExceptionGroup[BaseException]) -> list[str]:
    found: list[str] = []
    for error in group.exceptions:
        found += _lines(error) if isinstance(error, BaseExceptionGroup) else [" ".join(str(error).split())]
    return list(dict.fromkeys(found))
