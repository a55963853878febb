"""The garbage collector: seldom where it finds nothing, often where there is garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from autoscaler import collector


@pytest.fixture
def told() -> Iterator[None]:
    before, callbacks = gc.get_threshold(), list(gc.callbacks)
    collector.seldom()
    yield
    gc.set_threshold(*before)
    gc.callbacks[:] = callbacks
    gc.unfreeze()


def test_it_looks_ever_more_seldom_at_what_is_no_garbage(told: None) -> None:
    kept = [[number] for number in range(400_000)]
    assert gc.get_threshold()[0] >= 160_000 and len(kept) == 400_000


def test_it_looks_often_where_there_is_garbage_and_frees_it(told: None) -> None:
    for _ in range(200_000):
        ring: list[object] = []
        ring.append(ring)
    del ring
    assert gc.get_threshold()[0] == collector.FEWEST
    assert gc.collect() < 2 * collector.FEWEST


def test_told_twice_it_listens_once(told: None) -> None:
    collector.seldom()
    assert gc.callbacks.count(collector._looked) == 1
