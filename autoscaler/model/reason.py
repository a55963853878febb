"""Why something is done or held: a closed vocabulary of codes, each with the numbers it must carry.

The code that decides writes the reason; logs, Events, conditions and ``explain`` are renderings of it.
"""

from __future__ import annotations

import enum
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class Code(enum.StrEnum):
    """Reason codes; the value is the CamelCase word that Kubernetes users see. ``TEXTS`` has a sentence for each."""

    # what is done
    BREACH = "ObjectiveMissed"
    DEMAND = "DemandRose"
    STALL = "Stalled"
    BACKLOG = "BacklogWaits"
    OOM = "OutOfMemory"
    MEMORY_GROW = "MemoryNearLimit"
    MEMORY_SHRINK = "MemoryUnused"
    MEMORY_UNDO = "MemoryShrinkUndone"
    SPREAD = "MoreMemoryDidNotHelp"
    SHRINK = "DemandFell"
    SETTLE = "Settle"
    LENDS = "OthersNeedMore"
    OVER_MAX = "AboveMaximum"
    UNDER_MIN = "BelowMinimum"
    MIN_BEYOND = "MinimumOutOfReach"
    NEW_POD = "NewPodLearnedSize"
    FITS = "SizedToBePlaced"
    SCALE_OUT = "SizeNotEnough"
    SCALE_IN = "FewerPodsSuffice"
    REVERT = "ResizeNotGranted"
    UNDO_SHRINK = "ShrinkUndone"
    CONSOLIDATE = "Consolidate"
    CPU_TARGET = "CpuAboveTarget"
    METRIC_TARGET = "MetricAboveTarget"
    RELEASE = "Released"
    RECREATE = "Recreate"
    # what is held
    STEADY = "WithinObjective"
    STILL_MISSING = "StillMissing"
    UNMEASURED = "ObjectiveUnmeasured"
    IDLE = "NoTraffic"
    ON_TARGET = "WithinTarget"
    TOLERANCE = "ChangeTooSmall"
    STABILIZING = "Stabilizing"
    NO_SIGNAL = "NoSignal"
    STALE = "SignalStale"
    NOT_CPU_BOUND = "NotCpuBound"
    INELASTIC = "CannotUseMoreCpu"
    UNREACHABLE = "ObjectiveUnreachable"
    AT_MAX = "AtMaximum"
    AT_MIN = "AtMinimum"
    NODE_FULL = "NodeFull"
    QUOTA = "QuotaExhausted"
    LIMIT_RANGE = "LimitRange"
    BUDGET = "BudgetExhausted"
    NO_ROOM_TO_CONSOLIDATE = "NoRoomToConsolidate"
    MEMORY_UNSAFE = "MemoryShrinkRefused"
    LEAK = "MemoryLeakSuspected"
    ROLLOUT = "RolloutInProgress"
    STARTING = "ReplicasStarting"
    NOT_COMING = "ReplicasNotComing"
    OTHER_OWNER = "OtherOwner"
    PAUSED = "Paused"
    OFF = "Off"
    BLIND = "ClusterUnseen"
    HELD = "Held"
    IN_FLIGHT = "ResizeInProgress"
    REFUSED = "ResizeRefused"
    UNPLACED = "PodUnplaced"
    FLEET_LIMIT = "FleetLimit"
    BREAKER = "BreakerOpen"
    LEARNING = "Learning"
    BARRED = "ShrinkBarred"
    UNSUPPORTED = "ResizeUnsupported"
    BY_HAND = "SizeSetByOther"
    SCALED_TO_ZERO = "ScaledToZero"
    DRAINING = "Draining"
    NO_EFFECT = "NoEffectYet"
    RATE_LIMITED = "ScaleRateLimited"
    REPLICAS_STABILIZING = "ReplicasStabilizing"
    GRACE_SHORT = "TerminationGraceShort"
    MIN_REPLICAS = "BelowMinReplicas"


TEXTS: Mapping[Code, str] = {
    Code.BREACH: "{misses:share} of requests missed {target:seconds} (allowed {allowed:share})",
    Code.DEMAND: "demand {demand:cores} with head-room needs {wanted:cores}, has {have:cores}",
    Code.BACKLOG: "{waiting:number} requests in flight: {drain:cores} to work them off in time, "
    "beside {demand:cores} for what arrives",
    Code.STALL: "{in_flight:number} requests in flight and none completed",
    Code.OOM: "{pod} was OOMKilled at {limit:memory}",
    Code.MEMORY_GROW: "working set peaked at {used:memory} of {limit:memory}, head-room {headroom:share}",
    Code.MEMORY_SHRINK: "working set peaked at {peak:memory} of {limit:memory}, "
    "usage with page cache is {usage:memory} ({age:seconds} old)",
    Code.MEMORY_UNDO: "a memory shrink to {limit:memory} is undone: {why}",
    Code.SPREAD: "more memory did not help a pod and it could not be recreated: another replica takes part of the load",
    Code.SHRINK: "demand {demand:cores} needs {wanted:cores}, has {have:cores}",
    Code.LENDS: "{part:cores} of {have:cores} is its part of what there is for all ({wanted:cores} wanted)",
    Code.OVER_MAX: "{have:cores} is more than the maximum {maximum:cores}",
    Code.MIN_BEYOND: "vertical.cpu.min {minimum:cores} is more than a pod can have on any node or by the LimitRange "
    "({most:cores}): lower it",
    Code.UNDER_MIN: "{have:cores} is less than the minimum {minimum:cores}",
    Code.SETTLE: "sizes settle after the replicas came: {wanted:cores} each",
    Code.NEW_POD: "new pod was born at {have:cores}, learned size is {wanted:cores}",
    Code.FITS: "no node has room for {pod} at {have:cores}, at {wanted:cores} it can be placed",
    Code.SCALE_OUT: "{wanted:cores} wanted, {covered:cores} is all that size can give",
    Code.SCALE_IN: "{demand:cores} fits in {pods:number} pods of {size:cores}",
    Code.REVERT: "resize to {wanted} was not granted: {why}",
    Code.UNDO_SHRINK: "misses rose to {misses:share} within a minute of a shrink",
    Code.CONSOLIDATE: "{pods:number} pods of {size:cores} will carry {demand:cores}",
    Code.CPU_TARGET: "CPU use {used:share} of size, target {target:share}",
    Code.METRIC_TARGET: "{name} is {value:number}, target {target:number}",
    Code.RELEASE: "back to the template's size",
    Code.RECREATE: "a resize can't help: {why}",
    Code.STILL_MISSING: "{misses:share} missed (allowed {allowed:share}), {have:cores} for a demand of {demand:cores}",
    Code.UNMEASURED: "misses can't be measured ({why}), {have:cores} for a demand of {demand:cores}",
    Code.IDLE: "no requests, {have:cores}",
    Code.ON_TARGET: "{have:cores} for a demand of {demand:cores}",
    Code.STEADY: "{misses:share} missed (allowed {allowed:share}), {have:cores} for a demand of {demand:cores}",
    Code.TOLERANCE: "{wanted:cores} instead of {have:cores} is not worth a resize",
    Code.STABILIZING: "{wanted:cores} would do, kept at {have:cores} for {left:seconds} more",
    Code.NO_SIGNAL: "{signal}: {why}",
    Code.STALE: "{signal} is {age:seconds} old (limit {limit:seconds})",
    Code.NOT_CPU_BOUND: "{misses:share} missed but CPU is free ({used:cores} of {have:cores} used, "
    "{throttled:share} throttled): more CPU would not help",
    Code.INELASTIC: "pods use {used:cores} of {have:cores} while requests wait: "
    "each can't use more than {ceiling:cores}",
    Code.UNREACHABLE: "one request alone takes {fastest:seconds}, target {target:seconds}: no size can meet it",
    Code.AT_MAX: "{wanted:cores} wanted in all, {maximum:cores} is all that {pods:number} pods may have",
    Code.AT_MIN: "already at the minimum {minimum:cores}",
    Code.NODE_FULL: "{wanted:cores} wanted, {free:cores} free on {node}",
    Code.QUOTA: "{wanted} wanted, {free} left in quota {quota}",
    Code.LIMIT_RANGE: "{wanted} wanted, LimitRange allows {allowed}",
    Code.BUDGET: "{wanted:cores} wanted, {granted:cores} granted of budget {budget}",
    Code.NO_ROOM_TO_CONSOLIDATE: "{pods:number} pods would need {size:cores} each, {free:cores} is free",
    Code.MEMORY_UNSAFE: "limit {wanted:memory} refused: usage {usage:memory} with page cache ({age:seconds} old) "
    "+ margin {margin:memory}",
    Code.LEAK: "working set grew to {used:memory} without end, stopped at the maximum {limit:memory}",
    Code.ROLLOUT: "a rollout is under way",
    Code.STARTING: "{starting:number} replicas are starting",
    Code.NOT_COMING: "{pods:number} replicas don't come: {why}",
    Code.OTHER_OWNER: "replicas are set by {owner}",
    Code.PAUSED: "paused by a person",
    Code.OFF: "mode is Off",
    Code.BLIND: "the cluster was last seen {age:seconds} ago",
    Code.HELD: "{why}",
    Code.IN_FLIGHT: "a resize of {pods:number} pods is {state}",
    Code.REFUSED: "{wanted} was refused: {why}",
    Code.UNPLACED: "{pod} can't be placed by a smaller size: {why}",
    Code.FLEET_LIMIT: "{limit} reached",
    Code.BREAKER: "{bad:number} of the last {total:number} resizes failed or made it worse",
    Code.LEARNING: "learning for {left:seconds} more before anything shrinks",
    Code.BARRED: "a shrink was undone, none for {left:seconds} more",
    Code.UNSUPPORTED: "{why}",
    Code.BY_HAND: "{pod} keeps {have:cores} as {who} set it, for {left:seconds} more",
    Code.SCALED_TO_ZERO: "replicas is 0: off",
    Code.DRAINING: "{pod} drains for {left:seconds} more",
    Code.NO_EFFECT: "{field} has no effect yet",
    Code.RATE_LIMITED: "{wanted:number} replicas wanted, behavior allows {allowed:number} now",
    Code.REPLICAS_STABILIZING: "{wanted:number} replicas would do, kept at {have:number} for {left:seconds} more",
    Code.MIN_REPLICAS: "{have:number} replicas, the minimum is {least:number}",
    Code.GRACE_SHORT: "{pod} has {grace:seconds} to end, requests take up to {latency:seconds}: some may be cut off",
}


class _Sentence(string.Formatter):
    def get_value(self, key: int | str, args: Any, kwargs: Any) -> Any:
        return kwargs.get(key, "?")

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, str) or value is None:
            return value or "?"
        match format_spec:
            case "share":
                return f"{value * 100:.3g}%" if value < 0.9995 or value > 1 else f"{value * 100:.4g}%"
            case "cores":
                return _cores(value)
            case "memory":
                return _memory(value)
            case "seconds":
                return f"{value * 1000:.0f}ms" if value < 1 else f"{value:.3g}s"
            case "number":
                return f"{value:.4g}"
        return format(value, format_spec)


def _cores(milli: float) -> str:
    """In cores with three digits: people compare two of them in one sentence."""
    text = f"{milli / 1000:.3g}"
    return f"{text} core" if text == "1" else f"{text} cores"


def _memory(value: float) -> str:
    """As sizes are written: whole Gi, else Mi, so that two in one sentence can be compared."""
    if value >= 2**30 and value % 2**30 == 0:
        return f"{value / 2**30:.0f}Gi"
    if value >= 2**20:
        return f"{value / 2**20:.0f}Mi" if value >= 100 * 2**20 else f"{value / 2**20:.3g}Mi"
    return f"{value / 2**10:.3g}Ki" if value >= 2**10 else f"{value:.0f}"


_SENTENCE = _Sentence()


@dataclass(frozen=True, slots=True)
class Reason:
    """A code and its numbers: CPU in millicores, memory in bytes, time in seconds, shares in [0, 1]."""

    code: Code
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The sentence a person reads."""
        return _SENTENCE.vformat(TEXTS[self.code], (), self.numbers)

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"


def because(code: Code, **numbers: Any) -> Reason:
    return Reason(code, numbers)
