"""Whether somebody else resizes in this program's name: a second process that acts without leadership.

The server's managedFields tell who last resized a pod and when, but not which process: two of ours share the field
manager. What this process sent is known by the generation that the server answered with; a later generation under our
name is another's. One such moment may be a person who pasted what ``plan -o kubectl`` printed; several are a rival.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from autoscaler.act.apply import Sent
from autoscaler.act.patches import FIELD_MANAGER
from autoscaler.act.ports import Result
from autoscaler.model.plan import Resize, Revert
from autoscaler.model.seen import Subject
from autoscaler.model.workload import Pod

LASTS_S: Final = 600.0
"""How long a foreign resize is remembered."""
APART_S: Final = 5.0
"""Resizes closer together than this are one deed."""
ENOUGH: Final = 2
"""So many deeds are more than a person's paste."""


class Rivals:
    """``sent`` what this process did, ``look`` at every tick; ``told`` is empty while nobody else was noticed."""

    def __init__(self) -> None:
        self._resized: dict[str, tuple[str, float | None]] = {}
        self._ours: dict[str, int] = {}
        self._unsure: set[str] = set()
        self._deeds: list[tuple[float, str]] = []

    def begin(self) -> None:
        """Another may have acted rightly until now (a takeover)."""
        self._resized.clear()
        self._deeds.clear()

    def sent(self, sent: Iterable[Sent]) -> None:
        """Take note of what was answered; where no answer came, the pod's next change may be ours."""
        for one in sent:
            if not isinstance(one.action, Resize | Revert):
                continue
            uid = one.action.pod.uid
            generation = ((one.outcome.body or {}).get("metadata") or {}).get("generation")
            if isinstance(generation, int):
                self._ours[uid] = max(generation, self._ours.get(uid, 0))
            elif one.outcome.result not in (Result.PRINTED, Result.SKIPPED):
                self._unsure.add(uid)

    def look(self, subjects: Iterable[Subject], now: float) -> None:
        """Compare every pod's last resize with the one known before."""
        pods = [pod for subject in subjects for pod in subject.view.pods]
        for pod in pods:
            if self._foreign(pod) and (not self._deeds or now - self._deeds[-1][0] >= APART_S):
                self._deeds.append((now, f"{pod.namespace}/{pod.name}"))
        self._resized = {pod.uid: (pod.resized_by, pod.resized_at) for pod in pods}
        self._ours = {pod.uid: self._ours[pod.uid] for pod in pods if pod.uid in self._ours}
        self._deeds = [deed for deed in self._deeds if now - deed[0] < LASTS_S]

    def _foreign(self, pod: Pod) -> bool:
        before = self._resized.get(pod.uid)
        if before is None or before == (pod.resized_by, pod.resized_at) or pod.resized_by != FIELD_MANAGER:
            return False
        if pod.uid in self._unsure:
            self._unsure.discard(pod.uid)
            return False
        return pod.generation > self._ours.get(pod.uid, 0)

    @property
    def told(self) -> str:
        """One sentence with the last pod and the remedy."""
        if len(self._deeds) < ENOUGH:
            return ""
        return (
            f"another process resizes in the name of {FIELD_MANAGER} (last {self._deeds[-1][1]}): end one of them, or"
            " run all with --leader-elect and one Lease (--leader-namespace, --leader-name)"
        )
