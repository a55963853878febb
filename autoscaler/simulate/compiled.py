"""The kernel, compiled once per machine by numba and kept on disk; the arrays it works on."""

from collections.abc import Callable, Mapping
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from autoscaler.queueing import balancing, kernel, places, quota, state, threads
from autoscaler.simulate import tally


class Compiled(NamedTuple):
    """The functions that the simulator calls."""

    step: Any
    open_pod: Any
    drain_pod: Any
    close_pod: Any
    set_limit: Any


def floats(length: int, value: float) -> np.ndarray:
    return np.full(length, value, dtype=np.float64)


def wholes(length: int, value: int) -> np.ndarray:
    return np.full(length, value, dtype=np.int64)


# No arrays are made in the compiled functions, so they need no reference counts: passing forty arrays on without
# counting makes them eight times as fast. numpy's error model divides by zero to infinity.
_part = njit(nogil=True, error_model="numpy", _nrt=False)
_whole = njit(cache=True, nogil=True, error_model="numpy", _nrt=False)


def compile_module(
    module: ModuleType, used: Mapping[str, Any] | None = None, jit: Callable[[Any], Any] = _whole
) -> Any:
    """A second copy of a module of plain functions, in which those named in its `COMPILED` went through `jit`.

    `used`: compiled functions of other modules by name, which take the place of those that the module imports.
    """
    spec = find_spec(module.__name__)
    if spec is None or spec.loader is None:
        raise ImportError(f"{module.__name__} cannot be loaded a second time")
    copy = module_from_spec(spec)
    spec.loader.exec_module(copy)
    for name, function in (used or {}).items():
        if hasattr(copy, name):
            setattr(copy, name, function)
    for name in copy.COMPILED:
        setattr(copy, name, jit(getattr(copy, name)))
    return copy


_KERNEL = (quota, threads, balancing, places, kernel)  # each calls those before it
_built: dict[str, Any] = {}
for _module in _KERNEL:
    _copy = compile_module(_module, _built, _part)
    _built |= {name: getattr(_copy, name) for name in _copy.COMPILED}
_advance = _built["advance"]
_open_pod = _built["open_pod"]
_drain_pod = _built["drain_pod"]
_close_pod = _built["close_pod"]
_set_limit = _built["set_limit"]
_note = _part(tally.note)


def _sources() -> int:
    """A number for what the compiled functions are made of besides this file: numba looks at their own file only."""
    text = b"".join(Path(str(module.__file__)).read_bytes() for module in (*_KERNEL, state, tally))
    return int.from_bytes(blake2b(text, digest_size=4).digest(), "big")


def _make(sources: int) -> Compiled:
    """In closures, since a closed-over number is part of the key under which numba keeps a function on disk.

    Only these are kept: what they call is inside them.
    """

    @_whole
    def step(fleet, tallied, times, works, waits, first, last, until):  # type: ignore[no-untyped-def]
        """Advance the pods and note what finished; gives the first arrival after `until`."""
        if sources < 0:
            return -1
        upcoming = _advance(fleet, times, works, waits, first, last, until)
        _note(fleet, tallied)
        return upcoming

    @_whole
    def open_pod(fleet, pod, at, limit, cores):  # type: ignore[no-untyped-def]
        if sources >= 0:
            _open_pod(fleet, pod, at, limit, cores)

    @_whole
    def drain_pod(fleet, pod):  # type: ignore[no-untyped-def]
        if sources >= 0:
            _drain_pod(fleet, pod)

    @_whole
    def close_pod(fleet, pod):  # type: ignore[no-untyped-def]
        if sources >= 0:
            _close_pod(fleet, pod)

    @_whole
    def set_limit(fleet, pod, limit):  # type: ignore[no-untyped-def]
        if sources >= 0:
            _set_limit(fleet, pod, limit)

    return Compiled(step, open_pod, drain_pod, close_pod, set_limit)


@cache
def compiled() -> Compiled:
    """Compiled on first use, read from disk afterwards."""
    return _make(_sources())
