"""The demo in virtual time: the real daemon over HTTP, what it prints, and that its closing figures were measured."""

from __future__ import annotations

import io

import pytest

from autoscaler.demo import scene
from autoscaler.demo.play import HPA, OURS, STATIC, Now, play
from autoscaler.demo.show import Show, summary


@pytest.mark.looptime
async def test_the_play_shows_growth_in_place_then_replicas_and_the_summary_is_what_was_measured() -> None:
    out = io.StringIO()
    show = Show(out)
    moments: list[tuple[float, list[float], int]] = []

    def watch(now: Now) -> None:
        show(now)
        moments.append((now.seconds, now.meters[OURS].sizes(), now.meters[OURS].ready()))

    scores = await play(watch)
    told = out.getvalue()
    for phase in scene.PHASES:
        assert phase.what in told
    at = {phase.rate: phase.at for phase in scene.PHASES}
    first_step, second_step, gone = sorted(at.values())[1:]
    in_place = [sizes for seconds, sizes, _ in moments if first_step + 10 < seconds < second_step]
    assert all(len(sizes) == scene.REPLICAS and min(sizes) > 1.0 for sizes in in_place[-4:])
    assert max(ready for seconds, _, ready in moments if second_step < seconds < gone) > scene.REPLICAS
    assert sum(moments[-1][1]) < 4 * scene.REPLICAS
    ours, hpa, static = scores[OURS], scores[HPA], scores[STATIC]
    assert ours.restarts == 0
    assert ours.resizes >= 4
    assert ours.scalings >= 1
    assert hpa.resizes == static.resizes == static.scalings == 0
    assert ours.missed < hpa.missed
    assert static.core_hours == pytest.approx(2 * scene.LENGTH_S / 3600, rel=0.01)
    expected = sum(
        phase.rate * (after - phase.at)
        for phase, after in zip(scene.PHASES, [*[p.at for p in scene.PHASES[1:]], scene.LENGTH_S], strict=True)
    )
    for score in scores.values():
        assert score.requests == pytest.approx(expected, rel=0.05)
    assert "resize 1 core → " in told
    assert "replicas of deployment/resnet" in told
    closing = summary(scores)
    assert str(ours.missed) in closing
    assert f"{hpa.core_hours:.3f}" in closing
