"""The bodies kubectl sends as protobuf: access reviews (`kubectl auth can-i`) and a bare namespace (`kubectl create
namespace`), read into JSON form.

Envelope: `k8s\\0`, then runtime.Unknown with the object's bytes in field 2. Field numbers are those of
authorization/v1, core/v1 and meta/v1.
"""

from typing import Any

MAGIC = b"k8s\x00"
CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
_ATTRIBUTES = {1: "namespace", 2: "verb", 3: "group", 4: "version", 5: "resource", 6: "subresource", 7: "name"}
_PATHS = {1: "path", 2: "verb"}


_NAME, _CREATED = 1, 8
"""Of ObjectMeta; a namespace with more than these is not read."""


def read(body: bytes) -> dict[str, Any] | None:
    """An access review of oneself, a rules review, or a namespace that is only a name; None for anything else."""
    if not body.startswith(MAGIC):
        return None
    try:
        envelope = _fields(body[len(MAGIC) :])
        kind = _fields(envelope[1]).get(2, b"").decode()
        if kind == "Namespace":
            return _namespace(_fields(_fields(envelope[2])[1]))
        spec = _fields(_fields(envelope[2]).get(2, b""))
        if kind == "SelfSubjectRulesReview":
            return {"spec": {"namespace": spec.get(1, b"").decode()}}
        if kind != "SelfSubjectAccessReview":
            return None
        asked: dict[str, Any] = {}
        for number, field, names in ((1, "resourceAttributes", _ATTRIBUTES), (2, "nonResourceAttributes", _PATHS)):
            if number in spec:
                inner = _fields(spec[number])
                asked[field] = {names[key]: value.decode() for key, value in inner.items() if key in names and value}
    except (IndexError, KeyError, UnicodeDecodeError):
        return None
    return {"spec": asked}


def _namespace(metadata: dict[int, bytes]) -> dict[str, Any] | None:
    if any(value for number, value in metadata.items() if number not in (_NAME, _CREATED)):
        return None
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": metadata[_NAME].decode()}}


def _fields(raw: bytes) -> dict[int, bytes]:
    """Length-delimited fields by number, the last of each; varints are skipped. Raises IndexError."""
    found: dict[int, bytes] = {}
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        length, at = _varint(raw, at)
        if key & 7 == 2:
            if at + length > len(raw):
                raise IndexError("the message ends early")
            found[key >> 3] = raw[at : at + length]
            at += length
        elif key & 7 != 0:
            raise IndexError("a wire type no access review has")
    return found


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
