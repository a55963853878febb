"""``autoscaler explain``: the reasons behind a workload's size, or what a field of a policy means."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

from autoscaler import settings as tree
from autoscaler.cli import OK, WRONG, Wrong
from autoscaler.cli.plan import alone, looks_of, mistakes, observe, read_snapshot, rehearsal
from autoscaler.cli.start import finish, policies_of, settings_of

if TYPE_CHECKING:
    from autoscaler.model.plan import Action
    from autoscaler.model.reason import Reason
    from autoscaler.model.workload import WorkloadRef

ONLY = ("policy", "kubeconfig", "context", "server", "namespace", "resources", "interval", "api", "prometheus",
        "brakes", "log")  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "[NAMESPACE/]NAME of a policy, or a field such as spec.vertical.cpu; without it, all workloads"
    parser.add_argument("what", nargs="?", metavar="WORKLOAD|FIELD", help=text)
    parser.add_argument("--snapshot", metavar="FILE", help="explain what plan --save-snapshot wrote, without a cluster")
    parser.add_argument("--watch-for", metavar="TIME", help="observe the load this long first [twice the interval]")
    tree.add_arguments(parser, ONLY)


def run(args: argparse.Namespace) -> int:
    if args.what and (args.what == "spec" or args.what.startswith("spec.")):
        sys.stdout.write(field_text(args.what))
        return 0
    from autoscaler.decide.decision import decide
    from autoscaler.render.explain import explain

    if args.snapshot:
        alone(args)
        taken = read_snapshot(args.snapshot)
    else:
        settings = settings_of(args)
        policies = policies_of(settings)
        looks = looks_of(args.watch_for, settings.interval)
        taken, problems = finish(lambda: observe(settings, policies, looks))
        for problem in problems:
            print(problem, file=sys.stderr)
    plans, _ = decide(taken.seen, taken.past)
    held = rehearsal(plans, taken).held
    told = [
        explain(subject, plans[subject.view.ref]) + _held_back(subject.view.ref, held)
        for subject in taken.seen.subjects
        if args.what in (None, subject.view.ref.name, str(subject.view.ref))
    ]
    if not told:
        raise Wrong(f"no policy is called {args.what!r}")
    sys.stdout.write("\n".join(told))
    wrong = mistakes(taken.seen)
    for line in wrong:
        print(line, file=sys.stderr)
    return WRONG if wrong else OK


def _held_back(ref: WorkloadRef, held: Sequence[tuple[Action, Reason]]) -> str:
    """What is planned and would nevertheless not be sent, each with the reason."""
    lines = dict.fromkeys(f"  held back: {why.text}" for action, why in held if action.workload == ref)
    return "".join(f"{line}\n" for line in lines)


def field_text(path: str) -> str:
    """A field of the policy: what it is, its default, and what is below it. Raises Wrong."""
    from pydantic import BaseModel

    from autoscaler.model.policy import PolicySpec
    from autoscaler.observe.policy_errors import model_in, near, spelled
    from autoscaler.render.table import table

    model: type[BaseModel] | None = PolicySpec
    head, text = "spec", (PolicySpec.__doc__ or "").strip()
    for name in path.split(".")[1:]:
        if model is None:
            raise Wrong(f"{head} has no fields")
        fields = {field.alias or key: field for key, field in model.model_fields.items()}
        field = fields.get(name)
        if field is None:
            raise Wrong(f"{head} has no field {name!r}{near(name, fields)}; the fields are {', '.join(fields)}")
        head, model = f"{head}.{name}", model_in(field.annotation)
        text = field.description or (model.__doc__ or "" if model is not None else "")
        if model is None:
            text += f"\ndefault: {_default(field, spelled)}"
            allowed = [str(one) for part in (field.annotation, *get_args(field.annotation)) for one in _choices(part)]
            text += f"\none of: {', '.join(allowed)}" if allowed else ""
    lines = [head, f"  {' '.join(text.split('default:')[0].split())}", *(f"  {x}" for x in text.splitlines()[1:])]
    if model is not None:
        rows = []
        for key, field in model.model_fields.items():
            inner = model_in(field.annotation)
            about = (
                field.description or (inner.__doc__ or "").strip().splitlines()[0] if inner else field.description or ""
            )
            rows.append((field.alias or key, "…" if inner else _default(field, spelled), about))
        lines += ["", *(f"  {line}" for line in table(("FIELD", "DEFAULT", "WHAT IT IS"), rows).splitlines())]
    return "\n".join(lines) + "\n"


def _default(field: Any, spelled: Any) -> str:
    if field.is_required():
        return "must be set"
    default = field.get_default(call_default_factory=True)
    return "none" if default is None or default == () or default == {} else spelled(field, default)


def _choices(annotation: Any) -> list[Any]:
    import enum
    from typing import Literal, get_origin

    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return [one.value for one in annotation]
    return []
