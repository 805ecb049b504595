"""A gate: an outbox, a sender in the background, heartbeats, and scopes for what it allows.

::

    with Gate("outbox", key="gate.key", log="https://log.example", log_key="log.example+…") as gate:
        with gate.decision(operation="mail.send", resource="outbox", args={"to": "a@b.test"}, authenticated=True) as act:
            send_mail()

The decision is on disk before the body runs; its outcome is written whatever way the body ends.

What is written when is for :mod:`counterfoil.ledger` to say, what a decision may say for :mod:`counterfoil.decision`.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import os
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from . import decision, honour, ijson, jcs
from .decision import Call, DecisionMembers
from .errors import DecisionClaims, OutboxBusy, ReservedType, ScopeOnly
from .follower import Follower
from .heartbeat import check_heartbeat, keep_beating
from .history import Histories, History
from .keep import Folder
from .keys import SigningKey, VerifierKey
from .ledger import Ledger, WhenFull, scope_only
from .logreader import LogReader
from .outbox import Outbox
from .policy import Policy, policy_of
from .receipts import Receipt
from .scope import Act, DecisionScope
from .sender import Sender
from .status import GateStatus, prometheus
from .transport import Transport, base_url
from .worker import Worker

if TYPE_CHECKING:
    from .decision import Unpack

_LOG = logging.getLogger("counterfoil")

__all__ = ["DEFAULT_MAX_QUEUED", "Gate", "GateStatus", "WhenFull", "Written"]

#: Receipts that may wait for the log: at 500 bytes each half a gigabyte, and at ten a second more than a day without a log.
DEFAULT_MAX_QUEUED = 1_000_000

_SCOPE_TYPES = frozenset(("decision", "outcome"))
#: Types that the gate writes by itself, and what to do instead.
_RESERVED = {
    "open": "it writes one when it opens a new outbox",
    "close": "call `end`",
    "rotate": "call `rotate` with the new key",
    "heartbeat": "set `heartbeat_ms`",
    "dropped": "it writes one when it let something run without a receipt",
}


@dataclass(frozen=True)
class Written:
    """What an observer of a gate is told: a decision, a denial or an outcome that is on the disk."""

    #: ``decision`` or ``outcome``.
    type: str
    request_id: str
    #: The receipt's id, in hex; ``None`` where the action runs without one (``fail_open``).
    receipt_id: str | None
    body: Mapping[str, Any]


class Gate:
    """One gate: thread-safe, blocking (some 1 ms a receipt), and usable from asyncio by ``async with gate.decision(…)``."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        key: SigningKey | str | os.PathLike[str],
        log: str,
        log_key: VerifierKey | str,
        *,
        policy: Policy | str | bytes | os.PathLike[str] | None = None,
        when_full: WhenFull = "fail_closed",
        max_queued: int = DEFAULT_MAX_QUEUED,
        heartbeat_ms: int | None = None,
        gate: str | None = None,
        policy_digest: str | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        """Opens the outbox in ``directory`` (made if need be), settles what a stopped gate left, and starts to send.

        ``key``: the issuer's key or its file. ``log``: the log's address; ``log_key``: its vkey. ``policy``: whom to trust,
        for :meth:`history`: a policy, its text, or its file. ``when_full``: what happens to an action whose decision cannot be kept: nothing runs
        (``fail_closed``), or it runs and is counted and told later (``fail_open``). ``max_queued``: receipts that may wait
        for the log. ``heartbeat_ms``: the longest silence this gate allows itself. ``gate`` and ``policy_digest`` stand in
        the stream's first receipt. ``clock``: milliseconds since the Unix epoch.

        Never blocks on the log. Raises :class:`~counterfoil.errors.OutboxError`, :class:`~counterfoil.errors.FormatError` for
        keys and policies, :class:`~counterfoil.errors.CallerError` for an address that is none.
        """
        if when_full not in ("fail_closed", "fail_open"):
            raise DecisionClaims('`when_full` is "fail_closed" or "fail_open"; give one of them')
        check_heartbeat(heartbeat_ms)
        signing = key if isinstance(key, SigningKey) else SigningKey.read(key)
        log_key = log_key if isinstance(log_key, VerifierKey) else VerifierKey.parse(log_key)
        self.when_full: WhenFull = when_full
        self.max_queued = max_queued
        self.heartbeat_ms = heartbeat_ms
        self.policy = policy if policy is None or isinstance(policy, Policy) else policy_of(policy)
        #: Told of every decision and outcome, in the thread and context that made it: for traces and metrics. What they
        #: raise is logged, and has no other effect.
        self.observers: list[Callable[[Written], None]] = []
        self._clock = clock or _system_clock
        self._pid = os.getpid()
        log = base_url(log)
        self._outbox = Outbox(directory, signing, gate=gate, heartbeat_ms=heartbeat_ms, policy_digest=policy_digest)
        try:
            self._outbox.bind(log_key, log)
            self._ledger = Ledger(
                self._outbox,
                clock=self._clock,
                when_full=lambda: self.when_full,
                max_queued=lambda: self.max_queued,
                sending=lambda: self._sender.state,
                appended=lambda: self._sender.notify(),
            )
        except BaseException:
            self._outbox.close()
            raise
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="counterfoil-gate")
        self._worker = Worker("counterfoil-sender")
        self._transport = Transport(log)
        self._sender = Sender(
            self._outbox,
            self._transport,
            log_key,
            self._clock,
            mend=self._ledger.catch_up,
            compared=self._ledger.settle,
            quiet=self._ledger.quiet,
        )
        follower = Follower(
            folder=Folder(self._outbox.dir / "history", log_key, lambda: self._outbox.key),
            transport=self._transport,
            worker=self._worker,
            log_key=log_key,
            clock=self._clock,
            alarm=self._outbox.keep_alarm,
        )
        self._histories = Histories(follower, self._outbox, self.policy, self._clock)
        self._tasks: list[Future[None]] = [self._worker.start(self._sender.run())]
        self._tasks.append(self._worker.start(self._watch(log_key)))
        if heartbeat_ms is not None:
            self._tasks.append(self._worker.start(keep_beating(self._ledger, self._executor, heartbeat_ms)))
        atexit.register(_close_at_exit, weakref.ref(self))

    def __enter__(self) -> Gate:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Gate:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    # Decisions.

    def decision(
        self,
        *,
        authenticated: bool,
        executes: Literal["gate", "caller", "none"] = "gate",
        **members: Unpack[DecisionMembers],
    ) -> DecisionScope:
        """An allowed action: ``with gate.decision(…) as act:`` signs the decision, runs the body, writes the outcome.

        ``authenticated``: whether the request's own signature verified. ``members``:
        :class:`~counterfoil.decision.DecisionMembers`, such as ``operation``, ``resource``, ``args``, ``subjects``,
        ``action_class``, ``history``.

        Raises :class:`DecisionClaims` and :class:`~counterfoil.errors.JsonError` now; on entering the scope
        :class:`~counterfoil.errors.CredentialShaped`, :class:`~counterfoil.errors.MalformedReceipt` and, unless the gate is
        ``fail_open``, :class:`~counterfoil.errors.OutboxFull` or :class:`~counterfoil.errors.OutboxDisk`; and
        :class:`~counterfoil.errors.SendError` (``streams-differ``, ``outbox-behind``) once it is known that the key has
        signed another history, when nothing is written any more. Nothing may run then.
        """
        return DecisionScope(self, decision.compose("allow", authenticated, executes, members))

    def allow(
        self,
        *,
        authenticated: bool,
        executes: Literal["caller", "none"] = "caller",
        **members: Unpack[DecisionMembers],
    ) -> Receipt | None:
        """Allows an action that the gate does not execute itself; members as of :meth:`decision`. Its caller's word comes by
        :meth:`reported`. ``None`` where the gate is ``fail_open`` and the decision could not be kept."""
        if executes not in ("caller", "none"):
            raise ScopeOnly("what the gate executes itself runs in a scope: write `with gate.decision(…)`")
        with self.decision(authenticated=authenticated, executes=executes, **members) as act:
            return act.receipt

    def deny(self, *, authenticated: bool, **members: Unpack[DecisionMembers]) -> Receipt | None:
        """Writes that the action is denied, and answers the receipt; durable on return. Members and errors as of
        :meth:`decision`. ``None`` where the gate is ``fail_open`` and the denial could not be kept."""
        call = decision.compose("deny", authenticated, "none", members)
        return self._signed(call)

    def reported(
        self, request_id: str, *, executed: bool, error: str | None = None, executed_digest: str | None = None
    ) -> Receipt:
        """Writes the caller's own word of what became of an action that he executes (``executes="caller"``).

        Raises :class:`ScopeOnly` for what the gate executes, :class:`~counterfoil.errors.NoSuchDecision` for what is unknown
        or settled.
        """
        self._refuse_forked()
        receipt = self._ledger.report(request_id, executed=bool(executed), error=error, executed_digest=executed_digest)
        self._tell(receipt, request_id)
        return receipt

    def append(self, body: Mapping[str, Any] | str) -> Receipt:
        """Writes a receipt of another type: ``memory``, ``approval``, ``foreign``, or one of your own. Durable on return.

        Raises :class:`ScopeOnly` for decisions and outcomes, :class:`ReservedType` for what the gate writes by itself,
        :class:`~counterfoil.errors.CredentialShaped`, :class:`~counterfoil.errors.MalformedReceipt`,
        :class:`~counterfoil.errors.OutboxError`.
        """
        text = body if isinstance(body, str) else jcs.compact(body)
        kind = ijson.parse_object(text).get("type")
        if kind in _SCOPE_TYPES:
            raise scope_only(str(kind))
        if isinstance(kind, str) and kind in _RESERVED:
            raise ReservedType(f"a {kind} receipt is the gate's own: {_RESERVED[kind]}")
        self._refuse_forked()
        return self._ledger.append(text)

    def history(
        self,
        *subjects: str,
        max_age_s: float = 600.0,
        own_only: bool = False,
        when_unavailable: WhenFull = "fail_closed",
        seconds: float = 30.0,
    ) -> History:
        """The action classes that the log holds for these subjects, under a witnessed head, with proofs. Blocks on the log;
        in a coroutine use :meth:`ahistory`.

        ``max_age_s``: how old the newest cosignature of the quorum may be. ``own_only``: this gate's receipts alone, instead
        of all issuers'. ``when_unavailable``: without a fresh witnessed head raise (``fail_closed``), or judge by the best
        head there is and say so in the receipt (``fail_open``). ``seconds``: how long to try.

        The first call reads the whole log; what was read is kept, also for the next start.

        Raises :class:`~counterfoil.errors.HistoryError`: ``history-unavailable``, ``log-fork``, ``log-rolled-back``,
        ``history-too-large``; and :class:`~counterfoil.errors.OutboxError` where the largest head seen is damaged
        (``outbox-damaged``) or cannot be kept.
        """
        self._refuse_forked()
        self._ledger.refuse_closed()
        return self._histories.of(
            subjects,
            own_only=own_only,
            max_age_s=max_age_s,
            fail_open=when_unavailable == "fail_open",
            seconds=seconds,
        )

    async def ahistory(
        self,
        *subjects: str,
        max_age_s: float = 600.0,
        own_only: bool = False,
        when_unavailable: WhenFull = "fail_closed",
        seconds: float = 30.0,
    ) -> History:
        """As :meth:`history`, in a thread."""
        return await asyncio.to_thread(
            self.history,
            *subjects,
            max_age_s=max_age_s,
            own_only=own_only,
            when_unavailable=when_unavailable,
            seconds=seconds,
        )

    # The stream.

    def rotate(self, new: SigningKey | str | os.PathLike[str]) -> Receipt:
        """Hands the stream over to another key (or its file) of the same name, which signs from the next receipt on."""
        new = new if isinstance(new, SigningKey) else SigningKey.read(new)
        self._refuse_forked()
        return self._ledger.rotate(new)

    def flush(self, seconds: float = 10.0) -> bool:
        """Waits until the log has proved to hold all that was written so far, and what a stopped gate had left to write;
        answers whether it has."""
        self._refuse_forked()
        until = time.monotonic() + seconds
        self._sender.hurry()
        self._ledger.wait_settled(seconds)
        return self._sender.wait_acknowledged(self._outbox.next_seq, until - time.monotonic())

    def end(self, seconds: float = 10.0) -> bool:
        """Ends the stream with ``close``, for ever, and flushes. Raises :class:`ScopeOnly` while scopes are open."""
        self._refuse_forked()
        until = time.monotonic() + seconds
        self._ledger.end(seconds)
        return self.flush(until - time.monotonic())

    def close(self) -> None:
        """Stops heartbeat and sender, and lets go of the outbox. Does not end the stream; nothing is lost: what the log has
        not taken is sent by the next gate. Idempotent."""
        if os.getpid() != self._pid or not self._ledger.close():
            return
        self._worker.stop(self._transport.close)
        self._histories.close()
        self._ledger.let_go()
        self._stop_thread()

    def status(self) -> GateStatus:
        """How the gate stands."""
        self._refuse_forked()
        outbox, standing = self._outbox.status(), self._ledger.standing()
        waiting = self._outbox.receipt(outbox.acknowledged) if outbox.acknowledged < outbox.receipts else None
        return GateStatus(
            outbox=outbox,
            disk_refuses=standing.disk_refuses,
            dropped_actions=standing.dropped,
            dropped_told=standing.told,
            open_decisions=standing.open,
            sender=self._sender.state,
            oldest_queued_s=None if waiting is None else max(0.0, (self._clock() - waiting.issued_at) / 1000),
            owed=standing.owed,
        )

    def metrics(self) -> str:
        """The same for Prometheus, in its text format."""
        return prometheus(self._outbox.issuer, self.status())

    @property
    def directory(self) -> Path:
        """The outbox's directory."""
        return self._outbox.dir

    @property
    def issuer(self) -> str:
        """Whose receipts these are."""
        return self._outbox.issuer

    @property
    def vkey(self) -> VerifierKey:
        """The key that others check with; the log's operator registers the first one."""
        return self._outbox.key.verifier

    def now(self) -> int:
        """The gate's clock, in milliseconds since the Unix epoch."""
        return self._clock()

    # Called by scopes.

    def _decide(self, call: Call) -> Act:
        receipt = self._signed(call)
        started_at = self._clock() if receipt is None else max(self._clock(), receipt.issued_at)
        return Act(self, call, receipt, started_at)

    def _signed(self, call: Call) -> Receipt | None:
        self._refuse_forked()
        receipt = self._ledger.decide(call)
        self._tell(receipt, call.request_id, call.written.text)
        return receipt

    def _tell(self, receipt: Receipt | None, request_id: str, text: str = "{}") -> None:
        if not self.observers:
            return
        body = json.loads(text) if receipt is None else receipt.body
        kind, receipt_id = ("decision", None) if receipt is None else (receipt.type, receipt.id.hex())
        for observer in tuple(self.observers):
            try:
                observer(Written(kind, request_id, receipt_id, body))
            except Exception:
                _LOG.exception("an observer of the gate failed")

    def _end_scope(self, seq: int, outcome: str) -> Receipt | None:
        self._refuse_forked()
        try:
            return self._ledger.end_scope(seq, outcome)
        finally:
            self._stop_thread()

    def _append_promised(self, body: str) -> Receipt:
        self._refuse_forked()
        return self._ledger.append_promised(body)

    def _stop_thread(self) -> None:
        if self._ledger.has_let_go:
            self._executor.shutdown(wait=False)

    async def _watch(self, log_key: VerifierKey) -> None:
        await honour.watch(self._outbox, LogReader(self._transport), log_key, self._clock, self._sender.stop)

    def _refuse_forked(self) -> None:
        # Before any lock is taken: in a forked child it may be held for ever by a thread that is not there.
        if os.getpid() != self._pid:
            raise OutboxBusy(
                "this gate belongs to the process that opened it, not to its forked child; open a gate after forking, with a "
                "directory and a key of its own"
            )


def _system_clock() -> int:
    return time.time_ns() // 1_000_000


def _close_at_exit(reference: weakref.ref[Gate]) -> None:
    gate = reference()
    if gate is not None:
        gate.close()
