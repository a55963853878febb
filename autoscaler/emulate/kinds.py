"""The kinds this API server keeps, and what can be done with each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from autoscaler.render import crd

_ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_READ_VERBS = ("get", "list")


@dataclass(frozen=True)
class Kind:
    """One resource as discovery shows it. `subresources` are those served below an object's own path."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    verbs: tuple[str, ...] = _ALL_VERBS
    subresources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    custom: bool = False
    scale_paths: Mapping[str, str] | None = None  # a custom resource's scale subresource
    schema: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)  # a custom resource's

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def served(self) -> bool:
        return bool(self.kind)

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def storage(self) -> tuple[str, str]:
        """What objects of this kind share with other versions of it: events exist once, in two groups."""
        return ("", "events") if self.plural == "events" else (self.group, self.plural)

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources

    @property
    def has_scale(self) -> bool:
        return "scale" in self.subresources

    @property
    def has_generation(self) -> bool:
        return self.has_status or self.custom or self.plural in ("pods", "horizontalpodautoscalers")


POD = Kind(
    "", "v1", "Pod", "pods", short=("po",), subresources=("status", "resize", "eviction", "log"), categories=("all",)
)  # fmt: skip
NODE = Kind("", "v1", "Node", "nodes", namespaced=False, short=("no",), subresources=("status", "proxy"))
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False, short=("ns",), subresources=("status",))
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps", short=("cm",))
SECRET = Kind("", "v1", "Secret", "secrets")
SERVICE = Kind("", "v1", "Service", "services", short=("svc",), subresources=("status",), categories=("all",))
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts", short=("sa",))
EVENT = Kind("", "v1", "Event", "events", short=("ev",))
LIMIT_RANGE = Kind("", "v1", "LimitRange", "limitranges", short=("limits",))
RESOURCE_QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas", short=("quota",), subresources=("status",))
DEPLOYMENT = Kind(
    "apps", "v1", "Deployment", "deployments", short=("deploy",), subresources=("scale", "status"), categories=("all",)
)  # fmt: skip
REPLICA_SET = Kind(
    "apps", "v1", "ReplicaSet", "replicasets", short=("rs",), subresources=("scale", "status"), categories=("all",)
)  # fmt: skip
STATEFUL_SET = Kind(
    "apps", "v1", "StatefulSet", "statefulsets", short=("sts",), subresources=("scale", "status"), categories=("all",)
)  # fmt: skip
DAEMON_SET = Kind("apps", "v1", "DaemonSet", "daemonsets", short=("ds",), subresources=("status",), categories=("all",))
AUTOSCALER = Kind(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", short=("hpa",),
    subresources=("status",), categories=("all",),
)  # fmt: skip
DISRUPTION_BUDGET = Kind(
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", short=("pdb",), subresources=("status",)
)  # fmt: skip
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
NEW_EVENT = Kind("events.k8s.io", "v1", "Event", "events", short=("ev",))
PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False, short=("pc",))
ACCESS_REVIEW = Kind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False, verbs=("create",)
)  # fmt: skip
RULES_REVIEW = Kind(
    "authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False, verbs=("create",)
)  # fmt: skip
ROLE = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDING = Kind(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)  # fmt: skip
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", short=("netpol",))
CUSTOM_RESOURCE_DEFINITION = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False,
    short=("crd", "crds"), subresources=("status",), categories=("api-extensions",),
)  # fmt: skip
POD_METRICS = Kind("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", verbs=_READ_VERBS)
NODE_METRICS = Kind("metrics.k8s.io", "v1beta1", "NodeMetrics", "nodes", namespaced=False, verbs=_READ_VERBS)

_BUILT_IN = (
    POD, NODE, NAMESPACE, CONFIG_MAP, SECRET, SERVICE, SERVICE_ACCOUNT, EVENT, LIMIT_RANGE, RESOURCE_QUOTA, DEPLOYMENT,
    REPLICA_SET, STATEFUL_SET, DAEMON_SET, AUTOSCALER, DISRUPTION_BUDGET, LEASE, NEW_EVENT, PRIORITY_CLASS,
    ACCESS_REVIEW, RULES_REVIEW, ROLE, ROLE_BINDING, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, NETWORK_POLICY,
    CUSTOM_RESOURCE_DEFINITION, POD_METRICS, NODE_METRICS,
)  # fmt: skip

SCALABLE = {"Deployment": DEPLOYMENT, "ReplicaSet": REPLICA_SET, "StatefulSet": STATEFUL_SET}


class Registry:
    """All kinds served now: the built-in ones and our own two; a CustomResourceDefinition adds its own."""

    def __init__(self, *, metrics_api: bool = True) -> None:
        served = [kind for kind in _BUILT_IN if metrics_api or kind.group != "metrics.k8s.io"]
        self._kinds = {(kind.group, kind.version, kind.plural): kind for kind in served}
        for definition in crd.definitions().values():
            self.learn(definition)

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def groups(self) -> dict[str, list[str]]:
        """Group -> versions, in the order they were added."""
        found: dict[str, list[str]] = {}
        for kind in self:
            versions = found.setdefault(kind.group, [])
            if kind.version not in versions:
                versions.append(kind.version)
        return found

    def learn(self, definition: Mapping[str, Any]) -> None:
        """Serve what a CustomResourceDefinition defines."""
        spec = definition["spec"]
        names = spec["names"]
        for version in spec.get("versions", []):
            if not version.get("served", True):
                continue
            subresources = version.get("subresources") or {}
            kind = Kind(
                group=spec["group"],
                version=version["name"],
                kind=names["kind"],
                plural=names["plural"],
                namespaced=spec.get("scope", "Namespaced") == "Namespaced",
                short=tuple(names.get("shortNames") or ()),
                subresources=tuple(one for one in ("status", "scale") if one in subresources),
                categories=tuple(names.get("categories") or ()),
                custom=True,
                scale_paths=subresources.get("scale"),
                schema=(version.get("schema") or {}).get("openAPIV3Schema"),
            )
            self._kinds[kind.group, kind.version, kind.plural] = kind

    def forget(self, definition: Mapping[str, Any]) -> None:
        spec = definition["spec"]
        for version in spec.get("versions", []):
            self._kinds.pop((spec["group"], version["name"], spec["names"]["plural"]), None)
