"""Histories with proof: what the log holds of a subject, so that a gate judges by the log and not by its own memory.

A follower reads *all* entries of the log up to a head, folds them itself and compares the root with the signed one: so
nothing can be left out. The head is a witnessed one: the log signed it, the policy's quorum cosigned it, and not long ago.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from . import merkle
from .admit import MAX_AHEAD_MS
from .appendfile import write_all
from .checkpoints import Checkpoint, verified_cosignatures
from .encoding import decode_hash, encode_base64
from .errors import CounterfoilError, DecisionClaims, FormatError, HistoryError, OutboxDisk
from .index import MAX_ITEMS, Logged, LogIndex, logged, subjects_of
from .keys import VerifierKey
from .logreader import LogReader, implied_root
from .outbox import Outbox
from .policy import Policy
from .proofs import proof_text
from .receipts import Receipt
from .store import compact_line, sync_dir
from .transport import FetchError, Transport
from .worker import Worker

_T = TypeVar("_T")

#: Pages fetched at once, and entries folded before the thread lets others run.
_PAGES_AT_ONCE = 8
_FOLDED_AT_ONCE = 8
#: While its witnesses have not cosigned a head: how soon it is asked for again, and for how long, in seconds.
_ASK_AGAIN_S = 0.1
_WAIT_FOR_WITNESSES_S = 3.0


@dataclass(frozen=True)
class History:
    """What the log holds of one or several subjects under one head, and what this gate adds to it."""

    subjects: tuple[str, ...]
    #: Allowed actions with a class, in the order of the log.
    logged: tuple[Logged, ...]
    #: This gate's own, not under that head yet: its own memory only adds, and never removes.
    pending: tuple[Logged, ...]
    #: Subject to the id of the newest receipt that names it.
    heads: dict[str, str]
    #: The head: size and root of the log.
    size: int
    root: bytes
    #: Whether a quorum vouches for that head, lately; else :attr:`why` says why not.
    witnessed: bool
    #: The newest cosignature, in seconds since the epoch; ``None`` where no quorum vouches.
    witnessed_at: int | None
    why: str | None = None
    #: The gate's next seq when this was read: a decision by it is refused where the gate has decided on a subject since.
    next_seq: int = 0
    _prove: Callable[[Logged], str] = field(repr=False, compare=False, default=lambda _: "")

    @property
    def classes(self) -> list[str]:
        """The action classes, logged and then pending: what the gate judges by."""
        return [one.action_class for one in (*self.logged, *self.pending) if one.action_class is not None]

    def proof(self, place: int) -> str:
        """The tlog-proof, under this head, of the item ``logged[place]``; checked before it is handed out.

        Raises :class:`HistoryError`.
        """
        return self._prove(self.logged[place])

    def members(self) -> dict[str, Any]:
        """The members of a decision that was judged by this."""
        head: dict[str, Any] = {"size": self.size, "root": encode_base64(self.root), "witnessed": self.witnessed}
        if self.why is not None:
            head["why"] = self.why
        return {"prior_action_classes": self.classes, "prior_heads": dict(self.heads), "history": head}

    @staticmethod
    def claims(histories: Sequence[History]) -> dict[str, Any]:
        """The members of a decision that was judged by several.

        Raises :class:`DecisionClaims` where they were not taken under one head.
        """
        if not histories:
            return {}
        first = histories[0]
        if any((one.size, one.root, one.why) != (first.size, first.root, first.why) for one in histories):
            raise DecisionClaims(
                "the histories were taken under different heads: ask for all subjects in one call of `history`"
            )
        return _merged(histories).members() if len(histories) > 1 else first.members()


@dataclass(frozen=True)
class _Head:
    checkpoint: Checkpoint
    #: Seconds since the epoch; None where no quorum vouches.
    witnessed_at: int | None
    why: str | None


_NO_POLICY = "the gate was given no policy that asks for witnesses"


class Follower:
    """Follows one log. Thread-safe; its requests run in the worker's loop, its arithmetic in the caller's thread."""

    def __init__(
        self,
        *,
        directory: Path,
        transport: Transport,
        worker: Worker,
        log_key: VerifierKey,
        policy: Policy | None,
        clock: Callable[[], int],
        alarm: Callable[[dict[str, Any]], None],
    ) -> None:
        """``directory`` keeps the largest head seen; ``clock`` is in milliseconds; ``alarm`` keeps a document."""
        self._dir = directory
        self._worker = worker
        self._transport = transport
        self._reader: LogReader | None = None
        self._log_key = log_key
        self._policy = policy
        self._clock = clock
        self._alarm = alarm
        self._lock = threading.Lock()
        self._index = LogIndex()
        self._largest: Checkpoint | None = None
        #: The head up to which the index is known to be whole and true.
        self._folded: Checkpoint | None = None
        self._witnessed: _Head | None = None
        self._is_read = False
        #: Alarms that were kept: asking again adds nothing.
        self._told: set[tuple[str, bytes, bytes]] = set()
        #: This gate's own decisions by subject, and up to which seq they were read.
        self._own: dict[str, list[Logged]] = {}
        self._own_seq = 0

    def history(
        self,
        subjects: Sequence[str],
        *,
        own: Outbox,
        own_only: bool = False,
        max_age_s: float,
        fail_open: bool,
        seconds: float,
    ) -> History:
        """See :meth:`counterfoil.Gate.history`."""
        if not subjects:
            raise HistoryError("name at least one subject", code="history-unavailable")
        until = time.monotonic() + seconds
        with self._lock:
            head, why = self._head(max_age_s, until, fail_open)
            return self._answer(tuple(dict.fromkeys(subjects)), head, why, own, own_only)

    def _head(self, max_age_s: float, until: float, fail_open: bool) -> tuple[_Head | None, str | None]:
        """The head to judge by, folded; and why it is not a fresh witnessed one, if so."""
        why = "no head was looked for"
        patient_until = min(until, time.monotonic() + _WAIT_FOR_WITNESSES_S)
        blamed: HistoryError | None = None
        while True:
            try:
                offered = self._follow(until)
                why = offered.why or ""
            except HistoryError as error:
                why = str(error)
                if error.code == "log-fork" and fail_open:
                    break
                if error.code not in ("history-unavailable", "log-rolled-back"):
                    raise
                # A cache may show an older head: the one seen before is as good as it was.
                blamed = error if error.code == "log-rolled-back" else None
            fresh = self._witnessed
            if fresh is not None and fresh.witnessed_at is not None:
                age = self._clock() / 1000 - fresh.witnessed_at
                if age <= max_age_s:
                    return fresh, None
                why = why or f"the newest cosignature is {age:.0f} seconds old"
            # A head that its witnesses have not cosigned yet may be cosigned in a moment.
            may_come = self._policy is not None and self._policy.quorum is not None and self._largest is not None
            if blamed is not None or not may_come or time.monotonic() + _ASK_AGAIN_S >= patient_until:
                break
            time.sleep(_ASK_AGAIN_S)
        if not fail_open:
            if blamed is not None:
                raise blamed
            if self._policy is None or self._policy.quorum is None:
                now = "" if why == _NO_POLICY else f" (now: {why})"
                raise HistoryError(
                    "the gate was opened without a policy that asks for witnesses, so nobody vouches for the log's head; "
                    f"give one to Gate(policy=…){now}",
                    code="history-unavailable",
                )
            raise HistoryError(
                f"no fresh witnessed head of the log can be had: {why}; do not act, or decide with "
                '`when_unavailable="fail_open"` and say so in the receipt',
                code="history-unavailable",
            )
        # Only a head whose entries were all read and hashed to its root.
        best = None if self._folded is None else _Head(self._folded, None, why)
        return best, why

    def _follow(self, until: float) -> _Head:
        """Takes the offered head, if it goes on from what is held, and folds what is new."""
        self._read_largest()
        data = self._await(self._reading().checkpoint(), until)
        try:
            offered = Checkpoint.parse(data)
            offered.verify(self._log_key)
        except FormatError as error:
            raise _unavailable(f"what the log offers is no head of its: {error}") from error
        self._refuse_other_history(offered, until)
        self._fold(offered, until)
        self._keep_largest(offered)
        head = self._judged(offered)
        if head.witnessed_at is not None:
            self._witnessed = head
        return head

    def _refuse_other_history(self, offered: Checkpoint, until: float) -> None:
        held = self._largest
        if held is None or (held.size, held.root) == (offered.size, offered.root):
            return
        if held.size == offered.size:
            raise self._alarmed("log-fork", f"the log signed two different trees of size {held.size}", held, offered)
        smaller, larger = (held, offered) if held.size < offered.size else (offered, held)
        implied = None
        if smaller is offered or self._index.size != held.size:
            # Where the entries were folded up to the held head, folding on shows whether the new one continues it.
            implied = self._implied(larger, smaller, until)
            if implied is not None and implied != smaller.root:
                raise self._alarmed("log-fork", "the log signed two histories", smaller, larger)
            if implied is None and smaller is held:
                raise _unavailable("the log does not show that its head goes on from the largest one seen")
        if smaller is offered:
            raise self._alarmed(
                "log-rolled-back", f"the log held {held.size} entries and now offers {offered.size}", held, offered
            )

    def _fold(self, offered: Checkpoint, until: float) -> None:
        wanted = list(merkle.pages(offered.size, self._index.size))
        for at in range(0, len(wanted), _PAGES_AT_ONCE):
            some = wanted[at : at + _PAGES_AT_ONCE]
            for (index, _), entries in zip(some, self._await(self._reading().pages(some), until), strict=True):
                for place, entry in enumerate(entries[max(0, self._index.size - index * merkle.TILE_WIDTH) :]):
                    self._index.add(entry)
                    if place % _FOLDED_AT_ONCE == 0:
                        # Folding is arithmetic: without a pause it would keep the gate's other threads waiting for theirs.
                        time.sleep(0.0001)
            if time.monotonic() > until and self._index.size < offered.size:
                # What was read is not lost: the next call goes on from here. It is not used before its root is compared.
                raise _unavailable(f"the log is still being read, {self._index.size} of {offered.size} entries so far")
        if self._index.size == offered.size and self._index.root() == offered.root:
            if self._index.is_full:
                raise HistoryError(
                    f"the log holds more than {MAX_ITEMS} decisions on subjects, and more are not remembered: no history is "
                    "known to be whole; ask an auditor's service instead",
                    code="history-too-large",
                )
            self._folded = offered
            return
        held, self._index, self._witnessed, self._folded = self._largest, LogIndex(), None, None
        if held is not None and held.size < offered.size:
            implied = self._implied(offered, held, until)
            if implied is not None and implied != held.root:
                raise self._alarmed("log-fork", "the log signed two histories", held, offered)
        raise _unavailable("the entries that the log serves do not hash to the head that it signed")

    def _judged(self, offered: Checkpoint) -> _Head:
        policy = self._policy
        if policy is None or policy.quorum is None:
            return _Head(offered, None, _NO_POLICY)
        cosignatures = verified_cosignatures(offered.note, [witness.vkey for witness in policy.witnesses])
        if not policy.satisfied_by({one.witness for one in cosignatures}):
            return _Head(offered, None, "the head that the log offers lacks the quorum's cosignatures")
        # The latest time by which a whole quorum had vouched: one witness alone with a fresh date keeps no old head fresh,
        # and a date further ahead than a clock may be off is none.
        latest = (self._clock() + MAX_AHEAD_MS) / 1000
        together: set[int] = set()
        for one in sorted(cosignatures, key=lambda one: one.timestamp_s, reverse=True):
            if one.timestamp_s <= latest:
                together.add(one.witness)
                if policy.satisfied_by(together):
                    return _Head(offered, one.timestamp_s, None)
        return _Head(offered, None, "the quorum's cosignatures on the log's head are of times to come")

    def _answer(
        self, subjects: tuple[str, ...], head: _Head | None, why: str | None, own: Outbox, own_only: bool
    ) -> History:
        size = head.checkpoint.size if head is not None else 0
        root = head.checkpoint.root if head is not None else merkle.EMPTY_ROOT
        self._read_own(own)
        # What was folded beyond this head does not count.
        logged_already = self._index.receipts_of(own.issuer, size)
        heads: dict[str, str] = {}
        found: dict[str, Logged] = {}
        pending: dict[str, Logged] = {}
        for subject in subjects:
            in_log = self._index.of_subject(subject, size, own.issuer if own_only else None)
            still = [one for one in self._own.get(subject, ()) if one.seq >= logged_already]
            newest = (in_log + still)[-1:]
            if newest:
                heads[subject] = newest[0].id
            found.update((one.id, one) for one in in_log if one.action_class is not None)
            pending.update((one.id, one) for one in still if one.action_class is not None)
        checkpoint = head.checkpoint if head is not None else None
        return History(
            subjects=subjects,
            logged=tuple(sorted(found.values(), key=lambda one: one.index or 0)),
            pending=tuple(sorted(pending.values(), key=lambda one: one.seq)),
            heads=heads,
            size=size,
            root=root,
            witnessed=why is None,
            witnessed_at=head.witnessed_at if head is not None else None,
            why=why,
            next_seq=self._own_seq,
            _prove=lambda one: self._proof(checkpoint, one),
        )

    def _proof(self, checkpoint: Checkpoint | None, one: Logged) -> str:
        if checkpoint is None or one.index is None:
            raise _unavailable("what the log does not hold has no proof")
        index, until = one.index, time.monotonic() + 30
        heights = merkle.subtrees_of(lambda subtree: merkle.prove_inclusion(index, checkpoint.size, subtree))
        tiles = self._await(self._reading().tiles(checkpoint.size, heights), until)
        hashes = merkle.prove_inclusion(index, checkpoint.size, tiles.subtree)
        try:
            merkle.check_inclusion(bytes.fromhex(one.id), index, checkpoint.size, checkpoint.root, hashes)
        except FormatError as error:
            raise _unavailable(f"the log's tiles do not prove what its entries say: {error}") from error
        return proof_text(index, hashes, checkpoint)

    def _read_own(self, own: Outbox) -> None:
        for seq in range(self._own_seq, own.next_seq):
            receipt = own.receipt(seq)
            if receipt is not None:
                self.note_own(receipt)
            self._own_seq = seq + 1

    def note_own(self, receipt: Receipt) -> None:
        """Remembers one of the gate's own receipts."""
        for subject in subjects_of(receipt):
            self._own.setdefault(subject, []).append(logged(receipt, None))

    def _implied(self, larger: Checkpoint, smaller: Checkpoint, until: float) -> bytes | None:
        try:
            return self._await(implied_root(self._reading(), larger.size, larger.root, smaller.size), until)
        except HistoryError:
            return None

    def _alarmed(self, code: str, what: str, first: Checkpoint, second: Checkpoint) -> HistoryError:
        error = HistoryError(
            f"{what}: nothing it serves is judged by; both heads are kept in the outbox's `alarms`, tell the log's operator "
            "and auditors",
            code=code,
        )
        document = {
            "at": self._clock(),
            "what": code,
            "log": str(self._log_key),
            "detail": str(error),
            "first": first.note.data.decode("utf-8"),
            "second": second.note.data.decode("utf-8"),
        }
        if (code, first.note.data, second.note.data) in self._told:
            return error
        self._told.add((code, first.note.data, second.note.data))
        try:
            self._alarm(document)
        except CounterfoilError as kept:
            error = HistoryError(f"{error} (the alarm itself could not be kept: {kept})", code=code)
        return error

    def _reading(self) -> LogReader:
        if self._reader is None:
            self._reader = LogReader(self._transport)
        return self._reader

    def _await(self, request: Coroutine[Any, Any, _T], until: float) -> _T:
        future = self._worker.start(request)
        try:
            return future.result(max(0.1, until - time.monotonic()))
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise _unavailable("the log did not answer in time") from None
        except FetchError as error:
            raise _unavailable(str(error)) from error

    def _read_largest(self) -> None:
        if self._is_read:
            return
        self._is_read = True
        try:
            members = json.loads((self._dir / "head").read_bytes())
            self._largest = Checkpoint.parse(str(members["checkpoint"]).encode("utf-8"))
            self._largest.verify(self._log_key)
            fits = members["size"] == self._largest.size and decode_hash(members["root"]) == self._largest.root
            self._largest = self._largest if fits else None
        except FileNotFoundError:
            self._largest = None
        except (OSError, ValueError, KeyError, TypeError, FormatError) as error:
            raise _unavailable(
                f"{self._dir / 'head'}, the largest head seen, cannot be read ({error}); restore it"
            ) from error

    def _keep_largest(self, offered: Checkpoint) -> None:
        if self._largest is not None and self._largest.size >= offered.size:
            return
        members = {
            "size": offered.size,
            "root": encode_base64(offered.root),
            "checkpoint": offered.note.data.decode("utf-8"),
        }
        try:
            write_durably(self._dir, "head", compact_line(members))
        except OSError as error:
            raise OutboxDisk(f"cannot write {self._dir / 'head'}: {error}; make room or mend the disk") from error
        self._largest = offered


def write_durably(directory: Path, name: str, data: bytes) -> None:
    """Replaces a small file whole, durably. Raises :class:`OSError`."""
    if not directory.is_dir():
        directory.mkdir(mode=0o700)
        sync_dir(directory.parent)
    temporary = directory / f"{name}.new"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, directory / name)
    sync_dir(directory)


def _merged(histories: Sequence[History]) -> History:
    first = histories[0]
    found = {one.id: one for history in histories for one in history.logged}
    pending = {one.id: one for history in histories for one in history.pending}
    return History(
        subjects=tuple(dict.fromkeys(subject for history in histories for subject in history.subjects)),
        logged=tuple(sorted(found.values(), key=lambda one: one.index or 0)),
        pending=tuple(sorted(pending.values(), key=lambda one: one.seq)),
        heads={subject: head for history in histories for subject, head in history.heads.items()},
        size=first.size,
        root=first.root,
        witnessed=first.witnessed,
        witnessed_at=first.witnessed_at,
        why=first.why,
        next_seq=min(history.next_seq for history in histories),
    )


def _unavailable(why: str) -> HistoryError:
    return HistoryError(f"{why}; try again", code="history-unavailable")
