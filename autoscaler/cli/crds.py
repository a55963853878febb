"""``autoscaler crds``: the definitions of the custom resources, for kubectl or for a folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from autoscaler.cli import OK, Wrong
from autoscaler.render import crd, reference


def add_arguments(parser: argparse.ArgumentParser) -> None:
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--output", metavar="FOLDER", help="write one file each here; default: print them all")
    one.add_argument("--reference", action="store_true", help="print the page that lists every field instead")


def run(args: argparse.Namespace) -> int:
    if args.reference:
        print(reference.page(), end="")
        return OK
    if args.output is None:
        print("---\n".join(crd.text(definition) for definition in crd.definitions().values()), end="")
        return OK
    folder = Path(args.output)
    if not folder.is_dir():
        raise Wrong(f"--output {args.output}: there is no such folder; make it first")
    try:
        crd.write(folder)
    except OSError as error:
        raise Wrong(f"--output {args.output}: {error.strerror}") from None
    return OK
