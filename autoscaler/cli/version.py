"""``autoscaler version``."""

from __future__ import annotations

import argparse

from autoscaler import __version__


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(args: argparse.Namespace) -> int:
    print(f"inference-autoscaler {__version__}")
    return 0
