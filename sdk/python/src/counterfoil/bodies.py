"""The exact text of what a gate signs: members in, one line of JSON out.

Pure. Every SDK writes the same bytes for the same members: compact JSON, characters as they are, members in one order,
numbers as ECMAScript writes them.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import ijson, jcs
from .commitments import Disclosure, commit
from .credentials import find_credential, is_credential_shaped
from .errors import DecisionClaims, JsonError
from .receipts import action_digest
from .shapes import committed_digest

#: Longest ``error`` of an outcome, in characters.
MAX_ERROR = 300
#: Longest name of a request, agent or session, in bytes of UTF-8: an outcome repeats the first two, and must have room for them.
MAX_NAME = 1024
_NAMES = ("claimed_agent", "bound_agent", "session")
#: Longest text of an outcome: header and signature of a receipt take less than the rest of an entry.
_MAX_OUTCOME = 64_000
#: What an outcome does without, in this order, where it could not be signed with it: a decision's own id tells it from all
#: others. An outcome that cannot be signed would be owed for ever, and hold up everything behind it.
_DISPENSABLE = (("error",), ("agent", "authenticated"), ("request_id",))
#: Why the outcome of a call is unknown that a stopped gate left.
STOPPED = "outcome-unknown: the gate stopped before it could tell"

#: What stands behind ``type``, ``request_id`` and ``decision``, in this order; extra members come last.
DECISION_ORDER = (
    "rule", "why", "caller_reason", "operation", "resource", "action_class", "subjects", "session", "args",
    "args_digest", "authenticated", "proven", "claimed_agent", "bound_agent", "capability", "grant", "facts",
    "prior_action_classes", "prior_heads", "history", "executes", "approval",
)  # fmt: skip
#: What the gate must find again in its receipts after a crash, and so never commits to.
_NEVER_COMMITTED = ("type", "request_id", "decision", "executes")

#: Makes the salt of one committed member, by its name: 16 bytes.
Salt = Callable[[str], bytes]


@dataclass(frozen=True)
class DecisionText:
    """A decision, written."""

    text: str
    #: What opens its committed members, in the order in which they were named.
    disclosures: tuple[Disclosure, ...]
    #: The action digest with the request id as nonce; what is absent stands as null.
    action_digest: str
    #: The same, where an auditor can hold it against the decision; else the outcome does not state it.
    executed_digest: str | None


def decision(
    ruling: str,
    request_id: str,
    members: Mapping[str, Any],
    *,
    args_mode: str = "digest",
    commit_to: Collection[str] = (),
    extra: Mapping[str, Any] | None = None,
    salt: Salt | None = None,
) -> DecisionText:
    """Writes a decision.

    ``members`` by their wire names, ``args`` as given; those that are ``None`` are left out. Raises
    :class:`DecisionClaims`, and :class:`JsonError` for a value that no JSON reader reads alike.
    """
    given = {name: value for name, value in members.items() if value is not None}
    given.setdefault("executes", "gate" if ruling == "allow" else "none")
    extra = extra or {}
    _check_claims(ruling, given, extra, commit_to, args_mode)
    for name, value in (("request_id", request_id), *((name, given.get(name)) for name in _NAMES)):
        if isinstance(value, str) and len(value.encode("utf-8", "surrogatepass")) > MAX_NAME:
            raise DecisionClaims(
                f"`{name}` has more than {MAX_NAME} bytes: name it by something shorter, such as a digest"
            )
    digest = _action_digest(given, request_id)
    if "args" in given and args_mode == "digest" and "args" not in commit_to:
        given["args_digest"] = jcs.digest(given.pop("args"))
    body: dict[str, Any] = {"type": "decision", "request_id": request_id, "decision": ruling}
    body.update((name, given[name]) for name in DECISION_ORDER if name in given)
    body.update(extra)
    disclosures: list[Disclosure] = []
    for name in commit_to:
        if name not in body:
            raise DecisionClaims(f"`{name}` is to be committed and is not given: give it, or leave it out of `commit`")
        ijson.check_value(body[name])
        body[name], disclosure = commit(name, body[name], secrets.token_bytes(16) if salt is None else salt(name))
        disclosures.append(disclosure)
    return DecisionText(jcs.compact(body), tuple(disclosures), digest, digest if _is_comparable(body) else None)


def outcome(
    *,
    request_id: str | None,
    decision: str,
    executed: bool,
    unknown: bool = False,
    executed_by: str = "gate",
    executed_digest: str | None = None,
    agent: tuple[str, bool] | None = None,
    error: str | None = None,
    result_digest: str | None = None,
    started_at: int | None = None,
    ended_at: int | None = None,
) -> str:
    """Writes an outcome. The text alone is no receipt: a gate signs only what its own scopes ended in.

    ``decision`` is the decision's id in hex; ``agent`` its name and whether a verified capability binds it; times in milliseconds.
    """
    body: dict[str, Any] = {
        "type": "outcome",
        "request_id": request_id,
        "decision": decision,
        "executed": executed,
        "unknown": True if unknown else None,
        "executed_by": executed_by,
        "executed_digest": executed_digest,
        "agent": agent[0] if agent else None,
        "authenticated": False if agent and not agent[1] else None,
        "error": error,
        "result_digest": result_digest,
        "started_at": started_at,
        "ended_at": ended_at,
    }
    told = {name: value for name, value in body.items() if value is not None}
    for names in _DISPENSABLE:
        if _may_be_signed(told):
            break
        told = {name: value for name, value in told.items() if name not in names}
    return jcs.compact(told)


def _may_be_signed(body: Mapping[str, Any]) -> bool:
    try:
        ijson.check_value(body)
    except JsonError:
        return False
    return find_credential(body) is None and len(jcs.compact(body).encode("utf-8")) <= _MAX_OUTCOME


def approval(*, request_id: str, decision: str, by: str, digest: str, verdict: str = "approved") -> str:
    """Writes what a person said of the action with this digest."""
    return jcs.compact(
        {
            "type": "approval",
            "request_id": request_id,
            "decision": decision,
            "verdict": verdict,
            "by": by,
            "digest": digest,
        }
    )


def opened(vkey: str, *, gate: Any = None, heartbeat_ms: int | None = None, policy_digest: str | None = None) -> str:
    """Writes the first receipt of a stream."""
    body = {"type": "open", "vkey": vkey, "gate": gate, "heartbeat_ms": heartbeat_ms, "policy_digest": policy_digest}
    return jcs.compact({name: value for name, value in body.items() if value is not None})


def dropped(*, count: int, since: int, until: int, why: str) -> str:
    """Writes that so many actions ran without a receipt, the first and the last at these times in milliseconds."""
    return jcs.compact({"type": "dropped", "count": count, "since": since, "until": until, "why": why})


def agent_of(members: Mapping[str, Any]) -> tuple[str, bool] | None:
    """Who acts, by a decision's members, and whether a verified capability binds it. A committed name is not repeated."""
    bound, claimed = members.get("bound_agent"), members.get("claimed_agent")
    if bound is not None:
        return (bound, True) if isinstance(bound, str) else None
    return (claimed, False) if isinstance(claimed, str) else None


def error_text(type_name: str, message: str) -> str:
    """What an outcome says of an error: its type, a colon, its message; the type alone where the message holds what looks
    like a credential, or what no receipt may hold; ``Error`` where the type does."""
    whole = f"{type_name}: {message}"
    if _may_be_told(message) and _may_be_told(whole):
        return whole[:MAX_ERROR]
    return type_name[:MAX_ERROR] if _may_be_told(type_name) else "Error"


def reason_text(reason: str) -> str:
    """What an outcome says where the author gave the reason."""
    return reason[:MAX_ERROR] if _may_be_told(reason) else "the reason given cannot stand in a receipt"


def result_digest(value: Any) -> str:
    """The digest of what an action answered: over the bytes of bytes, else over JCS. Raises :class:`JsonError`."""
    if isinstance(value, bytes | bytearray | memoryview):
        return jcs.digest_of_bytes(bytes(value))
    return jcs.digest(value)


def salts_of(salts: Mapping[str, str]) -> Salt:
    """Salts that are given, in base64url by member: for tests and vectors."""
    return lambda name: base64.urlsafe_b64decode(salts[name] + "==")


def _may_be_told(text: str) -> bool:
    try:
        ijson.check_value(text)
    except JsonError:
        return False
    # Whole, so that no part of a secret is told; and cut, since a cut can make a token out of a longer word.
    return not (is_credential_shaped(text) or is_credential_shaped(text[:MAX_ERROR]))


def _check_claims(
    ruling: str, given: Mapping[str, Any], extra: Mapping[str, Any], commit_to: Iterable[str], args_mode: str
) -> None:
    proven = given.get("proven")
    if "bound_agent" in given and not (isinstance(proven, list | tuple) and "capability_signature" in proven):
        raise DecisionClaims(
            "`bound_agent` stands only where the capability's signature was verified: put `capability_signature` into "
            "`proven` once it was, or name the agent as `claimed_agent`"
        )
    for name in given:
        if name not in DECISION_ORDER or name == "args_digest":
            raise DecisionClaims(f"a decision has no member `{name}`: put it into `extra` if it is one of your own")
    for name in extra:
        if name in DECISION_ORDER or name in _NEVER_COMMITTED:
            raise DecisionClaims(f"`extra` holds `{name}`, which the protocol defines: give it by its own name")
    for name in commit_to:
        if name in _NEVER_COMMITTED:
            raise DecisionClaims(
                f"`{name}` cannot be committed: the gate finds its own receipts by it; leave it out of `commit`"
            )
    if ruling == "deny" and given["executes"] != "none":
        raise DecisionClaims('a denied action is executed by nobody: leave `executes` out, or say "none"')
    if args_mode not in ("digest", "clear"):
        raise DecisionClaims('`args_mode` must be "digest" or "clear"')
    if not isinstance(given.get("authenticated"), bool):
        raise DecisionClaims(
            "`authenticated` must be given, true or false: whether the request's own signature verified"
        )


def _action_digest(given: Mapping[str, Any], request_id: str) -> str:
    capability = given.get("capability")
    return action_digest(
        operation=given.get("operation"),
        resource=given.get("resource"),
        args=given.get("args"),
        capability_id=capability.get("id") if isinstance(capability, Mapping) else None,
        nonce=request_id,
    )


def _is_comparable(body: Mapping[str, Any]) -> bool:
    """Whether an auditor can tell the action digest from the decision: it states one, or shows all that goes in."""
    approved = body.get("approval")
    if isinstance(approved, Mapping) and isinstance(approved.get("digest"), str):
        return True
    capability = body.get("capability")
    named = capability is None or (isinstance(capability, Mapping) and isinstance(capability.get("id"), str))
    shown = "args" in body and not _holds_commitment(body["args"])
    # A nonce of its own stands in the request id's place, for an auditor.
    texts = isinstance(body.get("operation"), str) and isinstance(body.get("resource"), str)
    return texts and shown and named and "nonce" not in body


def _holds_commitment(value: Any) -> bool:
    if isinstance(value, Mapping):
        return committed_digest(value) is not None or any(map(_holds_commitment, value.values()))
    return isinstance(value, list | tuple) and any(map(_holds_commitment, value))
