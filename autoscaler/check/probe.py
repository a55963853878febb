"""Ask the server itself: the smallest growth of one pod with dryRun=All, which checks all and changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from autoscaler.act.patches import patches
from autoscaler.act.sizes import spell
from autoscaler.check.findings import Finding, fine, warn, wrong
from autoscaler.decide.sizes import resized
from autoscaler.kube import errors
from autoscaler.kube.client import KubeClient
from autoscaler.kube.errors import KubeError
from autoscaler.model.plan import Resize
from autoscaler.model.reason import Code, because
from autoscaler.model.seen import Subject

_FOR_NOW: Final = frozenset({errors.NODE_CAPACITY, errors.QUOTA, errors.LIMIT_RANGE, errors.GONE, errors.CONFLICT})
"""Refusals of this size at this moment, not of resizing."""


async def probe(client: KubeClient, subjects: Iterable[Subject]) -> tuple[Finding, ...]:
    """One finding a workload that can be asked about."""
    found = [await _ask(client, subject) for subject in subjects]
    return tuple(finding for finding in found if finding is not None)


async def _ask(client: KubeClient, subject: Subject) -> Finding | None:
    view, vertical, about = subject.view, subject.policy.spec.vertical, str(subject.view.ref)
    pod = next((one for one in view.pods if one.active and one.node), None)
    container = pod.container(view.container) if pod is not None else None
    if view.hold or pod is None or container is None or not vertical.enabled or container.desired.cpu is None:
        return None
    after = resized(pod, container.desired, container.desired.cpu + vertical.cpu.step, vertical.cpu.controls)
    if isinstance(after, str):
        return None  # said already, in the words of the policy
    action = Resize(view.ref, pod, container.name, container.desired, after, because(Code.HELD, why="probe"))
    for patch in patches(action):
        query = {**patch.query, "dryRun": "All"}
        try:
            answer = await client.request(
                patch.verb, patch.path, query, patch.body, patch.content_type, repeatable=True
            )
        except KubeError as error:
            return warn(about, "probe", f"a trial resize of {pod.name} got no answer: {error}", "check again")
        refusal = answer.refusal
        if refusal is None:
            return fine(about, "probe", f"the server would take {spell(after)} for {pod.name}")
        text = f"a trial resize of {pod.name} to {spell(after)} is refused: {refusal.message}"
        if refusal.word in _FOR_NOW:
            return warn(about, "probe", text, "other sizes and replicas are still open")
        return wrong(about, "probe", text, _REMEDIES.get(refusal.word, "see what refused it"))
    return None


_REMEDIES: Final = {
    errors.FORBIDDEN: "grant patch on pods/resize (manifests/rbac/resize.yaml)",
    errors.WEBHOOK: "let this program's resizes pass that webhook or policy",
    errors.UNSUPPORTED: "set vertical.enabled: false, or enable InPlacePodVerticalScaling on server and nodes",
}
