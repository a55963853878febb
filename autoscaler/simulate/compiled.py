"""The kernel, compiled once per machine by numba and kept on disk; the arrays it works on."""

from functools import cache
from hashlib import blake2b
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from autoscaler.queueing import kernel, state
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
_jit = njit(cache=True, nogil=True, error_model="numpy", _nrt=False)


def compile_module(name: str) -> Any:
    """A second copy of a module of plain functions, in which those named in its `COMPILED` went through numba."""
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} cannot be loaded a second time")
    copy = module_from_spec(spec)
    spec.loader.exec_module(copy)
    for function in copy.COMPILED:
        setattr(copy, function, _jit(getattr(copy, function)))
    return copy


_kernel = kernel.build(_jit)
_advance = _kernel.advance
_note = _jit(tally.note)


def _sources() -> int:
    """A number for what `_step` is made of besides itself: numba looks at its own file only."""
    text = b"".join(Path(str(module.__file__)).read_bytes() for module in (kernel, state, tally))
    return int.from_bytes(blake2b(text, digest_size=4).digest(), "big")


def _make_step(sources: int) -> Any:
    """In a closure, since a closed-over number is part of the key under which numba keeps a function on disk."""

    @_jit
    def step(fleet, tallied, times, works, waits, first, last, until):  # type: ignore[no-untyped-def]
        """Advance the pods and note what finished; gives the first arrival after `until`."""
        if sources < 0:
            return -1
        upcoming = _advance(fleet, times, works, waits, first, last, until)
        _note(fleet, tallied)
        return upcoming

    return step


@cache
def compiled() -> Compiled:
    """Compiled on first use, read from disk afterwards."""
    return Compiled(
        step=_make_step(_sources()),
        open_pod=_kernel.open_pod,
        drain_pod=_kernel.drain_pod,
        close_pod=_kernel.close_pod,
        set_limit=_kernel.set_limit,
    )
