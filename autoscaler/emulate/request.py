"""A request as the API server reads it: which verb on which object."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autoscaler.emulate.kinds import Kind, Registry
from autoscaler.emulate.status import Refused, invalid, no_such_path, not_covered, unsupported_value

# What a real server has and this one doesn't, so that the answer is 501 and not a 404 that says it isn't there.
_NOT_PLAYED = frozenset(
    [
        "pods/attach",
        "pods/binding",
        "pods/ephemeralcontainers",
        "pods/exec",
        "pods/portforward",
        "pods/proxy",
        "services/proxy",
        "serviceaccounts/token",
        "namespaces/finalize",
        "/bindings",
        "/componentstatuses",
        "/endpoints",
        "/persistentvolumeclaims",
        "/persistentvolumes",
        "/podtemplates",
        "/replicationcontrollers",
        "apps/controllerrevisions",
    ]
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request, body included."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    content_type: str = ""
    accept: str = ""
    body: bytes = b""
    user: str = "admin"
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """What a resource path names. `rest` is what follows a proxy subresource."""

    kind: Kind
    verb: str
    namespace: str | None
    name: str
    subresource: str
    rest: str = ""

    @property
    def resource(self) -> str:
        """As RBAC and audit name it: `pods/resize`."""
        return f"{self.kind.plural}/{self.subresource}" if self.subresource else self.kind.plural


def truthy(value: str | None) -> bool:
    return value is not None and value.lower() in ("", "1", "true")


def target_of(call: Call, registry: Registry) -> Target:
    """Raises Refused (404) for a path that is none of a resource. One that isn't served has no kind: its verb has to
    be allowed before it is said that it isn't there.
    """
    parts = [part for part in call.path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise no_such_path()
    namespace: str | None = None
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    kind = registry.find(group, version, rest[0])
    if kind is None:
        if f"{group}/{rest[0]}" in _NOT_PLAYED:
            raise not_covered(f"{rest[0]} of {group or 'core'}")
        kind = Kind(group, version, "", rest[0], namespaced=namespace is not None)
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if kind.served and (namespace is not None) != kind.namespaced and (name or namespace is not None):
        raise no_such_path()
    if kind.served and subresource and subresource not in kind.subresources:
        if f"{kind.plural}/{subresource}" in _NOT_PLAYED:
            raise not_covered(f"{kind.plural}/{subresource}")
        raise no_such_path()
    verb = _VERBS.get(call.method, call.method.lower())
    if not name:
        verb = {"get": "list", "delete": "deletecollection"}.get(verb, verb)
        if verb == "list" and truthy(call.query.get("watch")):
            verb = "watch"
    return Target(kind, verb, namespace, name, subresource, "/".join(rest[3:]))


def manager_of(call: Call) -> str:
    """Whose fields a write makes them: `fieldManager`, else the user agent's first word."""
    return call.query.get("fieldManager") or call.agent.partition("/")[0][:128] or "unknown"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """`dryRun`, `fieldValidation` and `fieldManager` of a write."""

    dry_run: bool
    strict: bool
    warn: bool
    manager: str


_OPTIONS = {"patch": "PatchOptions", "update": "UpdateOptions", "create": "CreateOptions", "delete": "DeleteOptions"}


def write_options(call: Call, verb: str) -> WriteOptions:
    """Raises Refused (422) for values the server doesn't know."""
    kind = _OPTIONS.get(verb, "PatchOptions")
    dry_run = call.query.get("dryRun", "")
    if dry_run not in ("", "All"):
        cause = unsupported_value("dryRun", f'["{dry_run}"]', ("All",))
        raise invalid(kind, "", [cause], group="meta.k8s.io")
    validation = call.query.get("fieldValidation", "") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        cause = unsupported_value("fieldValidation", f'"{validation}"', ("Ignore", "Strict", "Warn"))
        raise invalid(kind, "", [cause], group="meta.k8s.io")
    return WriteOptions(dry_run == "All", validation == "Strict", validation == "Warn", manager_of(call))


@dataclass(slots=True)
class Answer:
    """A finished response. `body` is JSON-able, or bytes that already are what `content_type` says."""

    code: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"

    @classmethod
    def refused(cls, refusal: Refused) -> "Answer":
        return cls(refusal.code, refusal.body, dict(refusal.headers))
