"""resize, scale, status, eviction, node proxy, and the metrics API."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from autoscaler.emulate import admission, amounts, custom, patch, resize
from autoscaler.emulate.bodies import read_body, shown_patch, warned
from autoscaler.emulate.disruption import check_budgets, check_uid
from autoscaler.emulate.kinds import DISRUPTION_BUDGET, NODE, Kind
from autoscaler.emulate.podspec import set_defaults
from autoscaler.emulate.request import Answer, Call, Target, WriteOptions, write_options
from autoscaler.emulate.scheduling import allocatable
from autoscaler.emulate.selectors import write_selector
from autoscaler.emulate.status import (
    bad_value,
    conflict,
    forbidden_change,
    invalid,
    method_not_allowed,
    no_such_path,
    not_covered,
    not_found,
    unreadable_patch,
    wrong_uid,
)
from autoscaler.emulate.store import Json, Stored

if TYPE_CHECKING:
    from autoscaler.emulate.api import Api

_MUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_SCALE_META = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class Subresources:
    """Below an object's own path."""

    def __init__(self, api: "Api") -> None:
        self.api = api

    def handle(self, call: Call, target: Target) -> Answer:
        """Raises Refused."""
        if target.verb == "patch" and call.content_type.startswith(patch.APPLY):
            if target.subresource == "status" and target.kind.custom:
                return self._apply_status(call, target)
            raise not_covered("server-side apply (but of a status): conflicts between managers")
        match target.subresource:
            case "resize":
                return self._resize(call, target)
            case "scale":
                return self._scale(call, target)
            case "status":
                return self._status(call, target)
            case "eviction":
                return self._evict(call, target)
            case "proxy":
                return self._node_proxy(call, target)
            case "log":
                self.api.find(target)
                return Answer(200, b"", content_type="text/plain")
        raise no_such_path()

    # -- pods/resize

    def _resize(self, call: Call, target: Target) -> Answer:
        api, plane = self.api, self.api.plane
        if target.verb not in ("get", "patch", "update"):
            raise method_not_allowed()
        options = write_options(call, target.verb)
        if target.verb == "patch" and call.content_type.partition(";")[0] not in patch.DIALECTS:
            patch.read_patch(call.content_type, call.body)
        stored = api.find(target)
        if target.verb == "get":
            return Answer(200, api.shown(target.kind, stored.body))
        if target.verb == "patch":
            wanted, unknown = api.patched(call, target, stored, options)
            quoted = patch.read_patch(call.content_type, call.body)
        else:
            wanted, unknown = read_body(call), []
            api.check_name(wanted, target)
            uid = wanted["metadata"].setdefault("uid", stored.uid)
            if uid != stored.uid:
                complaint = wrong_uid("pods", stored.namespace, stored.name, uid, stored.uid)
                raise conflict("pods", stored.name, complaint=complaint)
            quoted = wanted
        api.check_revision(target, stored, wanted)
        old = stored.thaw()
        if (wanted.get("spec") or {}).get("resources") or old["spec"].get("resources"):
            raise not_covered("resizing where the pod itself (pod-level) has resources")
        try:
            ranges = plane.limit_ranges(stored.namespace)
            set_defaults(wanted["spec"])
            admission.fill_from_limit_ranges(wanted["spec"], ranges)
            set_defaults(wanted["spec"])
        except amounts.NotAQuantity as trouble:
            raise unreadable_patch(shown_patch(call, quoted, wanted), str(trouble)) from None
        except (AttributeError, KeyError, TypeError):
            complaint = "json: cannot unmarshal into Go struct field PodSpec.spec"
            raise unreadable_patch(patch.go_print(quoted), complaint) from None
        new = resize.take_resources(old, wanted)
        node = plane.store.get(NODE.storage, "", old["spec"].get("nodeName", ""))
        resize.validate(old, new, wanted, plane.version, node_supports=plane.node_resizes(node))
        self._admit(new, old, node, options, ranges)
        after = stored.thaw()
        if not resize.same_resources(old, new):
            for where in ("initContainers", "containers"):
                if where in new["spec"]:
                    after["spec"][where] = new["spec"][where]
            after["metadata"]["generation"] = int(old["metadata"].get("generation", 1)) + 1
        saved = api.save(target.kind, stored, after, options, "resize")
        return Answer(200, api.shown(target.kind, saved), warned(unknown, options))

    def _admit(self, new: Json, old: Json, node: Stored | None, options: WriteOptions, ranges: list[Json]) -> None:
        plane = self.api.plane
        admission.check_limit_ranges(new, ranges)
        if node is not None and plane.refuses_beyond_node:
            admission.check_node(new, allocatable(node.body))
        namespace = old["metadata"]["namespace"]
        grown = admission.check_quotas(new, old, plane.books.quotas(namespace))
        if not options.dry_run:
            plane.books.charge_quotas(namespace, grown)

    def check_pod_update(self, stored: Stored, after: Json) -> None:
        """A plain update of a pod: almost all of the spec is fixed. Raises Refused (422)."""
        set_defaults(after["spec"])

        def fixed(spec: Mapping[str, Any]) -> Json:
            rest = {key: value for key, value in spec.items() if key not in ("activeDeadlineSeconds", "tolerations")}
            for where in ("initContainers", "containers"):
                if where in rest:
                    rest[where] = [{**one, "image": ""} for one in rest[where]]
            return rest

        if fixed(stored.body["spec"]) != fixed(after["spec"]):
            raise invalid("Pod", stored.name, [forbidden_change("spec", _MUTABLE)])

    # -- scale

    def _scale(self, call: Call, target: Target) -> Answer:
        api, kind = self.api, target.kind
        if target.verb not in ("get", "patch", "update"):
            raise method_not_allowed()
        stored = api.find(target)
        paths = kind.scale_paths
        if paths is not None and target.verb != "get":
            raise not_covered("writing the scale subresource of a custom resource")
        before = scale_of(stored.body, paths)
        if target.verb == "get":
            return Answer(200, before)
        options = write_options(call, target.verb)
        if target.verb == "patch":
            wanted, _ = api.patch_object(call, _copy(before), options, kind="Scale")
        else:
            wanted = read_body(call)
            api.check_name(wanted, target)
        api.check_revision(target, stored, wanted)
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        replicas = 0 if replicas is None else replicas
        self._check_replicas(replicas, wanted, target)
        after = stored.thaw()
        if after["spec"].get("replicas") != replicas:
            after["spec"]["replicas"] = replicas
            after["metadata"]["generation"] = int(after["metadata"].get("generation", 1)) + 1
        return Answer(200, scale_of(api.save(kind, stored, after, options, "scale"), paths))

    def _check_replicas(self, replicas: Any, wanted: Json, target: Target) -> None:
        field = "Go struct field ScaleSpec.spec.replicas of type int32"
        shown = msgspec.json.encode(wanted).decode()
        match replicas:
            case bool():
                raise unreadable_patch(shown, f"json: cannot unmarshal bool into {field}")
            case str():
                raise unreadable_patch(shown, f"json: cannot unmarshal string into {field}")
            case float():
                raise unreadable_patch(shown, f"json: cannot unmarshal number {replicas} into {field}")
            case int() if not -(2**31) <= replicas < 2**31:
                raise unreadable_patch(shown, f"json: cannot unmarshal number {replicas} into {field}")
            case int() if replicas < 0:
                cause = bad_value("spec.replicas", replicas, "must be greater than or equal to 0")
                raise invalid("Scale", target.name, [cause], group="autoscaling")

    # -- status

    def _status(self, call: Call, target: Target) -> Answer:
        api, kind = self.api, target.kind
        if target.verb not in ("get", "patch", "update"):
            raise method_not_allowed()
        stored = api.find(target)
        if target.verb == "get":
            return Answer(200, api.shown(kind, stored.body))
        options = write_options(call, target.verb)
        if target.verb == "patch":
            wanted, unknown = api.patched(call, target, stored, options)
        else:
            wanted = read_body(call)
            unknown = custom.unknown(kind, wanted)
            api.check_name(wanted, target)
        api.check_revision(target, stored, wanted, needed=target.verb == "update" and kind.custom)
        after = stored.thaw()
        if "status" in wanted:
            after["status"] = wanted["status"]
        custom.settle(kind, after)
        custom.check(kind, after, stored.body)
        saved = api.save(kind, stored, after, options, "status")
        return Answer(200, api.shown(kind, saved), warned(unknown, options))

    def _apply_status(self, call: Call, target: Target) -> Answer:
        """Server-side apply by the one manager that owns the status: what it leaves out goes, but conditions are a map
        by type and those of others stay."""
        api, kind = self.api, target.kind
        options = write_options(call, "patch")
        stored = api.find(target)
        after = stored.thaw()
        status = dict(read_body(call).get("status") or {})
        said = {one["type"]: one for one in status.get("conditions") or ()}
        others = [one for one in (after.get("status") or {}).get("conditions") or () if one.get("type") not in said]
        after["status"] = status | ({"conditions": [*others, *said.values()]} if said or others else {})
        custom.settle(kind, after)
        custom.check(kind, after, stored.body)
        return Answer(200, api.shown(kind, api.save(kind, stored, after, options, "status")))

    # -- eviction

    def _evict(self, call: Call, target: Target) -> Answer:
        if target.verb != "create" and call.method != "POST":
            raise method_not_allowed()
        plane = self.api.plane
        options = write_options(call, "create")
        body = read_body(call) if call.body else {}
        stored = self.api.find(target)
        chosen = body.get("deleteOptions") or {}
        check_uid(stored.body, (chosen.get("preconditions") or {}).get("uid"))
        budgets = plane.books.budgets_for(stored.body)
        check_budgets(stored.body, budgets)
        dry_run = options.dry_run or chosen.get("dryRun") == ["All"]
        if not dry_run:
            for budget in budgets:
                self._spend(budget)
            plane.delete_pod(stored.namespace, stored.name, chosen.get("gracePeriodSeconds"))
        success: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        return Answer(201, success)

    def _spend(self, budget: Stored) -> None:
        body = budget.thaw()
        status = body.get("status") or {}
        status["disruptionsAllowed"] = max(0, int(status.get("disruptionsAllowed", 0)) - 1)
        body["status"] = status
        self.api.plane.store.put(DISRUPTION_BUDGET.storage, body)

    # -- kubelet pages and metrics.k8s.io

    def _node_proxy(self, call: Call, target: Target) -> Answer:
        self.api.find(target)
        page = self.api.pages.get(target.rest)
        text = page(target.name) if page is not None else None
        if text is None:
            raise not_covered(f"the kubelet's page /{target.rest}")
        return Answer(200, text.encode(), content_type="text/plain; version=0.0.4")

    def resource_metrics(self, call: Call, target: Target) -> Answer:
        read = self.api.pages.get(f"metrics.k8s.io/{target.kind.plural}")
        if read is None:
            raise not_covered("metrics.k8s.io without processes that use anything")
        items: list[Json] = read(target.namespace)
        head: Json = {"kind": target.kind.kind, "apiVersion": target.kind.api_version}
        if target.name:
            for item in items:
                if item["metadata"]["name"] == target.name:
                    return Answer(200, head | item)
            raise not_found("pods" if target.kind.plural == "pods" else "nodes", target.name, group="metrics.k8s.io")
        matches = self.api.matcher(call, target.kind)
        listed = [item for item in items if matches is None or matches(item)]
        head = {"kind": f"{target.kind.kind}List", "apiVersion": target.kind.api_version, "metadata": {}}
        return Answer(200, head | {"items": listed})


def scale_of(body: Mapping[str, Any], paths: Mapping[str, str] | None = None) -> Json:
    """The Scale of a workload: `replicas` is absent at zero, as the real one's is."""
    metadata = {key: body["metadata"][key] for key in _SCALE_META if key in body["metadata"]}
    if paths is None:
        replicas = body["spec"].get("replicas", 1)
        status: Json = {"replicas": (body.get("status") or {}).get("replicas", 0)}
        selector = write_selector(body["spec"].get("selector"))
    else:
        replicas = _at(body, paths.get("specReplicasPath", ".spec.replicas"))
        status = {"replicas": _at(body, paths.get("statusReplicasPath", ".status.replicas")) or 0}
        selector = _at(body, paths.get("labelSelectorPath", "")) or ""
    if selector:
        status["selector"] = selector
    head: Json = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata}
    return head | {"spec": {"replicas": replicas} if replicas else {}, "status": status}


def _at(body: Mapping[str, Any], path: str) -> Any:
    found: Any = body
    for step in [step for step in path.split(".") if step]:
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _copy(body: Json) -> Json:
    copied: Json = msgspec.json.decode(msgspec.json.encode(body))
    return copied


__all__ = ["Kind", "Subresources", "scale_of"]
