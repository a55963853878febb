"""What runs inside the pods. `Idle` is the simplest: it starts quickly and uses a fixed amount of memory."""

from typing import Any, Protocol

from autoscaler.emulate.podrun import PodRun

Json = dict[str, Any]
MEBI = 1024 * 1024


class Inside(Protocol):
    """The kubelet tells what happens to a pod's processes and asks what they are like."""

    def startup_seconds(self, pod: Json) -> float: ...

    def started(self, pod: Json, run: PodRun) -> None: ...

    def ready(self, pod: Json, run: PodRun) -> None: ...

    def resized(self, pod: Json, run: PodRun) -> None: ...

    def stopped(self, pod: Json, run: PodRun, *, drain: bool) -> float:
        """Returns the seconds it takes to end."""
        ...

    def memory_usage(self, pod: Json, container: str) -> int:
        """Bytes, page cache included."""
        ...


class Idle:
    """Processes that do nothing."""

    def __init__(self, *, startup: float = 0.0, memory: int = MEBI) -> None:
        self.startup = startup
        self.memory = memory

    def startup_seconds(self, pod: Json) -> float:
        return self.startup

    def started(self, pod: Json, run: PodRun) -> None:
        return

    def ready(self, pod: Json, run: PodRun) -> None:
        return

    def resized(self, pod: Json, run: PodRun) -> None:
        return

    def stopped(self, pod: Json, run: PodRun, *, drain: bool) -> float:
        return 0.0

    def memory_usage(self, pod: Json, container: str) -> int:
        return self.memory
