"""What requests, results and errors look like in the ``mcp`` package, versions 1 and 2, read without importing it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Any

#: How much of a name that a peer chose goes into a receipt.
MAX_CLAIMED_NAME = 200


def error_code(error: Exception) -> int | None:
    """Of a JSON-RPC error, as ``mcp`` 1 and 2 raise it."""
    code = getattr(getattr(error, "error", None), "code", None)
    return code if isinstance(code, int) else None


def reported_error(result: Any) -> str | None:
    """The error that a result reports, if any: models of ``mcp`` 1 and 2, and what goes over the wire."""
    if isinstance(result, Mapping):
        failed, kind = result.get("isError") is True, result.get("resultType")
    else:
        failed = getattr(result, "is_error", getattr(result, "isError", False)) is True
        kind = getattr(result, "result_type", None)
    if failed:
        return "isError"
    return "input required" if kind == "input_required" else None


def wire_form(result: Any) -> Any:
    """A result as its receiver reads it, without ``_meta``, which servers and gates on the way write to."""
    wire = as_json(result)
    if isinstance(wire, dict):
        wire.pop("_meta", None)
    return wire


def as_json(value: Any) -> Any:
    """A value as JSON. Raises ``TypeError`` or ``ValueError`` where there is none."""
    if hasattr(value, "model_dump"):
        return value.model_dump(by_alias=True, mode="json", exclude_none=True)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    try:
        from pydantic_core import to_jsonable_python
    except ImportError:
        return json.loads(json.dumps(value))
    return to_jsonable_python(value, by_alias=True)


def with_meta(result: Any, meta: Mapping[str, str]) -> Any:
    """The result with more in its ``_meta``; anything that is no result of a tool as it is."""
    if isinstance(result, dict):
        return {**result, "_meta": {**(result.get("_meta") or {}), **meta}}
    if hasattr(result, "model_copy") and hasattr(result, "content") and hasattr(result, "meta"):
        return result.model_copy(update={"meta": {**(result.meta or {}), **meta}})
    return result


def fresh_session() -> str:
    """A name for a connection that this side made."""
    return f"mcp-{secrets.token_hex(8)}"


def peer(context: Any) -> tuple[str | None, str | None]:
    """What the caller of a tool says it is, and a name for its session: of MCP over HTTP, where the protocol version has
    sessions. Their ids admit to them, so the name is a hash."""
    request = context if hasattr(context, "lifespan_context") else _quiet(context, "request_context")
    session = _quiet(request, "session")
    if session is None:
        return None, None
    parameters = _quiet(session, "client_params")
    info = _quiet(parameters, "client_info") or _quiet(parameters, "clientInfo")
    agent = str(info.name)[:MAX_CLAIMED_NAME] if info is not None else None
    headers = _quiet(_quiet(request, "request"), "headers") or {}
    if named := headers.get("mcp-session-id"):
        return agent, f"mcp-{hashlib.sha256(str(named).encode()).hexdigest()[:16]}"
    return agent, None


def _quiet(value: Any, name: str) -> Any:
    """An attribute, or ``None``: outside a request ``mcp`` raises for some."""
    with contextlib.suppress(AttributeError, ValueError, LookupError):
        return getattr(value, name, None)
    return None


def is_context(value: Any) -> bool:
    """Whether an argument is the framework's context, which no caller wrote."""
    return type(value).__name__ == "Context" and type(value).__module__.partition(".")[0] in ("mcp", "fastmcp")
