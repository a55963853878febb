"""HPA's ``behavior`` block: how many replicas a direction allows now. Same fields, same defaults, same arithmetic.

A policy allows its value beyond what there was when its period began, so changes of the last period count against it.
"""

from __future__ import annotations

from math import ceil

from autoscaler.model.policy import ScalingPolicy, ScalingRules

TOLERANCE = 0.1
"""HPA's: a change of less than this share is not made."""
UP = (
    ScalingPolicy(type="Pods", value=4, period_seconds=15),
    ScalingPolicy(type="Percent", value=100, period_seconds=15),
)
DOWN = (ScalingPolicy(type="Percent", value=100, period_seconds=15),)
UP_WINDOW = 0.0
DOWN_WINDOW = 300.0
LONGEST = 1800.0
"""Seconds: no policy's period is longer."""

Changes = tuple[tuple[float, int], ...]
"""(time, replicas added) of our own scale events, oldest first."""


def tolerance(rules: ScalingRules) -> float:
    return TOLERANCE if rules.tolerance is None else rules.tolerance


def window(rules: ScalingRules, default: float) -> float:
    """Seconds of past wishes that count."""
    return default if rules.stabilization_window_seconds is None else float(rules.stabilization_window_seconds)


def most(rules: ScalingRules, now: float, replicas: int, changes: Changes) -> int:
    """The largest number of replicas that ``scaleUp`` allows now; never below ``replicas``."""
    if rules.select_policy == "Disabled":
        return replicas
    limits = []
    for policy in UP if rules.policies is None else rules.policies:
        start = replicas - _within(changes, now - policy.period_seconds)
        if policy.type == "Pods":
            limits.append(start + policy.value)
        else:
            limits.append(ceil(start * (1.0 + policy.value / 100.0) - 1e-9))
    chosen = max(limits, default=replicas) if rules.select_policy == "Max" else min(limits, default=replicas)
    return max(replicas, chosen)


def least(rules: ScalingRules, now: float, replicas: int, changes: Changes) -> int:
    """The smallest number of replicas that ``scaleDown`` allows now; never above ``replicas``."""
    if rules.select_policy == "Disabled":
        return replicas
    limits = []
    for policy in DOWN if rules.policies is None else rules.policies:
        start = replicas - _within(changes, now - policy.period_seconds)
        if policy.type == "Pods":
            limits.append(start - policy.value)
        else:
            limits.append(int(start * (1.0 - policy.value / 100.0) + 1e-9))
    chosen = min(limits, default=replicas) if rules.select_policy == "Max" else max(limits, default=replicas)
    return max(0, min(replicas, chosen))


def remembered(changes: Changes, now: float, added: int) -> Changes:
    """With a new change, without those that no period reaches."""
    kept = tuple(change for change in changes if change[0] > now - LONGEST)
    return (*kept, (now, added)) if added else kept


def _within(changes: Changes, since: float) -> int:
    return sum(added for at, added in changes if at > since)
