"""What the emulator doesn't play, each with the reason. Such a request is answered 501, never guessed.

Every row says which exchanges it speaks of; the contract test prints how many there are.
"""

from collections.abc import Callable
from typing import NamedTuple

from tests.contract.exchanges import Exchange


class Row(NamedTuple):
    reason: str
    speaks_of: Callable[[Exchange], bool]
    answers: tuple[int, ...] = (501,)
    """What the emulator answers: 501, or what a server without the optional API answers."""


NOT_COVERED = (
    Row(
        "server-side apply: the emulator notes who wrote a field, but resolves no conflicts between managers",
        lambda one: one.content_type.startswith("application/apply-patch"),
    ),
    Row(
        "adding ephemeral containers: a debugging aid; no controller of ours makes them",
        lambda one: one.path.endswith("/ephemeralcontainers"),
    ),
    Row(
        "resources of the pod as a whole (pod-level): the autoscaler sizes containers",
        lambda one: one.path.split("?")[0].endswith("/resize") and "resources" in _spec(one),
    ),
    Row(
        "gang scheduling (scheduling.k8s.io/v1alpha2): alpha and off by default, then the group is not there",
        lambda one: "scheduling.k8s.io/v1alpha2" in one.path or "schedulingGroup" in str(one.body),
        (404, 501, 201, 200),
    ),
)


def _spec(one: Exchange) -> dict[str, object]:
    spec = one.body.get("spec") if isinstance(one.body, dict) else None
    return spec if isinstance(spec, dict) else {}


def row_for(exchange: Exchange) -> Row | None:
    return next((row for row in NOT_COVERED if row.speaks_of(exchange)), None)
