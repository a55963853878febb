"""What the controllers count: the use of quotas and the disruptions a budget still allows."""

from collections.abc import Mapping
from typing import Any

from autoscaler.emulate import admission
from autoscaler.emulate.amounts import Amount
from autoscaler.emulate.disruption import budget_status, budgets_of
from autoscaler.emulate.kinds import DISRUPTION_BUDGET, POD, RESOURCE_QUOTA, SCALABLE
from autoscaler.emulate.owners import controller_of
from autoscaler.emulate.podspec import Totals, add, read_list, write_list
from autoscaler.emulate.store import Change, Store, Stored
from autoscaler.emulate.timeline import Deed, Timeline

Json = dict[str, Any]
FREED_AFTER = 1.0  # seconds until a shrink shows in a quota: the controller takes its time


class Bookkeeping:
    """Quotas and disruption budgets of all namespaces."""

    def __init__(self, store: Store, timeline: Timeline) -> None:
        self.store = store
        self.timeline = timeline
        self.freed_after = FREED_AFTER
        self._recount: dict[str, Deed] = {}
        self._budgets_deed: Deed | None = None
        store.subscribe(RESOURCE_QUOTA.storage, self._quota_changed)
        store.subscribe(DISRUPTION_BUDGET.storage, lambda change: self._recount_budgets_later())

    def pod_changed(self, change: Change) -> None:
        if change.type == "DELETED":
            self._recount_quota_later(change.stored.namespace, 0.0)
        elif change.before is not None:
            self._recount_quota_later(change.stored.namespace, self.freed_after)
        self._recount_budgets_later()

    def quotas(self, namespace: str) -> list[Json]:
        return [stored.body for stored in self.store.all(RESOURCE_QUOTA.storage, namespace)]

    def charge_quotas(self, namespace: str, grown: list[tuple[str, Totals]]) -> None:
        """Admission books what it lets in at once."""
        for name, growth in grown:
            stored = self.store.get(RESOURCE_QUOTA.storage, namespace, name)
            if stored is None:
                continue
            body = stored.thaw()
            used = read_list((body.get("status") or {}).get("used"))
            add(used, growth)
            body["status"] = {"hard": body["spec"].get("hard") or {}, "used": write_list(used)}
            self.store.put(RESOURCE_QUOTA.storage, body)

    def _quota_changed(self, change: Change) -> None:
        if change.before is None or change.before.body["spec"] != change.stored.body["spec"]:
            self._recount_quota_later(change.stored.namespace, 0.05)

    def _recount_quota_later(self, namespace: str, delay: float) -> None:
        if namespace in self._recount or not self.store.all(RESOURCE_QUOTA.storage, namespace):
            return
        self._recount[namespace] = self.timeline.after(delay, self._recount_quota, namespace)

    def _recount_quota(self, namespace: str) -> None:
        self._recount.pop(namespace, None)
        for stored in self.store.all(RESOURCE_QUOTA.storage, namespace):
            hard = read_list(stored.body["spec"].get("hard"))
            used: Totals = {name: Amount(0, amount.family) for name, amount in hard.items()}
            for pod in self.store.all(POD.storage, namespace):
                if not admission.in_scope(pod.body, stored.body):
                    continue
                for name, amount in admission.quota_use(pod.body).items():
                    if name in used:
                        used[name] = Amount(used[name].nano + amount.nano, amount.family)
            body = stored.thaw()
            body["status"] = {"hard": body["spec"].get("hard") or {}, "used": write_list(used)}
            if body["status"] != stored.body.get("status"):
                self.store.put(RESOURCE_QUOTA.storage, body)

    def _recount_budgets_later(self) -> None:
        if self._budgets_deed is None and self.store.all(DISRUPTION_BUDGET.storage):
            self._budgets_deed = self.timeline.after(0.03, self._recount_budgets)

    def _recount_budgets(self) -> None:
        self._budgets_deed = None
        for stored in self.store.all(DISRUPTION_BUDGET.storage):
            pods = [one.body for one in self.store.all(POD.storage, stored.namespace)]
            status = budget_status(stored.body, pods, self.expected_pods, self.timeline.stamp())
            if status != stored.body.get("status"):
                body = stored.thaw()
                body["status"] = status
                self.store.put(DISRUPTION_BUDGET.storage, body)

    def expected_pods(self, pod: Mapping[str, Any]) -> tuple[str, int] | None:
        """(uid, replicas) of the pod's controller."""
        owner = controller_of(pod)
        if owner is None or owner["kind"] not in SCALABLE:
            return None
        stored = self.store.get(SCALABLE[owner["kind"]].storage, pod["metadata"]["namespace"], owner["name"])
        return None if stored is None else (stored.uid, int(stored.body["spec"].get("replicas", 1)))

    def budgets_for(self, pod: Mapping[str, Any]) -> list[Stored]:
        return budgets_of(pod, self.store.all(DISRUPTION_BUDGET.storage, pod["metadata"]["namespace"]))
