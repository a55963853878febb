"""``autoscaler resume``: the end of a pause."""

from __future__ import annotations

import argparse

from autoscaler.cli import pause

add_arguments = pause.add_arguments


def run(args: argparse.Namespace) -> int:
    return pause.turn(args, paused=False)
