"""``autoscaler plan``: one tick, and the requests that ``run`` would send, printed."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoscaler import settings as tree
from autoscaler.cli import FAILED, OK, PENDING, WRONG, Wrong
from autoscaler.cli.start import finish, policies_of, settings_of
from autoscaler.model.seen import Seen
from autoscaler.snapshot import Snapshot, SnapshotError

if TYPE_CHECKING:
    from autoscaler.act.rehearse import Rehearsal
    from autoscaler.model.plan import Plan
    from autoscaler.model.workload import WorkloadRef

FORMATS = ("table", "json", "yaml", "kyaml", "kubectl")
SYNC_S = 15.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=FORMATS, default="table", help="form of the requests [table]")
    parser.add_argument("--exit-code", action="store_true", help="exit 3 when changes are pending, 0 when none are")
    parser.add_argument("--save-snapshot", metavar="FILE", help="also write all that the decision took to FILE")
    parser.add_argument("--snapshot", metavar="FILE", help="decide again from FILE, without a cluster")
    parser.add_argument(
        "--watch-for", metavar="TIME",
        help="observe the load this long before deciding; rates need two looks [twice the interval]",
    )  # fmt: skip
    only = (
        "policy",
        "kubeconfig",
        "context",
        "server",
        "namespace",
        "resources",
        "interval",
        "api",
        "prometheus",
        "brakes",
        "log",
    )
    tree.add_arguments(parser, only)


def run(args: argparse.Namespace) -> int:
    if args.snapshot:
        alone(args)
        return _print(read_snapshot(args.snapshot), args)
    settings = settings_of(args)
    policies = policies_of(settings)
    looks = looks_of(args.watch_for, settings.interval)
    if args.save_snapshot and not Path(args.save_snapshot).absolute().parent.is_dir():
        raise Wrong(f"--save-snapshot: {args.save_snapshot}: its directory doesn't exist")
    taken, problems = finish(lambda: observe(settings, policies, looks))
    for problem in problems:
        print(problem, file=sys.stderr)
    if args.save_snapshot:
        from autoscaler import snapshot

        try:
            snapshot.save(taken, args.save_snapshot)
        except OSError as error:
            raise Wrong(f"--save-snapshot: {args.save_snapshot}: {error.strerror}", code=FAILED) from None
    for name, instead in policies.without_effect():
        print(f"{name} has no effect yet: {instead}", file=sys.stderr)
    return _print(taken, args)


def alone(args: argparse.Namespace) -> None:
    """A snapshot holds all that a decision takes: flags about a cluster would be ignored, so they are refused."""
    given = tree.flags_given(args)
    given += [
        flag for flag, name in (("--watch-for", "watch_for"), ("--save-snapshot", "save_snapshot"))
        if getattr(args, name, None)
    ]  # fmt: skip
    if given:
        told = ", ".join(given)
        raise Wrong(f"--snapshot goes not with {told}: it holds the policies and all that was seen; leave them out")


def read_snapshot(name: str) -> Snapshot:
    """Raises Wrong."""
    from autoscaler import snapshot

    try:
        return snapshot.load(name)
    except SnapshotError as error:
        raise Wrong(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Wrong(f"--snapshot: {name}: {getattr(error, 'strerror', None) or error}") from None


def looks_of(text: str | None, interval: float) -> int:
    """How many looks at the load, one interval apart."""
    from autoscaler.model.quantity import parse_duration

    try:
        seconds = parse_duration(text) if text is not None else 2 * interval
    except ValueError as error:
        raise Wrong(f"--watch-for: {error}") from None
    if seconds < interval:
        raise Wrong(f"--watch-for: {text} is shorter than one interval, {interval:g}s: a rate needs two looks")
    return max(2, round(seconds / interval) + 1)


async def observe(settings: Any, policies: Any, looks: int) -> tuple[Snapshot, tuple[str, ...]]:
    """What a tick sees after ``looks`` looks at the load, one interval apart, and what was in the way."""
    from autoscaler.act.apply import Applier
    from autoscaler.act.show import PrintingSink
    from autoscaler.decide.decision import decide
    from autoscaler.loop import ControlLoop
    from autoscaler.parts import limits_of, opened

    async with opened(settings) as parts, asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(parts.watch(), name="watch")
        synced = await parts.wait_synced(SYNC_S)
        if not synced:
            watching.cancel()
            raise Unseen(parts.observer.problems() or ("the cluster gave no answer",))
        applier = Applier(PrintingSink(), clock=parts.clock.now, limits=limits_of(settings), look=parts.look)
        loop = ControlLoop(parts.observer, parts.source, applier, parts.clock, parts.obeyed(policies))
        names = await parts.resource_names(loop.policies)
        minor = applier.minor = await _minor_of(parts)
        print(f"observing the load for {(looks - 1) * settings.interval:g}s", file=sys.stderr)
        past: Any = {}
        for look in range(looks):
            if look:
                await asyncio.sleep(settings.interval)
            seen = applier.watch(await loop.observe())
            if all(subject.view.hold for subject in seen.subjects):
                break  # no load will change that
            if look < looks - 1:  # the decisions in between teach what the load is; nothing is sent
                _, past = decide(seen, past)
        watching.cancel()
        resources = {f"{version}/{kind}": plural for (version, kind), plural in names.items()}
        return Snapshot(seen, past, resources, minor), (*parts.observer.problems(), *_refused(parts, policies))


async def _minor_of(parts: Any) -> int | None:
    """The server's minor version; None where it doesn't tell, then no rule of one version is applied."""
    from autoscaler.kube.discovery import server_version
    from autoscaler.kube.errors import KubeError

    try:
        return (await server_version(parts.client)).minor
    except KubeError:
        return None


def rehearsal(plans: Mapping[WorkloadRef, Plan], taken: Snapshot) -> Rehearsal:
    """What `run` would send for these plans to the cluster that was seen, and what it would hold back."""
    from autoscaler.act.rehearse import rehearse

    names: dict[tuple[str, str], str] = {}
    for key, plural in taken.resources.items():
        version, _, kind = key.rpartition("/")
        names[version, kind] = plural
    return rehearse(list(plans.values()), taken.seen, resources=names, minor=taken.minor)


class Unseen(OSError):
    """The cluster could not be read."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))


def _refused(parts: Any, policies: Any) -> tuple[str, ...]:
    return tuple(parts.resources.mixed(policies).refused.values()) if parts.resources is not None else ()


def _print(taken: Snapshot, args: argparse.Namespace) -> int:
    from autoscaler.act.show import render
    from autoscaler.decide.decision import decide

    plans, _ = decide(taken.seen, taken.past)
    rehearsed = rehearsal(plans, taken)
    patches = rehearsed.patches
    held = [plan for plan in plans.values() if not plan.actions]
    if args.output == "table":
        if patches:
            sys.stdout.write(render(patches, "table"))
        for plan in held:
            reasons = dict.fromkeys(str(reason) for reason in (plan.reason, *plan.holds) if reason is not None)
            print(f"{plan.ref}: nothing to do: {'; '.join(reasons)}")
        for action, why in rehearsed.held:
            print(f"{action.workload}: held back: {why}")
    elif args.output == "kubectl":
        sys.stdout.write(render(patches, "kubectl"))
        for plan in held:
            reasons = dict.fromkeys(reason.text for reason in (plan.reason, *plan.holds) if reason is not None)
            print(f"# {plan.ref}: nothing to do: {'; '.join(reasons)}")
    else:
        sys.stdout.write(render(patches, args.output))
    wrong = mistakes(taken.seen)
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        return WRONG
    return PENDING if patches and args.exit_code else OK


def mistakes(seen: Seen) -> list[str]:
    """What a policy says that this cluster contradicts: a target that isn't there, a container nobody can guess."""
    found = []
    for subject in seen.subjects:
        hold = subject.view.hold
        if hold:
            field = "" if hold.startswith("spec.") else _field_of(hold)
            found.append(f"{subject.policy.origin}: {field}{hold}")
    return found


def _field_of(hold: str) -> str:
    return "spec.vertical.container: " if "container" in hold else "spec.scaleTargetRef: "
