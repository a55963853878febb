"""``autoscaler demo``: nothing to install, no cluster to have; two minutes."""

from __future__ import annotations

import argparse
import asyncio
import logging

from autoscaler.demo import scene


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--show-policy", action="store_true", help="print the policy that is played, and exit")


def run(args: argparse.Namespace) -> int:
    if args.show_policy:
        print(scene.POLICY, end="")
        return 0
    from autoscaler.demo.play import HPA, STATIC, play
    from autoscaler.demo.show import Show, summary
    from autoscaler.serve import logs

    logs.configure("text", "error")
    logging.getLogger("autoscaler").setLevel(logging.ERROR)
    show = Show()
    print(
        f"An emulated cluster of {len(scene.cluster_spec().nodes)} nodes runs {scene.NAMESPACE}/{scene.NAME}: "
        f"{scene.REPLICAS} pods of 1 core, {scene.WORK_S * 1000:.0f} ms of CPU per request;\n"
        f"a new pod needs {scene.START_UP_S:.0f} s to load its model. "
        f"Objective: {scene.WITHIN:.0%} of the requests within {scene.TARGET_S * 1000:.0f} ms.\n"
        f"The daemon's own code sizes it over HTTP; beside it the same load runs with {HPA} and with {STATIC}.\n"
        f"It takes {scene.LENGTH_S:.0f} seconds."
    )
    with show.stage:
        scores = asyncio.run(play(show))
    print(f"\nMeasured over {scene.LENGTH_S:.0f} s under the same load:\n")
    print(summary(scores))
    print(
        "\nMissed: answered later than the objective, refused, or not answered by the end. Core-hours: the larger of\n"
        "asked-for and allocated CPU of every pod, from its creation to its end.\n"
        "The policy: autoscaler demo --show-policy. Your own cluster, changing nothing: autoscaler plan --policy FILE"
    )
    return 0
