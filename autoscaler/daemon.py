"""The process that stays: watches, aligned ticks, reload, its own HTTP server, and a clean end, in one TaskGroup."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import replace

import msgspec

from autoscaler import collector
from autoscaler.act.api import ApiSink
from autoscaler.act.apply import Applier
from autoscaler.act.ports import Sink
from autoscaler.act.show import PrintingSink
from autoscaler.decide.history import compact
from autoscaler.kube.discovery import server_version
from autoscaler.kube.errors import KubeError
from autoscaler.kube.learned import Kept
from autoscaler.kube.lease import Leadership
from autoscaler.loop import ControlLoop, Routed, Tick
from autoscaler.model.seen import Seen
from autoscaler.model.signal import Absent
from autoscaler.model.workload import WorkloadRef
from autoscaler.narrate import Narrator
from autoscaler.observe.policy_files import Policies
from autoscaler.observe.resource_news import ResourceNews
from autoscaler.observe.source_health import missed, who_answers
from autoscaler.parts import Parts, limits_of
from autoscaler.pause import PauseSwitch
from autoscaler.reload import Reloading
from autoscaler.reporter import Reporter, remembered
from autoscaler.rivals import Rivals
from autoscaler.serve.health import Health
from autoscaler.serve.http import serving
from autoscaler.serve.metrics import OwnMetrics
from autoscaler.settings import Settings

LOG = logging.getLogger("autoscaler.daemon")
SYNC_S = 30.0
"""How long the first tick waits for the first sight of the cluster; later it holds still and says why."""
BLIND_S = 15.0
LEARN_S = 60.0
"""After a start, and for a new policy, nothing shrinks before the load was watched for this long."""
ASK_AGAIN_S = 10.0
"""How often it is tried to read what was learned before, as long as that fails."""
STUCK_TICKS = 10
"""Without a finished tick for this many intervals (and half a minute) the process counts as dead."""


class Daemon:
    """``run`` until ``stop`` is set. ``on_tick`` is called with every tick (the demo's table listens there)."""

    def __init__(
        self,
        settings: Settings,
        parts: Parts,
        policies: Reloading[Policies],
        *,
        reload_settings: Reloading[Settings] | None = None,
        on_tick: Callable[[Tick], None] | None = None,
    ) -> None:
        self.settings, self.parts = settings, parts
        self.health, self.metrics = Health(), OwnMetrics()
        self._policies, self._reload_settings = policies, reload_settings
        self._on_tick = on_tick
        self._narrator, self._rivals, self._news = Narrator(), Rivals(), ResourceNews()
        self._printer = PrintingSink()
        self._files = policies.value
        self._wanted: Policies | None = None
        self.port: int | None = None
        """Where the own HTTP server listens, once it does."""
        self.leadership: Leadership | None = None
        if settings.leader.elect and not settings.dry_run:  # a dry run writes nothing, a Lease neither
            identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}_{secrets.token_hex(4)}"
            self.leadership = Leadership(parts.client, parts.namespace, settings.leader.name, identity)
            parts.client.fence = self.leadership.remaining
        self.loop = ControlLoop(parts.observer, parts.source, self._applier(), parts.clock, policies.value)
        self.pause = PauseSwitch(parts.client, parts.namespace)
        instance = os.environ.get("POD_NAME") or socket.gethostname()
        self.reporter = None if settings.dry_run else Reporter(parts, instance)
        self._ask_again = 0.0
        self._learned: dict[WorkloadRef, Kept] = {}
        self._alone = True
        self.loop.begin = lambda policy: remembered(policy, parts, self._learned, parts.clock.now() + LEARN_S)
        self._last_tick = parts.clock.now()

    def _applier(self) -> Applier:
        cluster: Sink = self._printer
        if not self.settings.dry_run:
            valid = self.leadership.valid if self.leadership is not None else lambda: True
            cluster = Routed(ApiSink(self.parts.client, valid=valid), self._printer, lambda ref: self.loop.dry(ref))
        limits = limits_of(self.settings)
        return Applier(cluster, clock=self.parts.clock.now, limits=limits, look=self.parts.look)

    async def run(self, stop: asyncio.Event) -> None:
        """Raises OSError when the HTTP address is taken; everything else is survived and told."""
        self.health.alive = self._alive
        self.metrics.count_api(lambda: self.parts.client.tally.requests)
        self._say_policies()
        async with serving(self.settings.http.listen, self.health, self.metrics) as self.port:
            LOG.info("started", extra={"fields": {"cluster": self.parts.client.where, "http": self.port or "off",
                                                  "policies": len(self._files.policies),
                                                  "dryRun": self.settings.dry_run,
                                                  "lease": self._lease()}})  # fmt: skip
            async with asyncio.TaskGroup() as tasks:
                lasting = [
                    tasks.create_task(self.parts.watch(), name="watch"),
                    tasks.create_task(self.pause.run(), name="watch the pause switch"),
                    tasks.create_task(self._reload(), name="reload files"),
                    tasks.create_task(self._tell_health(), name="tell health"),
                ]
                await self._work(stop)
                for task in lasting:
                    task.cancel()
        LOG.info("stopped")

    def _lease(self) -> str:
        return f"{self.parts.namespace}/{self.settings.leader.name}" if self.leadership is not None else "none"

    async def _work(self, stop: asyncio.Event) -> None:
        """Tick and wind up; where leadership is asked for, only while it is held."""

        async def act() -> None:
            reporting = asyncio.ensure_future(self.reporter.run()) if self.reporter is not None else None
            try:
                await self._ticks(stop)
                await self._wind_up()
            finally:
                if reporting is not None:
                    reporting.cancel()
                    await asyncio.wait({reporting})

        if self.leadership is None:
            await act()
            return
        leading = asyncio.ensure_future(self.leadership.run(act))
        try:
            while not leading.done():
                await _first_of(stop, asyncio.wait({leading}, timeout=1.0))
                if stop.is_set() and not self.leadership.valid():
                    break  # a standby has nothing to wind up
                if stop.is_set():
                    await asyncio.wait({leading}, timeout=self.settings.shutdown + 5.0)
                    break
        finally:
            leading.cancel()
            await asyncio.wait({leading})
            if not leading.cancelled() and (error := leading.exception()) is not None:
                raise error

    async def _tell_health(self) -> None:
        """Leader or standby, tick or none."""
        while True:
            self._say_health()
            await asyncio.sleep(1.0)

    def _say_health(self) -> None:
        """Whether the cluster is seen, and who acts."""
        observer, leadership = self.parts.observer, self.leadership
        age = observer.age()
        seen = observer.synced and age <= BLIND_S
        self.metrics.blind.set(not seen)
        problems = "; ".join(observer.problems())
        detail = f"seen {age:.0f}s ago" if math.isfinite(age) else "not seen yet"
        self.health.say("cluster", seen, f"{detail}{'; ' if problems else ''}{problems}")
        acts = leadership is None or leadership.valid()
        self.metrics.leading.set(acts)
        if leadership is not None:
            who = "leading" if acts else f"standby, {leadership.holder or 'nobody'} leads"
            trouble = f"; {leadership.trouble}" if leadership.trouble else ""
            self.health.say("leader", not trouble, f"{who}{trouble}", needed=False)
        if not acts:  # a standby makes no ticks and is alive
            self._last_tick = self.parts.clock.now()

    # -- ticks

    async def _ticks(self, stop: asyncio.Event) -> None:
        """Aligned on the unix clock: no drift, one for all; what an overrun leaves out is counted."""
        if not await _first_of(stop, self.parts.wait_synced(SYNC_S)):
            for problem in self.parts.observer.problems():
                LOG.warning("the cluster is not seen", extra={"fields": {"why": problem}})
        await self._learn_names()
        self.loop.applier.follower.take_over()  # another leader may have acted meanwhile
        self._rivals.begin()
        await self._remember(takeover=True)
        collector.seldom()
        due = _next(self.parts.clock.now(), self.settings.interval)
        while not stop.is_set():
            await _first_of(stop, asyncio.sleep(max(0.0, due - self.parts.clock.now())))
            if stop.is_set():
                return
            await self._tick()
            following = _next(max(due, self.parts.clock.now()), self.settings.interval)
            skipped = round((following - due) / self.settings.interval) - 1
            if skipped > 0:
                self.metrics.skipped.inc(skipped)
            due = following

    async def _remember(self, *, takeover: bool = False) -> None:
        """Begin with what was kept: of this process before, or of the leader before. As long as that is not known,
        nothing shrinks, and once it is, what was learned meanwhile gives way to it."""
        if self.reporter is None:
            return
        state = self.reporter.state
        if takeover:
            state.known = False
            self._learned = {ref: compact(past) for ref, past in self.loop.past.items()}
        if state.known or (not takeover and self.parts.clock.now() < self._ask_again):
            return
        self._ask_again = self.parts.clock.now() + ASK_AGAIN_S
        if await state.read():
            self._learned |= state.kept
            self.loop.past.clear()
        else:
            until = self._ask_again + LEARN_S
            for ref, past in self.loop.past.items():
                self.loop.past[ref] = msgspec.structs.replace(past, learning_until=until)

    async def _tick(self) -> None:
        await self._remember()
        self.loop.paused = self.pause.paused
        self._obey()
        try:
            tick = await self.loop.tick()
        except Exception:
            # One broken tick must not end the service of all workloads; the log has the place, the metric the alarm.
            self.metrics.failed.inc()
            LOG.exception("a tick failed")
            return
        self._last_tick = self.parts.clock.now()
        self._look_for_rivals(tick)
        self._publish(tick)
        self._narrator.tell(tick)
        if self.reporter is not None:
            self.reporter.tell(tick, self.loop.past, self._files)
        self._printer.taken()
        if self._on_tick is not None:
            self._on_tick(tick)

    def _look_for_rivals(self, tick: Tick) -> None:
        self._rivals.look(tick.seen.subjects, tick.seen.at)
        self._rivals.sent(tick.sent)
        told = self._rivals.told
        if told and self._alone:
            LOG.warning("not alone", extra={"fields": {"why": told}})
        self._alone = not told
        self.metrics.rival.set(bool(told))
        self.health.say("alone", not told, told or "nobody else resizes in this program's name", needed=False)

    def _obey(self) -> None:
        """The policies of this tick; those that didn't change stay the same objects, for views are kept by them."""
        wanted = self.parts.obeyed(self._files)
        if self.parts.resources is not None:
            self._news.tell(self.parts.resources, self._files)
        if wanted is not self._wanted:
            self._wanted, before = wanted, self.loop.policies
            self.loop.policies = _keep_equal(before, wanted)

    def _publish(self, tick: Tick) -> None:
        metrics = self.metrics
        metrics.ticks.inc()
        metrics.tick_seconds.observe(tick.took_s)
        metrics.decide_seconds.observe(tick.decided_s)
        metrics.paused.set(self.loop.paused)
        for one in tick.sent:
            metrics.sent(one.action, one.outcome.result.value)
        metrics.saw(tick.seen.subjects, tick.plans)
        self._say_health()
        down = self.parts.source.health.down
        metrics.heard(down)
        self.health.say("sources", not missed(down), who_answers(down), needed=False)
        blind = [s.view.ref for s in tick.seen.subjects if isinstance(s.view.signals.requests, Absent)]
        told = f"{len(tick.seen.subjects) - len(blind)} of {len(tick.seen.subjects)} workloads are measured"
        self.health.say("signals", not blind, told, needed=False)
        breaker = self.loop.applier.breaker(tick.seen.at)
        self.health.say("brakes", breaker is None, str(breaker or "free"), needed=False)
        self.health.say("pause", not self.loop.paused, "paused by a person" if self.loop.paused else "no", needed=False)

    def _alive(self) -> bool:
        return self.parts.clock.now() - self._last_tick < max(SYNC_S + 30.0, STUCK_TICKS * self.settings.interval)

    async def _learn_names(self) -> None:
        try:
            self.loop.applier.resources = await self.parts.resource_names(self.loop.policies)
            self.loop.applier.minor = (await server_version(self.parts.client)).minor
        except KubeError as error:
            LOG.warning("kinds can't be discovered, the usual plurals are taken", extra={"fields": {"why": str(error)}})

    # -- the end

    async def _wind_up(self) -> None:
        """Follow what is in flight for a while; what isn't done then is taken up by whoever acts next."""
        follower = self.loop.applier.follower
        until = self.parts.clock.now() + self.settings.shutdown
        self._follow()  # what has ended since the last tick
        if follower.in_flight():
            LOG.info("stopping: following resizes in flight", extra={"fields": {"pods": follower.in_flight()}})
        while follower.in_flight() and self.parts.clock.now() < until:
            await asyncio.sleep(0.25)
            self._follow()
        if self.reporter is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2.0):
                    await self.reporter.finish()
        for record in follower.records.values():
            if record.open:
                LOG.warning("handed over unfinished", extra={"fields": {
                    "workload": str(record.workload), "pod": record.name, "state": record.state.value}})  # fmt: skip

    def _follow(self) -> None:
        cluster = self.parts.observer.view(self.loop.policies.policies, {})
        self.loop.applier.follower.watch(Seen(self.parts.clock.now(), cluster.subjects, cluster.ledger))

    # -- files

    async def _reload(self) -> None:
        while True:
            await asyncio.sleep(self.settings.reload)
            if await asyncio.to_thread(self._policies.look):
                self._take_policies()
                await self._learn_names()
            if self._reload_settings is not None and await asyncio.to_thread(self._reload_settings.look):
                self._take_settings(self._reload_settings)

    def _take_policies(self) -> None:
        good = not self._policies.problems
        self.metrics.reloads.labels("policies", "ok" if good else "invalid").inc()
        if good:
            self._files = self._policies.value
            LOG.info("policies reloaded", extra={"fields": {"policies": len(self._files.policies)}})
        for problem in self._policies.problems:
            LOG.error("a changed policy is invalid, the last good ones stay", extra={"fields": {"why": problem}})
        self._say_policies()

    def _say_policies(self) -> None:
        problems = self._policies.problems
        detail = f"{len(self._files.policies)} loaded from files"
        if problems:
            detail = f"the last good {detail}; the changed ones are invalid: {'; '.join(problems)}"
        self.health.say("policies", not problems, detail, needed=False)
        self.metrics.reload_ok.labels("policies").set(not problems)
        if not problems:
            for name, instead in self._files.without_effect():
                LOG.warning("a field has no effect yet", extra={"fields": {"field": name, "instead": instead}})

    def _take_settings(self, files: Reloading[Settings]) -> None:
        good = not files.problems
        self.metrics.reloads.labels("settings", "ok" if good else "invalid").inc()
        self.metrics.reload_ok.labels("settings").set(good)
        self.health.say("settings", good, "; ".join(files.problems) or "loaded", needed=False)
        for problem in files.problems:
            LOG.error("changed settings are invalid, the last good ones stay", extra={"fields": {"why": problem}})
        if not good:
            return
        old, self.settings = self.settings, files.value
        self.loop.applier.limits = limits_of(self.settings)
        logging.getLogger("autoscaler").setLevel(self.settings.log.level.upper())
        late = sorted(name for name in _AT_START if getattr(old, name) != getattr(self.settings, name))
        LOG.info("settings reloaded", extra={"fields": {"afterRestart": ",".join(late)} if late else {}})


_AT_START = ("kubeconfig", "context", "server", "namespace", "resources", "policy", "dry_run", "api", "prometheus",
             "http", "leader")  # fmt: skip
"""Settings that a running process can't change; a reload names them when they differ."""


def _next(now: float, interval: float) -> float:
    """The next multiple of the interval on the unix clock, strictly later than now."""
    return (math.floor(now / interval + 1e-9) + 1) * interval


async def _first_of(stop: asyncio.Event, work: object) -> bool:
    """Wait for the work or the stop; what the work returned (None counts as True), False when stopped first."""
    doing = asyncio.ensure_future(work)  # type: ignore[call-overload]
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return bool(doing.result() is not False) if doing.done() else False
    finally:
        for task in (doing, stopping):
            task.cancel()


def _keep_equal(old: Policies, new: Policies) -> Policies:
    """The new ones, but the same object where nothing changed: views are kept by it."""
    known = {policy.ref: policy for policy in old.policies}
    kept = tuple(known[p.ref] if p.ref in known and known[p.ref] == p else p for p in new.policies)
    return replace(new, policies=kept)
