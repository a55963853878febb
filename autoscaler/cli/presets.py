"""``autoscaler presets``: the servers whose metric names are known."""

from __future__ import annotations

import argparse

from autoscaler.cli import Wrong


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="show one preset whole")


def run(args: argparse.Namespace) -> int:
    from autoscaler.observe import presets
    from autoscaler.observe.names import UnknownPreset
    from autoscaler.render.table import table

    if args.name:
        try:
            one = presets.get(args.name)
        except UnknownPreset as error:
            raise Wrong(str(error).removeprefix("signals.preset: ")) from None
        rows = [("title", one.title), ("container", one.container or "the only one"), *_names(one.names),
                ("written from", one.written_from), ("remarks", one.remarks or "none")]  # fmt: skip
        print(table(("preset", one.name), rows))
        return 0
    print(table(("PRESET", "SERVER"), [(name, one.title) for name, one in presets.every().items()]))
    return 0


def _names(names: object) -> list[tuple[str, str]]:
    """What is read for each signal, as far as the preset names it."""
    import dataclasses

    found = []
    for each in dataclasses.fields(names):  # type: ignore[arg-type]
        value = getattr(names, each.name)
        if value:
            parts = value if isinstance(value, tuple) else (value,)
            found.append((each.name, " + ".join(str(getattr(part, "name", part)) for part in parts)))
    return found
