"""Dry run: the same patches, printed instead of sent."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import yaml

from autoscaler.act.patches import FIELD_MANAGER, MERGE, STRATEGIC_MERGE, of_plan
from autoscaler.act.ports import Outcome, Patch, Result, Verb
from autoscaler.act.sizes import changes, overlay, spell
from autoscaler.model.plan import Action, AnnotatePod, Evict, Plan, Resize, Revert, Scale
from autoscaler.model.workload import Resources
from autoscaler.render import kyaml

FORMATS: Final = ("table", "json", "yaml", "kubectl", "kyaml")
_TYPES: Final = {MERGE: "merge", STRATEGIC_MERGE: "strategic"}


class PrintingSink:
    """Collects the patches that would be sent, in order; ``taken`` gives them once."""

    def __init__(self) -> None:
        self._patches: list[Patch] = []

    async def send(self, patch: Patch) -> Outcome:
        self._patches.append(patch)
        return Outcome(Result.PRINTED)

    def taken(self) -> tuple[Patch, ...]:
        taken, self._patches = tuple(self._patches), []
        return taken


def render(patches: Sequence[Patch], form: str) -> str:
    """The patches as text (empty for no patch in ``kubectl``). Raises ValueError for another form."""
    match form:
        case "table":
            return table(patches)
        case "json":
            return json.dumps([as_object(patch) for patch in patches], indent=2, ensure_ascii=False) + "\n"
        case "yaml":
            return yaml.safe_dump(
                [as_object(patch) for patch in patches], sort_keys=False, allow_unicode=True, width=1000
            )
        case "kyaml":
            return kyaml.dump([as_object(patch) for patch in patches])
        case "kubectl":
            return "".join(f"{kubectl(patch)}\n" for patch in patches)
    raise ValueError(f"{form!r} is no output format: one of {', '.join(FORMATS)}")


def render_plans(plans: Iterable[Plan], form: str, *, resources: Mapping[tuple[str, str], str] | None = None) -> str:
    """What `render` gives for all patches of the plans, in plan order."""
    return render([patch for plan in plans for patch in of_plan(plan, resources=resources)], form)


def as_object(patch: Patch) -> dict[str, Any]:
    """The request as it goes over the wire, with whom it is for and why."""
    return {
        "workload": str(patch.action.workload),
        "reason": {"code": str(patch.action.reason.code), "text": patch.action.reason.text},
        "method": str(patch.verb),
        "path": patch.path,
        "query": dict(patch.query),
        "contentType": patch.content_type,
        "body": _plain(patch.body),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def kubectl(patch: Patch) -> str:
    """A command that does the same with the real kubectl, its reason above it as a comment."""
    return f"# {patch.action.workload}: {patch.action.reason.text}\n{_command(patch)}"


def _command(patch: Patch) -> str:
    body = json.dumps(_plain(patch.body), separators=(",", ":"), ensure_ascii=False)
    action = patch.action
    if patch.verb is Verb.POST:
        return f"printf %s {shlex.quote(body)} | kubectl create --raw {shlex.quote(patch.path)} -f -"
    if isinstance(action, Scale) and patch.path.endswith("/scale"):
        version = f" --resource-version={shlex.quote(action.resource_version)}" if action.resource_version else ""
        return (
            f"kubectl scale {_resource(action)}/{action.target.name} -n {action.namespace}"
            f" --replicas={action.after} --current-replicas={action.before}{version}"
        )
    pod = patch.path.split("/")
    namespace, name = pod[4], pod[6]
    subresource = f" --subresource {pod[7]}" if len(pod) > 7 else ""
    return (
        f"kubectl patch pod {name} -n {namespace}{subresource} --type {_TYPES[patch.content_type]}"
        f" --field-manager={FIELD_MANAGER} -p {shlex.quote(body)}"
    )


def _resource(action: Scale) -> str:
    """``deployment`` for the well-known, else KIND.VERSION.GROUP, which kubectl resolves by discovery."""
    group, _, version = action.target.api_version.rpartition("/")
    kind = action.target.kind.lower()
    return kind if group in ("", "apps") else f"{kind}.{version}.{group}"


def table(patches: Sequence[Patch]) -> str:
    """One line a patch: whose, what, of which object, from what to what, why."""
    rows = [("WORKLOAD", "ACTION", "OBJECT", "CHANGE", "REASON")]
    for patch in patches:
        action = patch.action
        rows.append((str(action.workload), *_row(action, patch), action.reason.text))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "".join("  ".join([*(row[i].ljust(widths[i]) for i in range(4)), row[4]]).rstrip() + "\n" for row in rows)


def _row(action: Action, patch: Patch) -> tuple[str, str, str]:
    match action:
        case Resize() | Revert():
            change = changes(action.before, action.after)
            verb = "resize" if isinstance(action, Resize) else "revert"
            after = spell(overlay(_shown(action.before, change), change))
            return verb, f"pod/{action.pod.name}", f"{spell(_shown(action.before, change))} → {after}"
        case Scale() if patch.path.endswith("/scale"):
            return "scale", str(action.target), f"replicas {action.before} → {action.after}"
        case Scale() | AnnotatePod():
            marks = ", ".join(f"{key}={value}" for key, value in patch.body["metadata"]["annotations"].items())
            return "annotate", f"pod/{patch.path.split('/')[6]}", marks
        case Evict():
            return "evict", f"pod/{action.pod.name}", "recreate"


def _shown(before: Resources, change: Resources) -> Resources:
    """The half of a size (CPU, memory) that a change touches."""
    if change.cpu_request is None and change.cpu_limit is None:
        before = replace(before, cpu_request=None, cpu_limit=None)
    if change.memory_request is None and change.memory_limit is None:
        before = replace(before, memory_request=None, memory_limit=None)
    return before
