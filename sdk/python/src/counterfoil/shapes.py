"""Which members a body's type defines, and of which JSON type each must be (protocol, section 3).

Required is what the protocol calls required, and no more. Whether members agree with each other is for an auditor to say.
In place of a member's value may stand a commitment, ``{"#": "sha256:…"}``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .encoding import decode_base64, is_lower_hex
from .errors import MalformedReceipt
from .ijson import MAX_INTEGER
from .jcs import is_digest

#: Answers the step to the part at fault and what was expected there, or ``None``.
_Fault = tuple[str, str]
_Shape = Callable[[Any], "_Fault | None"]


def check_shape(members: Mapping[str, Any]) -> str:
    """Checks a body's members and answers its type.

    Raises :class:`MalformedReceipt` (``member-missing`` or ``member-type``), which names the member and never its value.
    """
    if "type" not in members:
        raise _missing("/type", "a string that names the type of the body")
    name = members["type"]
    if not isinstance(name, str):
        raise _wrong("/type", "a string that names the type of the body")
    for member, (required, shape) in _BODIES.get(name, {}).items():
        if member not in members:
            if required:
                raise _missing(f"/{member}", _EXPECTED[shape])
            continue
        fault = _of_member(members[member], shape)
        if fault is not None:
            raise _wrong(f"/{member}{fault[0]}", fault[1])
    return name


def defined_members(body_type: str) -> frozenset[str]:
    """The members that a type defines, ``type`` included."""
    return frozenset(_BODIES.get(body_type, {})) | {"type"}


def committed_digest(value: Any) -> str | None:
    """The digest in ``value``, if that is a commitment."""
    if isinstance(value, dict) and len(value) == 1 and is_digest(value.get("#")):
        return str(value["#"])
    return None


def _missing(path: str, expected: str) -> MalformedReceipt:
    return MalformedReceipt(f"the body: {path} is missing; give it as {expected}", code="member-missing")


def _wrong(path: str, expected: str) -> MalformedReceipt:
    return MalformedReceipt(f"the body: {path} is of the wrong type; give {expected}", code="member-type")


def _of_member(value: Any, shape: _Shape) -> _Fault | None:
    return None if committed_digest(value) is not None else shape(value)


def _any(value: Any) -> _Fault | None:
    return None


def _string(value: Any) -> _Fault | None:
    return None if isinstance(value, str) else ("", "a string")


def _bool(value: Any) -> _Fault | None:
    return None if isinstance(value, bool) else ("", "true or false")


def _whole(value: Any) -> _Fault | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return (
        None
        if is_number and 0 <= value <= MAX_INTEGER and value == int(value)
        else ("", "a whole number from 0 to 2^53−1")
    )


def _moment(value: Any) -> _Fault | None:
    if isinstance(value, str) or _whole(value) is None:
        return None
    return "", "a time: whole milliseconds since the Unix epoch, or text"


def _digest(value: Any) -> _Fault | None:
    return None if is_digest(value) else ("", 'a digest: "sha256:" and 64 lowercase hex digits')


def _receipt_id(value: Any) -> _Fault | None:
    is_id = isinstance(value, str) and len(value) == 64 and is_lower_hex(value)
    return None if is_id else ("", "a receipt id: 64 lowercase hex digits")


def _base64(value: Any) -> _Fault | None:
    is_bytes = isinstance(value, str) and decode_base64(value) is not None
    return None if is_bytes else ("", "bytes in standard, padded, canonical base64")


def _word(*words: str) -> _Shape:
    expected = " or ".join([", ".join(f'"{word}"' for word in words[:-1]), f'"{words[-1]}"'])

    def shape(value: Any) -> _Fault | None:
        return None if isinstance(value, str) and value in words else ("", expected)

    _EXPECTED[shape] = expected
    return shape


def _array(element: _Shape) -> _Shape:
    def shape(value: Any) -> _Fault | None:
        if not isinstance(value, list):
            return "", "an array"
        for place, inner in enumerate(value):
            fault = element(inner)
            if fault is not None:
                return f"/{place}{fault[0]}", fault[1]
        return None

    return shape


def _object(members: Mapping[str, _Shape]) -> _Shape:
    def shape(value: Any) -> _Fault | None:
        if not isinstance(value, dict):
            return "", "an object"
        for name, inner in members.items():
            fault = _of_member(value[name], inner) if name in value else None
            if fault is not None:
                return f"/{name}{fault[0]}", fault[1]
        return None

    return shape


def _named(element: _Shape) -> _Shape:
    def shape(value: Any) -> _Fault | None:
        if not isinstance(value, dict):
            return "", "an object"
        for name, inner in value.items():
            fault = _of_member(inner, element)
            if fault is not None:
                return f"/{name}{fault[0]}", fault[1]
        return None

    return shape


#: What a required member is said to be where it is missing.
_EXPECTED: dict[_Shape, str] = {
    _string: "a string",
    _bool: "true or false",
    _whole: "a whole number from 0 to 2^53−1",
}

_STRINGS = _array(_string)
_TRUST = _word("trusted", "untrusted")

_CAPABILITY = _object(
    {
        "id": _string,
        "max_calls": _whole,
        "calls_used": _whole,
        "counts": _word("dispatched", "executed"),
        "expires_at": _moment,
    }
)
_GRANT = _object({"principal": _string, "purpose": _string, "verified_via": _string, "task": _string})
_HISTORY = _object({"size": _whole, "root": _string, "witnessed": _bool, "why": _string})
_FACT = _object({"source": _string, "trust": _TRUST, "summary": _string, "digest": _digest})
_APPROVED = _object({"digest": _digest, "by": _string, "at": _moment})

#: For each type its members, whether each is required, and its shape.
_BODIES: dict[str, dict[str, tuple[bool, _Shape]]] = {
    "decision": {
        "request_id": (True, _string),
        "decision": (True, _word("allow", "deny")),
        "rule": (False, _string),
        "why": (False, _string),
        "caller_reason": (False, _string),
        "operation": (False, _string),
        "resource": (False, _string),
        "action_class": (False, _string),
        "subjects": (False, _STRINGS),
        "session": (False, _string),
        "args_digest": (False, _digest),
        "args": (False, _any),
        "authenticated": (True, _bool),
        "proven": (False, _STRINGS),
        "claimed_agent": (False, _string),
        "bound_agent": (False, _string),
        "capability": (False, _CAPABILITY),
        "grant": (False, _GRANT),
        "facts": (False, _array(_FACT)),
        "prior_action_classes": (False, _STRINGS),
        "prior_heads": (False, _named(_receipt_id)),
        "history": (False, _HISTORY),
        "executes": (True, _word("gate", "caller", "none")),
        "approval": (False, _APPROVED),
    },
    "outcome": {
        "request_id": (False, _string),
        "decision": (False, _receipt_id),
        "executed": (True, _bool),
        "unknown": (False, _bool),
        "executed_by": (False, _word("gate", "caller")),
        "executed_digest": (False, _digest),
        "agent": (False, _string),
        "authenticated": (False, _bool),
        "error": (False, _string),
        "result_digest": (False, _digest),
        "started_at": (False, _moment),
        "ended_at": (False, _moment),
    },
    "approval": {
        "request_id": (False, _string),
        "decision": (False, _receipt_id),
        "verdict": (False, _word("approved", "declined")),
        "by": (False, _string),
        "digest": (False, _digest),
    },
    "open": {
        "vkey": (False, _string),
        "gate": (False, _any),
        "heartbeat_ms": (False, _whole),
        "policy_digest": (False, _digest),
    },
    "rotate": {"vkey": (False, _string)},
    "memory": {
        "note_digest": (False, _digest),
        "source": (False, _string),
        "trust": (False, _TRUST),
        "form": (False, _word("quoted", "asserted")),
        "about": (False, _STRINGS),
    },
    "dropped": {
        "count": (True, _whole),
        "since": (False, _moment),
        "until": (False, _moment),
        "why": (False, _word("full", "disk")),
    },
    "foreign": {"format": (False, _string), "receipt": (False, _any), "receipt_b64": (False, _base64)},
}
