"""What an allowed action runs in: whatever way it ends, its outcome is written.

===============================================  ========  =======  =================
how it ends                                      executed  unknown  error
===============================================  ========  =======  =================
the body returned                                true
the same, but ``act.call(f, …)`` had failed      false              type and message
the same, but a call goes on                     false     true     ``cancelled``
``act.not_executed(reason)``, then returned      false              reason
an exception                                     false              type and message
an exception after ``act.call(f, …)`` returned   true               type and message
:class:`OutcomeUnknown`, a timeout                false     true     type and message
an exception after ``act.call(f, …)`` timed out  false     true     type and message
cancelled, interrupted, exiting                  false     true     ``cancelled``
the process ended                                false     true     at the next start
===============================================  ========  =======  =================

No parameter and no method says that an action was executed: only its having returned does.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from . import bodies
from .decision import Call
from .errors import CallerError, OutboxError, SendError
from .receipts import Receipt

if TYPE_CHECKING:
    from .gate import Gate

_LOG = logging.getLogger("counterfoil")
_P = ParamSpec("_P")
_T = TypeVar("_T")


_current: contextvars.ContextVar[Act | None] = contextvars.ContextVar("counterfoil_act", default=None)


def current_act() -> Act | None:
    """The innermost scope that this task or thread is in: for logs and traces that name the receipt."""
    return _current.get()


class OutcomeUnknown(Exception):
    """Raise it, or a subclass, in a scope where nobody here can tell whether the action came about: a request that left
    and was not answered."""

    code = "outcome-unknown"


#: A timeout says that nobody waited any longer, and nothing of what the far side did. Three classes before Python 3.11.
_UNKNOWN = (OutcomeUnknown, TimeoutError, asyncio.TimeoutError, concurrent.futures.TimeoutError)


class Act:
    """An allowed action whose decision is durable. Used by one task at a time."""

    def __init__(self, gate: Gate, call: Call, receipt: Receipt | None, started_at: int) -> None:
        self._gate = gate
        self._call = call
        self._receipt = receipt
        self._started_at = started_at
        self._returned = False
        #: Calls that have begun and not come back.
        self._calling = 0
        #: What the last call failed with.
        self._failed: BaseException | None = None
        #: Whether any call ended in a way that leaves open what it did.
        self._unanswered = False
        self._error: str | None = None
        self._result_digest: str | None = None
        self._ended = False

    @property
    def receipt_id(self) -> str | None:
        """The id of the decision's receipt, in hex; ``None`` where the action runs without one (``fail_open``)."""
        return None if self._receipt is None else self._receipt.id.hex()

    @property
    def receipt(self) -> Receipt | None:
        """The decision's receipt; ``None`` where the action runs without one."""
        return self._receipt

    @property
    def request_id(self) -> str:
        """The request's id."""
        return self._call.request_id

    @property
    def action_digest(self) -> str:
        """One name for this very action, for whoever approves it (protocol, section 3.1)."""
        return self._call.written.action_digest

    def call(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Runs the action and answers what it answers. If something fails afterwards, the outcome still says that the
        action was executed. What a coroutine function answers is to be awaited: it has not run before."""
        with self._calls():
            answer = function(*args, **kwargs)
            if not inspect.isawaitable(answer):
                self._returned = True
                return answer
            self._calling += 1
        return cast(_T, self._awaited(answer))

    async def acall(self, function: Callable[_P, Awaitable[_T]], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """As :meth:`call`, for a coroutine function."""
        with self._calls():
            answer = await function(*args, **kwargs)
            self._returned = True
            return answer

    async def _awaited(self, answer: Awaitable[_T]) -> _T:
        self._calling -= 1
        with self._calls():
            awaited = await answer
            self._returned = True
            return awaited

    @contextlib.contextmanager
    def _calls(self) -> Iterator[None]:
        if self._ended:
            raise CallerError("this scope has ended; ask the gate for another decision", code="scope-only")
        self._calling += 1
        try:
            yield
        except BaseException as error:
            self._failed = error
            self._unanswered = self._unanswered or _leaves_open(error)
            raise
        finally:
            self._calling -= 1

    def result(self, value: Any) -> None:
        """Says what the action answered: the outcome carries its digest, over RFC 8785 for JSON, over the bytes of bytes.

        Raises :class:`~counterfoil.errors.JsonError` for what has no JSON form.
        """
        self._result_digest = bodies.result_digest(value)

    def not_executed(self, reason: str) -> None:
        """Says that the action is not executed after all, and why."""
        self._error = bodies.reason_text(reason)

    def approved_by(self, by: str) -> Receipt | None:
        """Writes that this person agreed to the action, with its digest. ``None`` where it runs without a receipt."""
        if self.receipt_id is None:
            return None
        body = bodies.approval(request_id=self.request_id, decision=self.receipt_id, by=by, digest=self.action_digest)
        return self._gate._append_promised(body)

    def _end(self, error: BaseException | None) -> None:
        """Writes the outcome. Where it cannot be written now it is owed, and that is raised: :class:`OutboxError`, and
        :class:`SendError` where the key has signed another history."""
        if self._ended:
            return
        self._ended = True
        if self._receipt is None or self._call.executes != "gate":
            return
        executed, unknown, text = self._told(error)
        outcome = bodies.outcome(
            request_id=self.request_id,
            decision=self._receipt.id.hex(),
            executed=executed,
            unknown=unknown,
            executed_digest=self._call.written.executed_digest if executed else None,
            agent=self._call.agent,
            error=text,
            result_digest=self._result_digest,
            started_at=self._started_at,
            ended_at=max(self._gate.now(), self._started_at),
        )
        written = self._gate._end_scope(self._receipt.seq, outcome)
        if written is not None:
            self._gate._tell(written, self.request_id)

    def _told(self, error: BaseException | None) -> tuple[bool, bool, str | None]:
        if self._calling:
            # What a call is still doing nobody knows.
            return self._returned, not self._returned, "cancelled"
        if error is None and self._error is None and not self._returned:
            # The call tells more than a body that returned all the same.
            error = self._failed
        # Whatever the author made of it: of a call that left and was not answered nobody knows what it did.
        unknown = not self._returned and (self._unanswered or (error is not None and _leaves_open(error)))
        if error is None:
            return self._returned or self._error is None, unknown, self._error
        if not isinstance(error, Exception):
            return self._returned, unknown, "cancelled"
        return self._returned, unknown, bodies.error_text(type(error).__name__, _message(error))


class DecisionScope:
    """``with gate.decision(…) as act:``, or ``async with``. Enter it once: the decision is signed then, not before."""

    def __init__(self, gate: Gate, call: Call) -> None:
        self._gate = gate
        self._call = call
        self._act: Act | None = None
        self._entered = False
        self._outer: contextvars.Token[Act | None] | None = None

    @property
    def request_id(self) -> str:
        """The request's id."""
        return self._call.request_id

    @property
    def action_digest(self) -> str:
        """One name for this very action (protocol, section 3.1)."""
        return self._call.written.action_digest

    def __enter__(self) -> Act:
        self._enter_once()
        return self._began(self._gate._decide(self._call))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        if self._act is not None:
            self._settle(self._act, error)

    async def __aenter__(self) -> Act:
        self._enter_once()
        deciding = self._in_thread(self._gate._decide, self._call)
        try:
            return self._began(await asyncio.shield(deciding))
        except asyncio.CancelledError:
            # The thread goes on: whatever it signs is ended, though its body never ran.
            deciding.add_done_callback(_abandon)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        if self._act is not None:
            # Shielded: a cancellation that comes now does not keep the outcome from being written.
            await asyncio.shield(self._in_thread(self._settle, self._act, error))

    def _enter_once(self) -> None:
        # Here already: a forked child has no thread that could do the rest.
        self._gate._refuse_forked()
        if self._entered:
            raise CallerError("a decision is entered once; call `decision` again for another", code="scope-only")
        self._entered = True

    def _began(self, act: Act) -> Act:
        self._act, self._outer = act, _current.set(act)
        return act

    def _leave(self) -> None:
        if self._outer is not None:
            # A generator may be closed in another context than it began in; nothing is set there.
            with contextlib.suppress(ValueError):
                _current.reset(self._outer)

    def _in_thread(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> asyncio.Future[_T]:
        """In the gate's thread, and in the task's context, which observers look at."""
        run = functools.partial(contextvars.copy_context().run, function, *args, **kwargs)
        return asyncio.get_running_loop().run_in_executor(self._gate._executor, run)

    def _settle(self, act: Act, error: BaseException | None) -> None:
        try:
            act._end(error)
        except (OutboxError, SendError) as refused:
            _LOG.error("the outcome of request %s could not be written yet: %s", act.request_id, refused)
            # The author's own error matters more, and is on its way already.
            if error is None and self._gate.when_full == "fail_closed":
                raise


def _abandon(deciding: asyncio.Future[Act]) -> None:
    if deciding.cancelled() or deciding.exception() is not None:
        return
    try:
        deciding.result()._end(asyncio.CancelledError())
    except (OutboxError, SendError) as refused:
        _LOG.error("the outcome of a cancelled request could not be written yet: %s", refused)


def _leaves_open(error: BaseException) -> bool:
    """Whether what ended so may have come about all the same."""
    return isinstance(error, _UNKNOWN) or not isinstance(error, Exception)


def _message(error: Exception) -> str:
    try:
        return str(error)
    except Exception:
        return "its message cannot be read"
