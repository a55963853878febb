"""Recorded exchanges, read into what can be replayed: the request, the state before it, the answer, what followed.

A recording holds requests, answers and observations, but rarely the state right before a request. That is inferred
here, for any file of the format: from the answer itself (a PATCH's 200 shows the old sizes in the status), from what
was last seen of the object, from numbers in a refusal. Where a refusal leaves open which of the recorded states of an
object it met, all of them are candidates.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from autoscaler.emulate import amounts

Json = dict[str, Any]

_USED = re.compile(r"Node didn't have enough resource: (\w+), requested: \d+, used: (\d+), capacity: (\d+)")
_ALLOCATABLE = re.compile(r"enough allocatable resources: (\w+), requested: -?\d+, allocatable: (\d+)")
_BELOW = re.compile(r'container \\?"\w+\\?" memory limit \(\d+\) below current usage \((\d+)\)')
_QUOTA = re.compile(r"exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)")
_BUDGET = re.compile(r"The disruption budget (\S+) needs (\d+) healthy pods and has (\d+) currently")
_RESIZE = ("PodResizePending", "PodResizeInProgress")
_KEPT_META = (
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "labels", "annotations",
    "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "creationTimestamp",
)  # fmt: skip
_KEPT_CONTAINER = ("name", "image", "resources", "resizePolicy", "restartPolicy", "imagePullPolicy")
_KEPT_SPEC = ("restartPolicy", "nodeName", "priority", "os", "terminationGracePeriodSeconds", "resourceClaims")
_KEPT_STATUS = ("name", "allocatedResources", "resources", "restartCount", "state", "containerID", "ready")


class Exchange(msgspec.Struct, omit_defaults=True):
    """One request with all that is needed to ask it again."""

    file: str
    index: int
    label: str
    user: str
    method: str
    path: str
    content_type: str
    body: Any
    status: int
    reason: str = ""
    message: str = ""
    causes: list[list[str]] = []
    warning: str = ""
    answer: Any = None
    """The decisive fields of a successful answer, see `decisive`."""
    before: list[Json] = []
    """Candidates for the object asked about; none: it isn't there."""
    around: list[Json] = []
    """Other objects of the namespace: ranges, quotas, budgets; each with `kind`."""
    node: Json = {}
    """What the node must be like: cpu, memory, used, static_cpu, usage."""
    trace: list[Json] = []
    """Decisive states that the pod went through afterwards, first to last."""


def read_full(path: Path) -> list[Exchange]:
    """All exchanges of one full recording."""
    return list(_Reader(path.stem, json.loads(path.read_text(encoding="utf-8"))["exchanges"]).exchanges())


def read_distilled(path: Path) -> list[Exchange]:
    return msgspec.json.decode(path.read_bytes(), type=list[Exchange])


# -- the decisive fields


def slim(body: Any) -> Any:
    """An object without what no client decides on."""
    if not isinstance(body, dict):
        return body
    if body.get("kind") == "Pod" or ("spec" in body and "containers" in (body.get("spec") or {})):
        return _slim_pod(body)
    kept = copy.deepcopy(body)
    (kept.get("metadata") or {}).pop("managedFields", None)
    for item in kept.get("items") or []:
        (item.get("metadata") or {}).pop("managedFields", None)
    return kept


def _slim_pod(pod: Json) -> Json:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    kept: Json = {"kind": "Pod", "metadata": {k: v for k, v in pod["metadata"].items() if k in _KEPT_META}}
    kept["spec"] = {key: spec[key] for key in _KEPT_SPEC if key in spec}
    for where in ("initContainers", "containers"):
        if spec.get(where):
            kept["spec"][where] = [{k: v for k, v in one.items() if k in _KEPT_CONTAINER} for one in spec[where]]
    kept["status"] = {key: status[key] for key in ("phase", "observedGeneration", "qosClass") if key in status}
    kept["status"]["conditions"] = [
        {key: value for key, value in one.items() if key != "lastProbeTime"}
        for one in status.get("conditions") or []
        if one["type"] in (*_RESIZE, "Ready", "PodScheduled")
    ]
    for where in ("initContainerStatuses", "containerStatuses"):
        if status.get(where):
            kept["status"][where] = [{k: v for k, v in one.items() if k in _KEPT_STATUS} for one in status[where]]
    return kept


def decisive(pod: Json) -> Json:
    """What a client decides on, from a pod; the same from an observation by `_decisive_observed`."""
    spec, status = pod["spec"], pod.get("status") or {}
    sizes = {
        one["name"]: one.get("resources") or {} for one in [*(spec.get("initContainers") or []), *spec["containers"]]
    }
    containers = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    return _decisive(pod["metadata"].get("generation"), status, sizes, containers)


def _decisive_observed(seen: Json) -> Json:
    containers = [*(seen.get("initContainerStatuses") or []), *(seen.get("containerStatuses") or [])]
    return _decisive(seen.get("generation"), seen, seen.get("spec") or {}, containers)


def _decisive(generation: Any, status: Json, sizes: Json, containers: list[Json]) -> Json:
    conditions = {
        one["type"]: [one["status"], one.get("reason", ""), one.get("observedGeneration")]
        for one in status.get("conditions") or []
        if one["type"] in _RESIZE
    }
    ready = next((one["status"] for one in status.get("conditions") or [] if one["type"] == "Ready"), "")
    return {
        "generation": generation,
        "observedGeneration": status.get("observedGeneration"),
        "phase": status.get("phase"),
        "qosClass": status.get("qosClass"),
        "spec": {name: {k: v for k, v in size.items() if v} for name, size in sizes.items()},
        "conditions": conditions,
        "ready": ready,
        "containers": {
            one["name"]: {
                "allocated": one.get("allocatedResources") or {},
                "actual": {k: v for k, v in (one.get("resources") or {}).items() if v},
                "restarts": one.get("restartCount", 0),
                "state": next(iter(one.get("state") or {}), ""),
            }
            for one in containers
        },
    }


# -- inferring what was before


class _Reader:
    def __init__(self, file: str, entries: list[Json]) -> None:
        self.file = file
        self.entries = entries
        self.known: dict[str, list[Json]] = {}  # object path -> its states as seen so far, oldest first
        self.around: dict[str, Json] = {}

    def exchanges(self) -> Iterator[Exchange]:
        for index, entry in enumerate(self.entries):
            if "request" in entry:
                exchange = self._exchange(index, entry)
                self._learn(entry)
                yield exchange
            elif "observed" in entry:
                self._observe(index, entry["observed"])

    def _exchange(self, index: int, entry: Json) -> Exchange:
        request, response = entry["request"], entry["response"]
        body = response.get("body")
        failed = isinstance(body, dict) and body.get("status") == "Failure"
        headers = {name.lower(): value for name, value in (response.get("headers") or {}).items()}
        path = object_path(request["path"])
        exchange = Exchange(
            self.file,
            index,
            entry["label"],
            entry.get("user") or "admin",
            request["method"],
            request["path"],
            request.get("content_type") or "",
            request.get("body"),
            response["status"],
            warning=headers.get("warning", ""),
        )
        if failed:
            exchange.reason, exchange.message = body.get("reason", ""), body.get("message", "")
            causes = (body.get("details") or {}).get("causes") or []
            exchange.causes = [[one.get("reason", ""), one.get("field", ""), one.get("message", "")] for one in causes]
        elif isinstance(body, dict):
            exchange.answer = _answer(body)
        exchange.before = self._before(index, path, request, response)
        exchange.around = [slim(one) for key, one in self.around.items() if _same_namespace(key, path) and key != path]
        if request["method"] == "GET" and path.split("/")[-1].islower() and path.count("/") in (3, 5, 6):
            exchange.around += self._listed(path, body if isinstance(body, dict) and "items" in body else {"items": []})
        following = self._following(index)
        exchange.trace = self._trace(following, body)
        exchange.node = self._node(exchange, following)
        return exchange

    def _before(self, index: int, path: str, request: Json, response: Json) -> list[Json]:
        body = response.get("body")
        if isinstance(body, dict) and "items" in body:
            return []
        seen = self.known.get(path, [])
        if request["method"] == "POST" and "/eviction" not in request["path"]:
            named = ((request.get("body") or {}).get("metadata") or {}).get("name", "")
            return (
                [slim(one) for one in self.known.get(f"{path}/{named}", [])[-1:]] if response["status"] == 409 else []
            )
        if response["status"] == 404:
            return []
        is_pod = "/pods/" in path
        if response["status"] in (200, 201) and isinstance(body, dict) and body.get("kind") == "Pod":
            last = seen[-1] if seen else None
            if request["method"] == "GET" or "dryRun" in request["path"]:
                return [slim(last if last is not None and request["method"] != "GET" else body)]
            if last is not None and last["metadata"]["uid"] == body["metadata"]["uid"]:
                if last["metadata"].get("generation") == body["metadata"]["generation"]:
                    return [slim(body)]  # nothing changed
                if _continues(last, body):
                    return [slim(last)]
            return [slim(_undo_resize(body))]
        if response["status"] == 200 and isinstance(body, dict) and body.get("kind") == "Scale":
            wanted = seen[-1]["spec"] if seen and request["method"] != "GET" else body["spec"]
            return [slim(body | {"spec": wanted})]
        ahead = self._ahead(index, path)
        candidates = [*reversed(seen), *ahead]
        if is_pod:
            candidates += [_undo_resize(one) for one in [*seen[:1], *ahead]]
        shown = (
            isinstance(body, dict)
            and "metadata" in body
            and "items" not in body
            and body.get("kind") not in (None, "Status")
        )
        if not candidates and shown:
            candidates = [body]
        if not candidates and is_pod:
            candidates = _standard_pods(path, request.get("body"))
        unique: list[Json] = []
        for one in candidates:
            kept = slim(one)
            if kept not in unique:
                unique.append(kept)
        return unique[:6]

    def _listed(self, path: str, body: Json) -> list[Json]:
        """What a list must find: all that any list of this path ever showed, and as many more as it says there are."""
        found: dict[str, Json] = {}
        for entry in self.entries:
            listed = (entry.get("response") or {}).get("body")
            if isinstance(listed, dict) and "items" in listed and object_path(entry["request"]["path"]) == path:
                for item in listed["items"]:
                    kept = slim({"kind": listed["kind"].removesuffix("List"), **item})
                    found[item["metadata"]["name"]] = kept
        last = list(found.values())[-1:]
        metadata = body.get("metadata") or {}
        missing = len(body["items"]) + int(metadata.get("remainingItemCount") or ("continue" in metadata)) - len(found)
        for number in range(missing if last else 0):
            another = copy.deepcopy(last[0])
            another["metadata"] |= {"name": f"zzz-{number}", "uid": f"uid-zzz-{number}"}
            found[another["metadata"]["name"]] = another
        return list(found.values())

    def _ahead(self, index: int, path: str) -> list[Json]:
        for entry in self.entries[index + 1 :]:
            if "request" not in entry or object_path(entry["request"]["path"]) != path:
                continue
            body = entry["response"].get("body")
            if isinstance(body, dict) and body.get("kind") not in (None, "Status") and "items" not in body:
                return [_undo_resize(body) if body["kind"] == "Pod" else body]
        return []

    def _following(self, index: int) -> list[Any]:
        found = []
        for entry in self.entries[index + 1 :]:
            if "request" in entry:
                break
            if "observed" in entry:
                found.append(entry["observed"])
        return found

    def _trace(self, following: list[Any], body: Any) -> list[Json]:
        if not isinstance(body, dict) or body.get("kind") != "Pod":
            return []
        generation = body["metadata"].get("generation")
        states: list[Json] = []
        for seen in following:
            for one in seen if isinstance(seen, list) else [seen]:
                if not isinstance(one, dict) or one.get("generation") != generation or "spec" not in one:
                    continue
                uid = body["metadata"].get("uid")
                if one.get("uid", uid) != uid or set(one["spec"]) - {*_names(body)}:
                    continue
                state = _decisive_observed(one)
                if not states or states[-1] != state:
                    states.append(state)
        return states

    def _node(self, exchange: Exchange, following: list[Any]) -> Json:
        text = exchange.message + json.dumps(following)
        node: Json = {}
        if match := _ALLOCATABLE.search(text):
            node[match[1]] = int(match[2])
        if match := _USED.search(text):
            node["used"], node[match[1]] = [match[1], int(match[2])], int(match[3])
        if "CPU Manager policy" in text:
            node["static_cpu"] = True
        if exchange.status == 200 and any(_beyond(size, node) for size in _sizes(exchange.body)):
            node["no_validator"] = True
        first = next((one for one in exchange.trace if one["generation"] == one["observedGeneration"]), None)
        if first is not None and _blind(first):
            node["restarted"] = True
        usages = [int(one) for one in _BELOW.findall(text)]
        if usages and max(usages):
            node["usage"] = max(usages)
        elif usages:
            # The kubelet had no figure yet; any usage above the limit plays the same.
            node["usage"] = 2**40
        if match := _QUOTA.search(exchange.message):
            node["quota"] = {"name": match[1], "used": match[3]}
        if match := _BUDGET.search(json.dumps(exchange.causes)):
            node["budget"] = {"name": match[1], "desired": int(match[2]), "healthy": int(match[3])}
        return node

    def _learn(self, entry: Json) -> None:
        request, response = entry["request"], entry["response"]
        body = response.get("body")
        path = object_path(request["path"])
        if response["status"] not in (200, 201) or "dryRun" in request["path"] or not isinstance(body, dict):
            return
        if request["method"] == "DELETE" and "/pods/" not in path:
            self.known.pop(path, None)
            self.around.pop(path, None)
            return
        if "items" in body:
            return
        if body.get("kind") in (None, "Status", "SelfSubjectAccessReview") or "metadata" not in body:
            return
        if request["method"] == "POST":
            path = f"{path}/{body['metadata'].get('name', '')}"
        self.known.setdefault(path, []).append(body)
        if body["kind"] in ("LimitRange", "ResourceQuota", "PodDisruptionBudget"):
            self.around[path] = body

    def _observe(self, index: int, observed: Any) -> None:
        """Bring the pod that was last asked about up to the newest observation of it."""
        states = observed if isinstance(observed, list) else [observed]
        states = [one for one in states if isinstance(one, dict) and "spec" in one and "generation" in one]
        if not states:
            return
        for entry in reversed(self.entries[:index]):
            if "request" not in entry:
                continue
            path = object_path(entry["request"]["path"])
            seen = self.known.get(path)
            if seen and seen[-1].get("kind") == "Pod" and set(states[-1]["spec"]) <= set(_names(seen[-1])):
                newest = _with_observed(seen[-1], states[-1])
                if newest is not None:
                    seen.append(newest)
            return


def _sizes(body: Any) -> list[Json]:
    """The requests in a patch of containers."""
    spec = body.get("spec") if isinstance(body, dict) else None
    found = [(one.get("resources") or {}).get("requests") for one in (spec or {}).get("containers") or []]
    return [one for one in found if isinstance(one, dict)]


def _beyond(requests: Json, node: Json) -> bool:
    """Above the recorded node's allocatable (2 cores unless a message says otherwise)."""
    try:
        cpu, memory = amounts.parse(requests.get("cpu", "0")).milli, amounts.parse(requests.get("memory", "0")).whole
    except amounts.NotAQuantity:
        return False
    return cpu > node.get("cpu", 2000) or memory > node.get("memory", 25066348544)


def _blind(state: Json) -> bool:
    """Observed, no condition, and yet not applied: what a restarted kubelet shows."""
    sizes = {name: part["actual"] for name, part in state["containers"].items() if part["state"] == "running"}
    applied = all(state["spec"].get(name) == size for name, size in sizes.items())
    return (
        bool(sizes) and not applied and not state["conditions"] and state["generation"] == state["observedGeneration"]
    )


def _names(pod: Json) -> list[str]:
    return [one["name"] for where in ("initContainers", "containers") for one in pod["spec"].get(where) or []]


def _continues(last: Json, body: Json) -> bool:
    """Is `last` the state right before the answer `body`?"""
    if last["metadata"].get("uid") != body["metadata"].get("uid"):
        return False
    return body["metadata"]["generation"] - last["metadata"].get("generation", 0) in (0, 1) and (
        last["status"].get("observedGeneration") == body["status"].get("observedGeneration")
    )


def _undo_resize(body: Json) -> Json:
    """The pod before the resize whose answer this is: desired back to what the status says it has."""
    pod = copy.deepcopy(body)
    changed = False
    for where, statuses in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        actual = {one["name"]: one.get("resources") for one in pod["status"].get(statuses) or []}
        for one in pod["spec"].get(where) or []:
            had = actual.get(one["name"])
            if had is not None and had != one.get("resources"):
                one["resources"], changed = had, True
    observed = pod["status"].get("observedGeneration", pod["metadata"].get("generation", 1))
    if changed and pod["metadata"].get("generation", 1) > observed:
        pod["metadata"]["generation"] -= 1
    return pod


def _standard_pods(path: str, body: Any) -> list[Json]:
    """A pod that the recording never shows: the recorder's own kinds of pod, one of each QoS class."""
    namespace, name = path.split("/")[-3], path.split("/")[-1]
    spec = body.get("spec") if isinstance(body, dict) else None
    named = [one.get("name", "a") for one in (spec or {}).get("containers") or []] or ["a"]
    found = []
    for qos, cpu, memory in (("Burstable", "200m", "128Mi"), ("Guaranteed", "100m", "64Mi"), ("BestEffort", "", "")):
        sizes = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": cpu, "memory": memory}} if cpu else {}
        containers = [{"name": one, "image": "local.test/app:1", "resources": sizes} for one in named]
        running = {"state": {"running": {"startedAt": "2026-12-01T03:00:00Z"}}, "containerID": "c", "ready": True}
        statuses = [
            {"name": one, "resources": sizes, "allocatedResources": sizes.get("requests", {}), "restartCount": 0}
            | running
            for one in named
        ]
        conditions = [{"type": "Ready", "status": "True", "observedGeneration": 1}]
        found.append(
            {
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "generation": 1,
                    "uid": f"uid-{name}",
                    "labels": {"app": name.split("-")[0]},
                },
                "spec": {"containers": containers, "nodeName": "node1"},
                "status": {
                    "phase": "Running",
                    "qosClass": qos,
                    "observedGeneration": 1,
                    "conditions": conditions,
                    "containerStatuses": statuses,
                },
            }
        )
    return found


def _with_observed(pod: Json, seen: Json) -> Json | None:
    newest = copy.deepcopy(pod)
    if seen.get("generation", 0) < newest["metadata"].get("generation", 0):
        return None
    newest["metadata"]["generation"] = seen["generation"]
    newest["metadata"]["resourceVersion"] = seen.get("resourceVersion", newest["metadata"].get("resourceVersion"))
    for where in ("initContainers", "containers"):
        for one in newest["spec"].get(where) or []:
            if one["name"] in seen["spec"]:
                one["resources"] = seen["spec"][one["name"]]
    status = newest["status"]
    others = [one for one in status.get("conditions") or [] if one["type"] not in (*_RESIZE, "Ready")]
    status["conditions"] = [*(seen.get("conditions") or []), *others]
    for key in ("observedGeneration", "phase", "qosClass"):
        if key in seen:
            status[key] = seen[key]
    for key in ("containerStatuses", "initContainerStatuses"):
        known = {one["name"]: one for one in status.get(key) or []}
        if seen.get(key):
            status[key] = [known.get(one["name"], {}) | one for one in seen[key]]
    return newest


def _answer(body: Json) -> Json:
    if body.get("kind") == "Pod":
        return {"kind": "Pod", "pod": decisive(body), "labels": (body["metadata"].get("labels") or {})}
    if body.get("kind") == "Scale":
        return {"kind": "Scale", "spec": body.get("spec"), "status": body.get("status")}
    if "items" in body:
        metadata = body.get("metadata") or {}
        remaining = metadata.get("remainingItemCount")
        return {"kind": body["kind"], "items": len(body["items"]), "more": "continue" in metadata, "left": remaining}
    kept: Json = {"kind": body.get("kind", "")}
    if body.get("kind") in ("Lease", "LimitRange", "ResourceQuota", "SelfSubjectAccessReview", "PodDisruptionBudget"):
        kept["spec"] = {key: value for key, value in (body.get("spec") or {}).items() if not key.endswith("Time")}
    if body.get("kind") == "SelfSubjectAccessReview":
        kept["allowed"] = body["status"]["allowed"]
    return kept


def answer_of(body: Any) -> Any:
    """The same view of an answer of ours."""
    return _answer(body) if isinstance(body, dict) else None


def object_path(path: str) -> str:
    """Without query and without subresource: what the request is about."""
    parts = [unquote(part) for part in urlsplit(path).path.split("/") if part]
    start = 2 if parts and parts[0] == "api" else 3
    rest = parts[start:]
    keep = 4 if rest[:1] == ["namespaces"] else 2
    return "/" + "/".join(parts[: start + keep])


def query_of(path: str) -> dict[str, str]:
    return {key: values[-1] for key, values in parse_qs(urlsplit(path).query, keep_blank_values=True).items()}


def _same_namespace(one: str, other: str) -> bool:
    return one.split("/namespaces/")[-1].split("/")[0] == other.split("/namespaces/")[-1].split("/")[0]
