"""Which controllers there are, by the names of the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from autoscaler.simulate.controllers.base import Controller
from autoscaler.simulate.controllers.both import HpaWithVpa
from autoscaler.simulate.controllers.hpa import Hpa
from autoscaler.simulate.controllers.ideal import Ideal
from autoscaler.simulate.controllers.kpa import Kpa
from autoscaler.simulate.controllers.static import Static
from autoscaler.simulate.controllers.thresholds import RULES, FairShare, Threshold
from autoscaler.simulate.controllers.vpa import Vpa

if TYPE_CHECKING:
    from autoscaler.model.policy import PolicySpec


def _share(text: str, default: float) -> float:
    value = float(text.rstrip("%")) if text else default
    if not 1.0 <= value <= 100.0:
        raise ValueError(f"target {text} is not between 1 and 100 percent")
    return value / 100.0


def _positive(text: str) -> float:
    value = float(text)
    if not 0.0 < value < 1e6:
        raise ValueError(f"{text} is not a positive number")
    return value


def _plain(controller: Controller, rest: str) -> Controller:
    if rest:
        raise ValueError("takes no argument")
    return controller


MADE: dict[str, Callable[[str], Controller]] = {
    "static": lambda rest: Static(_positive(rest) if rest else None),
    "hpa": lambda rest: Hpa(_share(rest, 70.0)),
    "hpa-inflight": lambda rest: Hpa(_positive(rest or "2"), in_flight=True),
    "vpa": lambda rest: _plain(Vpa(), rest),
    "hpa+vpa": lambda rest: HpaWithVpa(_share(rest, 70.0)),
    "kpa": lambda rest: Kpa(_positive(rest) if rest else None),
    "fairshare": lambda rest: _plain(FairShare(), rest),
    "aiad": lambda rest: _plain(Threshold(RULES["aiad"]), rest),
    "oneshot": lambda rest: _plain(Threshold(RULES["oneshot"]), rest),
    "ideal": lambda rest: _plain(Ideal(), rest),
}


def make(name: str, policy: PolicySpec | None = None) -> Controller:
    """The controller of that name (`hpa:70`). ValueError lists the names there are."""
    kind, _, rest = name.partition(":")
    if kind in OURS:
        from autoscaler.simulate.ours import Ours

        if rest:
            raise ValueError(f"controller {name!r}: {kind} takes no argument")
        return Ours(policy=policy, vertical=kind != "ours-horizontal", horizontal=kind != "ours-vertical")
    if kind not in MADE:
        raise ValueError(f"controller {name!r} is none of {', '.join([*OURS, *MADE])}")
    try:
        return MADE[kind](rest)
    except ValueError as error:
        raise ValueError(f"controller {name!r}: {error}") from error


OURS = ("ours", "ours-vertical", "ours-horizontal")
