"""Pages served on loopback, and workloads whose pods they belong to."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from autoscaler.model.policy import Policy, PolicySpec
from autoscaler.model.workload import Container, Pod, Resources, WorkloadRef
from autoscaler.observe.ports import Watched

BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


@dataclass
class Server:
    """What one emulated server has counted; ``page()`` shows it in the generic preset's names."""

    latencies: Counter[float] = field(default_factory=Counter)
    failed: int = 0
    in_flight: float = 0
    cpu_s: float = 0.0
    periods: int = 0
    throttled: int = 0
    memory: float = 100e6

    def serve(self, count: int, latency: float) -> None:
        self.latencies[latency] += count

    def fail(self, count: int) -> None:
        self.failed += count

    def page(self) -> str:
        lines = ["# HELP request_duration_seconds Time.", "# TYPE request_duration_seconds histogram"]
        served = self.latencies.total()
        for bound in BOUNDS:
            inside = sum(count for latency, count in self.latencies.items() if latency <= bound)
            lines.append(f'request_duration_seconds_bucket{{code="200",le="{bound}"}} {inside}')
        lines.append(f'request_duration_seconds_bucket{{code="200",le="+Inf"}} {served}')
        lines.append(f'request_duration_seconds_count{{code="200"}} {served}')
        spent = sum(latency * count for latency, count in self.latencies.items())
        lines.append(f'request_duration_seconds_sum{{code="200"}} {spent}')
        lines += ["# TYPE requests_total counter", f'requests_total{{code="200"}} {served}']
        if self.failed:
            lines.append(f'requests_total{{code="503"}} {self.failed}')
        lines += ["# TYPE requests_in_flight gauge", f"requests_in_flight {self.in_flight}"]
        lines += ["# TYPE process_cpu_seconds_total counter", f"process_cpu_seconds_total {self.cpu_s}"]
        lines += ["# TYPE process_resident_memory_bytes gauge", f"process_resident_memory_bytes {self.memory}"]
        return "\n".join(lines) + "\n"


@asynccontextmanager
async def serving(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[int]:
    """A loopback server on a free port, for the time of the block."""
    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def pages(texts: dict[str, Callable[[], str]]) -> AsyncIterator[int]:
    """``/NAME`` shows ``texts[NAME]()``, read at each request; 404 for other names."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        found = texts.get(request.path.lstrip("/"))
        return web.Response(text=found()) if found else web.Response(status=404)

    async with serving(answer) as port:
        yield port


def policy(name: str = "resnet", *, namespace: str = "serving", **spec: Any) -> Policy:
    body: dict[str, Any] = {
        "scaleTargetRef": {"name": name},
        "objective": {"latency": {"target": "500ms", "within": "99%"}},
        "signals": {"preset": "generic"},
    } | spec
    return Policy(ref=WorkloadRef(namespace, name), spec=PolicySpec.model_validate(body))


def pod(name: str, port: int | None = None, *, path: str = "", started_at: float = 1.0, **fields: Any) -> Pod:
    notes = {"prometheus.io/port": str(port)} if port else {}
    if path:
        notes["prometheus.io/path"] = path
    settings: dict[str, Any] = {
        "namespace": "serving",
        "uid": f"uid-{name}",
        "ready_at": 2.0,
        "ip": "127.0.0.1",
        "containers": (Container("server", Resources(cpu_limit=1000), started_at=started_at),),
        "annotations": notes,
    } | fields
    return Pod(name=name, **settings)


def watched(*pods: Pod, policy_: Policy | None = None, container: str = "server") -> Watched:
    wanted = policy_ or policy()
    return Watched(wanted.ref, wanted, tuple(pods), container)
