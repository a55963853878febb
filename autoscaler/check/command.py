"""``autoscaler check``: whether it will work on this cluster, before the first patch. Exit 0 when it will, else 1."""

from __future__ import annotations

import argparse
import sys

from autoscaler import settings as tree
from autoscaler.check.findings import as_json, as_text, works
from autoscaler.cli import FAILED, OK, Wrong
from autoscaler.cli.start import finish, policies_of, settings_of
from autoscaler.serve import logs

_SETTINGS = (
    "policy", "kubeconfig", "context", "server", "namespace", "resources", "interval", "dry_run", "api", "prometheus",
    "leader", "log",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="form of the findings [text]")
    parser.add_argument("--watch-for", metavar="TIME", help="look at the load this long [one interval]")
    parser.add_argument(
        "--probe",
        action="store_true",
        help="also ask the server by a trial resize of one pod of each workload with dryRun=All, which changes nothing",
    )
    tree.add_arguments(parser, _SETTINGS)


def run(args: argparse.Namespace) -> int:
    from autoscaler.check.look import Asked, look

    settings = settings_of(args)
    if settings.log.level == "info":
        logs.configure(settings.log.format, "warning")  # the findings say it all
    policies = policies_of(settings)
    asked = Asked(_looks(args.watch_for, settings.interval), args.probe)
    findings = finish(lambda: look(settings, policies, asked))
    sys.stdout.write(as_json(findings) if args.output == "json" else as_text(findings))
    return OK if works(findings) else FAILED


def _looks(text: str | None, interval: float) -> int:
    """How many looks at the load, one interval apart; two at least, for rates."""
    from autoscaler.model.quantity import parse_duration

    try:
        seconds = parse_duration(text) if text is not None else interval
    except ValueError as error:
        raise Wrong(f"--watch-for: {error}") from None
    return max(2, round(seconds / interval) + 1)
