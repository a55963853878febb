"""What the audience sees: a live table where there are a terminal and rich, lines of text otherwise; the summary."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from autoscaler.act.apply import Sent
from autoscaler.act.ports import Result
from autoscaler.act.sizes import changes, overlay, spell
from autoscaler.demo import scene
from autoscaler.demo.meter import Score
from autoscaler.demo.play import HPA, OURS, STATIC, Now
from autoscaler.loop import Tick
from autoscaler.model.plan import AnnotatePod, Evict, Plan, Resize, Revert, Scale
from autoscaler.model.workload import Resources
from autoscaler.render.table import table

EVERY_S = 5.0
"""Between two lines of the plain table."""
HEAD = ("SCALED BY", "LOAD", f"MISSES (≤ {1 - scene.WITHIN:.0%})", "CORES PER POD", "PODS", "LAST REASON")


def patches(tick: Tick) -> list[str]:
    """One line for all requests of a tick that do the same for the same reason."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for one in tick.sent:
        what, name = _what(one)
        if what:
            why = one.action.reason.text if one.outcome.result in (Result.ACCEPTED, Result.UNCHANGED) else (
                f"{one.outcome.result.value}: {one.outcome.message}")  # fmt: skip
            groups.setdefault((what, why, ""), []).append(name)
    return [f"{what} of {_names(names)}: {why}" for (what, why, _), names in groups.items()]


def _what(one: Sent) -> tuple[str, str]:
    action = one.action
    match action:
        case Resize() | Revert():
            change = changes(action.before, action.after)
            before = action.before
            if change.cpu is not None and change.memory is None:
                before = Resources(cpu_request=before.cpu_request, cpu_limit=before.cpu_limit)
            verb = "resize" if isinstance(action, Resize) else "revert"
            return f"{verb} {_size(before)} → {_size(overlay(before, change))}", action.pod.name
        case Scale():
            return f"scale {action.before} → {action.after} replicas", str(action.target)
        case Evict():
            return "evict", action.pod.name
        case AnnotatePod():
            return "", action.pod.name


def _size(size: Resources) -> str:
    if size.memory is None and size.cpu is not None:
        return f"{size.cpu / 1000:g} core{'' if size.cpu == 1000 else 's'}"
    return spell(size)


def _names(names: list[str]) -> str:
    short = sorted(name.rsplit("-", 1)[-1] if name.count("-") > 1 else name for name in names)
    return f"{'pods' if len(short) > 1 else 'pod'} {', '.join(short)}" if "/" not in short[0] else short[0]


def rows(now: Now, reason: str) -> list[tuple[str, ...]]:
    """One row for each who scales, ours first."""
    told: list[tuple[str, ...]] = []
    for who, meter in now.meters.items():
        misses = meter.recent_misses()
        sizes = meter.sizes()
        span = f"{min(sizes):g}" if min(sizes) == max(sizes) else f"{min(sizes):g} … {max(sizes):g}"
        told.append((who, f"{now.phase.rate:g}/s", "–" if misses is None else f"{misses:.1%}", span,
                     f"{meter.ready()}/{len(sizes)}", reason if who == OURS else ""))  # fmt: skip
    return told


def reason_of(tick: Tick) -> str:
    plan: Plan = next(iter(tick.plans.values()))
    reasons = [*(a.reason for a in plan.actions), *([plan.reason] if plan.reason else []), *plan.holds]
    return reasons[0].text if reasons else ""


class Show:
    """Call it with every moment. ``stage`` is entered around the play."""

    def __init__(self, out: Any = None) -> None:
        self._out = out or sys.stdout
        self._phase: scene.Phase | None = None
        self._reason = ""
        self._lined = -EVERY_S
        self._live: Any = None
        self._make: Callable[[Now], Any] | None = None
        self.stage: AbstractContextManager[Any] = nullcontext()
        if self._out.isatty():
            self._try_rich()

    def _try_rich(self) -> None:
        try:
            from rich.console import Console
            from rich.live import Live
            from rich.table import Table
        except ImportError:
            return

        def make(now: Now) -> Any:
            title = f"{scene.NAMESPACE}/{scene.NAME}   {now.seconds:.0f}s of {scene.LENGTH_S:.0f}s"
            drawn = Table(title=title, caption=f"last reason: {self._reason}", caption_justify="left")
            for name in HEAD[:-1]:
                drawn.add_column(name, no_wrap=True)
            for row in rows(now, self._reason):
                drawn.add_row(*row[:-1])
            return drawn

        self._make = make
        self._live = self.stage = Live(console=Console(file=self._out), refresh_per_second=4)

    def say(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=self._out, flush=True)

    def __call__(self, now: Now) -> None:
        if now.phase is not self._phase:
            self._phase = now.phase
            self.say(f"\n{now.seconds:5.1f}s  {now.phase.what}: {now.phase.rate:g} requests per second")
        for tick in now.ticks:
            self._reason = reason_of(tick) or self._reason
            for line in patches(tick):
                self.say(f"{now.seconds:5.1f}s  {line}")
        if self._live is not None and self._make is not None:
            self._live.update(self._make(now))
        elif now.seconds - self._lined >= EVERY_S:
            self._lined = now.seconds
            self.say(f"{now.seconds:5.1f}s\n" + _indented(table(HEAD, rows(now, self._reason)).splitlines()))


def _indented(lines: Iterable[str]) -> str:
    return "\n".join(f"        {line}" for line in lines)


def summary(scores: dict[str, Score]) -> str:
    """The closing table: everything in it was measured in this play."""
    head = ("SCALED BY", "REQUESTS", "MISSED", "SHARE", "RESIZES", "SCALINGS", "RESTARTS", "CORE-HOURS")
    lines = [
        (who, str(s.requests), str(s.missed), f"{s.missed_share:.1%}", str(s.resizes), str(s.scalings), str(s.restarts),
         f"{s.core_hours:.3f}")
        for who in (OURS, HPA, STATIC) if (s := scores.get(who)) is not None
    ]  # fmt: skip
    return table(head, lines, right=range(1, 8))
