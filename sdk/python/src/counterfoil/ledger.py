"""The one place where a gate writes: what it owes, what it may take on, and what it let run without a receipt.

Everything goes through :meth:`Ledger._write`, in one order: a hand that failed is mended first, then come the drops that the
log was not told of, the outcomes that are owed, and last what is new.

Once the log has shown that it holds another history of this key, nothing more is signed, outcomes of scopes that end
included: every further receipt would be a second one with its number. Those outcomes stay owed in memory and are lost with
it; the newest copy of the outbox, which is to be opened in this one's place, says of its own calls what it knows.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

from . import bodies
from .calls import OpenCall, OpenCalls
from .decision import AsOf, Call
from .drops import Drops
from .errors import (
    DecisionClaims,
    HistoryError,
    NoSuchDecision,
    OutboxDisk,
    OutboxError,
    OutboxFull,
    OutboxStopped,
    ScopeOnly,
    SendError,
)
from .index import subjects_of
from .keys import SigningKey
from .outbox import NewBody, Outbox
from .receipts import Receipt
from .sender import SenderState

_LOG = logging.getLogger("counterfoil")

WhenFull = Literal["fail_closed", "fail_open"]

#: The open calls are saved after so many receipts.
_SAVE_OPEN_EVERY = 256
#: With these the log and the outbox are two histories.
_SECOND_HISTORY = frozenset(("streams-differ", "outbox-behind"))


@dataclass(frozen=True)
class Standing:
    """How a ledger stands."""

    dropped: int
    #: How many of the drops a receipt has told the log of.
    told: int
    #: Allowed calls without an outcome, and how many of them ended and only wait for theirs to be written.
    open: int
    owed: int
    #: Whether the disk refused the last write.
    disk_refuses: bool


class Ledger:
    """What one gate writes. Thread-safe; blocks on the disk, never on the log."""

    def __init__(
        self,
        outbox: Outbox,
        *,
        clock: Callable[[], int],
        when_full: Callable[[], WhenFull],
        max_queued: Callable[[], int],
        sending: Callable[[], SenderState],
        appended: Callable[[], None],
    ) -> None:
        """Finds what the outbox owes; writes nothing. ``sending`` says how the sender does, ``appended`` is told of every write.

        Raises :class:`OutboxError`.
        """
        self._outbox = outbox
        self._clock = clock
        self._when_full = when_full
        self._max_queued = max_queued
        self._sending = sending
        self._appended = appended
        self._lock = threading.RLock()
        #: Whoever holds it knows that nothing is being signed.
        self.quiet: AbstractContextManager[object] = self._lock
        self._closed = False
        #: Whether it was closed, and its last scope has ended.
        self.has_let_go = False
        #: Decisions whose scopes are alive, in this process.
        self._live: set[int] = set()
        #: Outcomes that are to be written, with the seq of their decision.
        self._owed: deque[tuple[int, str]] = deque()
        #: Calls that wait for the caller's word; read when they are first asked for.
        self._callers: OpenCalls | None = None
        self._drops = Drops()
        self._open_saved_at = 0
        #: Until a write succeeds: that the files could be read again says nothing.
        self._disk_refuses = False
        #: When something was written last, by the monotonic clock.
        self.written_at = time.monotonic()
        self._open = outbox.work(lambda store: OpenCalls.derive(store, "gate"))
        outbox.work(self._drops.read)
        #: Calls that a stopped gate left: their outcomes are owed once the sender has tried to compare outbox and log.
        self._left = self._found_left()
        self._has_settled = threading.Event()

    # What a gate's callers write.

    def decide(self, call: Call) -> Receipt | None:
        """Writes a decision. ``None`` where it could not be kept, and the gate was told to let it through."""
        with self._lock:
            self._refuse_to_sign()
            body = NewBody(call.written.text, tuple(map(str, call.written.disclosures)))
            try:
                self._mend()
                # The same request once more: what became of it is written before it, which waits for no log either.
                if self._owe_what_was_left(of_request=call.request_id):
                    self._write([])
                self._refuse_in_use(self._open, call.request_id)
                # All receipts are read for them, which is spared a gate that executes everything itself.
                if self._callers is not None or call.executes == "caller":
                    self._refuse_in_use(self._waiting_callers(), call.request_id)
                if call.as_of is not None:
                    self._refuse_overtaken(call.as_of)
                self._need_room(2)
                receipt = self._write([body])[-1]
            except (OutboxFull, OutboxDisk) as error:
                if self._when_full() == "fail_closed":
                    raise
                _LOG.error("the action of request %s runs without a receipt: %s", call.request_id, error)
                self._drops.add(self._clock(), "full" if isinstance(error, OutboxFull) else "disk", call.request_id)
                self._write_drops()
                return None
            if call.executes == "gate":
                self._live.add(receipt.seq)
            return receipt

    def end_scope(self, seq: int, outcome: str) -> Receipt | None:
        """Ends the scope of the decision at ``seq``. An outcome that cannot be written now is owed, and that is raised;
        ``None`` where a write that had seemed to fail had written it."""
        with self._lock:
            self._live.discard(seq)
            self._owed.append((seq, outcome))
            try:
                written = self._write([])
            finally:
                if self._closed and not self._live:
                    self._let_go()
            return written[-1] if written else None

    def append(self, body: str) -> Receipt:
        """Writes one receipt that promises nothing. Never let through without one."""
        with self._lock:
            self._refuse_to_sign()
            self._need_room(2)
            return self._write([NewBody(body)])[-1]

    def append_promised(self, body: str) -> Receipt:
        """Writes one receipt for which there is room by promise."""
        with self._lock:
            self._refuse_to_sign()
            return self._write([NewBody(body)])[-1]

    def report(self, request_id: str, *, executed: bool, error: str | None, executed_digest: str | None) -> Receipt:
        """Writes its caller's word of the call that waits for it."""
        with self._lock:
            self._refuse_to_sign()
            if self._open.of_request(request_id) is not None:
                raise scope_only("outcome")
            self._mend()
            call = self._waiting_callers().of_request(request_id)
            if call is None:
                raise NoSuchDecision(
                    f"no decision of the request {request_id!r} waits for its caller's report: it was never allowed, its "
                    "outcome is written, or the gate itself executes it; give the id that `allow` was given, once"
                )
            text = bodies.outcome(
                request_id=request_id,
                decision=call.id,
                executed=executed,
                executed_by="caller",
                executed_digest=executed_digest,
                error=None if error is None else bodies.reason_text(error),
            )
            return self.append(text)

    def rotate(self, new: SigningKey) -> Receipt:
        """Hands the stream over, after what is owed."""
        with self._lock:
            self._refuse_to_sign()
            self._write([])
            receipt = self._outbox.rotate(new, self._clock())
            self._after_write([receipt])
            return receipt

    def end(self, seconds: float) -> None:
        """Ends the stream, for ever. Waits at most so long for the sender's first look at the log."""
        self.wait_settled(seconds)
        with self._lock:
            self._refuse_to_sign()
            self._owe_what_was_left()
            if len(self._open) > len(self._owed):
                raise ScopeOnly(
                    f"{len(self._open)} allowed calls have no outcome yet; end their scopes, then end the stream"
                )
            self._write([NewBody('{"type":"close"}')])

    # What the gate does by itself.

    def settle(self) -> None:
        """Writes the outcome ``unknown`` of every allowed call that a stopped gate left. The sender calls this once: when it has
        compared outbox and log, or has found that it cannot."""
        try:
            with self._lock:
                self._owe_what_was_left()
                self.catch_up()
        except OutboxError as error:
            _LOG.warning("outcomes of a stopped gate could not be written yet: %s", error)
        finally:
            self._has_settled.set()

    def wait_settled(self, seconds: float) -> None:
        """Waits, at most so long, until it is known whether calls that a stopped gate left are to be settled."""
        if self._left:
            self._has_settled.wait(seconds)

    def catch_up(self) -> None:
        """Writes what is owed, where the disk takes it again."""
        with self._lock:
            if not (self._closed or self.is_second_history()) and (self._outbox.failed or self._owed):
                self._write([])

    def beat(self, due_s: float) -> None:
        """Writes a heartbeat, if nothing was written for so long."""
        with self._lock:
            if self._closed or self.is_second_history() or time.monotonic() - self.written_at < due_s:
                return
            if self._outbox.is_ended:
                # Nothing more can be promised, nor written.
                self.written_at = time.monotonic()
                return
            self.append('{"type":"heartbeat"}')

    def is_second_history(self) -> bool:
        """Whether the key has signed another history: every further receipt makes it worse."""
        state = self._sending()
        return state.state == "stopped" and state.code in _SECOND_HISTORY

    def close(self) -> bool:
        """Closes to everything but the outcomes of scopes that are open; answers whether it was open."""
        with self._lock:
            was_open, self._closed = not self._closed, True
            if was_open:
                self._save_open(1)
                self._has_settled.set()
            return was_open

    def let_go(self) -> None:
        """After :meth:`close`: lets go of the outbox, now or when the last scope has ended."""
        with self._lock:
            if self._live:
                _LOG.warning("the gate was closed with %d scopes open; it waits for their outcomes", len(self._live))
            else:
                self._let_go()

    def standing(self) -> Standing:
        """How it stands."""
        with self._lock:
            owed = len(self._owed) + len(self._left)
            refuses = self._disk_refuses or self._outbox.failed
            return Standing(self._drops.count, self._drops.told, len(self._open), owed, refuses)

    def refuse_closed(self) -> None:
        """Raises :class:`OutboxStopped` after :meth:`close`."""
        if self._closed:
            raise OutboxStopped("the gate was closed; open it again to go on")

    # Under the lock.

    def _let_go(self) -> None:
        self._outbox.close()
        self.has_let_go = True

    def _refuse_to_sign(self) -> None:
        self.refuse_closed()
        self._refuse_second_history()

    def _refuse_second_history(self) -> None:
        if self.is_second_history():
            state = self._sending()
            raise SendError(state.sentence or "the sender has stopped", code=str(state.code), ends=True)

    def _refuse_in_use(self, calls: OpenCalls, request_id: str) -> None:
        if calls.of_request(request_id) is not None:
            raise DecisionClaims(
                f"the request id {request_id!r} belongs to a decision whose outcome is still to come: use each for one "
                "request only"
            )

    def _refuse_overtaken(self, as_of: AsOf) -> None:
        for seq in range(as_of.next_seq, self._outbox.next_seq):
            receipt = self._outbox.receipt(seq)
            touched = as_of.subjects.intersection(subjects_of(receipt)) if receipt is not None else ()
            for subject in touched:
                raise HistoryError(
                    f"the gate has decided on {subject!r} since that history was read: nothing was signed and nothing may run; "
                    "read it again, and judge by that",
                    code="history-moved",
                )

    def _waiting_callers(self) -> OpenCalls:
        if self._callers is None:
            self._callers = self._outbox.work(lambda store: OpenCalls.derive(store, "caller"))
        return self._callers

    def _need_room(self, more: int) -> None:
        """So much room is kept that the outcomes of all that is open can be written."""
        self._mend()
        queued = self._outbox.next_seq - self._outbox.first_unacknowledged
        allowed = self._max_queued()
        if queued + 2 * len(self._open) + more > allowed:
            raise OutboxFull(
                f"the outbox {self._outbox.dir} holds {queued} receipts that the log has not taken, and {allowed} are "
                "allowed: nothing was signed and nothing may run; see why the log takes none (`status`), or raise `max_queued`"
            )

    def _write(self, new: Sequence[NewBody]) -> list[Receipt]:
        self._refuse_second_history()
        try:
            try:
                return self._write_once(new)
            except OutboxStopped:
                # Another write failed, and not one of receipts that anybody was told of: looking costs nothing.
                return self._write_once(new)
        except OutboxDisk:
            self._disk_refuses = True
            raise

    def _write_once(self, new: Sequence[NewBody]) -> list[Receipt]:
        self._mend()
        told = self._drops.bodies()
        owed = len(self._owed)
        if not new and not owed:
            return []
        if told:
            self._outbox.work(self._drops.write)
        first = [NewBody(text) for text in told] + [NewBody(text) for _, text in self._owed]
        receipts = self._outbox.append([*first, *new], self._clock())
        for _ in range(owed):
            self._owed.popleft()
        if told:
            self._drops.were_told()
        self._after_write(receipts)
        return receipts

    def _after_write(self, receipts: Sequence[Receipt]) -> None:
        for receipt in receipts:
            self._open.follow(receipt)
            if self._callers is not None:
                self._callers.follow(receipt)
        self.written_at = time.monotonic()
        self._disk_refuses = False
        self._save_open(_SAVE_OPEN_EVERY)
        self._appended()

    def _mend(self) -> None:
        """After a write that failed: finds out what is on disk. What was allowed there and runs nowhere is settled."""
        if not self._outbox.failed:
            return
        self._outbox.reopen()
        self._open = self._outbox.work(lambda store: OpenCalls.derive(store, "gate"))
        self._callers = None
        self._outbox.work(self._drops.read)
        self._owed = deque((seq, text) for seq, text in self._owed if seq in self._open.by_seq)
        known = self._live | {seq for seq, _ in self._owed} | {call.seq for call in self._left}
        self._owed.extend((c.seq, _unknown(c)) for c in self._open.by_seq.values() if c.seq not in known)

    def _write_drops(self) -> None:
        if not self._outbox.failed:
            try:
                self._outbox.work(self._drops.write)
            except OutboxError as error:
                _LOG.warning("a drop is counted in memory only for now: %s", error)

    def _found_left(self) -> list[OpenCall]:
        left = sorted(self._open.by_seq.values(), key=lambda call: call.seq)
        if left and self._outbox.is_ended:
            _LOG.warning("the stream has ended, and %d calls in it have no outcome and never will", len(left))
            return []
        if left:
            _LOG.warning(
                "the gate stopped before it could tell what became of its last calls; outcomes to be written as unknown: %d",
                len(left),
            )
        return left

    def _owe_what_was_left(self, *, of_request: str | None = None) -> bool:
        left = [call for call in self._left if of_request is None or call.request_id == of_request]
        self._left = [call for call in self._left if call not in left]
        # Before what has ended since: oldest first.
        self._owed.extendleft((call.seq, _unknown(call)) for call in reversed(left))
        return bool(left)

    def _save_open(self, every: int) -> None:
        if self._outbox.failed:
            return
        try:
            count = self._outbox.next_seq
            if count - self._open_saved_at >= every:
                self._outbox.work(self._open.save)
                self._open_saved_at = count
        except OutboxError as error:
            _LOG.debug("the open calls could not be saved; the next start reads more receipts: %s", error)


def scope_only(kind: str) -> ScopeOnly:
    """The error for a decision or an outcome that is written by hand."""
    return ScopeOnly(
        f"a {kind} is written by the gate alone: call `decision` or `deny`, and let the scope write what became of it "
        "(`reported` where the caller executes)"
    )


def _unknown(call: OpenCall) -> str:
    return bodies.outcome(
        request_id=call.request_id,
        decision=call.id,
        executed=False,
        unknown=True,
        agent=call.agent,
        error=bodies.STOPPED,
    )
