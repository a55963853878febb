"""The parts of a pod that are read."""

from __future__ import annotations

import msgspec

from autoscaler.kube.wire import Amounts, Condition, Meta, Sizes, Wire


class ResizePolicy(Wire):
    resource_name: str = ""
    restart_policy: str = ""


class ContainerSpec(Wire):
    name: str = ""
    resources: Sizes | None = None
    resize_policy: list[ResizePolicy] | None = None
    restart_policy: str | None = None


class Os(Wire):
    name: str = ""


class PodSpec(Wire):
    node_name: str = ""
    containers: list[ContainerSpec] | None = None
    init_containers: list[ContainerSpec] | None = None
    termination_grace_period_seconds: int | None = None
    priority: int | None = None
    os: Os | None = None
    node_selector: dict[str, str] | None = None
    overhead: Amounts | None = None
    resources: Sizes | None = None


class Running(Wire):
    started_at: str | None = None


class Waiting(Wire):
    reason: str | None = None


class Terminated(Wire):
    reason: str | None = None
    finished_at: str | None = None


class State(Wire):
    running: Running | None = None
    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(Wire):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: State | None = None
    last_state: State | None = None
    allocated_resources: Amounts | None = None
    resources: Sizes | None = None


class PodStatus(Wire):
    phase: str = ""
    qos_class: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    pod_ip: str | None = msgspec.field(name="podIP", default=None)
    resize: str | None = None
    observed_generation: int | None = None


class PodWire(Wire):
    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)
