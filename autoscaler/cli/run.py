"""``autoscaler run``: the daemon."""

from __future__ import annotations

import argparse
import asyncio
import signal

from autoscaler import settings as tree
from autoscaler.cli.start import finish, policies_of, settings_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    tree.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    policies = policies_of(settings)

    async def work() -> None:
        from autoscaler.daemon import Daemon
        from autoscaler.observe import policy_files
        from autoscaler.parts import opened
        from autoscaler.reload import Reloading
        from autoscaler.settings import config_file, load

        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for one in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(one, stop.set)
        namespace = settings.namespace or "default"
        files = Reloading(
            settings.policy,
            lambda: policy_files.load(settings.policy, namespace) if settings.policy else policies,
            policies,
        )
        config = config_file(args)
        changed = Reloading([config], lambda: load(args)[0], settings) if config else None
        async with opened(settings) as parts:
            await Daemon(settings, parts, files, reload_settings=changed).run(stop)

    finish(work)
    return 0
