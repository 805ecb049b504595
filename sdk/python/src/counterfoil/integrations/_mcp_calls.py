"""One tool call through a gate: judged, decided, run, and its end written down. Wherever the call comes from."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from counterfoil.decision import check_names
from counterfoil.errors import CounterfoilError
from counterfoil.scope import OutcomeUnknown

from ._mcp_shapes import MAX_CLAIMED_NAME, error_code, reported_error, wire_form

if TYPE_CHECKING:
    from counterfoil.gate import Gate
    from counterfoil.receipts import Receipt
    from counterfoil.scope import Act

    _ToolError = Exception
else:
    try:  # mcp 2
        from mcp.server.mcpserver.exceptions import ToolError as _ToolError
    except ImportError:
        try:  # mcp 1
            from mcp.server.fastmcp.exceptions import ToolError as _ToolError
        except ImportError:
            _ToolError = Exception

#: JSON-RPC errors by which a server says that it did not do what was asked: no such method, wrong parameters, no
#: request.
_REFUSED = frozenset({-32700, -32600, -32601, -32602})

_log = logging.getLogger("counterfoil.mcp")


class ToolDenied(_ToolError):
    """The call was not let through; no tool ran. Its text is what the caller is told.

    ``receipt_id`` is the denial's (hex), or ``None`` where the call was refused because no receipt could be written;
    ``code`` then says why (``outbox-full``, ``credential-shaped`` and so on).
    """

    def __init__(self, message: str, *, receipt_id: str | None = None, code: str = "denied") -> None:
        super().__init__(message)
        self.receipt_id = receipt_id
        self.code = code


class ToolFailed(Exception):
    """Stands in an outcome for a tool that ran and reported an error."""


class ToolNotRun(Exception):
    """Stands in an outcome for a call that was let through and reached no tool."""


class ToolUnknown(OutcomeUnknown):
    """Stands in an outcome for a call that left and was not answered."""


@dataclass(frozen=True)
class ToolCall:
    """What a policy judges."""

    #: The tool's name, as the caller wrote it.
    tool: str
    #: Its arguments as JSON values, as the caller wrote them: not yet held against the tool's schema.
    arguments: Mapping[str, Any]
    #: What the caller says it is.
    claimed_agent: str | None = None
    #: A name for the session that is safe to publish, where there is one.
    session: str | None = None
    #: The framework's context of the request, where there is one (``mcp``: ``Context`` or ``ServerRequestContext``).
    context: Any = None


@dataclass(frozen=True)
class Verdict:
    """What a policy says: made by :func:`allow` or :func:`deny`."""

    allowed: bool
    #: Members of the decision, as :meth:`counterfoil.Gate.decision` takes them.
    members: Mapping[str, Any] = field(default_factory=dict)


def allow(**members: Any) -> Verdict:
    """Lets a call through. ``members`` go into the decision: ``rule``, ``action_class``, ``subjects``, ``history``."""
    return Verdict(True, members)


def deny(caller_reason: str = "not allowed", **members: Any) -> Verdict:
    """Does not. The caller is told ``caller_reason`` and nothing else; ``rule`` and ``why`` are for the auditor."""
    return Verdict(False, {"caller_reason": caller_reason, **members})


#: Judges a call before it is let through. One that raises is a denial (rule ``policy-error``).
Policy = Callable[[ToolCall], "Verdict | bool | Awaitable[Verdict | bool]"]


@dataclass(frozen=True)
class Front:
    """A gate with what it is asked to write about every call."""

    gate: Gate
    policy: Policy | None
    authenticated: bool | Callable[[ToolCall], bool]
    members: Mapping[str, Any]

    def judge(self, call: ToolCall) -> Verdict | bool | Awaitable[Verdict | bool]:
        """What the policy answers, awaited or not."""
        return True if self.policy is None else self.policy(call)

    def decided(self, call: ToolCall, judged: Verdict | bool) -> tuple[bool, dict[str, Any]]:
        """Whether the call is allowed, and the members of the decision. Raises what the author's functions raise."""
        if isinstance(judged, bool):
            judged = allow() if judged else deny()
        authenticated = self.authenticated(call) if callable(self.authenticated) else self.authenticated
        members = {**_said(call, authenticated), **self.members, **judged.members}
        if callable(members.get("subjects")):
            members["subjects"] = members["subjects"](call.arguments)
        check_members(members)
        return judged.allowed, members


def check_members(names: Collection[str]) -> None:
    """Raises ``TypeError`` for what is no member of a decision that a gate executes itself."""
    check_names(names, ("authenticated",))


def _said(call: ToolCall, authenticated: bool) -> dict[str, Any]:
    return {
        "operation": call.tool,
        "args": dict(call.arguments),
        "claimed_agent": call.claimed_agent,
        "session": call.session,
        "authenticated": authenticated,
    }


Ending = ToolFailed | ToolNotRun | ToolUnknown


@dataclass
class Run:
    """How a call ended, which the scope writes down and the caller is told afterwards."""

    result: Any = None
    #: What was raised instead, and is raised again once the outcome is written.
    error: Exception | None = None
    #: What the outcome says about it.
    ending: Ending | None = None
    #: Whether the decision was written: what the gate raises before is its refusal, and after it a broken outcome.
    decided: bool = False
    receipt_id: str | None = None
    request_id: str = ""


#: Sorts what a call raised: it ran and failed, it did not run, or nobody knows.
Sort = Callable[[Exception], "Ending"]


async def through(front: Front, call: ToolCall, run: Callable[[], Awaitable[Any]], sort: Sort) -> Run:
    """One call through the gate. Returns how it ended; raises :class:`ToolDenied`, and what no ``Exception`` is."""
    try:
        judged = front.judge(call)
        allowed, members = front.decided(call, await judged if inspect.isawaitable(judged) else judged)
    except Exception as error:
        allowed, members = False, _policy_failed(call, error)
    ended = Run()

    async def attempt() -> None:
        try:
            ended.result = await run()
        except Exception as error:
            _sorted(ended, error, sort)

    with _written_down(ended):
        if not allowed:
            raise _denied(await asyncio.to_thread(front.gate.deny, **members), members)
        async with front.gate.decision(**members) as act:
            _decided(ended, act)
            await act.acall(attempt)
            _settle(ended, act)
    return ended


def through_plain(front: Front, call: ToolCall, run: Callable[[], Any], sort: Sort) -> Run:
    """The same for a plain function, in the thread that calls it."""
    try:
        judged = front.judge(call)
        if inspect.isawaitable(judged):
            raise TypeError("the policy of a plain function must be plain; take a function that is not `async`")
        allowed, members = front.decided(call, judged)
    except Exception as error:
        allowed, members = False, _policy_failed(call, error)
    ended = Run()

    def attempt() -> None:
        try:
            ended.result = run()
        except Exception as error:
            _sorted(ended, error, sort)

    with _written_down(ended):
        if not allowed:
            raise _denied(front.gate.deny(**members), members)
        with front.gate.decision(**members) as act:
            _decided(ended, act)
            act.call(attempt)
            _settle(ended, act)
    return ended


def _denied(receipt: Receipt | None, members: Mapping[str, Any]) -> ToolDenied:
    return ToolDenied(str(members["caller_reason"]), receipt_id=None if receipt is None else receipt.id.hex())


def _policy_failed(call: ToolCall, error: Exception) -> dict[str, Any]:
    """The members of the denial that comes of a policy, or another of the author's functions, that raised."""
    _log.error("the policy failed, so the call is denied", exc_info=error)
    why = f"the policy raised {type(error).__name__}"
    return {**_said(call, False), **deny(rule="policy-error", why=why).members}


def _decided(ended: Run, act: Act) -> None:
    ended.decided, ended.receipt_id, ended.request_id = True, act.receipt_id, act.request_id


def _sorted(ended: Run, error: Exception, sort: Sort) -> None:
    """Notes what a call raised. Raises what makes the outcome say that it did not run, or that nobody knows."""
    ended.error, ending = error, sort(error)
    ended.ending = ending
    if not isinstance(ending, ToolFailed):
        raise ending from error


def _settle(ended: Run, act: Act) -> None:
    """Before the scope of a call that ran is left: its result's digest, or the error that it reported."""
    if ended.ending is None and (reported := reported_error(ended.result)) is not None:
        ended.ending = ToolFailed(reported)
    if ended.error is None:
        # A result that is no JSON has no digest; the outcome is written all the same.
        with contextlib.suppress(CounterfoilError, TypeError, ValueError):
            act.result(wire_form(ended.result))
    if ended.ending is not None:
        raise ended.ending


@contextlib.contextmanager
def _written_down(ended: Run) -> Iterator[None]:
    """Around a scope: its markers end here, and the gate's own errors are told apart by when they come."""
    try:
        yield
    except (ToolFailed, ToolNotRun, ToolUnknown) as marker:
        if marker is not ended.ending:
            raise
    except CounterfoilError as error:
        if not ended.decided:
            # The caller is told which member looks like a secret, and of everything else the code.
            hint = f": {error}" if error.code == "credential-shaped" else ""
            _log.warning("a tool call was refused, since its receipt could not be written: %s", error)
            raise ToolDenied(f"not run, no receipt could be written ({error.code}){hint}", code=error.code) from error
        # The tool has run. Telling its caller otherwise would make it run again; the next start writes `unknown`.
        _log.error("the outcome of request %s could not be written: %s", ended.request_id, error)


def function_exception(error: Exception) -> Ending:
    """A function that raised has run."""
    return ToolFailed(type(error).__name__)


def server_exception(error: Exception) -> Ending:
    """What ``MCPServer.call_tool`` raised: it wraps everything but ``MCPError`` in a ``ToolError`` with a cause."""
    cause = error.__cause__
    if isinstance(error, _ToolError) and cause is None:
        return ToolNotRun("no such tool")
    # A `ValidationError` within the tool itself comes wrapped in a subclass of `ToolError`.
    if type(error) is _ToolError and hasattr(cause, "errors") and type(cause).__name__ == "ValidationError":
        fields = sorted({".".join(str(part) for part in each["loc"]) for each in cast("Any", cause).errors()})
        return ToolNotRun(f"arguments do not fit the tool's schema: {', '.join(fields)[:MAX_CLAIMED_NAME]}")
    return ToolFailed(type(cause or error).__name__)


def handler_exception(error: Exception) -> Ending:
    """What came through a low-level server's handler, or from the server's checks before it."""
    code = error_code(error)
    if code in _REFUSED or type(error).__name__ == "ValidationError":
        return ToolNotRun(f"refused by the server ({code if code is not None else 'parameters'})")
    return ToolFailed(type(error).__name__ if code is None else f"{type(error).__name__} {code}")


def client_exception(error: Exception) -> Ending:
    """What a request to another's server raised. Only the server's own refusal says that nothing ran."""
    code = error_code(error)
    if code in _REFUSED:
        return ToolNotRun(f"refused by the server ({code})")
    return ToolUnknown(type(error).__name__ if code is None else f"{type(error).__name__} {code}")
