"""The command line: ``autoscaler COMMAND``, and the same under kubectl as ``kubectl autoscaler COMMAND``.

Commands are imported when they are called, so that ``--help`` is quick and a command needs only what it uses.
Exit codes: 0 done, 1 it didn't work, 2 what was written is wrong (one line says what), 3 changes are pending,
130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn, Protocol

from autoscaler import __version__

OK, FAILED, WRONG, PENDING, INTERRUPTED = 0, 1, 2, 3, 130


class Command(Protocol):
    """What a command's module offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, args: argparse.Namespace) -> int: ...


COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "demo": ("autoscaler.demo.command", "watch it work on an emulated cluster, for a minute or two"),
    "run": ("autoscaler.cli.run", "size the workloads of all policies, until stopped"),
    "plan": ("autoscaler.cli.plan", "make one tick and print what run would send"),
    "explain": ("autoscaler.cli.explain", "why a workload has the size it has, or what a policy field means"),
    "check": ("autoscaler.check.command", "say whether it will work on this cluster, and what to change"),
    "simulate": ("autoscaler.simulate.command", "the same decisions on a load trace, beside other autoscalers"),
    "emulate": ("autoscaler.emulate.command", "serve a small emulated cluster over HTTP"),
    "sidecar": ("autoscaler.cli.sidecar", "size this program's own pod, as one of its containers"),
    "pause": ("autoscaler.cli.pause", "hold one workload, or all, until resume"),
    "resume": ("autoscaler.cli.resume", "end a pause"),
    "release": ("autoscaler.cli.release", "give the pods back their template's sizes, the way to uninstall"),
    "presets": ("autoscaler.cli.presets", "the servers whose metric names are known"),
    "crds": ("autoscaler.cli.crds", "print the custom resource definitions, or write them to a folder"),
    "version": ("autoscaler.cli.version", "print the version"),
}


class Wrong(Exception):
    """What the person wrote is wrong, or can't be done: lines for stderr and the exit code."""

    def __init__(self, *lines: str, code: int = WRONG) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.code = code


class _Parser(argparse.ArgumentParser):
    """One line on stderr and exit 2, with a hint when a word is nearly right."""

    def error(self, message: str) -> NoReturn:
        raise Wrong(f"{self.prog}: {_hint(message, self)} (see {self.prog} --help)")


def _hint(message: str, parser: argparse.ArgumentParser) -> str:
    import difflib

    words = message.removeprefix("unrecognized arguments: ").split()
    if message.startswith("unrecognized arguments: ") and words and words[0].startswith("-"):
        known = [flag for action in parser._actions for flag in action.option_strings]
        close = difflib.get_close_matches(words[0].split("=")[0], known, n=1)
        return f"{words[0]}: no such flag" + (f", did you mean {close[0]}?" if close else "")
    return message


def _usage(prog: str) -> str:
    width = max(map(len, COMMANDS))
    lines = [
        f"usage: {prog} COMMAND [flags]", "",
        "Keeps the latency objective of ML-inference services on Kubernetes: resizes running pods in place first,",
        "adds replicas when size is not enough.", "", "commands:",
        *(f"  {name:{width}}  {text}" for name, (module, text) in COMMANDS.items() if _exists(module)), "",
        f"{prog} COMMAND --help lists a command's flags. Start with {prog} demo.",
    ]  # fmt: skip
    return "\n".join(lines)


def _exists(module: str) -> bool:
    base = Path(__file__).parents[1]
    return base.joinpath(*module.split(".")[1:]).with_suffix(".py").is_file()


def _load(name: str) -> Command:
    command: Command = importlib.import_module(COMMANDS[name][0])
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. Never lets a traceback out for what a person can get wrong."""
    words = list(sys.argv[1:] if argv is None else argv)
    program = Path(sys.argv[0]).name if argv is None else "autoscaler"
    prog = "kubectl autoscaler" if program.startswith("kubectl-") else "autoscaler"
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has not every letter
    try:
        code = _dispatch(prog, words)
        sys.stdout.flush()
        return code
    except Wrong as wrong:
        for line in wrong.lines:
            print(line, file=sys.stderr)
        return wrong.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) went away
        sys.stderr.close()
        return OK
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print(f"{prog}: can't write: {error.strerror}", file=sys.stderr)
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else the interpreter says it again at its end
        return FAILED


def _dispatch(prog: str, words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_usage(prog))
        return OK if words else WRONG
    name = "version" if words[0] in ("--version", "-V") else words[0]
    known = [command for command, (module, _) in COMMANDS.items() if _exists(module)]
    if name not in known:
        import difflib

        close = difflib.get_close_matches(name, known, n=1)
        meant = f", did you mean {close[0]}?" if close else ""
        raise Wrong(f"{prog}: no command {name!r}{meant} (see {prog} --help)")
    command = _load(name)
    parser = _Parser(prog=f"{prog} {name}", description=COMMANDS[name][1].capitalize() + ".", allow_abbrev=False)
    command.add_arguments(parser)
    return command.run(parser.parse_args(words[1:]))


__all__ = ["COMMANDS", "FAILED", "INTERRUPTED", "OK", "PENDING", "WRONG", "Wrong", "__version__", "main"]
