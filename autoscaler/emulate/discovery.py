"""What the server serves: /version, /api, /apis and the resource lists, plain and aggregated."""

from typing import Any

from autoscaler.emulate import openapi
from autoscaler.emulate.kinds import Kind, Registry
from autoscaler.emulate.request import Answer, Call
from autoscaler.emulate.status import Refused
from autoscaler.emulate.versions import Version

Json = dict[str, Any]
NO_PAGE = Answer(404, b"404 page not found\n", content_type="text/plain; charset=utf-8")
"""What is said of a group or version that isn't served at all."""
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_SUBRESOURCE_VERBS = {
    "status": ("get", "patch", "update"),
    "scale": ("get", "patch", "update"),
    "resize": ("get", "patch", "update"),
    "eviction": ("create",),
    "proxy": ("get",),
    "log": ("get",),
}
_SUBRESOURCE_KINDS = {"scale": ("autoscaling", "v1", "Scale"), "eviction": ("policy", "v1", "Eviction")}
_HEALTH = ("/healthz", "/livez", "/readyz")


def answer(call: Call, registry: Registry, version: Version) -> Answer | None:
    """None when the path is a resource's. Raises Refused (404) for a group that isn't served."""
    path = "/" + call.path.strip("/")
    parts = path.strip("/").split("/")
    if path in _HEALTH:
        return Answer(200, b"ok", content_type="text/plain; charset=utf-8")
    if path == "/version":
        return Answer(200, _version(version))
    if parts[0] == "openapi":
        return openapi.answer(parts, registry)
    if path in ("/api", "/apis") and _AGGREGATED in call.accept.replace(" ", ""):
        return Answer(200, _aggregated(registry, core=path == "/api"), content_type=_AGGREGATED)
    if path == "/api":
        address = {"clientCIDR": "0.0.0.0/0", "serverAddress": ""}
        return Answer(200, {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]})
    if path == "/apis":
        groups = [_group(name, versions) for name, versions in registry.groups().items() if name]
        return Answer(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    if parts[0] == "api" and len(parts) == 2:
        return _resources(registry, "", parts[1])
    if parts[0] == "apis" and len(parts) <= 3:
        versions = registry.groups().get(parts[1])
        if versions is None or (len(parts) > 2 and parts[2] not in versions):
            return NO_PAGE
        if len(parts) == 2:
            return Answer(200, {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1], versions)})
        if len(parts) == 3:
            return _resources(registry, parts[1], parts[2])
    if parts[0] not in ("api", "apis"):
        if path == "/":
            return Answer(200, {"paths": ["/api", "/apis", "/healthz", "/openapi/v3", "/version"]})
        return NO_PAGE
    return None


def _version(version: Version) -> Json:
    return {
        "major": "1",
        "minor": str(version.minor),
        "emulationMajor": "1",
        "emulationMinor": str(version.minor),
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": str(version.minor - 1),
        "gitVersion": version.git_version,
        "gitCommit": "",
        "gitTreeState": "emulated",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "emulated",
    }


def _group(name: str, versions: list[str]) -> Json:
    listed = [{"groupVersion": f"{name}/{one}", "version": one} for one in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resources(registry: Registry, group: str, version: str) -> Answer:
    entries: list[Json] = []
    for kind in sorted((one for one in registry if (one.group, one.version) == (group, version)), key=_plural):
        one: Json = {
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": list(kind.verbs),
        }
        if kind.short:
            one["shortNames"] = list(kind.short)
        if kind.categories:
            one["categories"] = list(kind.categories)
        entries.append(one)
        for subresource in kind.subresources:
            sub: Json = {"name": f"{kind.plural}/{subresource}", "singularName": "", "namespaced": kind.namespaced}
            sub["kind"] = kind.kind
            if subresource in _SUBRESOURCE_KINDS:
                sub["group"], sub["version"], sub["kind"] = _SUBRESOURCE_KINDS[subresource]
            entries.append(sub | {"verbs": list(_SUBRESOURCE_VERBS[subresource])})
    if not entries:
        raise Refused(404, "NotFound", "the server could not find the requested resource", details={})
    name = f"{group}/{version}" if group else version
    return Answer(200, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": entries})


def _plural(kind: Kind) -> str:
    return kind.plural


def _aggregated(registry: Registry, *, core: bool) -> Json:
    items = []
    for group, versions in registry.groups().items():
        if (group == "") is not core:
            continue
        listed = [
            {"version": version, "resources": [_aggregated_kind(kind) for kind in _of(registry, group, version)]}
            | {"freshness": "Current"}
            for version in versions
        ]
        items.append({"metadata": {"name": group} if group else {"name": ""}, "versions": listed})
    head = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}}
    return head | {"items": items}


def _of(registry: Registry, group: str, version: str) -> list[Kind]:
    return [kind for kind in registry if (kind.group, kind.version) == (group, version)]


def _aggregated_kind(kind: Kind) -> Json:
    one: Json = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short:
        one["shortNames"] = list(kind.short)
    if kind.categories:
        one["categories"] = list(kind.categories)
    if kind.subresources:
        one["subresources"] = []
        for name in kind.subresources:
            group, version, shown = _SUBRESOURCE_KINDS.get(name, (kind.group, kind.version, kind.kind))
            one["subresources"].append(
                {
                    "subresource": name,
                    "responseKind": {"group": group, "version": version, "kind": shown},
                    "verbs": list(_SUBRESOURCE_VERBS[name]),
                }
            )
    return one
