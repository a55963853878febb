"""``autoscaler sidecar``: beside the model server, in its pod."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import secrets
import signal
from collections.abc import Mapping

from autoscaler.cli import FAILED, OK, Wrong
from autoscaler.cli.start import one_way_in
from autoscaler.model.policy import Policy
from autoscaler.settings import Settings, SettingsError, load
from autoscaler.settings import add_arguments as add_settings

INTERVAL_S = 1.0
_SETTINGS = ("policy", "kubeconfig", "context", "server", "interval", "dry_run", "api", "http", "log")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, _SETTINGS)
    parser.add_argument("--pod", metavar="NAME", help="the own pod [POD_NAME, else HOSTNAME]")
    parser.add_argument("--pod-namespace", metavar="NAME", help="its namespace [POD_NAMESPACE, else the token's]")
    parser.add_argument(
        "--metrics-host", metavar="HOST", default="127.0.0.1", help="where the model server's page is [127.0.0.1]"
    )


def run(args: argparse.Namespace) -> int:
    try:
        settings, warnings = load(args, os.environ)
    except SettingsError as error:
        raise Wrong(*error.lines) from None
    one_way_in(settings)
    if "interval" not in settings.model_fields_set:
        settings = settings.model_copy(update={"interval": INTERVAL_S})
    pod = args.pod or os.environ.get("POD_NAME") or os.environ.get("HOSTNAME")
    if not pod:
        raise Wrong("which pod is this? Set POD_NAME from the downward API (fieldRef: metadata.name), or give --pod")
    from autoscaler.serve.logs import configure

    configure(settings.log.format, settings.log.level)
    for warning in warnings:
        logging.getLogger("autoscaler").warning(warning)
    return asyncio.run(_serve(settings, args, pod, os.environ))


async def _serve(settings: Settings, args: argparse.Namespace, pod: str, environ: Mapping[str, str]) -> int:
    from autoscaler.kube.client import KubeClient
    from autoscaler.kube.connect import find_access
    from autoscaler.kube.errors import KubeError
    from autoscaler.loop import Clock
    from autoscaler.observe.cluster import ClusterObserver, Scope
    from autoscaler.observe.scrape import ScrapeSource
    from autoscaler.parts import container_of_preset
    from autoscaler.reload import Reloading
    from autoscaler.serve.http import serving
    from autoscaler.sidecar.process import Place, Sidecar, Sources

    try:
        access = find_access(settings.kubeconfig, settings.context, settings.server)
    except KubeError as error:
        raise Wrong(str(error)) from None
    clock = asyncio.get_running_loop().time
    async with (
        KubeClient(access, qps=settings.api.qps, burst=settings.api.burst) as client,
        ScrapeSource(host=args.metrics_host, clock=clock) as own,
        ScrapeSource(clock=clock) as everyone,
    ):
        namespace = args.pod_namespace or environ.get("POD_NAMESPACE") or client.namespace
        policy = _policy(settings, namespace)
        observer = ClusterObserver(
            client, Scope(namespace=namespace, nodes=False), preset_container=container_of_preset
        )
        place = Place(namespace, pod, f"{pod}_{secrets.token_hex(4)}")
        sidecar = Sidecar(
            client, observer, Sources(own, everyone), Clock(), place, policy,
            interval=settings.interval, dry_run=settings.dry_run,
            file=Reloading(settings.policy, lambda: _read(settings, namespace), policy),
        )  # fmt: skip
        stop = asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, stop.set)
        try:
            async with serving(settings.http.listen, sidecar.health, sidecar.metrics):
                await sidecar.run(stop)
        except OSError as error:
            raise Wrong(f"--http-listen {settings.http.listen}: {error.strerror or error}", code=FAILED) from None
    return OK


def _policy(settings: Settings, namespace: str) -> Policy:
    if not settings.policy:
        raise Wrong("--policy is missing; name the file with this workload's InferenceAutoscaler")
    try:
        return _read(settings, namespace)
    except ValueError as error:
        raise Wrong(*str(error).splitlines()) from None


def _read(settings: Settings, namespace: str) -> Policy:
    """The one policy of the file; it is about the pod's own namespace. Raises ValueError, a line for each mistake."""
    from autoscaler.observe import policy_files

    found = policy_files.load(settings.policy, namespace)
    if len(found.policies) != 1:
        raise ValueError(f"--policy: a sidecar obeys one InferenceAutoscaler, here are {len(found.policies)}; keep one")
    (policy,) = found.policies
    if policy.ref.namespace != namespace:
        raise ValueError(
            f"{policy.origin}: metadata.namespace: {policy.ref.namespace} is not the pod's namespace {namespace}; "
            "drop the field or correct it"
        )
    return policy
