"""Ask the emulated API what was asked of the real one, in the state the real one was in."""

from __future__ import annotations

import asyncio
import copy
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from autoscaler.emulate import amounts, events
from autoscaler.emulate.api import Api
from autoscaler.emulate.authorize import Rule, Users
from autoscaler.emulate.controlplane import ControlPlane
from autoscaler.emulate.inside import Idle
from autoscaler.emulate.podspec import is_sidecar, qos_class, set_pod_defaults
from autoscaler.emulate.request import Answer, Call
from autoscaler.emulate.status import Refused
from autoscaler.emulate.store import Store
from autoscaler.emulate.timeline import Timeline
from autoscaler.emulate.versions import version
from autoscaler.emulate.watching import Watch
from tests.contract.exchanges import Exchange, Json, answer_of, decisive, object_path, query_of

_READ = ("get", "list", "watch")
RULES = {
    "autoscaler": [
        Rule(("",), ("pods",), _READ),
        Rule(("",), ("pods/resize",), ("patch",)),
        Rule(("apps",), ("deployments/scale",), ("get", "patch")),
    ],
    "noresize": [Rule(("",), ("pods",), ("get", "patch"))],
    "nobody": [],
}
TRACE_WITHIN = 60.0  # virtual seconds for the last recorded state to come


@dataclass
class Outcome:
    """What came, beside what was recorded; `differences` is empty when they agree."""

    exchange: Exchange
    status: int
    differences: list[str] = field(default_factory=list)


class Stage:
    """One emulated cluster, set up as it was before one exchange."""

    def __init__(self, exchange: Exchange, before: Json | None) -> None:
        self.exchange = exchange
        self.users = Users()
        for user, rules in RULES.items():
            self.users.add(user, f"{user}-token", rules)
        usage = int(exchange.node.get("usage", 2**20))
        timeline = Timeline(asyncio.get_running_loop())
        self.inside = Idle(memory=usage)
        self.plane = ControlPlane(
            timeline,
            version("1.36"),
            inside=self.inside,
            metrics_api=False,
            resize_validator="no_validator" not in exchange.node,
        )
        self.api = Api(self.plane, self.users)
        self.revision = ""  # of the planted object
        self._set_up(before)

    def close(self) -> None:
        self.plane.timeline.close()

    def _set_up(self, before: Json | None) -> None:
        node, path = self.exchange.node, object_path(self.exchange.path)
        cpu = f"{node['cpu']}m" if "cpu" in node else "1" if node.get("static_cpu") else "2"
        memory = str(node.get("memory", 25066348544))
        names = {"node1"}
        if before is not None and before.get("kind") == "Pod" and before["spec"].get("nodeName"):
            names.add(before["spec"]["nodeName"])
        for name in names:
            self.plane.add_node(name, cpu=cpu, memory=memory).static_cpu = bool(node.get("static_cpu"))
        namespace = path.split("/namespaces/")[-1].split("/")[0] if "/namespaces/" in path else ""
        if namespace and namespace != "nons":
            self.plane.add_namespace(namespace)
        for one in self.exchange.around:
            if self._is_about(one):
                self._plant(copy.deepcopy(one))
        if before is not None:
            self.revision = self._plant(copy.deepcopy(before))
        if "used" in node:
            self._fill(node["used"], before)

    def _is_about(self, one: Json) -> bool:
        """A refusal names the one budget there was; other objects with the request's own path are it itself."""
        if one["kind"] == "PodDisruptionBudget" and "budget" in self.exchange.node:
            return bool(one["metadata"]["name"] == self.exchange.node["budget"]["name"])
        path = object_path(self.exchange.path)
        return not path.endswith(f"/{one['kind'].lower()}s/{one['metadata']['name']}")

    def _plant(self, body: Json) -> str:
        kind = body.pop("kind")
        if kind == "Scale":
            return self._plant_scaled(body)
        if body.pop("apiVersion", None) == "events.k8s.io/v1":
            body = events.to_core(body)
        found = next((one for one in self.plane.registry if one.kind == kind), None)
        assert found is not None, f"nothing to plant a {kind} on"
        if kind == "Pod":
            set_pod_defaults(body["spec"])
            body["status"].setdefault("qosClass", qos_class(body["spec"]))
            return self.plane.plant(body).body["metadata"]["resourceVersion"]
        if kind == "ResourceQuota" and "quota" in self.exchange.node:
            used = dict(one.split("=") for one in self.exchange.node["quota"]["used"].split(","))
            body.setdefault("status", {}).setdefault("used", {}).update(used)
        if kind == "PodDisruptionBudget" and "budget" in self.exchange.node:
            budget = self.exchange.node["budget"]
            body["status"] = {"disruptionsAllowed": 0, "currentHealthy": budget["healthy"]}
            body["status"] |= {"desiredHealthy": budget["desired"], "expectedPods": budget["healthy"]}
        body["metadata"].setdefault("uid", "00000000-0000-4000-8000-000000000000")
        return str(self.plane.store.put(found.storage, body).revision)

    def _plant_scaled(self, scale: Json) -> str:
        plural, name = object_path(self.exchange.path).split("/")[-2:]
        found = next(one for one in self.plane.registry if one.plural == plural)
        key, _, value = str(scale["status"].get("selector", f"app={name}")).partition("=")
        template = {"metadata": {"labels": {key: value}}, "spec": {"containers": [{"name": "a", "image": "i"}]}}
        selector = {"matchLabels": {key: value}}
        spec = {"replicas": scale["spec"].get("replicas", 0), "selector": selector, "template": template}
        metadata = {k: scale["metadata"][k] for k in ("name", "namespace", "uid") if k in scale["metadata"]}
        status = {"replicas": scale["status"].get("replicas", 0)}
        put = self.plane.store.put(found.storage, {"metadata": metadata, "spec": spec, "status": status})
        return str(put.revision)

    def _fill(self, used: list[Any], before: Json | None) -> None:
        """Another pod that holds what the recorded node had taken."""
        name, amount = used
        quantity = f"{amount}m" if name == "cpu" else str(amount)
        node = before["spec"].get("nodeName", "node1") if before else "node1"
        resources = {"requests": {name: quantity}}
        spec = {"containers": [{"name": "x", "image": "i", "resources": resources}], "nodeName": node}
        seen = {"name": "x", "resources": resources, "allocatedResources": {name: quantity}, "containerID": "c"}
        seen |= {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "ready": True, "restartCount": 0}
        status = {"phase": "Running", "qosClass": "Burstable", "containerStatuses": [seen]}
        self.plane.plant({"metadata": {"name": "filler", "namespace": "filler", "generation": 1}, "spec": spec,
                          "status": status})  # fmt: skip

    # -- asking

    def ask(self) -> tuple[int, Any, dict[str, str]]:
        one = self.exchange
        query = query_of(one.path)
        if len(query.get("continue", "")) > 20:
            query["continue"] = self._first_page_token(one)
        try:
            user = self.users.who("" if one.user == "admin" else f"Bearer {one.user}-token")
        except Refused as refusal:
            return refusal.code, refusal.body, {}
        call = Call(
            one.method, urlsplit(one.path).path, query, one.content_type, "application/json", self._body(), user
        )
        answer, _ = self.api.handle(call)
        if isinstance(answer, Watch):
            return 200, None, {}
        body = answer.body
        if isinstance(body, bytes):
            body = json.loads(body) if answer.content_type.startswith("application/json") else body.decode()
        return answer.code, body, answer.headers

    def _first_page_token(self, one: Exchange) -> str:
        query = {key: value for key, value in query_of(one.path).items() if key not in ("continue", "resourceVersion")}
        answer, _ = self.api.handle(Call("GET", urlsplit(one.path).path, query))
        assert isinstance(answer, Answer)
        return str(json.loads(answer.body)["metadata"].get("continue", ""))

    def _body(self) -> bytes:
        body = self.exchange.body
        if body is None:
            return b""
        if isinstance(body, str):
            return body.encode()
        body = copy.deepcopy(body)
        metadata = body.get("metadata") if isinstance(body, dict) else None
        if isinstance(metadata, dict) and self._stale() and not metadata.get("resourceVersion"):
            # The recorder showed the body after it had taken the resourceVersion out for its next request.
            metadata["resourceVersion"] = "1"
        if isinstance(metadata, dict) and metadata.get("resourceVersion"):
            # Ours counts differently: what was current then is current now, what was stale stays stale.
            metadata["resourceVersion"] = "1" if self.exchange.status == 409 and self._stale() else self.revision
        return json.dumps(body).encode()

    def _stale(self) -> bool:
        return "modified" in self.exchange.message

    # -- what follows

    async def trace(self, wanted: list[Json]) -> list[Json]:
        """The decisive states of the pod until the last wanted one, or until it is clear that it doesn't come."""
        path = object_path(self.exchange.path).split("/")
        namespace, name = path[path.index("namespaces") + 1], path[-1]
        states: list[Json] = []

        def look(_: Any = None) -> None:
            pod = self.plane.pod(namespace, name)
            if pod is not None:
                state = normal(decisive(pod))
                if not states or states[-1] != state:
                    states.append(state)

        look()
        if "restarted" in self.exchange.node and (found := self.plane.run_of(namespace, name)):
            self.plane.freeze_kubelet(found[0].node_name)
            self.plane.timeline.after(2.0, self.plane.restart_kubelet, found[0].node_name)
        ends = [one for one in wanted for name, part in one["containers"].items() if part["state"] == "terminated"]
        if ends and states and states[0]["phase"] == "Pending" and (found := self.plane.run_of(namespace, name)):
            self.plane.timeline.after(2.0, found[0].end_init_containers, found[1])
        self.plane.store.subscribe(("", "pods"), look)
        end = asyncio.get_running_loop().time() + TRACE_WITHIN
        while asyncio.get_running_loop().time() < end and (not states or states[-1] != normal(wanted[-1])):
            await asyncio.sleep(0.25)
            if states and "Error" in str(states[-1]["conditions"]) and not wanted[-1]["conditions"]:
                self.inside.memory = 2**20  # what the recorder did next: it freed the memory
        return states


def normal(state: Json) -> Json:
    """Without what differs between any two runs: quantities canonical, restart counts relative to the first."""

    def sizes(listed: Any) -> Any:
        if isinstance(listed, dict):
            return {key: sizes(value) for key, value in listed.items() if value not in ({}, None)}
        try:
            return amounts.canonical(listed)
        except amounts.NotAQuantity:
            return listed

    kept = copy.deepcopy(state)
    kept["spec"] = sizes(kept["spec"])
    for container in kept["containers"].values():
        container["allocated"], container["actual"] = sizes(container["allocated"]), sizes(container["actual"])
        if container["state"] != "running":
            del container["restarts"]  # how often it crashes is the program's business
    return kept


async def replay(exchange: Exchange, *, plantable: bool = True) -> Outcome:
    """Against each candidate state until one agrees; the outcome nearest to the recorded one."""
    best: Outcome | None = None
    for before in (exchange.before or [None]) if plantable else [None]:
        stage = Stage(exchange, before)
        try:
            outcome = await _replay_once(exchange, stage)
        finally:
            stage.close()
        if best is None or len(outcome.differences) < len(best.differences):
            best = outcome
        if not best.differences:
            break
    assert best is not None
    return best


async def _replay_once(exchange: Exchange, stage: Stage) -> Outcome:
    status, body, headers = stage.ask()
    outcome = Outcome(exchange, status)

    def compare(what: str, ours: Any, theirs: Any) -> None:
        if ours != theirs:
            outcome.differences.append(f"{what}: ours {ours!r}, recorded {theirs!r}")

    compare("status", status, exchange.status)
    if outcome.differences:
        outcome.differences += ["(the rest follows from it)"] * 3
        return outcome
    failed = status >= 400
    if failed and isinstance(body, dict):
        compare("reason", body.get("reason", ""), exchange.reason)
        causes = (body.get("details") or {}).get("causes") or []
        ours = [[one.get("reason", ""), one.get("field", ""), one.get("message", "")] for one in causes]
        compare("causes", [_comparable(one) for one in ours], [_comparable(one) for one in exchange.causes])
        if not exchange.causes or all(cause[1] != "patch" for cause in exchange.causes):
            compare("message", _first_line(body.get("message", "")), _first_line(exchange.message))
    elif exchange.answer is not None:
        _compare_answers(exchange, answer_of(body), compare)
    compare("warning", headers.get("Warning", ""), exchange.warning)
    if exchange.trace and not failed:
        theirs = [normal(one) for one in exchange.trace]
        ours_states = await stage.trace(exchange.trace)
        missing = [one for one in theirs if one not in ours_states]
        if missing:
            outcome.differences.append(f"states that never came: {json.dumps(missing)}; ours {json.dumps(ours_states)}")
    return outcome


def _compare_answers(exchange: Exchange, ours: Any, compare: Any) -> None:
    theirs = exchange.answer
    if not isinstance(ours, dict):
        compare("answer", ours, theirs)
        return
    if theirs.get("kind") == "Pod":
        compare("pod", normal(ours["pod"]), normal(theirs["pod"]))
        compare("labels", ours["labels"], theirs["labels"])
        return
    compare("answer", ours, theirs)


def _comparable(cause: list[str]) -> list[str]:
    """A cause whose message quotes the whole object is told by reason and field, and by how it ends."""
    reason, at, message = cause
    if at == "patch":
        return [reason, at, message.rpartition(": ")[2] if "json: cannot unmarshal" in message else ""]
    return [reason, at, _first_line(message)]


def _first_line(text: str) -> str:
    """Without the diff that the real server appends, and without generated names."""
    import re

    return re.sub(r'"as-[a-z0-9]{5}"', '"as-…"', text.split("\n@@")[0])


__all__ = ["Outcome", "Stage", "Store", "is_sidecar", "replay", "urlencode"]
