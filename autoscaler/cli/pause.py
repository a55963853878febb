"""``autoscaler pause`` and ``resume``: a person's brake on one target or on everything, obeyed within a tick."""

from __future__ import annotations

import argparse
import sys

from autoscaler import settings as tree
from autoscaler.cli import Wrong
from autoscaler.cli.start import finish, settings_of
from autoscaler.model.workload import TargetRef

ONLY = ("kubeconfig", "context", "server", "leader", "log", "api")
_KINDS = {"deployment": "Deployment", "deploy": "Deployment", "statefulset": "StatefulSet", "sts": "StatefulSet",
          "replicaset": "ReplicaSet", "rs": "ReplicaSet"}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("--all", action="store_true", help="everything that this program sizes")
    tree.add_arguments(parser, ONLY)


def add_target(parser: argparse.ArgumentParser) -> None:
    text = "[KIND/]NAME of a target; KIND is deployment by default, or KIND.VERSION.GROUP"
    parser.add_argument("target", nargs="?", metavar="WORKLOAD", help=text)
    parser.add_argument("-n", "--namespace", dest="in_namespace", metavar="NAME", help="its namespace [the context's]")


def run(args: argparse.Namespace) -> int:
    return turn(args, paused=True)


def turn(args: argparse.Namespace, *, paused: bool) -> int:
    if bool(args.target) == args.all:
        raise Wrong("name one WORKLOAD ([KIND/]NAME), or give --all")
    target = target_of(args.target) if args.target else None
    settings = settings_of(args)

    async def work() -> str:
        from autoscaler.kube.errors import KubeError
        from autoscaler.parts import opened
        from autoscaler.pause import SWITCH, obeying, set_all, set_one

        async with opened(settings) as parts:
            if target is None:
                where = args.in_namespace or parts.namespace
                elsewhere = await obeying(parts.client, settings.leader.name, where)
                if elsewhere:
                    raise KubeError(
                        f"nothing in namespace {where} obeys it: the program runs in {', '.join(elsewhere)}; "
                        f"give -n {elsewhere[0]}"
                    )
                if elsewhere is None:
                    print(f"warning: no Lease {settings.leader.name} was seen: if the program does not run in {where}, "
                          "nobody obeys this; name its namespace with -n", file=sys.stderr)  # fmt: skip
                await set_all(parts.client, where, paused)
                return f"everything ({SWITCH} in {where})"
            namespace = args.in_namespace or parts.client.namespace
            await set_one(parts.client, namespace, target, paused)
            return f"{target} in {namespace}"

    print(f"{'paused' if paused else 'resumed'} {finish(work)}")
    return 0


def target_of(text: str) -> TargetRef:
    """``resnet``, ``deployment/resnet`` or ``inferenceservice.v1beta1.serving.kserve.io/resnet``. Raises Wrong."""
    kind, _, name = text.rpartition("/")
    if not name or "/" in kind:
        raise Wrong(f"{text!r} is not a workload; write [KIND/]NAME, for example deployment/resnet")
    if "." in kind:
        word, version, group = kind.split(".", 2) if kind.count(".") >= 2 else (kind, "", "")
        if not version:
            raise Wrong(f"{kind!r} is not a kind; write KIND.VERSION.GROUP, for example deployment.v1.apps")
        return TargetRef(f"{group}/{version}", word, name)
    word = kind.lower() if kind else "deployment"
    known = _KINDS.get(word) or _KINDS.get(word.removesuffix("s"))
    if known is None:
        raise Wrong(f"{kind!r} is not a kind known by this name; write KIND.VERSION.GROUP/NAME")
    return TargetRef("apps/v1", known, name)
