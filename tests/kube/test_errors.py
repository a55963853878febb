# ruff: noqa: E501 - the sentences are kept as they were recorded
"""Refusals as recorded from a 1.36 API server, and as 1.33 to 1.36 write them, each to its word."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autoscaler.act.ports import Result
from autoscaler.kube import errors
from autoscaler.kube.errors import read_refusal

POD = {"name": "p", "kind": "pods"}
DEFERRED_QOS = (
    'Pod "p" is invalid: spec: Invalid value: "Guaranteed": Pod QOS Class may not change as a result of resizing'
)


def cause(reason: str, field: str = "") -> dict[str, Any]:
    return {"causes": [{"reason": reason, "field": field, "message": ""}]}


@pytest.mark.parametrize(
    ("code", "reason", "message", "details", "word"),
    [
        (403, "Forbidden", "pods \"p\" is forbidden: node didn't have enough allocatable resources: cpu, requested: 64000, "
         "allocatable: 2000", POD | cause("NodeCapacity"), "NodeCapacity"),
        (403, "Forbidden", 'pods "p" is forbidden: resize is not supported', POD | cause("UnsupportedPlatform"), "Unsupported"),
        (403, "Forbidden", 'pods "p" is forbidden: [maximum cpu usage per Container is 500m, but limit is 600m, maximum cpu '
         "usage per Pod is 700m, but limit is 800m]", POD, "LimitRange"),
        (403, "Forbidden", 'pods "p" is forbidden: cpu max limit to request ratio per Container is 4, but provided ratio is '
         "8.000000", POD, "LimitRange"),
        (403, "Forbidden", 'pods "p" is forbidden: exceeded quota: q, requested: requests.cpu=150m, used: requests.cpu=200m, '
         "limited: requests.cpu=300m", POD, "Quota"),
        (403, "Forbidden", 'pods "p" is forbidden: User "u" cannot patch resource "pods/resize" in API group "" in the '
         'namespace "rz"', POD, "Forbidden"),
        (401, "Unauthorized", "Unauthorized", {}, "Forbidden"),
        (404, "NotFound", 'pods "p" not found', POD, "Gone"),
        (404, "NotFound", "the server could not find the requested resource", {}, "Unsupported"),
        (409, "Conflict", 'Operation cannot be fulfilled on pods "p": the object has been modified', POD, "Conflict"),
        (409, "Conflict", 'Operation cannot be fulfilled on Pod "p": the UID in the precondition (0) does not match the UID in '
         "record (1)", POD, "Gone"),
        (422, "Invalid", 'Pod "p" is invalid: metadata.uid: Invalid value: "0": field is immutable',
         POD | cause("FieldValueInvalid", "metadata.uid"), "Gone"),
        (422, "Invalid", DEFERRED_QOS, POD | cause("FieldValueInvalid", "spec"), "Invalid"),
        (422, "Invalid", 'Pod "p" is invalid: []: Forbidden: static pods cannot be resized',
         POD | cause("FieldValueForbidden", "[]"), "Unsupported"),
        (500, None, "map: map[resources:map[requests:map[cpu:1]]] does not contain declared merge key: name", {}, "Invalid"),
        (500, None, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", {},
         "DisruptionBudget"),
        (500, "InternalError", 'Internal error occurred: failed calling webhook "x": connection refused', {}, "Unavailable"),
        (429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.",
         cause("DisruptionBudget"), "DisruptionBudget"),
        (429, "TooManyRequests", "too many requests, please try again later", {"retryAfterSeconds": 3}, "Throttled"),
        (403, "Forbidden", 'admission webhook "v.example.com" denied the request: too big', POD, "Webhook"),
        (400, "BadRequest", 'admission webhook "v.example.com" denied the request: too big', POD, "Webhook"),
        (422, "Invalid", "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'a' with binding 'b' denied request: no", POD,
         "Webhook"),
        (415, "UnsupportedMediaType", "415: Unsupported Media Type", {}, "Invalid"),
        (405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {}, "Unsupported"),
        (504, "Timeout", "Timeout: request did not complete within the allotted timeout", {}, "Unavailable"),
    ],
)  # fmt: skip
def test_each_refusal_has_its_word(code: int, reason: str, message: str, details: dict[str, Any], word: str) -> None:
    body = {
        "kind": "Status",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": code,
    }
    refusal = read_refusal(code, json.dumps(body).encode(), {})
    assert refusal.word == word
    assert Result(refusal.word)
    assert refusal.message == message


def test_every_word_is_one_of_the_act_ports() -> None:
    words = {value for name, value in vars(errors).items() if name.isupper() and isinstance(value, str)}
    assert words <= {result.value for result in Result}


@pytest.mark.parametrize(
    ("header", "body", "expected"),
    [("7", {}, 7.0), ("", {"details": {"retryAfterSeconds": 3}}, 3.0), ("-1", {}, 0.0), ("", {}, None),
     ("Wed, 21 Oct 2026 07:28:00 GMT", {}, None), ("999999999", {}, 3600.0)],
)  # fmt: skip
def test_retry_after(header: str, body: dict[str, Any], expected: float | None) -> None:
    assert read_refusal(429, json.dumps(body).encode(), {"Retry-After": header}).retry_after_s == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [(b"", "HTTP 502 without a Status body"), (b"<html><h1>Bad Gateway</h1>", "HTTP 502 without a Status body"),
     (b"upstream connect\n error", "upstream connect error"), (b'{"kind":', '{"kind":'), (b"[]", "[]"),
     (b"\xff\xfe", "��")],
)  # fmt: skip
def test_answers_that_no_api_server_wrote(body: bytes, message: str) -> None:
    refusal = read_refusal(502, body)
    assert (refusal.word, refusal.message) == ("Unavailable", message)
