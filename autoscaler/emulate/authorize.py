"""Who may do what: bearer tokens, and for each user the rules of a role.

Without rules everybody is `admin`. With them the answers are RBAC's, so that a program can be run here under the very
role its manifests give it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autoscaler.emulate.request import Target
from autoscaler.emulate.status import forbidden, unauthorized

ADMIN = "admin"
ADMIN_TOKEN = "admin"


@dataclass(frozen=True, slots=True)
class Rule:
    """One RBAC rule. `*` matches anything; no namespaces: every namespace and the cluster scope."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]  # with subresource: "pods/resize"
    verbs: tuple[str, ...]
    namespaces: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def allows(self, verb: str, group: str, resource: str, namespace: str | None, name: str) -> bool:
        wildcard = "*/" + resource.partition("/")[2] if "/" in resource else "*"
        return (
            _among(verb, self.verbs)
            and _among(group, self.groups)
            and (_among(resource, self.resources) or wildcard in self.resources)
            and (not self.namespaces or namespace in self.namespaces)
            and (not self.names or name in self.names)
        )


def _among(one: str, listed: Sequence[str]) -> bool:
    return "*" in listed or one in listed


def rules_of(role: Mapping[str, Any], *, namespace: str | None = None) -> list[Rule]:
    """The rules of a Role or ClusterRole object; `namespace` is where it is bound (None: everywhere)."""
    if role.get("kind") == "Role" and namespace is None:
        namespace = role.get("metadata", {}).get("namespace")
    bound = (namespace,) if namespace else ()
    return [
        Rule(
            tuple(rule.get("apiGroups") or ()),
            tuple(rule.get("resources") or ()),
            tuple(rule.get("verbs") or ()),
            bound,
            tuple(rule.get("resourceNames") or ()),
        )
        for rule in role.get("rules") or []
        if rule.get("resources")
    ]


@dataclass(slots=True)
class Users:
    """Tokens and rules."""

    tokens: dict[str, str] = field(default_factory=lambda: {ADMIN_TOKEN: ADMIN})
    rules: dict[str, list[Rule]] = field(default_factory=dict)

    def add(self, name: str, token: str, rules: Iterable[Rule]) -> None:
        self.tokens[token] = name
        self.rules.setdefault(name, []).extend(rules)

    def who(self, authorization: str) -> str:
        """User of an Authorization header; none at all is admin. Raises Refused (401) for an unknown token."""
        if not authorization:
            return ADMIN
        token = authorization.removeprefix("Bearer ").strip()
        try:
            return self.tokens[token]
        except KeyError:
            raise unauthorized() from None

    def allowed(self, user: str, verb: str, group: str, resource: str, namespace: str | None, name: str = "") -> bool:
        if user == ADMIN:
            return True
        return any(rule.allows(verb, group, resource, namespace, name) for rule in self.rules.get(user, ()))

    def check(self, user: str, target: Target, chosen: str = "") -> None:
        """Raises Refused (403) with RBAC's words. ``chosen``: the one name that a list or watch selects by field."""
        group, resource = target.kind.group, target.resource
        if target.kind.plural in ("selfsubjectaccessreviews", "selfsubjectrulesreviews"):
            return
        if self.allowed(user, target.verb, group, resource, target.namespace, target.name or chosen):
            return
        where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
        complaint = f'User "{user}" cannot {target.verb} resource "{resource}" in API group "{group}" {where}'
        raise forbidden(target.kind.plural, target.name, complaint, group=group)

    def review(self, user: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Answer of a SelfSubjectAccessReview."""
        spec = body.get("spec") or {}
        allowed = True
        if asked := spec.get("resourceAttributes"):
            resource = asked.get("resource", "")
            if asked.get("subresource"):
                resource += "/" + asked["subresource"]
            allowed = self.allowed(
                user, asked.get("verb", ""), asked.get("group", ""), resource, asked.get("namespace") or None,
                asked.get("name", ""),
            )  # fmt: skip
        status: dict[str, Any] = {"allowed": allowed}
        if allowed:
            status["reason"] = "RBAC: allowed by the emulated cluster's rules"
        kind = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}}
        return kind | {"spec": spec, "status": status}

    def rules_review(self, user: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Answer of a SelfSubjectRulesReview (`kubectl auth can-i --list`)."""
        rules = [Rule(("*",), ("*",), ("*",))] if user == ADMIN else self.rules.get(user, [])
        namespace = (body.get("spec") or {}).get("namespace")
        listed = [
            {"verbs": list(rule.verbs), "apiGroups": list(rule.groups), "resources": list(rule.resources)}
            | ({"resourceNames": list(rule.names)} if rule.names else {})
            for rule in rules
            if not rule.namespaces or namespace in rule.namespaces
        ]
        kind = {"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}}
        status = {"resourceRules": listed, "nonResourceRules": [], "incomplete": False}
        return kind | {"spec": body.get("spec") or {}, "status": status}
