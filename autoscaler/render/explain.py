"""A decision in words: what was seen, what it means, what is wished, granted and done, and the reason for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autoscaler.model import quantity
from autoscaler.model.plan import Action, AnnotatePod, Evict, Plan, Resize, Revert, Scale
from autoscaler.model.policy import Policy
from autoscaler.model.reason import Reason
from autoscaler.model.seen import Subject
from autoscaler.model.signal import Absent, Cause, Measured, Reading
from autoscaler.model.workload import Pod, Resources
from autoscaler.render.table import table

_SHARES = ("misses", "throttled", "pressure")
_SECONDS = ("latency", "mean_latency")
_SIGNALS = ("requests", "misses", "failures", "in_flight", "latency", "mean_latency", "cpu", "throttled", "pressure",
            "working_set")  # fmt: skip


def explain(subject: Subject, plan: Plan) -> str:
    """The whole story of one workload at one tick, ending in a newline."""
    view, policy = subject.view, subject.policy
    parts = [
        f"{view.ref}: {view.target}" + (f", container {view.container}" if view.container else ""),
        f"  policy     {policy.origin or 'unknown'}, mode {policy.spec.mode}",
        f"  objective  {objective(policy)}",
        "", "what was seen", *_indented(_seen(subject)), "", "what was decided", *_indented(_decided(plan)),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def objective(policy: Policy) -> str:
    """The objectives in words."""
    wanted, said = policy.spec.objective, []
    if wanted.latency is not None:
        within = quantity.format_share(wanted.latency.within)
        said.append(f"{within} of the requests within {quantity.format_duration(wanted.latency.target)}")
    if wanted.cpu is not None:
        said.append(f"CPU use at {quantity.format_share(wanted.cpu.target_utilization)} of size")
    said += [f"{metric.name} at {metric.target.value:g} ({metric.target.type})" for metric in wanted.metrics]
    return "; ".join(said)


def _seen(subject: Subject) -> Iterator[str]:
    view = subject.view
    if view.hold:
        yield f"held: {view.hold}"
    scale = view.scale
    if scale is not None:
        rollout = ", a rollout is under way" if scale.rollout else ""
        owner = f", also set by {scale.other_owner}" if scale.other_owner else ""
        yield f"{scale.desired} replicas wanted, {scale.current} there{rollout}{owner}"
    rows = [_pod_row(pod, view.container) for pod in view.pods]
    if rows:
        yield from table(("POD", "NODE", "READY", "DESIRED", "ACTUAL", "RESIZE"), rows).splitlines()
    rows = []
    for name in _SIGNALS:
        reading: Reading = getattr(view.signals, name)
        if not (isinstance(reading, Absent) and reading.cause is Cause.NOT_CONFIGURED):
            rows.append((name, *_reading(name, reading)))
    rows += [(name, *_reading(name, reading)) for name, reading in view.signals.custom.items()]
    if rows:
        yield from table(("SIGNAL", "VALUE", "AGE", "FROM", "NOTE"), rows).splitlines()


def _pod_row(pod: Pod, name: str) -> tuple[str, ...]:
    container = pod.container(name)
    desired = _size(container.desired) if container is not None else "?"
    actual = _size(container.actual) if container is not None and container.actual is not None else "?"
    under_way = ""
    if pod.attempt is not None:
        under_way = f"{pod.attempt.state.value} {_size(pod.attempt.wanted)}".rstrip()
    elif pod.resize_pending:
        under_way = pod.resize_pending
    return (pod.name, pod.node or "none", "yes" if pod.ready else "no", desired, actual, under_way)


def _size(size: Resources) -> str:
    cpu = quantity.format_cpu(size.cpu) if size.cpu is not None else ""
    memory = quantity.format_memory(size.memory) if size.memory is not None else ""
    return " ".join(part for part in (cpu, memory) if part)


def _reading(name: str, reading: Reading) -> tuple[str, str, str, str]:
    match reading:
        case Measured():
            told = f", {reading.coverage:.0%} of the pods" if reading.coverage < 1 else ""
            return (
                _value(name, reading.value),
                f"{reading.age_s:.0f}s",
                reading.source,
                f"{reading.note}{told}".lstrip(", "),
            )
        case Absent():
            return "unknown", "", reading.source, f"{reading.cause}: {reading.detail}".rstrip(": ")


def _value(name: str, value: float) -> str:
    if name in _SHARES:
        return f"{value:.2%}"
    if name in _SECONDS:
        return f"{value * 1000:.0f}ms"
    if name == "working_set":
        return quantity.format_memory(round(value / 2**20) * 2**20)
    unit = {"requests": "/s", "failures": "/s", "cpu": " cores"}.get(name, "")
    return f"{value:.4g}{unit}"


def _decided(plan: Plan) -> Iterator[str]:
    want, grant = plan.want, plan.grant
    if want is not None:
        cpu, demand = quantity.format_cpu(round(want.cpu)), quantity.format_cpu(round(want.demand))
        yield f"wish     {cpu} of CPU in all, for a demand of {demand}"
        yield f"         because {_said(want.reason)}"
        if want.replicas is not None:
            yield f"         {want.replicas} replicas" + (
                f" because {_said(want.replicas_reason)}" if want.replicas_reason else ""
            )
    if grant is not None:
        short = f", {quantity.format_cpu(round(grant.short))} short" if grant.short >= 1 else ""
        yield f"granted  {quantity.format_cpu(sum(grant.cpu.values()))}{short}"
        yield from (f"         {_said(reason)}" for reason in grant.why)
    for action in plan.actions:
        yield f"does     {action_text(action)}"
        yield f"         because {_said(action.reason)}"
    for reason in _once(plan.holds):
        yield f"holds    {_said(reason)}"
    if not plan.actions:
        yield f"does     nothing: {_said(plan.reason) if plan.reason else 'nothing to say'}"


def _said(reason: Reason) -> str:
    return f"{reason.text} ({reason.code.value})"


def _once(reasons: Iterable[Reason]) -> list[Reason]:
    return list({str(reason): reason for reason in reasons}.values())


def action_text(action: Action) -> str:
    """What is sent, in a few words."""
    match action:
        case Resize() | Revert():
            verb = "resize" if isinstance(action, Resize) else "revert"
            return f"{verb} pod {action.pod.name} from {_size(action.before)} to {_size(action.after)}"
        case Scale():
            return f"scale {action.target} from {action.before} to {action.after} replicas"
        case Evict():
            return f"evict pod {action.pod.name}"
        case AnnotatePod():
            return f"annotate pod {action.pod.name}: {', '.join(f'{k}={v}' for k, v in action.annotations.items())}"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]
