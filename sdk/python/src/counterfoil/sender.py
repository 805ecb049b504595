"""From the outbox to the log: in order, in batches, until the log has everything and has proved it.

::

    is the log's stream of this issuer a beginning of ours? ── no ──> stop, loudly
      │ yes
      v
    send the oldest unacknowledged ──> a verdict each
      ok, duplicate            check the proof against the log's key and the entry; keep it; go on
      overloaded, no answer    wait (longer each time, never in step with others), send the same again
      gap                      send again from the expected seq
      anything else            wait and say so, or stop and say what to do

Sending twice is safe: the log answers a receipt that it has with its proof. A proof that does not verify, a log that lost
what it proved and a log that contradicts itself are alarms: they are kept in the outbox before the sender stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from .checkpoints import Checkpoint
from .errors import CounterfoilError, FormatError, OutboxStopped, SendError
from .keys import VerifierKey
from .merkle import encode_page, leaf_hash
from .outbox import CheckedProof, LogFork, Outbox
from .proofs import TlogProof
from .transport import FetchError, Transport, segment

_LOG = logging.getLogger("counterfoil")

#: Receipts and bytes in one batch. More saves nothing and delays the first answer.
BATCH_RECEIPTS = 256
BATCH_BYTES = 1 << 20
#: Pauses between two tries, in seconds: the first, and the longest.
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0
#: The longest that a server's `Retry-After` is obeyed.
_LONGEST_RETRY_AFTER_S = 120
#: How long the first receipt of a batch waits for others, in seconds: a request costs more than a receipt.
_LINGER_S = 0.02
#: Most bytes of a verdict: a proof with 64 cosignatures, and its members.
_MAX_VERDICT = 64 * 3_600 + 12 * 1024
_MAX_ISSUER = 4096
#: Refusals that pass by themselves.
_TRANSIENT = frozenset(("overloaded", "stopping", "rate-limited", "no-room"))
#: Proofs checked before the thread lets others run.
_CHECKED_AT_ONCE = 32


@dataclass(frozen=True)
class SenderState:
    """How the sender does."""

    #: ``working``, ``failing`` (it tries again and again) or ``stopped`` (it will not send again).
    state: str = "working"
    #: Code and sentence of what happened last; ``None`` while working.
    code: str | None = None
    sentence: str | None = None


class Sender:
    """Sends one outbox to one log. Lives in a worker's loop."""

    def __init__(
        self,
        outbox: Outbox,
        transport: Transport,
        log_key: VerifierKey,
        clock: Callable[[], int],
        *,
        first_pause_s: float = FIRST_PAUSE_S,
        longest_pause_s: float = LONGEST_PAUSE_S,
        mend: Callable[[], None] | None = None,
        compared: Callable[[], None] | None = None,
        quiet: AbstractContextManager[object] | None = None,
    ) -> None:
        """``clock`` dates alarms, in milliseconds. Bind the outbox to the log first. ``mend`` is called, in the worker's
        thread, before each try, for an outbox of which an earlier write failed; ``compared`` once, when the log's stream was
        first compared with the outbox, or could not be. ``quiet`` is held while the sender stops: whatever is signed
        afterwards can heed that it has."""
        self._outbox = outbox
        self._transport = transport
        self._log_key = log_key
        self._clock = clock
        self._mend = mend
        self._compared = compared
        self._quiet = quiet or contextlib.nullcontext()
        self._pauses = (first_pause_s, longest_pause_s)
        self._batch_receipts = BATCH_RECEIPTS
        self._appended = asyncio.Event()
        self._hurried = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        #: The head last found to be the log's: most proofs of a batch are under one.
        self._head: Checkpoint | None = None
        self._task: asyncio.Task[object] | None = None
        self._agrees = False
        self._progress = threading.Condition()
        self._state = SenderState()

    @property
    def state(self) -> SenderState:
        """How it does now."""
        return self._state

    def stop(self, error: SendError) -> None:
        """Ends the sending, in the loop, because of what was found elsewhere."""
        self._stopped(error)
        if self._task is not None:
            self._task.cancel()

    def notify(self) -> None:
        """Says, from any thread, that something was appended."""
        loop = self._loop
        # Set already: the sender has not looked yet, and need not be woken twice.
        if loop is not None and not loop.is_closed() and not self._appended.is_set():
            loop.call_soon_threadsafe(self._appended.set)

    def hurry(self) -> None:
        """Ends, from any thread, a pause between two tries; not one that the log asked for."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            # A loop that closes at this very moment has nothing left to hurry.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._hurried.set)

    def wait_acknowledged(self, seq: int, seconds: float) -> bool:
        """Waits until every receipt before ``seq`` has a proof, the sender stops, or so long."""
        with self._progress:
            return self._progress.wait_for(
                lambda: self._acknowledged() >= seq or self._state.state == "stopped", seconds
            ) and (self._acknowledged() >= seq)

    async def run(self) -> None:
        """Sends whatever is appended, for ever. Ends only by cancellation, or where trying again is no use."""
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        pause = self._pauses[0]
        while True:
            self._appended.clear()
            try:
                sent = await self.send_once()
                pause = self._pauses[0]
                if self._state.state != "working":
                    self._set(SenderState())
                if sent:
                    continue
                await self._appended.wait()
                await asyncio.sleep(_LINGER_S)
            except asyncio.CancelledError:
                raise
            except Exception as error:
                code = error.code if isinstance(error, CounterfoilError) else "error"
                if isinstance(error, SendError) and error.ends:
                    self._stopped(error)
                    return
                if not isinstance(error, CounterfoilError):
                    _LOG.exception("the sender failed and goes on")
                elif code != self._state.code:
                    # Once for each reason; `status` and `metrics` say whether it lasts.
                    _LOG.warning("the log did not take the receipts; they are sent again: %s", error)
                else:
                    _LOG.debug("the log still does not take the receipts: %s", error)
                self._set(SenderState("failing", code, str(error) or type(error).__name__))
                self._tell_compared()
                pause = min(pause, self._pauses[1])
                asked = error.retry_after_s if isinstance(error, FetchError) else None
                await asyncio.sleep(min(asked or 0, _LONGEST_RETRY_AFTER_S))
                self._hurried.clear()
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._hurried.wait(), random.uniform(pause / 2, pause))
                pause *= 2

    async def send_once(self) -> int:
        """Sends one batch; answers how many more receipts are acknowledged. Raises :class:`CounterfoilError`."""
        if self._mend is not None and self._outbox.failed:
            self._mend()
        if not self._agrees:
            # Also where nothing is to be sent: a copy of an outbox is found out before it has signed anything.
            await self.compare()
            self._tell_compared()
        batch = self._outbox.unsent(self._batch_receipts, BATCH_BYTES)
        if not batch:
            return 0
        self._outbox.mark_sent(batch[-1][0] + 1)
        try:
            answer = await self._transport.post(
                "v1/receipts/batch",
                encode_page(entry for _, entry in batch),
                len(batch) * _MAX_VERDICT,
                content_type="application/octet-stream",
                accept="application/x-ndjson",
            )
        except FetchError as error:
            if error.status == 413 and len(batch) > 1:
                self._batch_receipts = len(batch) // 2
            raise
        return await self._judge(batch, _verdicts(answer, len(batch)))

    async def compare(self) -> None:
        """Compares the log's stream of this issuer with ours. Raises :class:`SendError`."""
        issuer, ours = self._outbox.issuer, self._outbox.next_seq
        path = f"v1/issuers/{segment(issuer)}"
        try:
            known = _object(await self._transport.get(path, _MAX_ISSUER))
        except FetchError as error:
            if error.status in (404, 410) and error.problem == "unknown-issuer":
                raise self._unknown_issuer() from None
            if error.status in (404, 410):
                raise SendError(
                    f"{self._transport.url} is not a log: asked for this gate's issuer it answers {error.status} "
                    f"{error.problem or ''}, which no log does; check the log's address",
                    code="not-a-log",
                ) from None
            raise
        theirs, head = known.get("next_seq"), known.get("head")
        if known.get("name") != issuer or isinstance(theirs, bool) or not isinstance(theirs, int) or theirs < 0:
            raise SendError(
                f"{self._transport.url} does not answer as a log does; check the log's address", code="not-a-log"
            )
        acknowledged = self._outbox.first_unacknowledged
        if theirs > ours:
            raise SendError(
                f"the log holds {theirs} receipts of this issuer and the outbox {self._outbox.dir} only {ours}: it is an older "
                "copy, or new; signing from here would make a second history, so nothing was sent: use the newest copy of the "
                "outbox, or make a new issuer key under a new name",
                code="outbox-behind",
                ends=True,
            )
        if theirs < acknowledged:
            raise self._log_lost(theirs, acknowledged)
        last = self._outbox.receipt(theirs - 1) if theirs else None
        if theirs and (last is None or last.id.hex() != head):
            raise self._streams_differ(theirs - 1, f"the log's head is {head}")
        self._agrees = True

    async def _judge(self, batch: Sequence[tuple[int, bytes]], verdicts: Sequence[dict[str, Any]]) -> int:
        proven: list[CheckedProof] = []
        stopped_by: SendError | None = None
        for place, ((seq, entry), verdict) in enumerate(zip(batch, verdicts, strict=True)):
            if place % _CHECKED_AT_ONCE == 0:
                # Checking is arithmetic: without a pause it would keep the gate's own threads waiting for theirs.
                await asyncio.sleep(0.0001)
            status = verdict.get("status")
            if status in ("ok", "duplicate"):
                text = verdict.get("proof")
                try:
                    proven.append(self._check(seq, entry, verdict, text if isinstance(text, str) else ""))
                except FormatError as fault:
                    stopped_by = self._bad_proof(seq, entry, text, fault)
                    break
            else:
                # Nothing is skipped but after a refusal, which ended this loop.
                stopped_by = self._refused(seq, entry, verdict, bool(proven))
                break
        # What was proved before it stays proved.
        self._acknowledge(proven)
        if stopped_by is not None and (stopped_by.ends or not proven):
            raise stopped_by
        return len(proven)

    def _check(self, seq: int, entry: bytes, verdict: dict[str, Any], text: str) -> CheckedProof:
        if verdict.get("id") != leaf_hash(entry).hex():
            raise FormatError("the verdict speaks of another receipt; ask again", code="bad-proof")
        proof = TlogProof.parse(text, self._head)
        if verdict.get("index") != proof.index:
            raise FormatError(
                f"the verdict says index {verdict.get('index')}, its proof {proof.index}; ask again", code="bad-proof"
            )
        proof.check(entry, self._log_key, self._head)
        self._head = proof.checkpoint
        return CheckedProof(seq, proof, text)

    def _refused(self, seq: int, entry: bytes, verdict: dict[str, Any], after_progress: bool) -> SendError:
        code, detail = str(verdict.get("code")), str(verdict.get("detail"))[:300]
        expected, acknowledged = verdict.get("expected_seq"), self._outbox.first_unacknowledged
        if code == "gap" and isinstance(expected, int) and expected < acknowledged:
            return self._log_lost(expected, acknowledged)
        again = SendError(f"seq {seq} was refused ({code}): {detail}; it is sent again", code="log-unreachable")
        if code in _TRANSIENT or (code == "gap" and isinstance(expected, int) and expected < seq):
            return again
        if code == "fork":
            error = self._streams_differ(seq, detail)
            self._alarm("fork", seq, error, receipt=entry.decode("utf-8"))
            return error
        if code == "unknown-issuer":
            return self._unknown_issuer()
        # Unlike a contradiction this may pass, by an operator's or a clock's correction: it is tried again, slowly.
        return SendError(
            f"the log refuses the receipt at seq {seq} ({code}): {detail}; {_ADVICE.get(code, _OTHER)}", code=code
        )

    def _acknowledge(self, proven: list[CheckedProof]) -> None:
        if not proven:
            return
        try:
            self._outbox.acknowledge(proven)
        except LogFork as error:
            self._alarm("log-fork", proven[0].seq, error, held=error.held, offered=error.offered)
            raise
        with self._progress:
            self._progress.notify_all()

    def _stopped(self, error: SendError) -> None:
        _LOG.error("the sender has stopped: %s", error)
        with self._quiet:
            self._set(SenderState("stopped", error.code, str(error)))
        self._tell_compared()

    def _tell_compared(self) -> None:
        tell, self._compared = self._compared, None
        if tell is not None:
            try:
                tell()
            except Exception:
                _LOG.exception("what waited for the log could not be written; the next start writes it")

    def _acknowledged(self) -> int:
        try:
            return self._outbox.first_unacknowledged
        except OutboxStopped:
            return -1

    def _set(self, state: SenderState) -> None:
        with self._progress:
            self._state = state
            self._progress.notify_all()

    def _unknown_issuer(self) -> SendError:
        key = self._outbox.key.verifier
        return SendError(
            f"the log does not know {self._outbox.issuer}; ask its operator to add the issuer (`counterfoil-log issuer add`) "
            f"with this vkey: {key}",
            code="unknown-issuer",
        )

    def _streams_differ(self, seq: int, detail: str) -> SendError:
        return SendError(
            f"the log holds another receipt than the outbox {self._outbox.dir} at seq {seq} ({detail}): this key signed two "
            "histories; stop the gate, find the other outbox that used this key, and make a new issuer key under a new name",
            code="streams-differ",
            ends=True,
        )

    def _log_lost(self, log_has: int, acknowledged: int) -> SendError:
        error = SendError(
            f"the log proved to hold the receipts before seq {acknowledged} and now says that it holds those before seq "
            f"{log_has}: it lost or withholds receipts; keep the outbox {self._outbox.dir}, its proofs are evidence, and tell "
            "the log's operator and auditors",
            code="log-lost",
            ends=True,
        )
        self._alarm("lost-receipts", log_has, error, acknowledged=acknowledged)
        return error

    def _bad_proof(self, seq: int, entry: bytes, proof: object, fault: CounterfoilError) -> SendError:
        error = SendError(
            f"the log's proof for the receipt at seq {seq} does not hold: {fault}; it is kept in {self._outbox.dir}/alarms and "
            "the receipt stays unacknowledged: check the log's vkey, then tell its operator",
            code="bad-proof",
            ends=True,
        )
        self._alarm("bad-proof", seq, error, receipt=entry.decode("utf-8"), proof=proof)
        return error

    def _alarm(self, what: str, seq: int, error: SendError, **documents: object) -> None:
        alarm = {
            "at": self._clock(),
            "what": what,
            "log": str(self._log_key),
            "seq": seq,
            "detail": str(error),
            **documents,
        }
        try:
            self._outbox.keep_alarm(alarm)
        except CounterfoilError as kept:
            _LOG.error("an alarm could not be kept (%s): %s", kept, error)


def _verdicts(answer: bytes, expected: int) -> list[dict[str, Any]]:
    lines = answer.split(b"\n")
    if lines.pop() != b"" or len(lines) != expected:
        raise SendError(
            f"{len(lines)} verdicts came for {expected} receipts; they are sent again", code="log-unreachable"
        )
    return [_object(line) for line in lines]


def _object(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise SendError("the answer is not what a log sends; check the log's address", code="not-a-log")
    return document


_OTHER = "run `counterfoil outbox verify`; if it finds nothing, log and gate are of versions that do not go together"
_ADVICE = {
    "closed": "the stream has ended: go on under a new issuer name, with a new key and a new outbox",
    "future-dated": "set this machine's clock; it is sent again, and nothing is lost",
    "credential-shaped": (
        "a receipt cannot be taken out of its stream: take the value out of the gate's bodies and go on under a new issuer "
        "name, with a new key and a new outbox"
    ),
    "bad-open": "check that the log has this issuer's first vkey registered",
    "bad-signature": "check that the log has this issuer's vkey registered, and run `counterfoil outbox verify`",
}
