"""Metric names of the servers people run. One file a server: a module here with a ``PRESET`` is a preset.

``get("triton")`` gives one, ``every()`` all of them, ``propose(page)`` the one whose marks a page shows.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import pkgutil
from collections.abc import Collection, Mapping

from autoscaler.observe.exposition import family_names
from autoscaler.observe.names import Preset, UnknownPreset


@functools.cache
def every() -> Mapping[str, Preset]:
    """All presets by name, in alphabetical order."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    presets: list[Preset] = [module.PRESET for module in modules]
    return {preset.name: preset for preset in sorted(presets, key=lambda preset: preset.name)}


def get(name: str) -> Preset:
    """Raises UnknownPreset, naming those that exist."""
    preset = every().get(name)
    if preset is None:
        near = difflib.get_close_matches(name, every(), n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(every())}"
        raise UnknownPreset(f"signals.preset: there is no preset {name!r}; {hint}")
    return preset


def propose(page: str | bytes) -> str | None:
    """The preset whose marks this page shows most completely; None where no preset's first mark is there."""
    return propose_from(family_names(page))


def propose_from(shown: Collection[str]) -> str | None:
    """The same from the names that a page shows.

    A page can show several servers at once (a proxy merges its own with the server's, a server is built on a framework
    that counts as well). What shows the latency it reads wins, the server's own names before general ones; then the
    larger share of its marks, then more marks.
    """
    best: tuple[int, float, int, str] | None = None
    for preset in every().values():
        seen = sum(mark in shown for mark in preset.marks)
        if preset.marks and preset.marks[0] in shown:
            shape = preset.names.histogram or preset.names.summary
            latency = shape is not None and shape.metric in shown
            rank = ((1 if preset.general else 2) if latency else 0, seen / len(preset.marks), seen, preset.name)
            best = max(best, rank) if best else rank
    return best[3] if best else None
