"""``autoscaler release``: the pods get back their template's sizes; the way to uninstall.

Each target is paused first, or a running daemon would size its pods again.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from autoscaler import settings as tree
from autoscaler.cli import FAILED, OK, Wrong
from autoscaler.cli.start import finish, policies_of, settings_of

SYNC_S = 15.0
STEP_S = 0.5
ONLY = ("policy", "kubeconfig", "context", "server", "namespace", "resources", "dry_run", "api", "log")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="WORKLOAD", help="[NAMESPACE/]NAME of a policy")
    parser.add_argument("--all", action="store_true", help="the workloads of all policies")
    parser.add_argument("--wait", metavar="TIME", default="2m", help="how long to follow the resizes [2m]")
    tree.add_arguments(parser, ONLY)


def run(args: argparse.Namespace) -> int:
    from autoscaler.model.quantity import parse_duration

    if bool(args.name) == args.all:
        raise Wrong("name one WORKLOAD ([NAMESPACE/]NAME of its policy), or give --all")
    try:
        wait = parse_duration(args.wait)
    except ValueError as error:
        raise Wrong(f"--wait: {error}") from None
    settings = settings_of(args)
    policies = policies_of(settings)
    left = finish(lambda: release(settings, policies, args.name, wait))
    for line in left:
        print(line)
    return FAILED if left else OK


async def release(settings: Any, files: Any, name: str | None, wait: float) -> list[str]:
    """Returns a line for each pod that is not at its template's size at the end."""
    from autoscaler.act.api import ApiSink
    from autoscaler.act.apply import Applier
    from autoscaler.act.show import PrintingSink, render
    from autoscaler.loop import ControlLoop
    from autoscaler.model.plan import Plan
    from autoscaler.observe.policy_files import Policies
    from autoscaler.parts import opened
    from autoscaler.pause import set_one

    async with opened(settings) as parts, asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(parts.watch(), name="watch")
        try:
            if not await parts.wait_synced(SYNC_S):
                raise OSError("; ".join(parts.observer.problems()) or "the cluster gave no answer")
            chosen = [p for p in parts.obeyed(files).policies if name in (None, p.ref.name, str(p.ref))]
            if not chosen:
                raise Wrong(f"no policy is called {name!r}")
            printer = PrintingSink()
            sink = printer if settings.dry_run else ApiSink(parts.client)
            applier = Applier(sink, clock=parts.clock.now, look=parts.look)
            loop = ControlLoop(parts.observer, _Silent(), applier, parts.clock, Policies(tuple(chosen)))
            if not settings.dry_run:
                for policy in chosen:
                    await set_one(parts.client, policy.ref.namespace, policy.target, True)
                    print(f"paused {policy.target} in {policy.ref.namespace}; autoscaler resume gives it back")
            until, told = parts.clock.now() + wait, set[str]()
            while True:
                seen = applier.watch(await loop.observe())
                plans = [Plan(s.view.ref, tuple(_back(s.view))) for s in seen.subjects]
                due = [action for plan in plans for action in plan.actions]
                if settings.dry_run:
                    await applier.send(plans, seen)
                    print(render(printer.taken(), "table"), end="")
                    return []
                if not due and not applier.follower.in_flight():
                    return [f"{s.view.ref}: {s.view.hold}" for s in seen.subjects if s.view.hold]
                if parts.clock.now() >= until:
                    return [_why(action, seen) for action in due]
                sending = await applier.send(plans, seen)
                for one in sending.sent:
                    if one.outcome.body is not None:
                        parts.observer.learn(one.outcome.body)
                    outcome = f"{one.outcome.result.value} {one.outcome.message}"
                    line = f"{one.action.workload}: pod/{_pod(one.action)}: {outcome}"
                    if line not in told:
                        told.add(line)
                        print(line.rstrip())
                await asyncio.sleep(STEP_S)
        finally:
            watching.cancel()


class _Silent:
    """No signals are needed to give back what the template says."""

    name = "none"

    async def read(self, workloads: Any, at: float) -> dict[Any, Any]:
        return {}


def _back(view: Any) -> list[Any]:
    """A resize for each pod whose container isn't at the template's size and where nothing is under way."""
    from autoscaler.act.sizes import agree
    from autoscaler.model.plan import Resize
    from autoscaler.model.reason import Code, because

    found = []
    for pod in view.pods if view.template is not None else ():
        container = pod.container(view.container)
        open_one = pod.attempt is not None and pod.attempt.open
        if container is not None and pod.active and not open_one and not agree(container.desired, view.template):
            reason = because(Code.RELEASE)
            found.append(Resize(view.ref, pod, view.container, container.desired, view.template, reason))
    return found


def _pod(action: Any) -> str:
    return str(action.pod.name)


def _why(action: Any, seen: Any) -> str:
    attempt = action.pod.attempt
    why = f": {attempt.state.value} {attempt.refusal} {attempt.message}".rstrip() if attempt is not None else ""
    return f"{action.workload}: pod/{action.pod.name} is not at its template's size{why}"
