"""What was refused is not asked for again: sizes remembered per pod and node until there is reason to hope.

A refusal for want of room holds until the room that this pod has (what is free beside the others) has grown; a quota
is tried again after a while, for it is freed late; what no size can change (the node's CPU manager, missing support or
rights) holds for long, as long as the pod stays on the node. Between what the pod has and what was refused the middle
is tried, so that the largest size that fits is found in a few steps even where nodes can't be seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from autoscaler.decide.history import UNKNOWN, Sizes
from autoscaler.decide.standing import Member, size_of, ungranted
from autoscaler.model.plan import Ledger
from autoscaler.model.policy import Controls
from autoscaler.model.workload import Attempt, ResizeState

RETRY_S: Final = 30.0
"""Nothing refused is asked for again sooner."""
QUOTA_S: Final = 60.0
"""A quota that was exhausted is tried again after this; so is a size for which the ledger had room."""
UNSEEN_S: Final = 300.0
"""Where room can't be seen, this stands for the hope that some has appeared."""
HOPELESS_S: Final = 900.0
"""What no size can change is tried again after this: somebody may have mended it."""
HOPELESS: Final = frozenset({"Unsupported", "Forbidden", "Infeasible"})
OF_ROOM: Final = frozenset({"NodeCapacity", "Deferred", ""})


def refused(attempt: Attempt | None) -> bool:
    """Whether this attempt says that its size can't be had here now."""
    if attempt is None or attempt.granted or attempt.reverts is not None:
        return False
    if attempt.state is ResizeState.REFUSED:
        return attempt.refusal not in ("Conflict", "Gone", "Lost", "Throttled", "Unavailable", "MemoryUnsafe")
    return ungranted(attempt)


def learn(sizes: Sizes, members: Iterable[Member], ledger: Ledger, controls: Controls, now: float) -> Sizes:
    """Remember new refusals and forget those there is reason to try again."""
    members = tuple(members)
    if not sizes.refused and not any(refused(member.pod.attempt) and not member.queued for member in members):
        return sizes
    found, rooms, since = dict(sizes.refused), dict(sizes.refused_room), dict(sizes.refused_at)
    words = dict(sizes.refused_why)
    there = {key_of(member): member for member in members}
    for key in list(found):
        member = there.get(key)
        if (
            member is None
            or member.live >= found[key]
            or _hope(words.get(key, ""), found[key], since.get(key, now), rooms.get(key), member, ledger, now)
        ):
            for kept in (found, rooms, since, words):
                kept.pop(key, None)
    for key, member in there.items():
        attempt = member.pod.attempt
        if attempt is None or member.queued or not refused(attempt):
            continue
        wanted = size_of(attempt.wanted, controls)
        ended = attempt.until if attempt.until is not None else now
        if wanted is None or wanted <= member.live or (key not in found and now - ended >= RETRY_S):
            continue  # no growth of the controlled side, or an old attempt that was already forgotten
        found[key] = min(found.get(key, wanted), wanted)
        words[key] = attempt.refusal
        if key not in since or attempt.until is None:
            since[key] = now
        room = room_of(member, ledger)
        if room is not None and key not in rooms:
            rooms[key] = room
    return msgspec.structs.replace(sizes, refused=found, refused_room=rooms, refused_at=since, refused_why=words)


def most(sizes: Sizes, member: Member, step: int) -> int | None:
    """The largest size to ask for: halfway to what was refused; what the pod has where no size can help; None: free."""
    key = key_of(member)
    if not sizes.refused:
        return None
    if any(word in HOPELESS and one.endswith(f"@{member.pod.node}") for one, word in sizes.refused_why.items()):
        return member.live  # its siblings on the node are made like it
    bound = sizes.refused.get(key)
    if bound is None:
        return None
    middle = member.live + (bound - member.live) // 2
    return max(member.live, middle // step * step)


def unless(sizes: Sizes, member: Member, now: float) -> int | None:
    """The room in millicores of requests that was there when the pod was refused for want of room: when others make
    more than that for it, it may ask again. None: nothing but time helps, or it is too early."""
    key = key_of(member)
    if sizes.refused_why.get(key, "") not in OF_ROOM or now - sizes.refused_at.get(key, now) < RETRY_S:
        return None
    room = sizes.refused_room.get(key)
    return room if room is not None and room < sizes.refused.get(key, 0) else None


def why(sizes: Sizes, member: Member) -> str:
    """The refusal, for people."""
    key = key_of(member)
    if key not in sizes.refused:
        return f"nothing can be resized on {member.pod.node}"
    word = sizes.refused_why.get(key, "") or "not granted in time"
    return f"{sizes.refused.get(key, 0)}m was refused on {member.pod.node} ({word})"


def key_of(member: Member) -> str:
    return f"{member.pod.uid}@{member.pod.node}"


def room_of(member: Member, ledger: Ledger) -> int | None:
    """Millicores of requests this pod could have on its node beside the others; None when the node isn't seen.

    Its own request, whatever it is now, is left out, so that asking and taking back don't look like room.
    """
    if not ledger.nodes_known:
        return None
    node = ledger.nodes.get(member.pod.node)
    if node is None:
        return None
    container, infeasible = member.container, member.pod.resize_pending == "Infeasible"
    sizes = [one for one in (container.allocated, container.actual, None if infeasible else container.desired) if one]
    own = max((one.cpu_request or 0 for one in sizes), default=0)
    return node.cpu - ledger.committed_cpu.get(member.pod.node, 0) + own


def _hope(why: str, size: int, since: float, room: int | None, member: Member, ledger: Ledger, now: float) -> bool:
    waited = now - since if since != UNKNOWN else 0.0
    if waited < RETRY_S:
        return False
    if why in HOPELESS:
        return waited >= HOPELESS_S
    if why in OF_ROOM:
        free = room_of(member, ledger)
        if free is None or room is None:
            return waited >= UNSEEN_S
        return free > room or (room >= size and waited >= QUOTA_S)
    return waited >= QUOTA_S
