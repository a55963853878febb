"""Targets of kinds that aren't watched (Argo Rollouts, LeaderWorkerSets, DaemonSets, custom resources): read one by
one, at a low rate, through their scale subresource."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Final

from autoscaler.kube.client import KubeClient
from autoscaler.kube.discovery import Discovery
from autoscaler.kube.errors import KubeError, NotFound
from autoscaler.kube.kinds import decode_scale, decode_unscalable
from autoscaler.kube.seen import TargetSeen
from autoscaler.model.workload import TargetRef

EVERY_S: Final = 20.0
Key = tuple[str, TargetRef]


class ForeignTargets:
    """``changes`` counts what a view may depend on."""

    def __init__(self, client: KubeClient) -> None:
        self.changes = 0
        self._client = client
        self._discovery = Discovery(client)
        self._wanted: frozenset[Key] = frozenset()
        self._seen: dict[Key, TargetSeen] = {}
        self._why: dict[Key, str] = {}
        self._news = asyncio.Event()

    def wanted(self, keys: Iterable[Key]) -> None:
        """The targets that policies name now."""
        keys = frozenset(keys)
        if keys != self._wanted:
            self._wanted = keys
            self._news.set()

    def seen(self, namespace: str, ref: TargetRef) -> TargetSeen | None:
        return self._seen.get((namespace, ref))

    def why(self, namespace: str, ref: TargetRef) -> str:
        """Why a target isn't seen; empty when it simply doesn't exist."""
        return self._why.get((namespace, ref), f"{ref} has not been read yet")

    async def run(self) -> None:
        while True:
            self._news.clear()
            await self.read()
            try:
                async with asyncio.timeout(EVERY_S * random.uniform(0.8, 1.2)):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def read(self) -> None:
        """Read every wanted target once."""
        for key in self._wanted:
            await self._read(key)
        for key in (self._seen.keys() | self._why.keys()) - self._wanted:
            self._seen.pop(key, None)
            self._why.pop(key, None)

    async def _read(self, key: Key) -> None:
        namespace, ref = key
        try:
            resource = await self._discovery.kind(ref.api_version, ref.kind)
            if resource is None:
                self._note(key, None, f"this server has no {ref.kind} in {ref.api_version}: correct scaleTargetRef")
                return
            path = resource.path(namespace, ref.name, "scale" if resource.scalable else "")
            answer = (await self._client.request("GET", path)).expect(f"read {ref}")
            read = decode_scale if resource.scalable else decode_unscalable
            self._note(key, read(answer.body, ref.api_version, ref.kind), "")
        except NotFound:
            self._note(key, None, "")
        except (KubeError, ValueError) as error:
            # What was seen before stays: not being able to read is not the same as being gone.
            self._note(key, self._seen.get(key), str(error))

    def _note(self, key: Key, seen: TargetSeen | None, why: str) -> None:
        if self._seen.get(key) != seen or self._why.get(key) != why:
            self.changes += 1
        self._why[key] = why
        if seen is None:
            self._seen.pop(key, None)
        else:
            self._seen[key] = seen
