"""Owners and what is made for them: references, names, template hashes."""

import hashlib
import json
import random
from collections.abc import Mapping
from typing import Any

from autoscaler.emulate.kinds import Kind

Json = dict[str, Any]
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def suffix(dice: random.Random, length: int = 5) -> str:
    """As generated names end."""
    return "".join(dice.choice(_LETTERS) for _ in range(length))


def template_hash(template: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:10])


def controller_of(thing: Mapping[str, Any]) -> Json | None:
    for reference in thing["metadata"].get("ownerReferences") or []:
        if reference.get("controller"):
            found: Json = reference
            return found
    return None


def owner_reference(kind: Kind, owner: Mapping[str, Any]) -> Json:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
