"""What coordination.k8s.io/v1 Lease asks for."""

import re
from typing import Any

from autoscaler.emulate.status import bad_value, invalid, unreadable_patch

_MICRO = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$")


def validate(lease: dict[str, Any]) -> None:
    """Raises Refused (422). Times need exactly six fractional digits."""
    spec = lease.get("spec") or {}
    for field in ("acquireTime", "renewTime"):
        stamp = spec.get(field)
        if stamp is not None and not (isinstance(stamp, str) and _MICRO.match(stamp)):
            tail = str(stamp)[19:]
            complaint = (
                f'parsing time "{stamp}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "{tail}" as ".000000"'
            )
            raise unreadable_patch("", complaint)
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        cause = bad_value("spec.leaseDurationSeconds", seconds, "must be greater than 0")
        raise invalid("Lease", lease["metadata"]["name"], [cause], group="coordination.k8s.io")
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        cause = bad_value("spec.leaseTransitions", transitions, "must be greater than or equal to 0")
        raise invalid("Lease", lease["metadata"]["name"], [cause], group="coordination.k8s.io")
