"""A receipt for every tool call of an MCP server or client (the official ``mcp`` package).

Three places, one behaviour:

* :func:`instrument`: a server's own gate, one line for all its tools, also those added later;
* :func:`instrument_client`: a gate in front of a server that somebody else runs;
* :func:`receipted`: one tool, or any function, of whatever framework.

The decision is durable before the tool is entered, or before the request leaves. What the caller gets carries the
decision's receipt id in its ``_meta`` (:data:`RECEIPT_ID`). How it ended becomes the outcome:

================================================  ========  =======  ===============================
how the call ended                                executed  unknown  error
================================================  ========  =======  ===============================
a result                                          true
a result with ``isError``                         true               ``ToolFailed: isError``
a result that asks for more input                 true               ``ToolFailed: input required``
the tool raised                                   true               ``ToolFailed:`` and the type
no such tool; arguments outside its schema        false              ``ToolNotRun:`` and why
cancelled                                         false     true     ``cancelled``
client: no answer in time, connection lost        false     true     ``ToolUnknown:`` and why
================================================  ========  =======  ===============================

A tool that raises has run: what it did before that is done, so ``executed`` is true and ``error`` says that it
failed. What a tool says, in results or exceptions, is not in the log: results by their digest (``result_digest``),
exceptions by their type. ``executed`` is about the tool's function here and about the server's answer there; it is no
word on what either did.

A server wants one of them, not two: each writes its own receipts. Event loops are asyncio's.

A client's name is what it says of itself: ``claimed_agent``, never ``bound_agent``. MCP's session ids admit to
sessions, so the log gets a hash of them.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from ._mcp_calls import (
    Front,
    Policy,
    Run,
    Sort,
    ToolCall,
    ToolDenied,
    ToolFailed,
    ToolNotRun,
    ToolUnknown,
    Verdict,
    allow,
    check_members,
    client_exception,
    deny,
    function_exception,
    handler_exception,
    server_exception,
    through,
    through_plain,
)
from ._mcp_shapes import as_json, fresh_session, is_context, peer, with_meta

if TYPE_CHECKING:
    from counterfoil.gate import Gate

__all__ = [
    "RECEIPT_ID",
    "REQUEST_ID",
    "Policy",
    "Subjects",
    "ToolCall",
    "ToolDenied",
    "ToolFailed",
    "ToolNotRun",
    "ToolUnknown",
    "Verdict",
    "allow",
    "deny",
    "instrument",
    "instrument_client",
    "receipted",
]

#: The member of a result's ``_meta`` with the decision's receipt id (hex). Absent where a ``fail_open`` gate had no
#: room.
RECEIPT_ID = "counterfoil.dev/receipt_id"
#: The member of a result's ``_meta`` with the id that ties decision and outcome together.
REQUEST_ID = "counterfoil.dev/request_id"

#: Strings, or what makes them of the arguments.
Subjects = Sequence[str] | Callable[[Mapping[str, Any]], Sequence[str]]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def instrument(
    server: Any,
    gate: Gate,
    *,
    policy: Policy | None = None,
    authenticated: bool | Callable[[ToolCall], bool] = False,
    args_mode: str = "digest",
    **members: Any,
) -> None:
    """Puts ``gate`` before every tool of ``server``: ``MCPServer`` or the low-level ``Server`` of ``mcp`` 2.

    ``policy`` judges each call; without one all are allowed. ``authenticated`` is about the request's own signature,
    so it is false unless you check one. ``members`` go into every decision; the policy's own come before them.

    Raises:
        TypeError: a member that no decision has; or ``server`` is neither. For ``mcp`` 1 and other frameworks use :func:`receipted`.
    """
    check_members(members)
    front = Front(gate, policy, authenticated, {"args_mode": args_mode, **members})
    if hasattr(server, "call_tool") and hasattr(server, "add_tool") and hasattr(server, "middleware"):
        _instrument_mcp_server(server, front)
    elif isinstance(getattr(server, "middleware", None), list):
        server.middleware.append(functools.partial(_lowlevel_middleware, front))
    else:
        name = type(server).__name__
        raise TypeError(f"{name} is no server of mcp 2; decorate its tools with counterfoil.integrations.mcp.receipted")


def instrument_client(
    session: Any,
    gate: Gate,
    *,
    policy: Policy | None = None,
    claimed_agent: str | None = None,
    authenticated: bool | Callable[[ToolCall], bool] = False,
    args_mode: str = "digest",
    **members: Any,
) -> None:
    """Puts ``gate`` before every ``call_tool`` of a ``ClientSession`` or ``Client`` (``mcp`` 1 or 2).

    The decision is durable before the request leaves. A denial comes back as a result with ``isError``, like any
    other that a tool gives; the server never sees the call. ``claimed_agent`` is for whom this client calls.
    """
    check_members(members)
    front = Front(gate, policy, authenticated, {"args_mode": args_mode, **members})
    name, send = fresh_session(), session.call_tool

    @functools.wraps(send)
    async def call_tool(tool: str, arguments: dict[str, Any] | None = None, *args: Any, **kwargs: Any) -> Any:
        call = ToolCall(tool, arguments or {}, claimed_agent, name)
        return await _answered(front, call, lambda: send(tool, arguments, *args, **kwargs), client_exception)

    session.call_tool = call_tool


def receipted(
    gate: Gate,
    *,
    policy: Policy | None = None,
    operation: str | None = None,
    subjects: Subjects | None = None,
    authenticated: bool | Callable[[ToolCall], bool] = False,
    args: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
    args_mode: str = "digest",
    **members: Any,
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Puts ``gate`` before one function, plain or ``async``: under ``@server.tool()``, or in any other framework.

    ``operation`` is the function's name unless given. Its arguments must be JSON (or what pydantic makes JSON of); a
    ``Context`` among them is left out, and ``args`` may leave out more. Not allowed: raises :class:`ToolDenied`,
    which an MCP server tells its caller. A policy for a plain function must be plain.
    """

    check_members(members)

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        signature, tool = inspect.signature(function), operation or function.__name__
        front = Front(gate, policy, authenticated, {"args_mode": args_mode, "subjects": subjects, **members})

        def called(*values: _P.args, **named: _P.kwargs) -> ToolCall:
            bound = signature.bind(*values, **named)
            bound.apply_defaults()
            context = next((value for value in bound.arguments.values() if is_context(value)), None)
            shown = {name: as_json(value) for name, value in bound.arguments.items() if value is not context}
            arguments = shown if args is None else args(shown)
            return ToolCall(tool, arguments, *peer(context), context)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def guarded(*values: _P.args, **named: _P.kwargs) -> Any:
                run = functools.partial(function, *values, **named)
                ended = await through(front, called(*values, **named), run, function_exception)
                return _returned(ended)

            return cast("Callable[_P, _R]", guarded)

        @functools.wraps(function)
        def guarded_plain(*values: _P.args, **named: _P.kwargs) -> _R:
            run = functools.partial(function, *values, **named)
            return cast("_R", _returned(through_plain(front, called(*values, **named), run, function_exception)))

        return guarded_plain

    return decorate


async def _answered(front: Front, call: ToolCall, run: Callable[[], Awaitable[Any]], sort: Sort) -> Any:
    """The same where the caller gets MCP's results: a denial is one, and each carries its receipt's id."""
    try:
        ended = await through(front, call, run, sort)
    except ToolDenied as denied:
        return _denial(denied)
    return _stamped(ended)


def _instrument_mcp_server(server: Any, front: Front) -> None:
    inner = server.call_tool

    @functools.wraps(inner)
    async def call_tool(name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        call = ToolCall(name, arguments, *peer(context), context)
        return await _answered(front, call, lambda: inner(name, arguments, context), server_exception)

    # The server looks its method up anew for each request, so that this one is found from now on.
    server.call_tool = call_tool
    server.middleware.append(_stamp_errors)


#: Where a call that raises leaves what its result's `_meta` is to hold: the server makes the result of it later.
_error_meta: contextvars.ContextVar[dict[str, str] | None] = contextvars.ContextVar("error_meta", default=None)


async def _stamp_errors(context: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
    """Around every message: puts the ids into a result that an exception became."""
    if context.method != "tools/call":
        return await call_next(context)
    meta: dict[str, str] = {}
    before = _error_meta.set(meta)
    try:
        result = await call_next(context)
    finally:
        _error_meta.reset(before)
    if not isinstance(result, dict) or RECEIPT_ID in (result.get("_meta") or {}):
        return result
    return with_meta(result, meta) if meta else result


async def _lowlevel_middleware(front: Front, context: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
    """Around every message that a low-level server receives; calls of tools only are the gate's."""
    params = context.params or {}
    name, arguments = params.get("name"), params.get("arguments") or {}
    if context.method != "tools/call" or not isinstance(name, str) or not isinstance(arguments, Mapping):
        # Anything malformed is refused by the server itself, before its handler.
        return await call_next(context)
    call = ToolCall(name, arguments, *peer(context), context)
    answer = await _answered(front, call, lambda: call_next(context), handler_exception)
    return answer if isinstance(answer, dict) else answer.model_dump(by_alias=True, mode="json", exclude_none=True)


def _stamped(ended: Run) -> Any:
    """What the caller gets: a result of MCP carries the receipt's id."""
    meta = {REQUEST_ID: ended.request_id}
    if ended.receipt_id is not None:
        meta[RECEIPT_ID] = ended.receipt_id
    if ended.error is None:
        return with_meta(ended.result, meta)
    if (of_error := _error_meta.get()) is not None:
        of_error.update(meta)
    raise ended.error


def _returned(ended: Run) -> Any:
    """The same of any function: a dictionary of its own is left as it is."""
    return ended.result if ended.error is None and isinstance(ended.result, dict) else _stamped(ended)


def _denial(denied: ToolDenied) -> Any:
    from mcp.types import CallToolResult

    meta = {} if denied.receipt_id is None else {"_meta": {RECEIPT_ID: denied.receipt_id}}
    content = [{"type": "text", "text": str(denied)}]
    return CallToolResult.model_validate({"content": content, "isError": True, **meta})
