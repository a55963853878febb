"""What /healthz and /readyz answer: whether the program lives, and whether it can do its work, with the reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Check:
    """One condition. ``needed``: readiness depends on it; otherwise it is told and nothing more."""

    ok: bool
    detail: str
    needed: bool = True


@dataclass(slots=True)
class Health:
    """The conditions by name, kept up to date by those who know. ``alive`` is asked at each /healthz."""

    checks: dict[str, Check] = field(default_factory=dict)
    alive: Callable[[], bool] = lambda: True

    def say(self, name: str, ok: bool, detail: str, *, needed: bool = True) -> None:
        self.checks[name] = Check(ok, detail, needed)

    @property
    def ready(self) -> bool:
        return bool(self.checks) and all(check.ok for check in self.checks.values() if check.needed)

    def detail(self) -> dict[str, dict[str, object]]:
        return {
            name: {"ok": check.ok, "detail": check.detail, "needed": check.needed}
            for name, check in sorted(self.checks.items())
        }
