"""The gate's durable outbox: a receipt is signed, chained and on disk before anybody learns of it.

A gate that signs seq 41, sends it, crashes, and then signs another seq 41 has signed two histories, and every log and every
auditor will say so for ever. Hence the order: append, fdatasync, return; only what was returned is ever sent; and what is on
disk is what is continued.

Thread-safe and blocking. One process writes at a time; a child of a fork is another process and is refused.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from . import bodies, ijson, jcs
from .admit import IssuerState, admit, first_key
from .credentials import find_credential
from .errors import (
    CounterfoilError,
    FormatError,
    OutboxBusy,
    OutboxDisk,
    OutboxError,
    OutboxOtherKey,
    OutboxOtherLog,
    OutboxStopped,
    Refusal,
    SendError,
)
from .keys import ED25519, SigningKey, VerifierKey
from .merkle import leaf_hash
from .proofs import TlogProof
from .receipts import Receipt, sign_receipt
from .shapes import check_shape
from .store import Kept, KeptHead, LogBinding, Store, compact_line

_T = TypeVar("_T")


@dataclass(frozen=True)
class NewBody:
    """A body that is to be signed, and what opens its commitments."""

    text: str
    disclosures: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckedProof:
    """A proof whose head the log signed and under which the receipt at ``seq`` is."""

    seq: int
    proof: TlogProof
    text: str


@dataclass(frozen=True)
class OutboxStatus:
    """How an outbox stands. ``receipts`` = ``queued`` + ``sent`` + ``acknowledged``."""

    issuer: str | None
    vkey: str | None
    #: Whether the stream ends with ``close``.
    closed: bool
    log: LogBinding | None
    receipts: int
    #: Never sent.
    queued: int
    #: Sent at least once, unanswered.
    sent: int
    #: With a proof.
    acknowledged: int
    #: Torn records that a start removed; nobody was told of them.
    dropped: int
    #: Things the log did that no honest log does.
    alarms: int


class Outbox:
    """One outbox, open for writing."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        key: SigningKey,
        *,
        gate: Any = None,
        heartbeat_ms: int | None = None,
        policy_digest: str | None = None,
    ) -> None:
        """Opens or makes it. ``gate``, ``heartbeat_ms`` and ``policy_digest`` stand in the stream's first receipt.

        Raises :class:`OutboxError`; see :mod:`counterfoil.errors` for its codes.
        """
        if key.verifier.kind != ED25519:
            raise OutboxOtherKey(
                "the key given signs cosignatures, not receipts; make one with `counterfoil keygen --kind issuer`"
            )
        self.dir = Path(directory).absolute()
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._key = key
        #: Set while a rotation to it is being written.
        self._next_key: SigningKey | None = None
        self._open_body = bodies.opened(
            str(key.verifier), gate=gate, heartbeat_ms=heartbeat_ms, policy_digest=policy_digest
        )
        # What is wrong with it is said now, and not at the first decision.
        check_shape(ijson.parse_object(self._open_body))
        self._failed = False
        self._store: Store | None = self._opened()
        _OPEN.add(self)

    def close(self) -> None:
        """Lets go of the directory. Everything returned is durable anyhow."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._store is not None:
                if not self._failed:
                    self._store.save_state(1)
                self._store.close()
                self._store = None

    def reopen(self) -> None:
        """After a write that failed: finds out what is on disk, and goes on from there. Raises :class:`OutboxError`."""
        with self._held():
            if self._store is None:
                raise _stopped("the outbox was closed; open it again to go on")
            # The lock is held all the while: nobody may write between.
            self._failed = True
            self._store = self._opened(self._store.close(keep_lock=True))
            self._failed = False

    def append(self, new: Sequence[NewBody], now: int) -> list[Receipt]:
        """Signs and appends, with one write and one fdatasync, and answers the receipts; durable on return.

        The stream's ``open`` is put before the first one. ``now`` is in milliseconds; where the clock went back, the last
        time stands again. Raises :class:`CredentialShaped`, :class:`MalformedReceipt`, :class:`Refusal`,
        :class:`OutboxError`. Only after an :class:`OutboxDisk` is it unknown what was signed.
        """
        with self._held():
            store = self._working()
            state = store.state or IssuerState.registered(self._key.verifier)
            receipts: list[Receipt] = []
            if state.next_seq == 0:
                state, receipt = self._sign(state, self._open_body, now)
                receipts.append(receipt)
            skipped = len(receipts)
            for body in new:
                state, receipt = self._sign(state, body.text, now)
                receipts.append(receipt)
            for receipt, body in zip(receipts[skipped:], new, strict=True):
                if body.disclosures:
                    self._write(lambda: store.keep_disclosures(receipt.seq, body.disclosures))  # noqa: B023
            if receipts:
                self._write(lambda: store.append_receipts(receipts, state))
            return receipts[skipped:]

    def rotate(self, new: SigningKey, now: int) -> Receipt:
        """Hands the stream over to another key of the same name, which signs from the next receipt on."""
        with self._held():
            store = self._working()
            if store.count == 0:
                self.append([], now)
            state = store.state
            if state is None:
                raise _stopped("the outbox holds no receipt to go on from; open it again")
            receipt = sign_receipt(
                jcs.compact({"type": "rotate", "vkey": str(new.verifier)}),
                seq=state.next_seq,
                prev=state.head,
                issued_at=max(now, state.last_issued_at),
                key=self._key,
                next_key=new,
            )
            after, receipt = admit(state, receipt)
            self._next_key = new
            self._write(lambda: store.append_receipts([receipt], after))
            self._key, self._next_key = new, None
            return receipt

    def acknowledge(self, proofs: Sequence[CheckedProof]) -> None:
        """Keeps proofs, in order of seq: each of the next receipt that has none, or of one that has.

        Raises :class:`OutboxError`: ``bad-proof`` for another receipt's, ``log-fork`` where the log signed two trees of one
        size.
        """
        with self._held():
            store = self._working()
            next_seq, newest = store.acknowledged_count, store.newest_head
            lines: list[Kept] = []
            for checked in proofs:
                entry = store.receipts.read(checked.seq)
                if entry is None or checked.seq > next_seq:
                    raise OutboxError(
                        f"seq {checked.seq} cannot be acknowledged: there is none, or an earlier one is not acknowledged yet; acknowledge in order",
                        code="bad-proof",
                    )
                next_seq = max(next_seq, checked.seq + 1)
                head = checked.proof.checkpoint
                if newest is not None and newest.size == head.size and newest.root != head.root:
                    raise LogFork(head.size, newest.checkpoint, head.note.data.decode("utf-8"))
                newest = KeptHead(head.size, head.root, head.note.data.decode("utf-8"))
                lines.append(Kept(checked.seq, checked.proof.index, checked.text))
            if lines:
                self._write(lambda: store.append_acknowledged(lines, newest))

    def bind(self, vkey: VerifierKey, url: str) -> None:
        """Names the one log that the receipts go to. Raises :class:`OutboxOtherLog`."""
        with self._held():
            store = self._working()
            held = store.log
            if held is not None and held.vkey != vkey:
                raise OutboxOtherLog(
                    f"the outbox {self.dir} belongs to the log {held.vkey}, and the log given is {vkey}; use one outbox "
                    "directory a log"
                )
            binding = LogBinding(vkey, url)
            if held != binding:
                self._write(lambda: store.bind(binding))

    def receipt(self, seq: int) -> Receipt | None:
        """The receipt at ``seq``."""
        with self._held():
            entry = self._readable().receipts.read(seq)
        return None if entry is None else Receipt.parse(entry)

    def kept(self, seq: int) -> Kept | None:
        """The newest proof kept for the receipt at ``seq``."""
        with self._held():
            return self._readable().proof(seq)

    def newest_head(self) -> KeptHead | None:
        """The head of the newest kept proof."""
        with self._held():
            return self._readable().newest_head

    def unsent(self, most: int, most_bytes: int) -> list[tuple[int, bytes]]:
        """The oldest unacknowledged receipts, by seq and bytes, as many as go into one batch."""
        with self._held():
            store = self._working()
            first = store.acknowledged_count
            batch: list[tuple[int, bytes]] = []
            size = 0
            for seq in range(first, min(first + most, store.count)):
                entry = store.receipts.read(seq) or b""
                size += 2 + len(entry)
                if size > most_bytes and batch:
                    break
                batch.append((seq, entry))
            return batch

    def mark_sent(self, seq: int) -> None:
        """Remembers that everything before ``seq`` was sent."""
        with self._held():
            store = self._working()
            if seq > store.sent():
                store.set_sent(seq)

    def keep_alarm(self, document: dict[str, Any]) -> None:
        """Keeps what the log did that no honest log does."""
        with self._held():
            store = self._working()
            self._write(lambda: store.alarms.append([compact_line(document)]))

    def status(self) -> OutboxStatus:
        """How it stands."""
        with self._held():
            return status_of(self._readable())

    @property
    def issuer(self) -> str:
        """Whose receipts these are."""
        return self._key.name

    @property
    def key(self) -> SigningKey:
        """The key that signs next."""
        return self._key

    @property
    def failed(self) -> bool:
        """Whether a write failed, so that only :meth:`reopen` helps."""
        return self._failed

    @property
    def is_ended(self) -> bool:
        """Whether the stream has ended, so that nothing can be written any more."""
        with self._held():
            state = self._readable().state
            return state is not None and state.is_closed

    @property
    def next_seq(self) -> int:
        """The seq of the next receipt."""
        with self._held():
            return self._readable().count

    @property
    def first_unacknowledged(self) -> int:
        """The first seq without a proof."""
        with self._held():
            return self._readable().acknowledged_count

    def work(self, what: Callable[[Store], _T]) -> _T:
        """Does something with the files while nobody else does."""
        with self._held():
            store = self._working()
            return self._write(lambda: what(store))

    def _opened(self, lock: int | None = None) -> Store:
        store = Store(self.dir, writable=True, lock=lock)
        held = store.state.current_key if store.state else self._key.verifier
        if self._next_key is not None and held == self._next_key.verifier:
            # The write of the rotation failed, and it is on disk all the same.
            self._key, self._next_key = self._next_key, None
        if held != self._key.verifier:
            store.close(keep_lock=lock is not None)
            raise OutboxOtherKey(
                f"the outbox {self.dir} holds receipts signed by {held}, and the key given is {self._key.verifier}; give "
                "that key, or another outbox directory"
            )
        return store

    def _sign(self, state: IssuerState, body: str, now: int) -> tuple[IssuerState, Receipt]:
        members = ijson.parse_object(body)
        found = find_credential(members)
        if found is not None:
            raise found
        receipt = sign_receipt(
            body,
            seq=state.next_seq,
            prev=state.head,
            issued_at=max(now, state.last_issued_at),
            key=self._key,
        )
        return admit(state, receipt)

    def _write(self, write: Callable[[], _T]) -> _T:
        try:
            return write()
        except OutboxDisk:
            self._failed = True
            raise

    def _held(self) -> threading.RLock:
        # First: in a forked child the lock may be held for ever by a thread that is not there.
        self._refuse_forked()
        return self._lock

    def _readable(self) -> Store:
        """The files for whoever only looks: also after a write that failed, as they were before it."""
        if self._store is None:
            raise _stopped("the outbox was closed; open it again to go on")
        return self._store

    def _working(self) -> Store:
        store = self._readable()
        if self._failed:
            raise _stopped("an earlier write to the outbox failed; open it again to find out what is on disk")
        return store

    def _refuse_forked(self) -> None:
        if os.getpid() != self._pid:
            raise OutboxBusy(
                f"the outbox {self.dir} belongs to the process that opened it, not to its forked child; open a gate after "
                "forking, with a directory and a key of its own"
            )


class LogFork(SendError):
    """The log signed two different trees of one size. Both heads are evidence."""

    def __init__(self, size: int, held: str, offered: str) -> None:
        super().__init__(
            f"the log signed two different trees of size {size}, and sending has stopped: keep the outbox as evidence, both "
            "heads are in it, and tell the log's auditors",
            code="log-fork",
            ends=True,
        )
        self.held = held
        self.offered = offered


class OutboxView:
    """An outbox that is only looked at: not locked, as it was when it was opened."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Raises :class:`OutboxError`: there is none, or its files are damaged."""
        self._store = Store(Path(directory), writable=False)

    def __enter__(self) -> OutboxView:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the files."""
        self._store.close()

    def status(self) -> OutboxStatus:
        """How it stood."""
        return status_of(self._store)

    def receipt(self, seq: int) -> Receipt | None:
        """The receipt at ``seq``."""
        entry = self._store.receipts.read(seq)
        return None if entry is None else Receipt.parse(entry)

    def receipts(self) -> Iterable[Receipt]:
        """All receipts, in order."""
        return (Receipt.parse(self._store.receipts.read(seq) or b"") for seq in range(self._store.count))

    def kept(self, seq: int) -> Kept | None:
        """The newest proof kept for the receipt at ``seq``."""
        return self._store.proof(seq)

    def verify(self) -> list[str]:
        """Checks everything again: the receipts by the issuer rules from the first one on, the kept proofs by the log's
        key. Answers what is not as it should be, a sentence each."""
        faults: list[str] = []
        state: IssuerState | None = None
        for seq in range(self._store.count):
            entry = self._store.receipts.read(seq) or b""
            if state is None:
                key = first_key(entry)
                state = None if key is None else IssuerState.registered(key)
            try:
                state, _ = admit(state, entry)
            except Refusal as error:
                faults.append(f"receipt {seq}: {error}")
        previous = -1
        for seq in range(self._store.acknowledged_count):
            kept, log = self._store.proof(seq), self._store.log
            entry = self._store.receipts.read(seq) or b""
            if kept is None or log is None:
                faults.append(f"proof {seq}: no log was ever named, so no proof can be checked")
                break
            try:
                proof = TlogProof.parse(kept.proof)
                proof.check(entry, log.vkey)
            except FormatError as error:
                faults.append(f"proof {seq}: {error}")
                continue
            if proof.index != kept.index or proof.index <= previous:
                faults.append(f"proof {seq}: it stands at index {proof.index}, which is not its place")
            previous = proof.index
        return faults


def status_of(store: Store) -> OutboxStatus:
    """How a directory's files stand."""
    state, sent = store.state, store.sent()
    return OutboxStatus(
        issuer=state.name if state else None,
        vkey=str(state.current_key) if state else None,
        closed=state.is_closed if state else False,
        log=store.log,
        receipts=store.count,
        queued=store.count - sent,
        sent=sent - store.acknowledged_count,
        acknowledged=store.acknowledged_count,
        dropped=store.dropped.count,
        alarms=store.alarms.count,
    )


def id_of(entry: bytes) -> str:
    """A receipt's id in hex, by its bytes."""
    return leaf_hash(entry).hex()


def _stopped(sentence: str) -> OutboxStopped:
    return OutboxStopped(sentence)


_OPEN: weakref.WeakSet[Outbox] = weakref.WeakSet()


def _let_go_in_child() -> None:
    """A forked child shares the lock's file, and would hold it for as long as it lives after its parent ended."""
    for outbox in list(_OPEN):
        store = outbox._store
        if store is not None:
            try:
                store.close()
            except (OSError, CounterfoilError):
                continue


os.register_at_fork(after_in_child=_let_go_in_child)
