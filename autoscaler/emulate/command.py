"""`autoscaler emulate`: a cluster to play with, until Ctrl-C."""

import argparse
import asyncio
import contextlib
import signal
import sys
import tempfile
from pathlib import Path

from autoscaler.emulate import versions
from autoscaler.emulate.cluster import EmulatedCluster
from autoscaler.emulate.spec import BadSpec, ClusterSpec, LoadSpec, NodeSpec, ServiceSpec, WorkloadSpec, load

_WRONG = 2
_FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: any that is free)")
    parser.add_argument(
        "--kubernetes",
        metavar="VERSION",
        help=f"the version to play: {', '.join(versions.NAMES)} (default: the spec's)",
    )
    parser.add_argument(
        "--spec", type=Path, metavar="FILE", help="nodes and workloads as YAML (default: a small cluster)"
    )
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="where to write it (default: a temporary file)")
    parser.add_argument("--audit", type=Path, metavar="FILE", help="append every request to it as a JSON line")


def default_spec() -> ClusterSpec:
    """Two nodes and one service whose load rises after a minute beyond what its pods can serve."""
    return ClusterSpec(
        nodes=[NodeSpec("node-1", cpu="4", memory="16Gi"), NodeSpec("node-2", cpu="4", memory="16Gi", zone="zone-b")],
        workloads=[
            WorkloadSpec(
                "resnet",
                namespace="serving",
                replicas=2,
                cpu="500m",
                memory="512Mi",
                service=ServiceSpec(work=0.02, work_variation=0.3, startup=1.0, startup_cpu=4.0),
                load=LoadSpec(steps=[(0.0, 0.0), (10.0, 20.0), (70.0, 60.0)]),
            )
        ],
    )


def run(args: argparse.Namespace) -> int:
    """Exit 0 after SIGINT or SIGTERM, 1 when the port or a file can't be used, 2 for a wrong spec."""
    if not 0 <= args.port <= 65535:
        print(
            f"autoscaler emulate: --port {args.port} is no port: 1 to 65535, or 0 for any that is free", file=sys.stderr
        )
        return _WRONG
    try:
        spec = load(args.spec) if args.spec is not None else default_spec()
        if args.kubernetes is not None:
            versions.version(args.kubernetes)
            spec = spec.playing(args.kubernetes)
    except (BadSpec, ValueError) as trouble:
        print(f"autoscaler emulate: {trouble}", file=sys.stderr)
        return _WRONG
    with contextlib.ExitStack() as stack:
        kubeconfig = args.kubeconfig
        if kubeconfig is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="emulated-cluster-"))
            kubeconfig = Path(folder) / "kubeconfig"
        try:
            asyncio.run(_serve(spec, args.port, kubeconfig, args.audit))
        except OSError as trouble:
            where = trouble.filename or f"port {args.port}"
            print(f"autoscaler emulate: {where}: {trouble.strerror}", file=sys.stderr)
            return _FAILED
    return 0


async def _serve(spec: ClusterSpec, port: int, kubeconfig: Path, audit: Path | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with EmulatedCluster(spec, port=port, audit_file=audit) as cluster:
        namespace = spec.workloads[0].namespace if spec.workloads else "default"
        cluster.kubeconfig(kubeconfig, namespace=namespace)
        version = cluster.plane.version.git_version
        workloads = ", ".join(f"{one.namespace}/{one.name}" for one in spec.workloads) or "none"
        print(f"Emulated Kubernetes {version} at {cluster.url}, {len(spec.nodes)} nodes, workloads: {workloads}")
        print(f"  export KUBECONFIG={kubeconfig}")
        print("  kubectl get pods --watch")
        print("Ctrl-C ends it.", flush=True)
        await stop.wait()
