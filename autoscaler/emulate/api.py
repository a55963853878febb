"""Requests in, answers out, no wire: the verbs of the API server over one ControlPlane."""

from collections.abc import Mapping
from typing import Any

import msgspec

from autoscaler.emulate import amounts, custom, discovery, events, patch
from autoscaler.emulate.authorize import Users
from autoscaler.emulate.bodies import content_of, keep_metadata, read_body, shown_patch, warned
from autoscaler.emulate.controlplane import ControlPlane
from autoscaler.emulate.fields import unknown_fields
from autoscaler.emulate.kindrules import complete, validate
from autoscaler.emulate.kinds import Kind
from autoscaler.emulate.ownership import Writer, noted
from autoscaler.emulate.paging import page_of
from autoscaler.emulate.request import Answer, Call, Target, WriteOptions, target_of, truthy, write_options
from autoscaler.emulate.selectors import Matcher, both, chosen_name, field_selector, label_selector
from autoscaler.emulate.status import (
    Refused,
    already_exists,
    bad_request,
    bad_value,
    conflict,
    invalid,
    method_not_allowed,
    no_such_path,
    not_covered,
    not_found,
    unreadable_patch,
    unsupported_patch_type,
    wrong_uid,
)
from autoscaler.emulate.store import Json, Stored
from autoscaler.emulate.subresources import Subresources
from autoscaler.emulate.table import as_table, wants_table
from autoscaler.emulate.watching import Watch

_FREE_UPDATE = ("leases", "nodes")  # PUT of these needs a resourceVersion (no unconditional update)
_CREATE_ON_UPDATE = ("leases",)


class Api:
    """Stateless but for the control plane and the users."""

    def __init__(self, plane: ControlPlane, users: Users) -> None:
        self.plane = plane
        self.users = users
        self.subresources = Subresources(self)
        self.pages: Mapping[str, Any] = {}

    def handle(self, call: Call) -> tuple[Answer | Watch, Target | None]:
        """The answer, and what it was about (for the audit)."""
        target: Target | None = None
        try:
            if (found := discovery.answer(call, self.plane.registry, self.plane.version)) is not None:
                return found, None
            target = target_of(call, self.plane.registry)
            self.users.check(call.user, target, chosen_name(call.query))
            if not target.kind.served:
                versions = self.plane.registry.groups().get(target.kind.group, ())
                if target.kind.group and target.kind.version not in versions:
                    return discovery.NO_PAGE, target
                raise no_such_path()
            return self._dispatch(call, target), target
        except Refused as refusal:
            return Answer.refused(refusal), target
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as trouble:
            # An object of the wrong shape; a real server's decoder would name the field.
            complaint = f"the emulated cluster can't read this object: {type(trouble).__name__} {trouble}"
            return Answer.refused(bad_request(complaint)), target

    def _dispatch(self, call: Call, target: Target) -> Answer | Watch:
        kind = target.kind
        if target.subresource:
            return self.subresources.handle(call, target)
        if kind.plural == "selfsubjectaccessreviews" and target.verb == "create":
            return Answer(201, self.users.review(call.user, read_body(call)))
        if kind.plural == "selfsubjectrulesreviews" and target.verb == "create":
            return Answer(201, self.users.rules_review(call.user, read_body(call)))
        if kind.group == "metrics.k8s.io":
            return self.subresources.resource_metrics(call, target)
        match target.verb:
            case "get":
                return self._get(call, target)
            case "list":
                return self._list(call, target)
            case "watch":
                return self._watch(call, target)
            case "create":
                return self._create(call, target)
            case "update" | "patch":
                return self._change(call, target)
            case "delete":
                return self._delete(call, target)
            case "deletecollection":
                return self._delete_all(call, target)
        raise method_not_allowed()

    # -- reads

    def find(self, target: Target) -> Stored:
        """Raises Refused (404)."""
        stored = self.plane.store.get(target.kind.storage, target.namespace or "", target.name)
        if stored is None:
            raise not_found(target.kind.plural, target.name, group=target.kind.group)
        return stored

    def shown(self, kind: Kind, body: Mapping[str, Any]) -> Json:
        """With kind and apiVersion, in this kind's form."""
        if kind.group == "events.k8s.io":
            body = events.from_core(body)
        return {"kind": kind.kind, "apiVersion": kind.api_version, **body}

    def _get(self, call: Call, target: Target) -> Answer:
        stored = self.find(target)
        if wants_table(call.accept):
            return Answer(200, as_table(target.kind, [stored], self.plane, str(stored.revision), call))
        return Answer(200, self.shown(target.kind, stored.body))

    def matcher(self, call: Call, kind: Kind) -> Matcher | None:
        return both(
            label_selector(call.query.get("labelSelector", "")),
            field_selector(call.query.get("fieldSelector", ""), kind.plural),
        )

    def _list(self, call: Call, target: Target) -> Answer:
        kind = target.kind
        matches = self.matcher(call, kind)
        revision, items, metadata = page_of(self.plane.store, call, target, matches)
        metadata = {"resourceVersion": str(revision), **metadata}
        if wants_table(call.accept):
            table = as_table(kind, items, self.plane, str(revision), call)
            table["metadata"] |= metadata
            return Answer(200, table)
        head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata}
        if kind.group == "events.k8s.io":
            encoded = [msgspec.json.encode(events.from_core(stored.body)) for stored in items]
        elif kind.custom:
            encoded = [msgspec.json.encode(self.shown(kind, stored.body)) for stored in items]
        else:
            encoded = [stored.encoded for stored in items]
        body = msgspec.json.encode(head)[:-1] + b',"items":[' + b",".join(encoded) + b"]}"
        return Answer(200, body)

    def _watch(self, call: Call, target: Target) -> Watch:
        return Watch(self, call, target, self.matcher(call, target.kind))

    # -- writes

    def _create(self, call: Call, target: Target) -> Answer:
        kind, namespace = target.kind, target.namespace
        options = write_options(call, "create")
        body = read_body(call)
        if (unknown := _unknown(kind, body)) and options.strict:
            listed = ", ".join(f'unknown field "{path}"' for path in unknown)
            complaint = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
            raise bad_request(f"{complaint}: strict decoding error: {listed}")
        metadata = body.setdefault("metadata", {})
        if kind.namespaced:
            if metadata.get("namespace") not in (None, "", namespace):
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
            metadata["namespace"] = namespace
            if self.plane.store.get(("", "namespaces"), "", namespace or "") is None:
                raise not_found("namespaces", namespace or "")
        for key in ("kind", "apiVersion"):
            body.pop(key, None)
        if not metadata.get("name") and not metadata.get("generateName"):
            complaint = "name or generateName is required"
            shown = kind.kind if not kind.group else f"{kind.kind}"
            raise invalid(shown, "", [bad_value("metadata.name", "", complaint)], group=kind.group)
        if metadata.get("name") and self.plane.store.get(kind.storage, namespace or "", metadata["name"]) is not None:
            raise already_exists(kind.plural, metadata["name"], group=kind.group)
        made = self._made(kind, body, options)
        return Answer(201, self.shown(kind, made), warned(unknown, options, custom.warning(kind)))

    def _made(self, kind: Kind, body: Json, options: WriteOptions) -> Json:
        plane = self.plane
        try:
            if kind.kind == "Pod":
                body["metadata"]["managedFields"] = noted(None, body, self._writer(kind, options))
                return plane.create_pod(body, dry_run=options.dry_run)
            if kind.group == "events.k8s.io":
                body = events.to_core(body)
            complete(kind, body)
        except amounts.NotAQuantity as trouble:
            what = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
            raise bad_request(f"{what}: {trouble}") from None
        if kind.has_status and kind.kind not in ("Node", "Namespace") and not kind.custom:
            body["status"] = {}
        elif kind.custom and kind.has_status:
            body.pop("status", None)
        custom.settle(kind, body)
        plane.new_metadata(body["metadata"])
        validate(kind, None, body)
        custom.check(kind, body)
        if kind.has_generation:
            body["metadata"]["generation"] = 1
        body["metadata"]["managedFields"] = noted(None, body, self._writer(kind, options))
        if options.dry_run:
            return body
        return plane.store.put(kind.storage, body).body

    def _change(self, call: Call, target: Target) -> Answer:
        kind = target.kind
        options = write_options(call, target.verb)
        if target.verb == "patch":
            if call.content_type.startswith(patch.APPLY):
                raise not_covered("server-side apply (but of a status): conflicts between managers")
            stored = self.find(target)
            after, unknown = self.patched(call, target, stored, options)
        else:
            after = read_body(call)
            unknown = _unknown(kind, after)
            self.check_name(after, target)
            found = self.plane.store.get(kind.storage, target.namespace or "", target.name)
            if found is None:
                return self._update_missing(target, after, options)
            stored = found
        return self._replace(target, stored, after, options, unknown)

    def _update_missing(self, target: Target, after: Json, options: WriteOptions) -> Answer:
        kind, uid = target.kind, after["metadata"].get("uid")
        if kind.plural not in _CREATE_ON_UPDATE:
            raise not_found(kind.plural, target.name, group=kind.group)
        if uid:
            raise conflict(
                kind.plural,
                target.name,
                group=kind.group,
                complaint=wrong_uid(target.kind.plural, target.namespace, target.name, uid, ""),
            )
        for key in ("kind", "apiVersion"):
            after.pop(key, None)
        after["metadata"]["namespace"] = target.namespace
        return Answer(201, self.shown(kind, self._made(kind, after, options)))

    def check_name(self, body: Json, target: Target) -> None:
        name = body.setdefault("metadata", {}).get("name", "")
        if name != target.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")

    def patched(
        self, call: Call, target: Target, stored: Stored, options: WriteOptions, *, kind: str = ""
    ) -> tuple[Json, list[str]]:
        """The patched object (with kind and apiVersion taken off) and its unknown fields. Raises Refused."""
        before = self.shown(target.kind, stored.thaw())
        return self.patch_object(call, before, options, kind=kind or target.kind)

    def patch_object(
        self, call: Call, before: Json, options: WriteOptions, *, kind: Kind | str
    ) -> tuple[Json, list[str]]:
        wanted = patch.read_patch(call.content_type, call.body)
        if isinstance(kind, Kind) and kind.custom and call.content_type.startswith(patch.STRATEGIC):
            raise unsupported_patch_type()
        after = patch.apply(call.content_type, before, wanted)
        if not isinstance(after, dict) or not isinstance(after.get("metadata"), dict):
            raise bad_request("the patched object has no metadata")
        unknown = _unknown(kind, after)
        if unknown and options.strict:
            listed = ", ".join(f'unknown field "{path}"' for path in unknown)
            raise unreadable_patch(shown_patch(call, wanted, after), f"strict decoding error: {listed}")
        for key in ("kind", "apiVersion"):
            after.pop(key, None)
        return after, unknown

    def check_revision(self, target: Target, stored: Stored, after: Json, *, needed: bool = False) -> None:
        """Raises Refused: 409 for a stale resourceVersion, 422 where one is needed and missing."""
        revision = after["metadata"].get("resourceVersion")
        if not revision:
            if needed:
                cause = bad_value("metadata.resourceVersion", 0, "must be specified for an update")
                raise invalid(target.kind.plural, target.name, [cause], group=target.kind.group)
            return
        if str(revision) != stored.body["metadata"]["resourceVersion"]:
            raise conflict(target.kind.plural, target.name, group=target.kind.group)

    def _replace(
        self, target: Target, stored: Stored, after: Json, options: WriteOptions, unknown: list[str]
    ) -> Answer:
        kind = target.kind
        before = stored.body
        self.check_revision(target, stored, after, needed=target.verb == "update" and kind.plural in _FREE_UPDATE)
        for key in ("kind", "apiVersion"):
            after.pop(key, None)
        uid = after["metadata"].get("uid")
        if uid and uid != before["metadata"]["uid"]:
            if target.verb == "update":
                complaint = wrong_uid(target.kind.plural, target.namespace, target.name, uid, before["metadata"]["uid"])
                raise conflict(kind.plural, target.name, group=kind.group, complaint=complaint)
            causes = [bad_value("metadata.uid", uid, "field is immutable")] * 2
            raise invalid(kind.kind, target.name, causes, group=kind.group)
        if kind.group == "events.k8s.io":
            after = events.to_core(after)
        keep_metadata(before, after)
        if kind.has_status:
            after.pop("status", None)
            if "status" in before:
                after["status"] = before["status"]
        try:
            if kind.kind == "Pod":
                self.subresources.check_pod_update(stored, after)
            else:
                complete(kind, after)
        except amounts.NotAQuantity as trouble:
            raise unreadable_patch("", str(trouble)) from None
        custom.settle(kind, after)
        validate(kind, before, after)
        custom.check(kind, after, before)
        if kind.has_generation and content_of(before) != content_of(after):
            after["metadata"]["generation"] = int(before["metadata"].get("generation", 1)) + 1
        saved = self.save(kind, stored, after, options)
        return Answer(200, self.shown(kind, saved), warned(unknown, options, custom.warning(kind)))

    def save(self, kind: Kind, stored: Stored, after: Json, options: WriteOptions, subresource: str = "") -> Json:
        """Store what changed, and who changed it; what didn't keeps its resourceVersion."""
        metadata, before = after["metadata"], stored.body["metadata"]
        metadata["resourceVersion"] = before["resourceVersion"]
        if "managedFields" in before:
            metadata["managedFields"] = before["managedFields"]
        if after == stored.body:
            return after
        metadata["managedFields"] = noted(stored.body, after, self._writer(kind, options, subresource))
        if options.dry_run:
            return after
        return self.plane.store.put(kind.storage, after).body

    def _writer(self, kind: Kind, options: WriteOptions, subresource: str = "") -> Writer:
        return Writer(options.manager, kind.api_version, subresource, self.plane.timeline.stamp())

    def _delete(self, call: Call, target: Target) -> Answer:
        options = write_options(call, "delete")
        stored = self.find(target)
        body = msgspec.json.decode(call.body) if call.body.strip() else {}
        precondition = (body.get("preconditions") or {}).get("uid")
        if precondition and precondition != stored.uid:
            complaint = f"the UID in the precondition ({precondition}) does not match the UID in record ({stored.uid})"
            raise conflict(target.kind.plural, target.name, group=target.kind.group, complaint=complaint)
        if options.dry_run:
            return Answer(200, self.shown(target.kind, stored.body))
        if target.kind.kind == "Pod":
            text = call.query.get("gracePeriodSeconds", body.get("gracePeriodSeconds"))
            grace = None if text is None else float(text)
            gone = self.plane.delete_pod(stored.namespace, stored.name, grace)
            return Answer(200, self.shown(target.kind, gone or stored.body))
        self.plane.delete_object(target.kind, stored.namespace, stored.name)
        details = {"name": stored.name, "kind": target.kind.plural, "uid": stored.uid}
        if target.kind.group:
            details["group"] = target.kind.group
        return Answer(
            200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        )

    def _delete_all(self, call: Call, target: Target) -> Answer:
        matches = self.matcher(call, target.kind)
        there = self.plane.store.all(target.kind.storage, target.namespace)
        gone = [one for one in there if matches is None or matches(one.body)]
        for stored in gone:
            if target.kind.kind == "Pod":
                self.plane.delete_pod(stored.namespace, stored.name)
            else:
                self.plane.delete_object(target.kind, stored.namespace, stored.name)
        metadata = {"resourceVersion": str(self.plane.store.revision)}
        head = {"kind": f"{target.kind.kind}List", "apiVersion": target.kind.api_version, "metadata": metadata}
        return Answer(200, head | {"items": [stored.body for stored in gone]})


def _unknown(kind: Kind | str, body: Mapping[str, Any]) -> list[str]:
    """Fields the server doesn't know. `kind` by name: one that is no resource of its own, such as a Scale."""
    if isinstance(kind, str):
        return unknown_fields(kind, body)
    return custom.unknown(kind, body) if kind.custom else unknown_fields(kind.kind, body)


__all__ = ["Api", "no_such_path", "truthy"]
