"""``release`` and ``explain`` against an emulated cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from autoscaler.cli import main
from autoscaler.model.workload import TargetRef
from autoscaler.pause import set_one
from tests.cli.test_plan import placed
from tests.scenarios.stage import NAME, NAMESPACE, cluster_spec, staged


@pytest.mark.looptime
async def test_release_pauses_and_gives_back_the_templates_sizes(tmp_path: Path) -> None:
    from autoscaler.cli.release import release

    async with staged(cluster_spec(80.0), tmp_path) as stage:
        await asyncio.sleep(30)
        assert max(stage.cores()) > 0.5
        left = await release(stage.daemon.settings, stage.daemon.loop.policies, None, 60.0)
        assert left == []
        await asyncio.sleep(20)  # the daemon still runs, and holds still
        assert set(stage.cores()) == {0.5}
        assert stage.actual_cores() == stage.cores()
        assert stage.restarts() == 0
        await set_one(stage.daemon.parts.client, NAMESPACE, TargetRef("apps/v1", "Deployment", NAME), False)
        await asyncio.sleep(20)
        assert max(stage.cores()) > 0.5


async def test_explain_tells_what_was_seen_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with placed(tmp_path, 80.0) as place:
        code, out, _ = await place.autoscaler("explain", "resnet", capsys=capsys)
        assert code == 0
        assert "99% of the requests within 250ms" in out
        assert "requests" in out and "scrape" in out
        assert "does     resize pod resnet-" in out
        assert "because" in out
        assert place.cluster.audit.writes() == []
        code, _, err = await place.autoscaler("explain", "resnett", capsys=capsys)
        assert code == 2
        assert "no policy is called 'resnett'" in err


def test_explain_of_a_field_names_it_its_default_and_what_is_below(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "spec.vertical.cpu"]) == 0
    told = capsys.readouterr().out
    assert "controls  RequestsAndLimits" in told
    assert main(["explain", "spec.vertical.cpux"]) == 2
    assert "did you mean 'cpu'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["release", "nope"], "no policy is called 'nope'"),
        (["release"], "name one WORKLOAD"),
        (["plan", "--watch-for", "100ms"], "--watch-for: 100ms is shorter than one interval"),
        (["plan", "--save-snapshot", "/nowhere/at/all/seen.json"], "its directory doesn't exist"),
        (["plan", "--server", "http://127.0.0.1:1", "--context", "nope"], "--server goes not with"),
        (["plan", "--snapshot", "seen.json"], "--snapshot goes not with --policy, --kubeconfig"),
        (["explain", "--snapshot", "seen.json"], "--snapshot goes not with"),
    ],
)
async def test_what_can_not_be_meant_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    async with placed(tmp_path, 10.0) as place:
        if words[0] == "release":
            base = ["--kubeconfig", str(place.config), "--policy", str(place.policy)]
            code = await asyncio.to_thread(main, [*words, *base])
            out, err = capsys.readouterr()
        else:
            code, out, err = await place.autoscaler(*words, capsys=capsys)
    assert code == 2, (out, err)
    assert said in err
    assert "Traceback" not in err and len(err.strip().splitlines()) == 1
