"""A gate: an outbox, a sender in the background, heartbeats, and scopes for what it allows.

::

    with Gate("outbox", key="gate.key", log="https://log.example", log_key="log.example+…") as gate:
        with gate.decision(operation="mail.send", resource="outbox", args={"to": "a@b.test"}, authenticated=True) as act:
            send_mail()

The decision is on disk before the body runs; its outcome is written whatever way the body ends.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import os
import secrets
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from . import bodies, honour, ijson, jcs
from .calls import OpenCall, OpenCalls
from .drops import Drops
from .errors import (
    CounterfoilError,
    DecisionClaims,
    HistoryError,
    NoSuchDecision,
    OutboxBusy,
    OutboxDisk,
    OutboxError,
    OutboxFull,
    OutboxStopped,
    PolicyError,
    ReservedType,
    ScopeOnly,
    SendError,
)
from .history import Follower, History
from .index import subjects_of
from .keys import SigningKey, VerifierKey
from .logreader import LogReader
from .metrics import prometheus
from .outbox import NewBody, Outbox, OutboxStatus
from .policy import Policy
from .receipts import Receipt
from .scope import Act, Call, DecisionScope
from .sender import Sender, SenderState
from .transport import Transport, base_url
from .worker import Worker

_LOG = logging.getLogger("counterfoil")

WhenFull = Literal["fail_closed", "fail_open"]

#: Receipts that may wait for the log: at 500 bytes each half a gigabyte, and at ten a second more than a day without a log.
DEFAULT_MAX_QUEUED = 1_000_000
#: The open calls are saved after so many receipts.
_SAVE_OPEN_EVERY = 256
#: A heartbeat is due after this part of the time announced, so that a slow disk does not make it late.
_BEAT_AFTER = 0.5
_LEAST_HEARTBEAT_MS = 100

_SCOPE_TYPES = frozenset(("decision", "outcome"))
_RESERVED_TYPES = frozenset(("open", "close", "rotate", "heartbeat", "dropped"))


@dataclass(frozen=True)
class GateStatus:
    """How a gate stands."""

    outbox: OutboxStatus
    #: Whether the disk refused the last write; the next call tries again.
    disk_refuses: bool
    #: Actions that ran without a receipt, and how many of them a receipt has told the log of.
    dropped_actions: int
    dropped_told: int
    #: Allowed calls without an outcome.
    open_decisions: int
    sender: SenderState
    #: How long the oldest receipt has waited for the log, in seconds; ``None`` where none waits.
    oldest_queued_s: float | None


@dataclass(frozen=True)
class Written:
    """What an observer of a gate is told: a decision, a denial or an outcome that is on the disk."""

    #: ``decision`` or ``outcome``.
    type: str
    request_id: str
    #: The receipt's id, in hex; ``None`` where the action runs without one (``fail_open``).
    receipt_id: str | None
    body: Mapping[str, Any]


def _policy_of(given: str | bytes | os.PathLike[str]) -> Policy:
    """A policy from its text, or from its file: every policy ends in a newline, and the name of a file does not."""
    if isinstance(given, bytes) or (isinstance(given, str) and (not given or "\n" in given)):
        return Policy.parse(given)
    try:
        return Policy.parse(Path(given).read_bytes())
    except OSError as error:
        raise PolicyError(
            f"the policy file {os.fspath(given)} cannot be read: {error.strerror}; give a policy's text or the path of its file",
            code="policy-file",
        ) from error


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

        Never blocks on the log. Raises :class:`OutboxError`, :class:`~counterfoil.errors.FormatError` for keys and policies,
        :class:`~counterfoil.errors.CallerError` for an address that is none.
        """
        if when_full not in ("fail_closed", "fail_open"):
            raise DecisionClaims('`when_full` is "fail_closed" or "fail_open"')
        if heartbeat_ms is not None and heartbeat_ms < _LEAST_HEARTBEAT_MS:
            raise DecisionClaims(
                f"`heartbeat_ms` is at least {_LEAST_HEARTBEAT_MS}: a gate that beats faster writes nothing else"
            )
        signing = key if isinstance(key, SigningKey) else SigningKey.read(key)
        log_key = log_key if isinstance(log_key, VerifierKey) else VerifierKey.parse(log_key)
        self.when_full: WhenFull = when_full
        self.max_queued = max_queued
        self.heartbeat_ms = heartbeat_ms
        self.policy = policy if policy is None or isinstance(policy, Policy) else _policy_of(policy)
        #: Told of every decision and outcome, in the thread and context that made it: for traces and metrics. What they
        #: raise is logged, and has no other effect.
        self.observers: list[Callable[[Written], None]] = []
        self._clock = clock or _system_clock
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._closed = False
        self._live: set[int] = set()
        self._owed: deque[tuple[int, str]] = deque()
        self._callers: OpenCalls | None = None
        self._drops = Drops()
        self._open_saved_at = 0
        self._written_at = time.monotonic()
        log = base_url(log)
        self._outbox = Outbox(directory, signing, gate=gate, heartbeat_ms=heartbeat_ms, policy_digest=policy_digest)
        try:
            self._outbox.bind(log_key, log)
            self._open_calls = self._outbox.work(lambda store: OpenCalls.derive(store, "gate"))
            self._outbox.work(self._drops.read)
            self._settle_what_was_left()
        except BaseException:
            self._outbox.close()
            raise
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="counterfoil-gate")
        self._worker = Worker("counterfoil-sender")
        self._transport = Transport(log)
        self._sender = Sender(self._outbox, self._transport, log_key, self._clock, mend=self._catch_up)
        self._follower = Follower(
            directory=self._outbox.dir / "history",
            transport=self._transport,
            worker=self._worker,
            log_key=log_key,
            policy=self.policy,
            clock=self._clock,
            alarm=self._outbox.keep_alarm,
        )
        self._tasks: list[Future[None]] = [self._worker.start(self._sender.run())]
        self._tasks.append(self._worker.start(self._watch(log_key)))
        if heartbeat_ms is not None:
            self._tasks.append(self._worker.start(self._beat(heartbeat_ms / 1000 * _BEAT_AFTER)))
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
        request_id: str | None = None,
        rule: str | None = None,
        why: str | None = None,
        caller_reason: str | None = None,
        operation: str | None = None,
        resource: str | None = None,
        action_class: str | None = None,
        subjects: Sequence[str] | None = None,
        session: str | None = None,
        args: Any = None,
        args_mode: Literal["digest", "clear"] = "digest",
        proven: Sequence[str] | None = None,
        claimed_agent: str | None = None,
        bound_agent: str | None = None,
        capability: Mapping[str, Any] | None = None,
        grant: Mapping[str, Any] | None = None,
        facts: Sequence[Mapping[str, Any]] | None = None,
        executes: Literal["gate", "caller", "none"] = "gate",
        approval: Mapping[str, Any] | None = None,
        history: History | Sequence[History] | None = None,
        commit: Collection[str] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> DecisionScope:
        """An allowed action: ``with gate.decision(…) as act:`` signs the decision, runs the body, writes the outcome.

        ``authenticated``: whether the request's own signature verified. ``request_id``: one for each request; 128 random bits
        unless given. ``args`` go in as a digest, or as they are with ``args_mode="clear"``: only then can an auditor compare
        what was executed. ``proven``: what had been verified. ``commit``: names of members of which the receipt holds only a
        digest; what opens them stays in the outbox's ``disclosures``. ``extra``: members of your own.

        Raises :class:`DecisionClaims` and :class:`~counterfoil.errors.JsonError` now; on entering the scope
        :class:`~counterfoil.errors.CredentialShaped`, :class:`~counterfoil.errors.MalformedReceipt` and, unless the gate is
        ``fail_open``, :class:`OutboxFull` or :class:`OutboxDisk`; and :class:`SendError` (``streams-differ``,
        ``outbox-behind``) once it is known that the key has signed another history, when nothing but outcomes is written any
        more. Nothing may run then.
        """
        members = {
            "rule": rule,
            "why": why,
            "caller_reason": caller_reason,
            "operation": operation,
            "resource": resource,
            "action_class": action_class,
            "subjects": _listed(subjects),
            "session": session,
            "args": args,
            "authenticated": authenticated,
            "proven": _listed(proven),
            "claimed_agent": claimed_agent,
            "bound_agent": bound_agent,
            "capability": capability,
            "grant": grant,
            "facts": _listed(facts),
            "executes": executes,
            "approval": approval,
            **_prior(history),
        }
        return DecisionScope(self, self._call("allow", request_id, members, args_mode, commit, extra))

    def allow(
        self, *, authenticated: bool, executes: Literal["caller", "none"] = "caller", **members: Any
    ) -> Receipt | None:
        """Allows an action that the gate does not execute itself; members as of :meth:`decision`. Its caller's word comes by
        :meth:`reported`. ``None`` where the gate is ``fail_open`` and the decision could not be kept."""
        if executes not in ("caller", "none"):
            raise ScopeOnly("what the gate executes itself runs in a scope: write `with gate.decision(…)`")
        with self.decision(authenticated=authenticated, executes=executes, **members) as act:
            return act.receipt

    def deny(
        self,
        *,
        authenticated: bool,
        request_id: str | None = None,
        rule: str | None = None,
        why: str | None = None,
        caller_reason: str | None = None,
        operation: str | None = None,
        resource: str | None = None,
        action_class: str | None = None,
        subjects: Sequence[str] | None = None,
        session: str | None = None,
        args: Any = None,
        args_mode: Literal["digest", "clear"] = "digest",
        proven: Sequence[str] | None = None,
        claimed_agent: str | None = None,
        bound_agent: str | None = None,
        capability: Mapping[str, Any] | None = None,
        grant: Mapping[str, Any] | None = None,
        facts: Sequence[Mapping[str, Any]] | None = None,
        approval: Mapping[str, Any] | None = None,
        history: History | Sequence[History] | None = None,
        commit: Collection[str] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> Receipt | None:
        """Writes that the action is denied, and answers the receipt; durable on return. Members and errors as of
        :meth:`decision`. ``None`` where the gate is ``fail_open`` and the denial could not be kept."""
        members = {
            "rule": rule,
            "why": why,
            "caller_reason": caller_reason,
            "operation": operation,
            "resource": resource,
            "action_class": action_class,
            "subjects": _listed(subjects),
            "session": session,
            "args": args,
            "authenticated": authenticated,
            "proven": _listed(proven),
            "claimed_agent": claimed_agent,
            "bound_agent": bound_agent,
            "capability": capability,
            "grant": grant,
            "facts": _listed(facts),
            "approval": approval,
            **_prior(history),
        }
        call = self._call("deny", request_id, members, args_mode, commit, extra)
        receipt = self._keep(call)
        self._tell(receipt, call.request_id, call.written.text)
        return receipt

    def reported(
        self, request_id: str, *, executed: bool, error: str | None = None, executed_digest: str | None = None
    ) -> Receipt:
        """Writes the caller's own word of what became of an action that he executes (``executes="caller"``).

        Raises :class:`ScopeOnly` for what the gate executes, :class:`NoSuchDecision` for what is unknown or settled.
        """
        with self._held():
            self._refuse_to_sign()
            if self._open_calls.of_request(request_id) is not None:
                raise _scope_only("outcome")
            self._mend()
            call = self._waiting_callers().of_request(request_id)
            if call is None:
                raise NoSuchDecision(
                    f"no decision of the request {request_id!r} waits for its caller's report: it was never allowed, its "
                    "outcome is written, or the gate itself executes it"
                )
            text = bodies.outcome(
                request_id=request_id,
                decision=call.id,
                executed=bool(executed),
                executed_by="caller",
                executed_digest=executed_digest,
                error=None if error is None else bodies.reason_text(error),
            )
            receipt = self._append(text)
        self._tell(receipt, request_id)
        return receipt

    def append(self, body: Mapping[str, Any] | str) -> Receipt:
        """Writes a receipt of another type: ``memory``, ``approval``, ``foreign``, or one of your own. Durable on return.

        Raises :class:`ScopeOnly` for decisions and outcomes, :class:`ReservedType` for what the gate writes by itself,
        :class:`~counterfoil.errors.CredentialShaped`, :class:`~counterfoil.errors.MalformedReceipt`, :class:`OutboxError`.
        """
        text = body if isinstance(body, str) else jcs.compact(body)
        kind = ijson.parse_object(text).get("type")
        if kind in _SCOPE_TYPES:
            raise _scope_only(str(kind))
        if kind in _RESERVED_TYPES:
            raise ReservedType(f"a {kind} receipt is the gate's own: {_RESERVED_ADVICE[str(kind)]}")
        with self._held():
            self._refuse_to_sign()
            return self._append(text)

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

        Raises :class:`~counterfoil.errors.HistoryError`: ``history-unavailable``, ``log-fork``, ``log-rolled-back``,
        ``history-too-large``.
        """
        self._refuse_forked()
        self._refuse_closed()
        return self._follower.history(
            subjects,
            own=self._outbox,
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
        with self._held():
            self._refuse_to_sign()
            self._write([])
            receipt = self._outbox.rotate(new, self._clock())
            self._after_write([receipt])
            return receipt

    def flush(self, seconds: float = 10.0) -> bool:
        """Waits until the log has proved to hold all that was written so far; answers whether it has."""
        self._refuse_forked()
        return self._sender.wait_acknowledged(self._outbox.next_seq, seconds)

    def end(self, seconds: float = 10.0) -> bool:
        """Ends the stream with ``close``, for ever, and flushes. Raises :class:`ScopeOnly` while scopes are open."""
        with self._held():
            self._refuse_to_sign()
            if len(self._open_calls) > len(self._owed):
                raise ScopeOnly(
                    f"{len(self._open_calls)} allowed calls have no outcome yet; end their scopes, then end the stream"
                )
            self._write([NewBody('{"type":"close"}')])
        return self.flush(seconds)

    def close(self) -> None:
        """Stops heartbeat and sender, and lets go of the outbox. Does not end the stream; nothing is lost: what the log has
        not taken is sent by the next gate. Idempotent."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._save_open(1)
        self._worker.stop(self._transport.close)
        with self._lock:
            if self._live:
                _LOG.warning("the gate was closed with %d scopes open; it waits for their outcomes", len(self._live))
            else:
                self._let_go()

    def status(self) -> GateStatus:
        """How the gate stands."""
        with self._held():
            oldest = None
            outbox = self._outbox.status()
            if outbox.acknowledged < outbox.receipts:
                waiting = self._outbox.receipt(outbox.acknowledged)
                oldest = None if waiting is None else max(0.0, (self._clock() - waiting.issued_at) / 1000)
            return GateStatus(
                outbox=outbox,
                disk_refuses=self._outbox.failed,
                dropped_actions=self._drops.count,
                dropped_told=self._drops.told,
                open_decisions=len(self._open_calls),
                sender=self._sender.state,
                oldest_queued_s=oldest,
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
        receipt = self._keep(call)
        self._tell(receipt, call.request_id, call.written.text)
        started_at = self._clock() if receipt is None else max(self._clock(), receipt.issued_at)
        return Act(self, call, receipt, started_at)

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
        with self._held():
            self._live.discard(seq)
            self._owed.append((seq, outcome))
            try:
                written = self._write([])
            finally:
                if self._closed and not self._live:
                    self._let_go()
        # None where a write that had seemed to fail had written it.
        return written[-1] if written else None

    def _append_promised(self, body: str) -> Receipt:
        with self._held():
            self._refuse_to_sign()
            return self._write([NewBody(body)])[-1]

    def _let_go(self) -> None:
        self._executor.shutdown(wait=False)
        self._outbox.close()

    # Writing, under the lock, in one order: what failed is mended first; then come the drops that the log was not told of,
    # the outcomes that are owed, and last what is new.

    def _call(
        self,
        ruling: str,
        request_id: str | None,
        members: Mapping[str, Any],
        args_mode: str,
        commit: Collection[str],
        extra: Mapping[str, Any] | None,
    ) -> Call:
        request_id = secrets.token_hex(16) if request_id is None else request_id
        as_of = members.get(_AS_OF)
        members = {name: value for name, value in members.items() if name != _AS_OF}
        written = bodies.decision(ruling, request_id, members, args_mode=args_mode, commit_to=commit, extra=extra)
        shown = {name: value for name, value in members.items() if name not in commit}
        return Call(request_id, written, str(members.get("executes") or "none"), bodies.agent_of(shown), as_of)

    def _keep(self, call: Call) -> Receipt | None:
        self._refuse_forked()
        with self._held():
            self._refuse_to_sign()
            self._refuse_in_use(self._open_calls, call.request_id)
            if call.as_of is not None:
                self._refuse_overtaken(*call.as_of)
            body = NewBody(call.written.text, tuple(map(str, call.written.disclosures)))
            try:
                self._mend()
                # All receipts are read for them, which is spared a gate that executes everything itself.
                if self._callers is not None or call.executes == "caller":
                    self._refuse_in_use(self._waiting_callers(), call.request_id)
                self._need_room(2)
                receipt = self._write([body])[-1]
            except (OutboxFull, OutboxDisk) as error:
                if self.when_full == "fail_closed":
                    raise
                _LOG.error("the action of request %s runs without a receipt: %s", call.request_id, error)
                self._drops.add(self._clock(), "full" if isinstance(error, OutboxFull) else "disk", call.request_id)
                self._write_drops()
                return None
            if call.executes == "gate":
                self._live.add(receipt.seq)
            return receipt

    def _refuse_in_use(self, calls: OpenCalls, request_id: str) -> None:
        if calls.of_request(request_id) is not None:
            raise DecisionClaims(
                f"the request id {request_id!r} belongs to a decision whose outcome is still to come: use each for one "
                "request only"
            )

    def _waiting_callers(self) -> OpenCalls:
        """The calls whose callers have not reported yet."""
        if self._callers is None:
            self._callers = self._outbox.work(lambda store: OpenCalls.derive(store, "caller"))
        return self._callers

    def _refuse_overtaken(self, subjects: frozenset[str], next_seq: int) -> None:
        for seq in range(next_seq, self._outbox.next_seq):
            receipt = self._outbox.receipt(seq)
            touched = subjects.intersection(subjects_of(receipt)) if receipt is not None else ()
            for subject in touched:
                raise HistoryError(
                    f"the gate has decided on {subject!r} since that history was read: nothing was signed and nothing may run; "
                    "read it again, and judge by that",
                    code="history-moved",
                )

    def _append(self, body: str) -> Receipt:
        self._need_room(2)
        return self._write([NewBody(body)])[-1]

    def _need_room(self, more: int) -> None:
        """So much room is kept that the outcomes of all that is open can be written."""
        self._mend()
        queued = self._outbox.next_seq - self._outbox.first_unacknowledged
        if queued + 2 * len(self._open_calls) + more > self.max_queued:
            raise OutboxFull(
                f"the outbox {self._outbox.dir} holds {queued} receipts that the log has not taken, and {self.max_queued} are "
                "allowed: nothing was signed and nothing may run; see why the log takes none (`status`), or raise `max_queued`"
            )

    def _write(self, new: Sequence[NewBody]) -> list[Receipt]:
        try:
            return self._write_once(new)
        except OutboxStopped:
            # Another write failed, and not one of receipts that anybody was told of: looking costs nothing.
            return self._write_once(new)

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
            self._open_calls.follow(receipt)
            if self._callers is not None:
                self._callers.follow(receipt)
        self._written_at = time.monotonic()
        self._save_open(_SAVE_OPEN_EVERY)
        self._sender.notify()

    def _mend(self) -> None:
        """After a write that failed: finds out what is on disk. What was allowed there and runs nowhere is settled."""
        if not self._outbox.failed:
            return
        self._outbox.reopen()
        self._open_calls = self._outbox.work(lambda store: OpenCalls.derive(store, "gate"))
        self._callers = None
        self._outbox.work(self._drops.read)
        self._owed = deque((seq, text) for seq, text in self._owed if seq in self._open_calls.by_seq)
        known = self._live | {seq for seq, _ in self._owed}
        self._owed.extend((c.seq, _unknown(c)) for c in self._open_calls.by_seq.values() if c.seq not in known)

    def _catch_up(self) -> None:
        """Writes what is owed, where the disk takes it again. Called by the sender."""
        with self._lock:
            if not self._closed and (self._outbox.failed or self._owed):
                self._write([])

    def _write_drops(self) -> None:
        if not self._outbox.failed:
            try:
                self._outbox.work(self._drops.write)
            except OutboxError as error:
                _LOG.warning("a drop is counted in memory only for now: %s", error)

    def _settle_what_was_left(self) -> None:
        """Writes the outcome `unknown` of every allowed call that a stopped gate left, oldest first."""
        left = sorted(self._open_calls.by_seq.values(), key=lambda call: call.seq)
        if not left:
            return
        if self._outbox.status().closed:
            _LOG.warning("the stream has ended, and %d calls in it have no outcome and never will", len(left))
            return
        _LOG.warning(
            "the gate stopped before it could tell what became of its last calls; outcomes written as unknown: %d",
            len(left),
        )
        self._owed.extend((call.seq, _unknown(call)) for call in left)
        receipts = self._outbox.append([NewBody(text) for _, text in self._owed], self._clock())
        self._owed.clear()
        for receipt in receipts:
            self._open_calls.follow(receipt)

    def _save_open(self, every: int) -> None:
        if self._outbox.failed:
            return
        try:
            count = self._outbox.next_seq
            if count - self._open_saved_at >= every:
                self._outbox.work(self._open_calls.save)
                self._open_saved_at = count
        except OutboxError as error:
            _LOG.debug("the open calls could not be saved; the next start reads more receipts: %s", error)

    async def _watch(self, log_key: VerifierKey) -> None:
        await honour.watch(self._outbox, LogReader(self._transport), log_key, self._clock, self._sender.stop)

    async def _beat(self, due_s: float) -> None:
        while not self._is_second_history():
            await asyncio.sleep(max(0.001, self._written_at + due_s - time.monotonic()))
            try:
                await asyncio.get_running_loop().run_in_executor(self._executor, self._beat_once, due_s)
            except Exception as error:
                # Not at once again: the disk or the room may take a while.
                self._written_at = time.monotonic()
                _LOG.warning(
                    "a heartbeat could not be written: %s", error, exc_info=not isinstance(error, CounterfoilError)
                )

    def _beat_once(self, due_s: float) -> None:
        with self._lock:
            if not (self._closed or self._is_second_history()) and time.monotonic() - self._written_at >= due_s:
                self._append('{"type":"heartbeat"}')

    def _held(self) -> threading.RLock:
        # First: in a forked child the lock may be held for ever by a thread that is not there.
        self._refuse_forked()
        return self._lock

    def _refuse_closed(self) -> None:
        if self._closed:
            raise OutboxStopped("the gate was closed; open it again to go on")

    def _refuse_to_sign(self) -> None:
        self._refuse_closed()
        if self._is_second_history():
            state = self._sender.state
            raise SendError(state.sentence or "the sender has stopped", code=str(state.code), ends=True)

    def _is_second_history(self) -> bool:
        """Whether the key has signed another history: every further receipt makes it worse, but the outcomes of what runs."""
        state = self._sender.state
        return state.state == "stopped" and state.code in _SECOND_HISTORY

    def _refuse_forked(self) -> None:
        if os.getpid() != self._pid:
            raise _forked()


#: With these the log and the outbox are two histories.
_SECOND_HISTORY = frozenset(("streams-differ", "outbox-behind"))

_RESERVED_ADVICE = {
    "open": "it writes one when it opens a new outbox",
    "close": "call `end`",
    "rotate": "call `rotate` with the new key",
    "heartbeat": "set `heartbeat_ms`",
    "dropped": "it writes one when it let something run without a receipt",
}


_AS_OF = "(as of)"


def _prior(history: History | Sequence[History] | None) -> dict[str, Any]:
    if history is None:
        return {}
    histories = [history] if isinstance(history, History) else list(history)
    if not histories:
        return {}
    subjects = frozenset(subject for one in histories for subject in one.subjects)
    # No member of the decision: taken out before it is written.
    return {**History.claims(histories), _AS_OF: (subjects, min(one.next_seq for one in histories))}


def _unknown(call: OpenCall) -> str:
    return bodies.outcome(
        request_id=call.request_id,
        decision=call.id,
        executed=False,
        unknown=True,
        agent=call.agent,
        error=bodies.STOPPED,
    )


def _listed(values: Sequence[Any] | None) -> list[Any] | None:
    if isinstance(values, str):
        raise DecisionClaims("`subjects`, `proven` and `facts` are lists; put the text into one")
    return None if values is None else list(values)


def _scope_only(kind: str) -> ScopeOnly:
    return ScopeOnly(
        f"a {kind} is written by the gate alone: call `decision` or `deny`, and let the scope write what became of it "
        "(`reported` where the caller executes)"
    )


def _forked() -> OutboxBusy:
    return OutboxBusy(
        "this gate belongs to the process that opened it, not to its forked child; open a gate after forking, with a "
        "directory and a key of its own"
    )


def _system_clock() -> int:
    return time.time_ns() // 1_000_000


def _close_at_exit(reference: weakref.ref[Gate]) -> None:
    gate = reference()
    if gate is not None:
        gate.close()
