"""A memory limit that was refused or deferred is not asked for again at once; the middle is tried instead.

So the largest limit that fits is found in a few steps even where nodes can't be seen, and none is asked for, taken back
and asked for again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from autoscaler.decide import refusals
from autoscaler.decide.history import Peaks
from autoscaler.decide.memory_rooms import LEAST
from autoscaler.decide.memory_size import MI, limit_of
from autoscaler.decide.standing import Member
from autoscaler.model.quantity import format_memory
from autoscaler.model.reason import Code, Reason, because

ROOM_S: Final = 120.0
"""Seconds until a limit is tried again that there was no room for; a quota and the rest: see ``refusals``."""


def learn(peaks: Peaks, present: Sequence[Member], now: float) -> Peaks:
    """Remember new refusals of growth; forget those there is reason to try again, and those of pods that are gone."""
    found, since, words = dict(peaks.refused), dict(peaks.refused_at), dict(peaks.refused_why)
    here = {member.pod.uid: member for member in present}
    for uid in list(found):
        if uid not in here or limit_of(here[uid]) >= found[uid] or now - since[uid] >= _patience(words[uid]):
            for kept in (found, since, words):
                del kept[uid]
    for uid, member in here.items():
        attempt = member.pod.attempt
        if attempt is None or attempt.before is None or not refusals.refused(attempt):
            continue
        wanted, had = attempt.wanted.memory_limit, attempt.before.memory_limit
        ended = attempt.until if attempt.until is not None else now
        if wanted is None or had is None or wanted <= had or now - ended >= _patience(attempt.refusal):
            continue
        if wanted < found.get(uid, 1 << 60):
            found[uid], since[uid], words[uid] = wanted, ended, attempt.refusal
    if not found and not peaks.refused:
        return peaks
    return msgspec.structs.replace(peaks, refused=found, refused_at=since, refused_why=words)


def bounded(peaks: Peaks, member: Member, to: int) -> tuple[int, Reason | None]:
    """The limit to ask for instead of ``to``, and what was refused; the pod's own limit: wait."""
    bound, size = peaks.refused.get(member.pod.uid), limit_of(member)
    if bound is None or to <= size:
        return to, None
    word = peaks.refused_why.get(member.pod.uid) or "not granted in time"
    middle = (size + (bound - size) // 2) // MI * MI
    if word in refusals.HOPELESS or middle - size < LEAST:
        middle = size
    if to <= middle:
        return to, None
    return middle, because(
        Code.REFUSED, wanted=f"memory limit {format_memory(to)} for {member.pod.name}",
        why=f"{format_memory(bound)} was refused on {member.pod.node} ({word})",
    )  # fmt: skip


def _patience(word: str) -> float:
    if word in refusals.HOPELESS:
        return refusals.HOPELESS_S
    return ROOM_S if word in refusals.OF_ROOM else refusals.QUOTA_S
