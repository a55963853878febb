"""What was learned about workloads whose policies are files, kept in a ConfigMap beside the program over its restarts.

(What is learned about custom resources is in their status.) Only the leader writes; it has read before it writes, and
a conflict means to read again. Nothing here ever raises for the server's sake: without this the program learns anew.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from autoscaler.kube.client import JSON, KubeClient
from autoscaler.kube.discovery import collection_path, object_path
from autoscaler.kube.errors import Conflicted, KubeError, NoRight, NotFound
from autoscaler.kube.pace import BACKGROUND
from autoscaler.model.workload import WorkloadRef

NAME: Final = "inference-autoscaler-state"
OWNER: Final = {"app.kubernetes.io/managed-by": "inference-autoscaler"}
"""Label: a ConfigMap of this name without it is somebody else's, and left alone."""
GAP_S: Final = 60.0
"""Between two writes."""
READ_S: Final = 3.0
"""A tick may have to wait for the reading so long."""
RIGHTLESS_S: Final = 600.0
GONE_S: Final = 600.0
"""What was learned about a workload without a policy is dropped after this."""
BYTES_MAX: Final = 800_000
"""An object in the API may have 1 MiB in all; names, metadata and escapes need some of it."""
KEY_MAX: Final = 253
"""Longer keys can't be: such long names (of namespace and policy together) are not kept."""
MINOR: Final = frozenset(
    {
        "cost.cpu",
        "cost.done",
        "cost.pace",
        "traffic.mean",
        "traffic.mean_time",
        "traffic.gain",
        "traffic.spread",
        "traffic.excess",
        "traffic.excess_square",
        "elastic.most_used",
    }
)
"""What moves with every sample and says little: written along, no reason to write."""
SLACK: Final = 0.05
"""A number that moved by less (relative) is not worth a write."""
SLACK_S: Final = 300.0
"""Likewise a moment."""
_EPOCH: Final = 1e9
_log = logging.getLogger(__name__)

Kept = Mapping[str, Any]


class LearnedState:
    """``read`` at the start and at each takeover, ``see`` every tick, ``write_due`` now and then."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._collection = collection_path("v1", "configmaps", namespace)
        self._path = object_path("v1", "configmaps", namespace, NAME)
        self._place = f"ConfigMap {namespace}/{NAME}"
        self.known = False
        """Whether it is known what was kept; before that nothing may shrink."""
        self.kept: dict[WorkloadRef, Kept] = {}
        """By workload: what the server has, as far as it could be understood."""
        self._version = ""
        self._foreign = False
        self._present: Callable[[], Mapping[WorkloadRef, Kept]] = dict
        self._gone: dict[WorkloadRef, float] = {}
        self._next = float("-inf")
        self._told = ""

    async def read(self) -> bool:
        """Learn what was kept; True when that is known now (nothing at all, or no right to see it, are answers too)."""
        try:
            answer = await self._client.request("GET", self._path, deadline=READ_S)
            self._take(answer.expect(f"read {self._place}").json())
        except NotFound:
            self._version, self._foreign, self.kept = "", False, {}
        except NoRight as error:
            self._say(f"what is learned about the workloads of policy files will not outlive this process: {error}")
            self._next = asyncio.get_running_loop().time() + RIGHTLESS_S
        except KubeError as error:
            self._say(f"what was learned before is not read yet: {error}")
            return False
        self.known = True
        return True

    def _take(self, body: Mapping[str, Any]) -> None:
        meta, data = body.get("metadata") or {}, body.get("data") or {}
        self._version = str(meta.get("resourceVersion") or "")
        ours = (meta.get("labels") or {}).items() >= OWNER.items()
        self._foreign = not ours and bool(data)
        if self._foreign:
            self.kept = {}
            self._say(f"{self._place} is not this program's (no label {_label()}): it is ignored and left alone, and "
                      "what is learned is not kept; rename it or delete it")  # fmt: skip
            return
        found = {key: _understood(key, text) for key, text in data.items()}
        self.kept = {one[0]: one[1] for one in found.values() if one is not None}
        broken = sorted(key for key, one in found.items() if one is None)
        if broken:
            names = ", ".join(broken[:3]) + (f" and {len(broken) - 3} more" if len(broken) > 3 else "")
            self._say(f"{self._place}: not understood and ignored: {names}")

    def see(self, present: Callable[[], Mapping[WorkloadRef, Kept]]) -> None:
        """``present``: asked when something may be written, what is known about each workload now."""
        self._present = present

    async def write_due(self, *, last: bool = False) -> None:
        """Write if that is worth it and the last write is long enough ago; ``last``: at a clean end, at once."""
        now = asyncio.get_running_loop().time()
        if not self.known or self._foreign or (now < self._next and (not last or self._next - now > GAP_S)):
            return
        wanted = self._wanted(now)
        if not worth(self.kept, wanted):
            return
        self._next = now + GAP_S
        data, told = packed(wanted)
        if told:
            self._say(f"{self._place} would be too large: {told}")
        try:
            await self._put(data)
        except Conflicted:
            await self.read()  # somebody else wrote: on top of that, with the next turn
        except NoRight as error:
            self._say(f"what is learned about the workloads of policy files will not outlive this process: {error}")
            self._next = now + RIGHTLESS_S
        except KubeError as error:
            self._say(f"what was learned is not written: {error}")
        else:
            self.kept = wanted
            self._told = told and self._told

    def _wanted(self, now: float) -> dict[WorkloadRef, Kept]:
        """What is known now, and for a while what was known about workloads that have no policy any more."""
        present = self._present()
        wanted = {ref: kept for ref, kept in present.items() if kept}
        self._gone = {ref: self._gone.get(ref, now) for ref in self.kept if ref not in present}
        return wanted | {ref: self.kept[ref] for ref, since in self._gone.items() if now - since < GONE_S}

    async def _put(self, data: Mapping[str, str]) -> None:
        meta: dict[str, Any] = {"name": NAME, "labels": OWNER}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
        method, path = "POST", self._collection
        if self._version:
            meta["resourceVersion"] = self._version
            method, path = "PUT", self._path
        answer = await self._client.request(method, path, None, body, JSON, priority=BACKGROUND)
        if answer.status == 404 and self._version:  # deleted meanwhile
            self._version = ""
            await self._put(data)
            return
        written = answer.expect(f"write {self._place}").json()
        self._version = str((written.get("metadata") or {}).get("resourceVersion") or "")

    async def run(self, every_s: float = 5.0) -> None:
        """Write until cancelled."""
        while True:
            await self.write_due()
            await asyncio.sleep(every_s)

    def _say(self, text: str) -> None:
        if text != self._told:
            _log.warning("%s", text)
        self._told = text


def worth(before: Mapping[WorkloadRef, Kept], after: Mapping[WorkloadRef, Kept]) -> bool:
    """Whether anything changed that would be missed after a restart."""
    return before.keys() != after.keys() or any(_differ(_major(before[ref]), _major(after[ref])) for ref in after)


def _major(kept: Kept) -> Kept:
    return {name: value for name, value in kept.items() if name not in MINOR}


def _differ(old: Any, new: Any) -> bool:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return old.keys() != new.keys() or any(_differ(old[key], new[key]) for key in new)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) != len(new) or any(_differ(one, other) for one, other in zip(old, new, strict=True))
    if isinstance(old, int | float) and isinstance(new, int | float):
        moment = min(old, new) > _EPOCH and max(old, new) < 4 * _EPOCH and isinstance(new, float)
        return abs(old - new) > (SLACK_S if moment else SLACK * max(abs(old), abs(new)))
    return bool(old != new)


def packed(wanted: Mapping[WorkloadRef, Kept]) -> tuple[dict[str, str], str]:
    """As a ConfigMap's data, and what had to be left out so that it fits: first what belongs to single pods (refusals,
    proofs), which is soon learned again; then workloads, those with most to say first."""
    wanted = {ref: kept for ref, kept in wanted.items() if len(_key(ref)) <= KEY_MAX}
    data = {_key(ref): _text(kept) for ref, kept in wanted.items()}
    if _size(data) <= BYTES_MAX:
        return data, ""
    data = {_key(ref): _text({k: v for k, v in kept.items() if not isinstance(v, Mapping) or k == "cost.pace"})
            for ref, kept in wanted.items()}  # fmt: skip
    told = "what is remembered of single pods is left out"
    size, dropped = _size(data), 0
    for key in sorted(data, key=lambda one: (-len(data[one]), one)):
        if size <= BYTES_MAX:
            break
        size -= len(key) + len(data.pop(key))
        dropped += 1
    return data, f"{told}, and {dropped} workloads" if dropped else told


def _size(data: Mapping[str, str]) -> int:
    return sum(len(key) + len(text) for key, text in data.items())


def _text(kept: Kept) -> str:
    return json.dumps(kept, separators=(",", ":"), sort_keys=True)  # ASCII, so characters are bytes


def _key(ref: WorkloadRef) -> str:
    """Namespaces have no dots, so the first one divides."""
    return f"{ref.namespace}.{ref.name}"


def _understood(key: str, text: Any) -> tuple[WorkloadRef, Kept] | None:
    namespace, dot, name = key.partition(".")
    try:
        kept = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    return (WorkloadRef(namespace, name), kept) if dot and name and isinstance(kept, dict) else None


def _label() -> str:
    return ", ".join(f"{key}={value}" for key, value in OWNER.items())
