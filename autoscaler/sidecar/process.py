"""The tasks of one sidecar: size the own pod every second, and lead the siblings while holding the Lease."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import Final

from autoscaler.act.api import ApiSink
from autoscaler.act.apply import Applier, Sending
from autoscaler.act.ports import Sink
from autoscaler.act.show import PrintingSink
from autoscaler.decide.decision import decide
from autoscaler.kube.client import KubeClient
from autoscaler.kube.lease import Leadership
from autoscaler.loop import Clock, ControlLoop, Routed, Tick
from autoscaler.model.plan import Plan, Scale
from autoscaler.model.policy import Policy
from autoscaler.model.workload import Pod
from autoscaler.narrate import Narrator
from autoscaler.observe.cluster import ClusterObserver
from autoscaler.observe.policy_files import Policies
from autoscaler.observe.ports import MetricSource
from autoscaler.pause import PauseSwitch
from autoscaler.reload import Reloading
from autoscaler.serve.health import Health
from autoscaler.serve.metrics import OwnMetrics
from autoscaler.sidecar.bounds import PublishedBounds, bounds_of, within
from autoscaler.sidecar.own import OwnPod

LOG = logging.getLogger("autoscaler.sidecar")
LEAD_S: Final = 5.0
"""How often the leader looks at all siblings. Sizes follow every ``interval``, replicas needn't be faster than this."""
RELOAD_S: Final = 2.0
"""How often the policy's file is looked at."""
WRITE_S: Final = 3.0
"""Deadline of a leader's write: what was sent while leading has arrived or died before another can lead."""
SYNC_S: Final = 30.0
STUCK_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where this sidecar runs. ``identity`` differs between two lives of one pod."""

    namespace: str
    pod: str
    identity: str


@dataclass(frozen=True, slots=True)
class Sources:
    """``own`` reads the pod's own page over localhost, ``all`` those of all siblings, for the leader."""

    own: MetricSource
    all: MetricSource


def scaling_only(plan: Plan) -> Plan:
    """What a leader carries out of a plan for all pods: the replicas. Which pod goes is left to the ReplicaSet, for
    marking one would need the right to change any pod. Sizes are each sidecar's own."""
    return replace(plan, actions=tuple(replace(a, victims=()) for a in plan.actions if isinstance(a, Scale)))


class Sidecar:
    """``run`` until ``stop`` is set. ``interval``: seconds between two looks at the own pod. ``file``: where the policy
    is from; a change of it is obeyed, an invalid one is told and the last good one stays."""

    def __init__(
        self, client: KubeClient, observer: ClusterObserver, sources: Sources, clock: Clock, place: Place,
        policy: Policy, *, interval: float = 1.0, lead_s: float = LEAD_S, dry_run: bool = False,
        file: Reloading[Policy] | None = None,
    ) -> None:  # fmt: skip
        self.place, self.policy = place, policy
        self.health, self.metrics = Health(), OwnMetrics()
        self._observer, self._sources, self._clock = observer, sources, clock
        self._interval, self._lead_s, self._dry_run = interval, lead_s, dry_run
        self._client, self._file = client, file
        self._looked_at = clock.now()
        name = f"inference-autoscaler-{policy.ref.name}"
        self.bounds = PublishedBounds(client, place.namespace, name)
        self.leadership = Leadership(client, place.namespace, name, place.identity)
        self.pause = PauseSwitch(client, place.namespace)
        self._here, self._elsewhere = asyncio.Event(), asyncio.Event()
        self._printer = PrintingSink()
        self._narrator = Narrator()
        self.own = ControlLoop(
            OwnPod(observer, place.pod), sources.own, self._applier(ApiSink(client)), clock, Policies((policy,))
        )
        self._last_tick = clock.now()

    def _applier(self, api: Sink) -> Applier:
        sink = self._printer if self._dry_run else Routed(api, self._printer, lambda ref: self.own.dry(ref))
        return Applier(sink, clock=self._clock.now, look=self._look)

    def _look(self, pod: Pod) -> Pod | None:
        seen = self._observer.known.pods.items.get(pod.uid)
        return seen.pod if seen is not None else None

    async def run(self, stop: asyncio.Event) -> None:
        """Survives everything the API server does; ends when ``stop`` is set, releasing the Lease."""
        self.health.alive = lambda: self._clock.now() - self._last_tick < STUCK_S
        LOG.info("started; nodes are not visible from here, the kubelet's answer is the truth", extra={"fields": {
            "pod": f"{self.place.namespace}/{self.place.pod}", "policy": str(self.policy.ref)}})  # fmt: skip
        async with asyncio.TaskGroup() as tasks:
            lasting = [
                tasks.create_task(self._observer.run(), name="watch the namespace"),
                tasks.create_task(self.bounds.run(), name="watch the bounds"),
                tasks.create_task(self.pause.run(), name="watch the pause switch"),
            ]
            if not self._dry_run:  # a Lease would have to be written
                lasting.append(tasks.create_task(self._stand(), name="lead the siblings"))
            await self._ticks(stop)
            for task in lasting:
                task.cancel()
        LOG.info("stopped")

    async def _ticks(self, stop: asyncio.Event) -> None:
        if not await self._observer.wait_synced(SYNC_S):
            for problem in self._observer.problems():
                LOG.warning("the namespace is not seen", extra={"fields": {"why": problem}})
        while not stop.is_set():
            began = self._clock.now()
            await self._tick()
            rest = max(0.05, self._interval - (self._clock.now() - began))
            try:
                async with asyncio.timeout(rest):
                    await stop.wait()
            except TimeoutError:
                continue

    async def _reload(self) -> None:
        if self._file is None or self._clock.now() - self._looked_at < RELOAD_S:
            return
        self._looked_at = self._clock.now()
        if not await asyncio.to_thread(self._file.look):
            return
        for problem in self._file.problems:
            LOG.error("the changed policy is invalid, the last good one stays", extra={"fields": {"why": problem}})
        self.health.say("policy", not self._file.problems, "; ".join(self._file.problems) or "loaded", needed=False)
        if not self._file.problems and self._file.value.ref == self.policy.ref:
            self.policy = self._file.value
            LOG.info("policy reloaded", extra={"fields": {"origin": self.policy.origin}})

    async def _stand(self) -> None:
        """A candidate only while the own pod is one of the target's: who is elsewhere has no siblings to lead."""
        while True:
            await self._here.wait()
            async with asyncio.TaskGroup() as tasks:
                leading = tasks.create_task(self.leadership.run(self._lead))
                await self._elsewhere.wait()
                leading.cancel()

    def _where(self, tick: Tick) -> None:
        """Whether the own pod is one of the target's, as this tick saw it."""
        holds = [s.view.hold for s in tick.seen.subjects if not s.view.pods]
        is_set, clear = (self._elsewhere, self._here) if holds else (self._here, self._elsewhere)
        is_set.set()
        clear.clear()
        self.health.say("pod", not holds, "; ".join(holds) or f"{self.place.pod} is one of the target's")

    async def _tick(self) -> None:
        await self._reload()
        self.own.paused = self.pause.paused
        narrow = within(self.policy, self.bounds.now().get(self.place.pod))
        if self.own.policies.policies != (narrow,):
            self.own.policies = Policies((narrow,))
        try:
            tick = await self.own.tick()
        except Exception:
            # One broken tick must not leave the pod without its sidecar; the log has the place.
            self.metrics.failed.inc()
            LOG.exception("a tick failed")
            return
        self._last_tick = self._clock.now()
        self._where(tick)
        self._publish(tick)

    def _publish(self, tick: Tick) -> None:
        self.metrics.ticks.inc()
        self.metrics.tick_seconds.observe(tick.took_s)
        self.metrics.leading.set(self.leadership.valid())
        self.metrics.paused.set(self.own.paused)
        self.health.say("pause", not self.own.paused, "paused by a person" if self.own.paused else "no", needed=False)
        self.metrics.saw(tick.seen.subjects, tick.plans)
        for one in tick.sent:
            self.metrics.sent(one.action, one.outcome.result.value)
        self._narrator.tell(tick)
        self._printer.taken()
        self.health.say("cluster", self._observer.synced, "; ".join(self._observer.problems()) or "seen")

    # -- while leading

    async def _lead(self) -> None:
        """Until the leadership is lost or the program ends: replicas, and bounds for every sibling."""
        applier = self._applier(ApiSink(self._client, valid=self.leadership.valid, deadline=WRITE_S))
        loop = ControlLoop(self._observer, self._sources.all, applier, self._clock)
        narrator = Narrator()
        while True:
            await asyncio.sleep(self._lead_s)
            try:
                await self._look_at_all(loop, narrator)
            except Exception:
                self.metrics.failed.inc()
                LOG.exception("the leader's look failed")

    async def _look_at_all(self, loop: ControlLoop, narrator: Narrator) -> None:
        loop.policies, loop.paused = Policies((self.policy,)), self.pause.paused
        before = dict(loop.past)
        seen = loop.applier.watch(await loop.observe())
        plans, loop.past = decide(seen, loop.past)
        (subject,) = seen.subjects
        plan = plans[subject.view.ref]
        if self.leadership.valid() and not (loop.paused or subject.view.paused):
            await self.bounds.publish(bounds_of(plan, self.policy, subject.view.pods), deadline=WRITE_S)
        sending: Sending = await loop.applier.send([scaling_only(plan)], seen)
        for one in sending.sent:
            if one.outcome.body is not None:
                self._observer.learn(one.outcome.body)
        narrator.tell(Tick(seen, {}, sending.sent, past=before))
