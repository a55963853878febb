"""What the API server is: its version, how it takes a resize, and what differs there. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autoscaler.check.findings import Finding, fine, warn, wrong
from autoscaler.kube.discovery import ServerVersion
from autoscaler.model.policy import Policy, Shrink

ABOUT = "cluster"
NEWEST_KNOWN = 36


def of_server(version: ServerVersion, resize: bool, policies: Iterable[Policy]) -> Iterator[Finding]:
    """``resize``: whether the subresource pods/resize is discovered."""
    policies = tuple(policies)
    minor = version.minor
    vertical = any(policy.spec.vertical.enabled for policy in policies)
    if not resize:
        yield _without(version, vertical)
        return
    if minor < 33:
        yield warn(
            ABOUT, "server", f"Kubernetes {version}: pods/resize is alpha, told by status.resize, which is understood",
            "expect resizes of two seconds and more, or upgrade to 1.33",
        )  # fmt: skip
    elif minor <= NEWEST_KNOWN:
        yield fine(ABOUT, "server", f"Kubernetes {version}: running pods can be resized")
    else:
        yield warn(
            ABOUT, "server", f"Kubernetes {version} is newer than any known here (1.{NEWEST_KNOWN})",
            "unknown answers count as not complete; try dry-run first",
        )  # fmt: skip
    shrinking = [policy for policy in policies if policy.spec.vertical.memory.shrink is Shrink.WHEN_SAFE]
    if minor == 33 and shrinking:
        for policy in shrinking:
            yield warn(
                str(policy.ref), "server", "1.33 refuses every decrease of a memory limit without a restart",
                "set vertical.memory.shrink: Never, resizePolicy RestartContainer for memory, or upgrade to 1.34",
            )  # fmt: skip
    if 33 <= minor < 36:
        yield fine(ABOUT, "server", "sizes above the node are refused by its kubelet (Infeasible) and taken back")


def _without(version: ServerVersion, vertical: bool) -> Finding:
    text = f"Kubernetes {version} has no pods/resize: sizes of running pods can't be changed"
    if version.minor >= 33:
        remedy = "enable the feature gate InPlacePodVerticalScaling on API server and kubelets"
    elif version.minor == 32:
        remedy = "enable the alpha feature gate InPlacePodVerticalScaling, or upgrade to 1.33"
    else:
        remedy = "upgrade to 1.33"
    if not vertical:
        return warn(ABOUT, "server", text, "only replicas are set, as the policies say")
    return wrong(ABOUT, "server", text, f"{remedy}, or set vertical.enabled: false to scale replicas only")
