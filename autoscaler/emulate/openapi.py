"""The little OpenAPI that kubectl needs: which kinds there are, and that fields are validated here, not there.

Custom resources have the schema of their definition. Those of the built-in kinds say no more than apiVersion, kind,
metadata, spec and status: the emulator doesn't pretend to know the whole API, and `kubectl explain` shows just that.
"""

from typing import Any

from autoscaler.emulate.kinds import Kind, Registry
from autoscaler.emulate.request import Answer

Json = dict[str, Any]


def answer(parts: list[str], registry: Registry) -> Answer:
    """/openapi/v3 and below; /openapi/v2 is a 404, which kubectl takes for an answer."""
    if parts[1:2] != ["v3"]:
        return Answer(404, b"404 page not found\n", content_type="text/plain; charset=utf-8")
    if len(parts) == 2:
        paths = {}
        for group, versions in registry.groups().items():
            for version in versions:
                name = f"apis/{group}/{version}" if group else f"api/{version}"
                paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}"}
        return Answer(200, {"paths": paths})
    group, version = (parts[3], parts[4]) if parts[2] == "apis" and len(parts) > 4 else ("", parts[-1])
    kinds = [kind for kind in registry if (kind.group, kind.version) == (group, version)]
    if not kinds:
        return Answer(404, b"404 page not found\n", content_type="text/plain; charset=utf-8")
    document: Json = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "emulated"},
        "paths": {},
        "components": {"schemas": {}},
    }
    for kind in kinds:
        document["components"]["schemas"][_schema_name(kind)] = _schema(kind)
        document["paths"].update(_paths(kind))
    return Answer(200, document)


def _schema_name(kind: Kind) -> str:
    return ".".join([*reversed((kind.group or "io.k8s.api.core").split(".")), kind.version, kind.kind])


def _schema(kind: Kind) -> Json:
    free: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    head: Json = {
        "apiVersion": {"description": "Group and version of this object's schema.", "type": "string"},
        "kind": {"description": "The kind of object.", "type": "string"},
        "metadata": {"description": "Name, namespace, labels, annotations …", **free},
    }
    said: Json = {"type": "object", "description": f"{kind.kind} as the emulated cluster keeps it."}
    below: Json = {
        "spec": {"description": "What is wanted. The emulated server describes it no further.", **free},
        "status": {"description": "What is.", **free},
    }
    if kind.schema is not None:
        said |= kind.schema
        below = {name: each for name, each in (kind.schema.get("properties") or {}).items() if name not in head}
    group = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    return said | {"properties": head | below, "x-kubernetes-group-version-kind": [group]}


def _paths(kind: Kind) -> Json:
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    if kind.namespaced:
        base += "/namespaces/{namespace}"
    group = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    names = ("dryRun", "fieldManager", "fieldValidation", "force")
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names]
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{_schema_name(kind)}"}}}
    responses = {"200": {"description": "OK", "content": content}}

    def operation(action: str) -> Json:
        return {
            "parameters": parameters,
            "responses": responses,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": group,
        }

    return {
        f"{base}/{kind.plural}": {"post": operation("post")},
        f"{base}/{kind.plural}/{{name}}": {
            "get": operation("get"),
            "patch": operation("patch"),
            "put": operation("put"),
        },
    }
