"""Rules that stop or bend a wish: each one function with one reason code. ``want.py`` states their order."""

from __future__ import annotations

from autoscaler.decide.history import History
from autoscaler.decide.replicas import OURS
from autoscaler.decide.standing import Standing
from autoscaler.model.policy import Mode, Policy
from autoscaler.model.reason import Code, Reason, because
from autoscaler.model.workload import WorkloadView

LEARN = 60.0
"""Seconds of watching before anything shrinks."""
NEAR = 1.1
"""A size this many times the one that was too small is another size."""
UNSEEN = 15.0
"""Seconds without a word from the cluster after which nothing is decided: a heartbeat that fails shows within ten."""


def cannot_decide(view: WorkloadView, policy: Policy, paused: bool) -> Reason | None:
    """The first reason to leave this workload alone altogether."""
    if view.hold:
        return because(Code.HELD, why=view.hold)
    if policy.spec.mode is Mode.OFF:
        return because(Code.OFF)
    if paused or view.paused:
        return because(Code.PAUSED)
    if view.seen_age_s > UNSEEN:
        return because(Code.BLIND, age=view.seen_age_s)
    if view.scale is not None and view.scale.desired == 0:
        return because(Code.SCALED_TO_ZERO)
    if view.scale is not None and view.scale.rollout:
        return because(Code.ROLLOUT)
    return None


def kept(stand: Standing, policy: Policy, now: float) -> dict[str, Reason]:
    """Pods that somebody else has resized lately: their CPU is left alone for a while, by uid."""
    found = {}
    for member in (*stand.serving, *stand.starting):
        pod = member.pod
        if pod.resized_by in ("", OURS) or pod.resized_at is None:
            continue
        left = pod.resized_at + policy.spec.vertical.keep_manual_seconds - now
        if left > 0.0:
            found[pod.uid] = because(Code.BY_HAND, pod=pod.name, have=member.size, who=pod.resized_by, left=left)
    return found


def barred(past: History, now: float) -> Reason | None:
    """A shrink that was undone bars the next ones for a while: from going near the size that was too small."""
    left = past.sizes.barred_until - now
    return because(Code.BARRED, left=left) if left > 0.0 else None


def least(past: History, now: float) -> float:
    """Millicores per pod that a barred shrink still may go down to; 0 where nothing is barred."""
    if barred(past, now) is None:
        return 0.0
    return NEAR * past.sizes.barred_size if past.sizes.barred_size > 0 else float("inf")


def learning(past: History, now: float) -> Reason | None:
    """After a start nothing shrinks before the load has been seen for a while."""
    left = max(past.learning_until, past.since + LEARN) - now
    return because(Code.LEARNING, left=left) if left > 0.0 else None


def windowed(
    wishes: tuple[tuple[float, float], ...], now: float, wanted: float, window: float, keep: int
) -> tuple[tuple[float, float], ...]:
    """Add a wish to a monotone queue and drop what has left the window.

    ``keep`` = 1: the first entry is the largest wish in the window; −1: the smallest.
    """
    queue = list(wishes)
    while queue and (queue[-1][1] - wanted) * keep <= 0.0:
        queue.pop()
    queue.append((now, wanted))
    oldest = now - window
    first = 0
    while queue[first][0] < oldest - 1e-6:
        first += 1
    return tuple(queue[first:])
